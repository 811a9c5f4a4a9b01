"""A run's journal: rows as JSON lines, appended by the runner alone, readable while it grows.

A line that a crash tore apart is skipped by readers, and the next writer begins a line of its own. The file holds no
text of prompts or answers, but it lies in a folder that does, so it is as private as they are (mode 0600).
"""

from __future__ import annotations

import errno
import os
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from spectui.core.rows import Row
from spectui.store.journal_rows import fault_of

_decode = msgspec.json.Decoder(dict[str, Any]).decode
_encode = msgspec.json.Encoder().encode


def private_append(path: str | os.PathLike[str]) -> int:
    """A file descriptor that appends to ``path``, which only its owner may read (mode 0600)."""
    descriptor = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
    os.fchmod(descriptor, 0o600)
    return descriptor


class Writer:
    """Appends rows to a file of JSON lines. Usable from several threads; each row is one line, written at once.

    Raises OSError where the file cannot be written: a full disk, or ENOENT once the file has been deleted, whose rows
    would reach nobody.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._descriptor = private_append(path)
        self._lock = threading.Lock()
        self._torn = _ends_torn(self._descriptor)

    def row(self, kind: str, **values: Any) -> None:
        """Appends a row of the journal, stamped with the realtime clock unless ``t`` is given."""
        self.write({"t": values.pop("t", None) or round(time.time(), 6), "kind": kind, **values})

    def write(self, row: Mapping[str, Any]) -> None:
        try:
            line = _encode(row) + b"\n"
        except UnicodeEncodeError:  # half a surrogate pair, out of somebody's JSON
            line = _encode(_mended(row)) + b"\n"
        with self._lock:
            if os.fstat(self._descriptor).st_nlink == 0:
                raise FileNotFoundError(errno.ENOENT, "deleted while it was being written", str(self.path))
            if self._torn:
                line = b"\n" + line
            self._torn = True
            rest = memoryview(line)
            while rest:
                rest = rest[os.write(self._descriptor, rest) :]
            self._torn = False

    def close(self) -> None:
        with self._lock:
            if self._descriptor >= 0:
                os.close(self._descriptor)
                self._descriptor = -1

    def __enter__(self) -> Writer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _ends_torn(descriptor: int) -> bool:
    size = os.fstat(descriptor).st_size
    return size > 0 and os.pread(descriptor, 1, size - 1) != b"\n"


def _mended(value: Any) -> Any:
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, Mapping):
        return {_mended(k): _mended(v) for k, v in value.items()}
    if isinstance(value, list | tuple):
        return [_mended(v) for v in value]
    return value


class Follower:
    """Reads what was appended since the last look. For screens: :meth:`new` never blocks."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self._at = 0
        self._rest = b""

    def new(self) -> list[Row]:
        """Whole rows that have come since; empty when there are none or the file is not there yet."""
        try:
            with open(self.path, "rb") as file:
                file.seek(self._at)
                data = file.read()
        except FileNotFoundError:
            return []
        self._at += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        return [row for row in map(_row, lines) if row is not None and not fault_of(row)]


class JournalFault(OSError):
    """A row that is JSON and not what its kind holds. ``str()``: file, line, what is wrong, what to do."""

    exit_code = 2

    def __init__(self, path: str | os.PathLike[str], line: int, fault: str) -> None:
        super().__init__(errno.EINVAL, fault, str(path))
        self._told = (
            f"{os.fspath(path)}, line {line}: {fault}: the file was changed by something else. Delete that line, or "
            "the run's folder"
        )

    def __str__(self) -> str:
        return self._told


def _row(line: bytes) -> Row | None:
    if not line.strip():
        return None
    try:
        return _decode(line)
    except msgspec.MsgspecError:
        return None


def read(path: str | os.PathLike[str]) -> Iterator[Row]:
    """All rows that are whole. A torn line, the last one or one before a later start, is left out.

    Raises OSError where the file cannot be read, :class:`JournalFault` among them, for a row of wrong types.
    """
    with open(path, "rb") as file:
        for number, line in enumerate(file, 1):
            row = _row(line)
            if row is None:
                continue
            fault = fault_of(row)
            if fault:
                raise JournalFault(path, number, fault)
            yield row


def tail(
    path: str | os.PathLike[str], *, alive: Callable[[], bool] | None = None, poll_s: float = 0.1
) -> Iterator[Row]:
    """Rows as they are written, from the first on, until the ``end`` row.

    ``alive`` says whether the writer still runs; once it does not, what is there is read and the iteration ends.
    The file may be created later.
    """
    follower = Follower(path)
    while True:
        running = alive is None or alive()
        for row in follower.new():
            yield row
            if row.get("kind") == "end":
                return
        if not running:
            return
        time.sleep(poll_s)
