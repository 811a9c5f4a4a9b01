"""The log file of a server: followed from where one left off, turned over when it grows, watched for a full disk."""

from __future__ import annotations

import codecs
import os
import shutil
from dataclasses import dataclass
from pathlib import Path

LIMIT = 64 * 1024**2
_CHUNK = 4 * 1024**2


@dataclass(frozen=True, slots=True)
class NewText:
    text: str
    written_s: float | None
    """Epoch seconds of the last write, however long ago that was; None without a file."""
    more: bool = False
    """There is more to read at once."""


class LogTail:
    """Reads what was added since the last call. A file that became shorter is read from its start."""

    def __init__(self, path: str | Path, *, at_end: bool = False) -> None:
        self._path = Path(path)
        self._offset = 0
        if at_end and self._path.exists():
            self._offset = self._path.stat().st_size
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def read(self) -> NewText:
        try:
            with self._path.open("rb") as f:
                stat = os.fstat(f.fileno())
                if stat.st_size < self._offset:
                    self._offset = 0
                f.seek(self._offset)
                data = f.read(_CHUNK)
        except OSError:
            return NewText("", None)
        self._offset += len(data)
        return NewText(self._decoder.decode(data), stat.st_mtime, more=self._offset < stat.st_size)


def written_s(path: str | Path) -> float | None:
    """Epoch seconds of the last write; None without a file."""
    try:
        return Path(path).stat().st_mtime
    except OSError:
        return None


def last_lines(path: str | Path, count: int, most: int = 256 * 1024) -> list[str]:
    """The last lines, as they are: foreign text, to be made harmless before it is shown. Raises ``OSError``."""
    with Path(path).open("rb") as f:
        size = os.fstat(f.fileno()).st_size
        f.seek(max(0, size - most))
        data = f.read(most)
    lines = data.decode("utf-8", "replace").splitlines()
    return lines[-count:] if count else []


def turn_over(path: str | Path, limit: int = LIMIT) -> bool:
    """Move a log that has outgrown ``limit`` bytes to ``LOG.1`` and empty it; True when that was done.

    The server writes in append mode to a descriptor of its own, so its next line lands at the new start. Lines
    written between copy and cut are lost.
    """
    log = Path(path)
    try:
        if log.stat().st_size <= limit:
            return False
        old = log.with_name(log.name + ".1")
        shutil.copyfile(log, old)
        old.chmod(0o600)
        os.truncate(log, 0)
    except OSError:
        return False  # a full disk is told by trouble()
    return True


def trouble(path: str | Path, least_free: int = 16 * 1024**2) -> str | None:
    """One sentence when the server's output is being lost or soon will be."""
    log = Path(path)
    try:
        free = shutil.disk_usage(log.parent).free
    except OSError as error:
        return f"the folder of the log cannot be read ({error.strerror}): {log.parent}"
    if not log.exists():
        return f"the log was removed while the server writes to it: {log}"
    if free < least_free:
        return f"the disk of the log is nearly full ({free // 1024**2} MiB left): further output gets lost. {log}"
    return None
