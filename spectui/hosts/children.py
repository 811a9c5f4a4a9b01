"""Servers that this very process started: kept so that one that ends is collected and its exit code known."""

from __future__ import annotations

import subprocess

_children: dict[int, subprocess.Popen[bytes]] = {}


def keep(process: subprocess.Popen[bytes]) -> None:
    _children[process.pid] = process


def forget(pid: int) -> None:
    _children.pop(pid, None)


def exit_code(pid: int) -> int | None:
    """How it ended; None while it runs, or where another process was its parent."""
    process = _children.get(pid)
    return None if process is None else process.poll()


def reap() -> None:
    """Collect those that have ended, so that none stays as a zombie."""
    for process in list(_children.values()):
        process.poll()
