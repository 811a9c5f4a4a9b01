"""What this node tells of a server beside its HTTP answers: record, profile, log, processes."""

from __future__ import annotations

import os

from spectui.core.profile import Profile, ProfileError
from spectui.hosts.records import ServerRecord, alive
from spectui.session import serving

LOG_LINES = 60


def record_at(url: str) -> ServerRecord | None:
    """The server that spectui started and that listens there, where its process is still the recorded one."""
    from spectui.hosts import servers

    return next((r for r in servers.records() if r.url == url and alive(r)), None)


def profile_behind(record: ServerRecord | None) -> Profile | None:
    if record is None:
        return None
    try:
        return serving.profile_of(record)
    except ProfileError:
        return None  # it has been edited into something unreadable; the server's own words take its place


def tail_of(path: str, lines: int = LOG_LINES) -> tuple[str, ...]:
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            file.seek(max(0, size - 200 * lines))
            text = file.read().decode("utf-8", "replace")
    except OSError:
        return ()
    return tuple(text.replace("\r", "\n").splitlines()[-lines:])


def family_of(pid: int) -> tuple[int, ...]:
    import psutil

    try:
        return (pid, *(child.pid for child in psutil.Process(pid).children(recursive=True)))
    except psutil.Error:
        return (pid,)
