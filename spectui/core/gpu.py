"""One reading of one GPU. A value that could not be had is None, and says why."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class GpuReading:
    uuid: str
    index: int
    """NVML's index: bus order, not the server's numbering."""
    name: str
    utilization: float | None = None
    """Percent of the driver's last window in which some kernel ran."""
    memory_used: int | None = None
    memory_total: int | None = None
    power_w: float | None = None
    power_limit_w: float | None = None
    energy_j: float | None = None
    """Total since the driver was loaded; differences give joules."""
    sm_clock_mhz: int | None = None
    temperature_c: int | None = None
    throttle: tuple[str, ...] = ()
    """Reasons in force, in words: power-capped, thermal, hardware slowdown …; empty when none, see ``missing``."""
    pids: tuple[int, ...] | None = None
    lost: bool = False
    mig: bool = False
    missing: dict[str, str] = field(default_factory=dict)
    """Field name -> why it has no value."""
    age_s: float = 0.0
    """How old the values were when read."""
    slices: tuple[tuple[int, int], ...] = ()
    """Memory (used, total) in bytes of each MIG slice."""
    mig_uuids: tuple[str, ...] = ()
    processes: tuple[tuple[int, int | None], ...] = ()
    """(pid as the driver numbers it, bytes that it holds or None), one for each process on the GPU."""
