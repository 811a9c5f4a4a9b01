"""Processes by pid *and* start time: a pid alone may have been given to another program since.

On Linux a start is proved by the kernel's own tick count and the boot's id, which no step of the clock changes;
elsewhere by the creation time.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

MARKER = "SPECTUI_SERVER"
"""Variable in the environment of every process of a server that spectui started: the id of its record."""

_PROC = Path("/proc")


@dataclass(frozen=True, slots=True)
class Identity:
    """A process that was there once, and whether one of today is still the same."""

    pid: int
    start_time: float
    """Epoch seconds."""
    ticks: int | None = None
    """Start in kernel ticks since boot."""
    boot: str | None = None


@dataclass(frozen=True, slots=True)
class ProcessRow:
    pid: int
    ppid: int
    pgid: int
    sid: int
    uid: int
    start: float
    name: str
    """Process title where it has one (``sglang::scheduler_TP0``), else the name of its program."""
    marker: str | None = None
    """Value of ``SPECTUI_SERVER`` in its environment, where that can be read."""


def boot_id() -> str | None:
    try:
        return (_PROC / "sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def start_ticks(pid: int) -> int | None:
    """Field 22 of ``/proc/PID/stat``; None without procfs or such a process."""
    try:
        stat = (_PROC / str(pid) / "stat").read_bytes()
        return int(stat[stat.rindex(b")") + 2 :].split()[19])
    except (OSError, ValueError, IndexError):
        return None


def identify(pid: int) -> Identity | None:
    """Who has this pid now; None when nobody has."""
    try:
        return Identity(pid, psutil.Process(pid).create_time(), start_ticks(pid), boot_id())
    except psutil.Error:
        return None


def same(identity: Identity) -> psutil.Process | None:
    """The process of this identity if it still runs; None when it ended, is a zombie, or its pid is another's now."""
    try:
        process = psutil.Process(identity.pid)
        if identity.ticks is not None and identity.boot is not None:
            if boot_id() != identity.boot or start_ticks(identity.pid) != identity.ticks:
                return None
        elif abs(process.create_time() - identity.start_time) > 1.0:
            return None
        return None if process.status() == psutil.STATUS_ZOMBIE else process
    except psutil.Error:
        return None


def title(name: str, cmdline: Sequence[str]) -> str:
    """What a process calls itself: a title set by its program, else its name."""
    first = cmdline[0] if cmdline else ""
    return first.split()[0] if first.startswith("sglang::") else name


def row(process: psutil.Process) -> ProcessRow | None:
    """The process's row; None when it is gone, a zombie, or may not be looked at."""
    try:
        with process.oneshot():
            if process.status() == psutil.STATUS_ZOMBIE:
                return None
            return ProcessRow(
                pid=process.pid,
                ppid=process.ppid(),
                pgid=os.getpgid(process.pid),
                sid=os.getsid(process.pid),
                uid=process.uids().real,
                start=process.create_time(),
                name=title(process.name(), process.cmdline()),
                marker=marker(process.pid),
            )
    except (psutil.Error, OSError):
        return None


def uid_of(pid: int) -> int | None:
    """Whose process it is, by number; None when it is gone."""
    try:
        return int(psutil.Process(pid).uids().real)
    except psutil.Error:
        return None


def marker(pid: int) -> str | None:
    try:
        environ = (_PROC / str(pid) / "environ").read_bytes()
    except OSError:
        return None
    prefix = MARKER.encode() + b"="
    for entry in environ.split(b"\0"):
        if entry.startswith(prefix):
            return entry[len(prefix) :].decode("ascii", "replace")
    return None


def table(pids: Iterable[int] | None = None) -> list[ProcessRow]:
    """Rows of all processes, or of these."""
    found: list[ProcessRow] = []
    for pid in psutil.pids() if pids is None else pids:
        try:
            one = row(psutil.Process(pid))
        except psutil.Error:
            continue
        if one is not None:
            found.append(one)
    return found


def tree(process: psutil.Process) -> list[Identity]:
    """The process and all its descendants, now."""
    try:
        family = [process, *process.children(recursive=True)]
    except psutil.Error:
        family = [process]
    return [i for i in (identify(p.pid) for p in family) if i is not None]


def wait_gone(
    identities: Iterable[Identity],
    timeout_s: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    reap: Callable[[], None] = lambda: None,
) -> list[Identity]:
    """Wait until none of them runs; returns those that still do after ``timeout_s``."""
    until = clock() + timeout_s
    while True:
        reap()
        left = [i for i in identities if same(i) is not None]
        if not left or clock() >= until:
            return left
        sleep(0.05)


def send(identity: Identity, signal_number: int) -> bool:
    """Send a signal to exactly this process; False when it is gone, another has its pid, or it is not permitted.

    The process is held by a descriptor while its identity is checked, so that the pid cannot change hands between.
    """
    import signal

    opened = getattr(os, "pidfd_open", None)
    if opened is None:
        process = same(identity)
        if process is None:
            return False
        try:
            process.send_signal(signal_number)
        except psutil.Error:
            return False
        return True
    try:
        descriptor = opened(identity.pid)
    except OSError:
        return False
    try:
        if same(identity) is None:
            return False
        signal.pidfd_send_signal(descriptor, signal_number)
        return True
    except OSError:
        return False
    finally:
        os.close(descriptor)
