"""Ends a server that spectui started, and nothing else, and waits until its memory and ports are back."""

from __future__ import annotations

import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectui.hosts import children, memory
from spectui.hosts import records as _records
from spectui.hosts.gpus import GpuPanel, GpuSampler
from spectui.hosts.leftovers import end_all, end_leftovers, leftovers
from spectui.hosts.ports import wait_free
from spectui.hosts.processes import Identity, ProcessRow, identify, same, send, tree, wait_gone
from spectui.hosts.records import ServerRecord

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class StopOutcome:
    ended: bool
    """None of its processes runs any more."""
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
        return _after_death(record, tell, steps, with_leftovers, folder, clock, sleep)
    family = tree(root)
    if abort is not None:
        try:
            abort()
            tell("aborted our own requests")
        except Exception as error:  # a server that hangs must still be stoppable
            tell(f"our own requests could not be aborted ({error})")
    left = _end(record, family, grace_s, tell, clock, sleep)
    rows = tuple(r for r in leftovers(record) if r.pid in {i.pid for i in left})
    if left:
        names = ", ".join(str(i.pid) for i in left)
        return StopOutcome(False, False, f"still running: {names}", tuple(steps), rows)
    tell("all its processes have ended")
    back = _wait_for_memory(record, family, read_gpus, say, memory_limit_s, clock, sleep)
    tell(back.text)
    own_ports = (record.port, *((record.nccl_port,) if record.nccl_port else ()), *record.derived_ports)
    open_ports = () if record.kind == "ssh" else wait_free(own_ports, 60.0, clock=clock, sleep=sleep)
    if open_ports:
        tell("still open: port " + ", ".join(map(str, open_ports)))
    _records.remove(record, folder)
    clear = back.free and not open_ports
    return StopOutcome(
        True,
        clear,
        f"{record.name} ended" if clear else f"{record.name} ended, but {back.text if not back.free else steps[-1]}",
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
) -> list[Identity]:
    send(record.identity, signal.SIGTERM)
    tell(f"SIGTERM to {record.pid}, waiting at most {grace_s:.0f} s")
    left = wait_gone([record.identity], grace_s, clock=clock, sleep=sleep, reap=children.reap)
    if left and record.kind == "docker" and record.container:
        tell(f"killing the container {record.container}")
        _kill_container(record)
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
        return []
    tell("ending its group: " + ", ".join(str(i.pid) for i in [*left, *rest]))
    if left:
        send(record.identity, signal.SIGKILL)
    return end_all([*left, *rest], 3.0, clock=clock, sleep=sleep, reap=children.reap)


def _after_death(
    record: ServerRecord,
    tell: Say,
    steps: list[str],
    with_leftovers: bool,
    folder: Path | None,
    clock: Callable[[], float],
    sleep: Callable[[float], None],
) -> StopOutcome:
    found = leftovers(record)
    if found and not with_leftovers:
        names = ", ".join(f"{r.name} ({r.pid})" for r in found)
        return StopOutcome(
            False,
            False,
            f"{record.name} is gone, but left behind: {names}. They are ended on request only",
            (),
            tuple(found),
        )
    remained = end_leftovers(record, say=tell, clock=clock, sleep=sleep) if found else []
    if remained:
        return StopOutcome(False, False, "left-over processes still run", tuple(steps), tuple(remained))
    _records.remove(record, folder)
    text = f"{record.name} was not running" + ("; its left-overs have ended" if found else "")
    return StopOutcome(True, True, text, tuple(steps), exit_code=children.exit_code(record.pid))


def _kill_container(record: ServerRecord) -> None:
    try:
        subprocess.run(
            [record.argv[0], "kill", record.container or ""],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=20,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return  # the client itself is ended next, and what remains is reported
