"""How a run ended that has no last row: its runner was killed, or could not write any more."""

from __future__ import annotations

import shutil
import signal
from dataclasses import replace
from pathlib import Path

from spectui.core.result import RunResult
from spectui.runner.failure import EXIT_DISK_FULL, EXIT_FOLDER_GONE, EXIT_UNWRITABLE

_KEPT = "what was measured until then is kept"
_ROOM = "make room (spectui runs prune --keep 100), or set SPECTUI_HOME to a folder on another disk"
_FULL = 64 * 1024
"""Bytes left on a disk that count as none: the next rows of a run need more."""


def with_reason(result: RunResult, folder: Path, code: int | None) -> RunResult:
    """The result with how it ended, where its journal does not say or is not there any more.

    ``code``: the runner's exit code, negative for a signal; None where it is not our child.
    """
    gone = not folder.is_dir() or bool(result.head and not (folder / "journal.jsonl").is_file())
    if not gone and result.status != "running":
        return result
    return replace(result, status="failed", reason=_why(folder, code, gone=gone))


def _why(folder: Path, code: int | None, *, gone: bool) -> str:
    if gone or code == EXIT_FOLDER_GONE:
        return (
            f"the run's folder was deleted while the run went on ({folder}): the figures are of what had been read "
            "until then, and nothing is kept"
        )
    if code == EXIT_DISK_FULL or (code is None and _no_room(folder)):
        return f"the disk of {folder} is full, so the run could not go on; {_KEPT}: {_ROOM}"
    if code == EXIT_UNWRITABLE:
        return f"the run's folder cannot be written ({folder}), so the run could not go on; {_KEPT}"
    if code is not None and code < 0:
        return f"its runner was killed by signal {-code}{_name(-code)}; {_KEPT}{_memory(-code)}"
    if code:
        return f"its runner ended with exit code {code} and without a last row; {_KEPT}: see {folder / 'runner.log'}"
    return f"its runner is gone and wrote no last row: it was killed, or the node was restarted; {_KEPT}"


def _name(number: int) -> str:
    try:
        return f" ({signal.Signals(number).name})"
    except ValueError:
        return ""


def _memory(number: int) -> str:
    return ". Where nobody did that, the node may have run out of memory: see dmesg" if number == signal.SIGKILL else ""


def _no_room(folder: Path) -> bool:
    try:
        return shutil.disk_usage(folder).free < _FULL
    except OSError:
        return False
