"""Waits until the GPU memory of a server that ended is free: the driver gives it back seconds after the last process.

A relaunch in that gap sees uneven free memory and stops, or sizes its pool too small and then looks slower.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from spectui.core.gpu import GpuReading
from spectui.hosts.gpus import GpuPanel

TOLERANCE = 1024**3
BLIND_WAIT_S = 10.0
LIMIT_S = 60.0


@dataclass(frozen=True, slots=True)
class MemoryWait:
    free: bool
    """Whether a relaunch may begin."""
    text: str
    holders: tuple[str, ...] = ()
    """Who holds what is not free, where it can be seen."""
    waited_s: float = 0.0


def excess(
    before: Mapping[str, int], now: Sequence[GpuReading], others_before: Mapping[str, int] | None = None
) -> dict[str, int]:
    """GPU UUID -> bytes above the level before, for each GPU of ``before`` that can be read.

    Memory that listed processes took since (``others_before``: what such held at the start) is not the server's:
    a neighbour that has grown must not hold up the relaunch. Empty ``now`` leaves nothing to compare.
    """
    over: dict[str, int] = {}
    for reading in now:
        level = before.get(reading.uuid)
        if level is None or reading.memory_used is None:
            continue
        listed = sum(m or 0 for _, m in reading.processes)
        neighbours = max(0, listed - (others_before or {}).get(reading.uuid, listed))
        over[reading.uuid] = reading.memory_used - neighbours - level
    return over


def is_back(over: Mapping[str, int], tolerance: int = TOLERANCE) -> bool:
    return all(bytes_ <= tolerance for bytes_ in over.values())


def wait(
    before: Mapping[str, int],
    read: Callable[[], GpuPanel],
    *,
    ours: Collection[int] = (),
    others_before: Mapping[str, int] | None = None,
    say: Callable[[str], None] = lambda _text: None,
    limit_s: float = LIMIT_S,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    has_gpus: Callable[[], bool] | None = None,
) -> MemoryWait:
    """Wait until every GPU is within 1 GiB of its level ``before``, at most ``limit_s``.

    ``ours``: pids of the ended server; as long as the driver lists one of them, memory counts as held. Where memory
    cannot be read on a machine that has GPUs, 10 s are waited instead.
    """
    began = clock()
    panel = read()
    if not any(r.memory_used is not None for r in panel.readings):
        if not (has_gpus or gpus_present)():
            return MemoryWait(True, "no GPUs here")
        say(f"GPU memory cannot be read ({panel.state}): waiting {BLIND_WAIT_S:.0f} s instead")
        sleep(BLIND_WAIT_S)
        return MemoryWait(
            True, f"GPU memory cannot be read ({panel.state}); waited {BLIND_WAIT_S:.0f} s", (), clock() - began
        )
    while True:
        over = excess(before, panel.readings, others_before)
        listed = set(ours).intersection(p for r in panel.readings for p in r.pids or ())
        waited = clock() - began
        if is_back(over) and not listed:
            return MemoryWait(True, f"GPU memory is free after {waited:.0f} s", (), waited)
        if waited >= limit_s:
            names = _holders(
                [r for r in panel.readings if over.get(r.uuid, 0) > TOLERANCE or listed & set(r.pids or ())]
            )
            return MemoryWait(False, f"GPU memory is still held after {waited:.0f} s", names, waited)
        worst = max(over.values(), default=0)
        above = f"{max(0, worst) / 1024**3:.1f} GiB above the level before"
        say(f"waiting for GPU memory: {above}, {limit_s - waited:.0f} s left")
        sleep(0.5)
        panel = read()


def gpus_present() -> bool:
    """Whether this machine shows device files of GPUs, whatever NVML says."""
    return any(Path("/dev").glob("nvidia[0-9]*")) or Path("/dev/dxg").exists()


def _holders(readings: Sequence[GpuReading]) -> tuple[str, ...]:
    found = []
    for r in readings:
        for pid, used in r.processes:
            size = "" if used is None else f", {used / 1024**3:.1f} GiB"
            found.append(f"GPU {r.index}: {_name(pid)} (pid {pid}{size})")
        if not r.processes:
            found.append(f"GPU {r.index}: processes we cannot see, {(r.memory_used or 0) / 1024**3:.1f} GiB in use")
    return tuple(found)


def _name(pid: int) -> str:
    try:
        return str(psutil.Process(pid).name())
    except psutil.Error:
        return "a process outside this container"
