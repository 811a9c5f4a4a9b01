"""Processes that a server left behind when its first process died: found by its record, ended only on request."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Sequence

from spectui.hosts.gpu_facts import looks_like_server
from spectui.hosts.processes import Identity, ProcessRow, identify, send, table, wait_gone
from spectui.hosts.records import ServerRecord


def belongs(record: ServerRecord, row: ProcessRow, group_is_ours: bool) -> bool:
    """Whether this process is one of the recorded server's.

    The record's mark in its environment proves it. Programs that set their own title overwrite their environment, so
    without a mark it must be of the recorded user, group and session, started after the recorded process, and be
    named as a server's process is. ``group_is_ours`` is False when the group's number has a new leader.
    """
    if row.uid != record.uid or row.start < record.start_time - 0.05:
        return False
    if row.marker is not None:
        return row.marker == record.id
    return group_is_ours and row.pgid == record.pgid and row.sid == record.sid and looks_like_server(row.name)


def leftovers(record: ServerRecord, rows: Iterable[ProcessRow] | None = None) -> list[ProcessRow]:
    """The server's processes other than its first, whether that one lives or not, oldest first."""
    if rows is None and not record.here:
        return []
    all_ = list(table() if rows is None else rows)
    leader = next((r for r in all_ if r.pid == record.pgid), None)
    # Someone else with that number has led a group of the same number since: nothing proves the group's members.
    group_is_ours = leader is None or abs(leader.start - record.start_time) <= 1.0
    return sorted(
        (r for r in all_ if r.pid != record.pid and belongs(record, r, group_is_ours)),
        key=lambda r: (r.start, r.pid),
    )


def end_leftovers(
    record: ServerRecord,
    *,
    grace_s: float = 5.0,
    say: Callable[[str], None] = lambda _text: None,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> list[ProcessRow]:
    """Terminate, wait, kill, wait; returns what remained. Call it only when the operator asked for it."""
    found = leftovers(record)
    if not found:
        return []
    say(f"ending {len(found)} left-over processes: " + ", ".join(f"{r.name} ({r.pid})" for r in found))
    identities = [i for i in (_same_row(r) for r in found) if i is not None]
    left = end_all(identities, grace_s, clock=clock, sleep=sleep)
    still = {i.pid for i in left}
    return [r for r in found if r.pid in still]


def end_all(
    identities: Sequence[Identity],
    grace_s: float,
    *,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
    reap: Callable[[], None] = lambda: None,
) -> list[Identity]:
    """SIGTERM to each, a bounded wait, SIGKILL, at most 10 s more; returns those that remain."""
    for one in identities:
        send(one, signal.SIGTERM)
    left = wait_gone(identities, grace_s, clock=clock, sleep=sleep, reap=reap)
    for one in left:
        send(one, signal.SIGKILL)
    return wait_gone(left, 10.0, clock=clock, sleep=sleep, reap=reap) if left else []


def _same_row(row: ProcessRow) -> Identity | None:
    now = identify(row.pid)
    return now if now is not None and abs(now.start_time - row.start) < 0.05 else None
