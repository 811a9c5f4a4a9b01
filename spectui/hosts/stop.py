"""Ends a server that spectui started, and nothing else, and waits until its memory and ports are back."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectui.hosts import children, elsewhere, memory
from spectui.hosts import records as _records
from spectui.hosts.gpus import GpuPanel, GpuSampler
from spectui.hosts.leftovers import end_all, end_leftovers, leftovers
from spectui.hosts.ports import wait_free
from spectui.hosts.processes import Identity, ProcessRow, identify, same, send, tree, wait_gone
from spectui.hosts.records import ServerRecord
from spectui.hosts.serverlog import written_s

Say = Callable[[str], None]
JUST_ENDED_S = 120.0
"""A server whose log is older than this has given its memory back long ago."""


@dataclass(frozen=True, slots=True)
class StopOutcome:
    ended: bool | None
    """None of its processes runs any more. None: behind ssh or the like that cannot be seen from here; its address no
    longer answers."""
    clear: bool
    """Ended, and its memory and ports are back: another may be launched in its place."""
    text: str
    steps: tuple[str, ...] = ()
    """What was done, in order."""
    left: tuple[ProcessRow, ...] = ()
    """Its processes that still run (after a dead first process: left-overs, ended only on request)."""
    holders: tuple[str, ...] = ()
    open_ports: tuple[int, ...] = ()
    exit_code: int | None = None


def stop(
    record: ServerRecord,
    *,
    abort: Callable[[], object] | None = None,
    grace_s: float = 20.0,
    say: Say = lambda _text: None,
    with_leftovers: bool = False,
    folder: Path | None = None,
    read_gpus: Callable[[], GpuPanel] | None = None,
    memory_limit_s: float = memory.LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
) -> StopOutcome:
    """Abort own requests, SIGTERM to the first process, wait ``grace_s`` (SGLang itself drains without limit), then
    the rest of its processes, then SIGKILL; then wait for GPU memory and ports.

    ``abort`` ends spectui's own requests on the server; what it raises is told and passed over. ``with_leftovers``:
    also end what a server whose first process is already gone has left behind. The record is removed when nothing
    of the server remains.
    """
    steps: list[str] = []

    def tell(text: str) -> None:
        steps.append(text)
        say(text)

    if not record.here:
        return StopOutcome(
            False,
            False,
            f"{record.name} was started on {record.node or 'another node'}, or before the last boot of this one",
        )
    root = same(record.identity)
    if root is None:
        return _after_death(record, tell, steps, with_leftovers, folder, read_gpus, memory_limit_s, clock, sleep)
    family = tree(root)
    if abort is not None:
        try:
            abort()
            tell("aborted our own requests")
        except Exception as error:  # a server that hangs must still be stoppable
            tell(f"our own requests could not be aborted ({error})")
    left, killed = _end(record, family, grace_s, tell, clock, sleep)
    rows = tuple(r for r in leftovers(record) if r.pid in {i.pid for i in left})
    if left:
        names = ", ".join(str(i.pid) for i in left)
        return StopOutcome(False, False, f"still running: {names}", tuple(steps), rows)
    behind = elsewhere.settle(record, killed=killed, clock=clock, sleep=sleep)
    tell("all its processes have ended" if behind is None else behind.text)
    if behind is not None and behind.runs:
        return StopOutcome(False, False, f"{record.name}: {behind.text}", tuple(steps))
    back = _wait_for_memory(record, family, read_gpus, say, memory_limit_s, clock, sleep)
    tell(back.text)
    own_ports = (record.port, *((record.nccl_port,) if record.nccl_port else ()), *record.derived_ports)
    away = elsewhere.on_another_node(record.kind, record.host)
    open_ports = () if away else wait_free(own_ports, 60.0, clock=clock, sleep=sleep)
    if open_ports:
        tell("still open: port " + ", ".join(map(str, open_ports)))
    _records.remove(record, folder)
    clear = back.free and not open_ports
    ended = True if behind is None or behind.runs is False else None
    text = f"{record.name} ended" if ended else f"{record.name}: {behind.text if behind else ''}"
    return StopOutcome(
        ended,
        clear,
        text if clear else f"{text}, but {back.text if not back.free else steps[-1]}",
        tuple(steps),
        (),
        back.holders,
        open_ports,
        children.exit_code(record.pid),
    )


def _wait_for_memory(
    record: ServerRecord,
    family: list[Identity],
    read_gpus: Callable[[], GpuPanel] | None,
    say: Say,
    limit_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> memory.MemoryWait:
    if record.simulated:
        return memory.MemoryWait(True, "simulated server: no GPU memory to wait for")
    if elsewhere.on_another_node(record.kind, record.host):
        return memory.MemoryWait(True, f"the GPUs of {record.host} cannot be seen from here")

    def wait(read: Callable[[], GpuPanel]) -> memory.MemoryWait:
        return memory.wait(
            record.memory_before,
            read,
            ours=[i.pid for i in family],
            others_before=record.others_before,
            say=say,
            limit_s=limit_s,
            clock=clock,
            sleep=sleep,
        )

    if read_gpus is not None:
        return wait(read_gpus)
    with GpuSampler(0.5) as sampler:
        sampler.wait_first(5.0)
        return wait(sampler.latest)


def _end(
    record: ServerRecord,
    family: list[Identity],
    grace_s: float,
    tell: Say,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> tuple[list[Identity], bool]:
    """(what still runs, whether the first process had to be killed)."""
    send(record.identity, signal.SIGTERM)
    tell(f"SIGTERM to {record.pid}, waiting at most {grace_s:.0f} s")
    left = wait_gone([record.identity], grace_s, clock=clock, sleep=sleep, reap=children.reap)
    if record.kind == "docker":
        # The client hands the signal on, unless it has a terminal or was told not to, and ends with its container.
        elsewhere.end_containers(record, 0.0 if left else grace_s, tell)
        left = wait_gone(left, 3.0, clock=clock, sleep=sleep, reap=children.reap)
    # Those seen before, and those that came since.
    known = {i.pid: i for i in family if i.pid != record.pid}
    for row in leftovers(record):
        now = identify(row.pid)
        if now is not None and row.pid not in known:
            known[row.pid] = now
    rest = [i for i in known.values() if same(i) is not None]
    # Workers end by themselves when their parent has; give them a moment before they are told.
    if not left and rest:
        rest = wait_gone(rest, 1.0, clock=clock, sleep=sleep, reap=children.reap)
    if not rest and not left:
        return [], False
    tell("ending its group: " + ", ".join(str(i.pid) for i in [*left, *rest]))
    if left:
        send(record.identity, signal.SIGKILL)
    killed = bool(left)
    return end_all([*left, *rest], 3.0, clock=clock, sleep=sleep, reap=children.reap), killed


def _after_death(
    record: ServerRecord,
    tell: Say,
    steps: list[str],
    with_leftovers: bool,
    folder: Path | None,
    read_gpus: Callable[[], GpuPanel] | None,
    memory_limit_s: float,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> StopOutcome:
    found = leftovers(record)
    if found and not with_leftovers:
        names = ", ".join(f"{r.name} ({r.pid})" for r in found)
        return StopOutcome(
            False,
            False,
            f"{record.name} is gone, but left behind: {names}. They are ended on request only: spectui stop "
            f"{record.name} --leftovers",
            (),
            tuple(found),
        )
    remained = end_leftovers(record, say=tell, clock=clock, sleep=sleep) if found else []
    if remained:
        return StopOutcome(False, False, "left-over processes still run", tuple(steps), tuple(remained))
    behind = elsewhere.look(record)
    if behind is not None and behind.containers and with_leftovers:
        elsewhere.end_containers(record, 10.0, tell)
        behind = elsewhere.look(record)
    if behind is not None and behind.runs:
        how = f". It is ended on request only: spectui stop {record.name} --leftovers" if behind.containers else ""
        return StopOutcome(False, False, f"{record.name}: {behind.text}{how}", tuple(steps))
    back = memory.MemoryWait(True, "")
    if found or _just_ended(record):
        back = _wait_for_memory(record, [], read_gpus, tell, memory_limit_s, clock, sleep)
    if back.free:  # else the record stays, so that a launch in its place waits, too
        _records.remove(record, folder)
    text = f"{record.name} was not running" + ("; its left-overs have ended" if found else "")
    if behind is not None and behind.runs is None:
        text = f"{record.name}: {behind.text}"
    text += "" if back.free else f", but {back.text}"
    ended = None if behind is not None and behind.runs is None else True
    return StopOutcome(ended, back.free, text, tuple(steps), (), back.holders, exit_code=children.exit_code(record.pid))


def _just_ended(record: ServerRecord) -> bool:
    """Whether the driver may not have given its memory back yet."""
    written = written_s(record.log_path)
    return bool(record.memory_before) and written is not None and time.time() - written < JUST_ENDED_S
