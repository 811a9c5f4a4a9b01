"""What GPU readings mean: the mean over those that have a value, whose processes they are, busy without output."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.gpu import GpuReading

OUTSIDE = "outside this container"
NAME_DIFFERS = "not ours (name differs)"
UNSEEN = "used by processes we cannot see"
OURS = "ours"
OTHER_SERVER = "another server"

STUCK = "busy but no output, maybe stuck"
PREFILL = "prefill"

_GIB = 1024**3
_UNSEEN_FROM = 2 * _GIB  # driver and contexts of a bare GPU stay well below

# Names of processes that can be a model server's: what SGLang titles its own, and interpreters.
_SERVER_NAMES = ("sglang", "python", "spectui")


@dataclass(frozen=True, slots=True)
class Mean:
    value: float | None
    of: tuple[int, int]
    """How many of how many GPUs have a value."""

    @property
    def text(self) -> str:
        """``87 %``, or ``87 % (1 of 2 GPUs)`` where some have none."""
        if self.value is None:
            return "n/a"
        have, total = self.of
        return f"{self.value:.0f} %" + ("" if have == total else f" ({have} of {total} GPUs)")


def utilization_mean(readings: Iterable[GpuReading]) -> Mean:
    """Mean of the GPUs that report utilization; those that do not (MIG, lost) are left out, not counted as 0."""
    all_ = list(readings)
    values = [r.utilization for r in all_ if r.utilization is not None]
    return Mean(sum(values) / len(values) if values else None, (len(values), len(all_)))


def busy_hint(
    utilization: float | None,
    power_w: float | None,
    power_limit_w: float | None,
    tokens_per_s: float | None,
    running: int | None,
    prefill_age_s: float | None = None,
) -> str | None:
    """Why a GPU that reads as busy gives no tokens, or None where nothing contradicts.

    Utilization only says that some kernel ran: one that waits for ever reads 100 %. It draws little power, and the
    server has requests running without output. A prefill line newer than 5 s explains silence at any power.
    """
    if utilization is None or utilization < 90 or not running or tokens_per_s is None or tokens_per_s > 0:
        return None
    if prefill_age_s is not None and prefill_age_s < 5:
        return PREFILL
    if power_w is None or not power_limit_w:
        return None
    return STUCK if power_w < 0.5 * power_limit_w else None


@dataclass(frozen=True, slots=True)
class LocalProcess:
    """What this machine's (or this container's) process table says of a pid."""

    name: str
    start: float
    pgid: int | None = None


@dataclass(frozen=True, slots=True)
class GpuOwner:
    gpu: int
    pid: int | None
    """None: no process is listed though memory is in use."""
    used_bytes: int | None
    owner: str


def owners(
    readings: Sequence[GpuReading], local: Mapping[int, LocalProcess], ours: Collection[int] = ()
) -> list[GpuOwner]:
    """Who holds each GPU. ``ours``: pids of processes proved (pid and start time) to be of servers spectui started.

    In a container the driver may list the host's numbers: they are absent here, or belong to some unrelated process.
    A number alone is therefore never ground for ending anything; see :func:`may_end`.
    """
    found: list[GpuOwner] = []
    for reading in readings:
        for pid, used in reading.processes:
            process = local.get(pid)
            if process is None:
                who = OUTSIDE
            elif not looks_like_server(process.name):
                who = NAME_DIFFERS
            elif pid in ours:
                who = OURS
            else:
                who = OTHER_SERVER
            found.append(GpuOwner(reading.index, pid, used, who))
        if not reading.processes and (reading.memory_used or 0) >= _UNSEEN_FROM:
            found.append(GpuOwner(reading.index, None, reading.memory_used, UNSEEN))
    return found


def may_end(found: Iterable[GpuOwner]) -> list[int]:
    """The pids among them that spectui may end: its own only."""
    return sorted({o.pid for o in found if o.owner == OURS and o.pid is not None})


def looks_like_server(name: str) -> bool:
    return name.strip().lower().startswith(_SERVER_NAMES)


def gpus_of(pids: Collection[int], readings: Iterable[GpuReading]) -> tuple[int, ...]:
    """NVML indices of the GPUs on which one of these processes has memory."""
    wanted = set(pids)
    return tuple(r.index for r in readings if wanted.intersection(r.pids or ()))


def local_processes(readings: Sequence[GpuReading]) -> dict[int, LocalProcess]:
    """What this machine's process table says of the numbers that the driver lists. Blocks for some milliseconds."""
    import psutil

    found = {}
    for pid in {pid for reading in readings for pid, _ in reading.processes}:
        try:
            process = psutil.Process(pid)
            found[pid] = LocalProcess(process.name(), process.create_time())
        except psutil.Error:
            continue  # a number of the host's, which means nobody here
    return found
