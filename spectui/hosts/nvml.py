"""Reads GPUs through NVML, one call at a time, so that a failing call costs one value and a lost GPU costs itself only.

Nothing here starts a thread; :mod:`spectui.hosts.gpus` calls it from one.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from spectui.core.gpu import GpuReading
from spectui.hosts.nvml_words import (
    ACCESS_LOST,
    LOST,
    MIG,
    NO_GPUS,
    NO_LIBRARY,
    NO_PACKAGE,
    OK,
    OPENING,
    REASONS,
    VALUES,
    error_name,
    throttle_words,
)

_GONE = frozenset({"GpuIsLost", "ResetRequired", "GpuNotFound"})
_BROKEN = frozenset({"Unknown", "Uninitialized"})


class _Gone(Exception):
    """The GPU itself is lost: no more calls on this handle."""


@dataclass(slots=True)
class _Device:
    index: int
    handle: Any
    uuid: str
    name: str
    retry_at: float | None = None
    """When a lost GPU is asked for again; None while it answers."""


@dataclass(slots=True)
class _Tick:
    """What one GPU's calls gave in one tick."""

    answered: int = 0
    failed: set[str] = field(default_factory=set)


class NvmlReader:
    """State of the way to the GPUs: not opened, open, or lost and waiting for the next try.

    ``load`` returns the NVML module (it may raise ImportError). ``retry_s`` is the least time between two tries to
    open NVML and between two tries of a lost GPU. ``busy_since`` is the clock's time at which the call now running
    began, for a watcher in another thread.
    """

    def __init__(
        self, load: Callable[[], Any], *, retry_s: float = 30.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._load = load
        self._clock = clock
        self._retry_s = retry_s
        self._nvml: Any = None
        self._open = False
        self._devices: list[_Device] = []
        self._next_try = float("-inf")
        self.state = "starting"
        self.driver: str | None = None
        self.busy_since: float | None = None

    def read(self, publish: Callable[[GpuReading], None]) -> str:
        """Read every GPU once, handing each to ``publish`` as soon as it is read, and return the state in words."""
        now = self._clock()
        if not self._open or not self._devices:
            if now < self._next_try:
                return self.state
            self.state = self._try_open(now)
            if self.state != OK:
                return self.state
        ticks = []
        readings = []
        for device in self._devices:
            reading, tick = self._read_device(device)
            if tick is not None:
                ticks.append(tick)
            readings.append(reading)
            publish(reading)
        if ticks and all(not t.answered and t.failed and t.failed <= _BROKEN for t in ticks):
            self._lose_access(publish)
        return self.state

    @property
    def known(self) -> int:
        """How many GPUs were there when NVML was last opened."""
        return len(self._devices)

    def close(self) -> None:
        if self._open:
            self._open = False
            try:
                self._call("nvmlShutdown")
            except Exception:  # the library may be gone already; there is nothing left to lose
                return

    def _call(self, name: str, *args: Any) -> Any:
        self.busy_since = self._clock()
        try:
            return getattr(self._nvml, name)(*args)
        finally:
            self.busy_since = None

    def _try_open(self, now: float) -> str:
        self._next_try = now + self._retry_s
        if self._nvml is None:
            self.busy_since = now
            try:
                self._nvml = self._load()
            except ImportError:
                return NO_PACKAGE
            except OSError:
                return NO_LIBRARY
            except Exception as error:  # a broken package must not take the panel's thread with it
                return f"Python NVML package does not load: {error_name(error)}"
            finally:
                self.busy_since = None
        try:
            if not self._open:
                self._call("nvmlInit")
                self._open = True
            self.driver = self._driver()
            count = int(self._call("nvmlDeviceGetCount"))
        except Exception as error:
            self.close()
            name = error_name(error)
            return OPENING.get(name, f"NVML did not start: {name}")
        if count == 0:
            return NO_GPUS
        known = {d.index: d for d in self._devices}
        self._devices = [self._find(i, known.get(i), now) for i in range(count)]
        return OK

    def _driver(self) -> str | None:
        try:
            return _text(self._call("nvmlSystemGetDriverVersion"))
        except Exception:  # the version is decoration: GPUs are read without it
            return None

    def _find(self, index: int, known: _Device | None, now: float) -> _Device:
        uuid, name = (known.uuid, known.name) if known else (f"index-{index}", "GPU")
        handle = None
        try:
            handle = self._call("nvmlDeviceGetHandleByIndex", index)
            uuid = _text(self._call("nvmlDeviceGetUUID", handle))
            name = _text(self._call("nvmlDeviceGetName", handle))
        except Exception as error:
            if handle is None or error_name(error) in _GONE:
                return _Device(index, None, uuid, name, retry_at=now + self._retry_s)
        return _Device(index, handle, uuid, name)

    def _read_device(self, device: _Device) -> tuple[GpuReading, _Tick | None]:
        now = self._clock()
        if device.retry_at is not None:
            if now < device.retry_at:
                return _lost(device, LOST), None
            again = self._find(device.index, device, now)
            device.handle, device.uuid, device.name = again.handle, again.uuid, again.name
            device.retry_at = again.retry_at
            if device.retry_at is not None:
                return _lost(device, LOST), None
        tick = _Tick()
        try:
            return self._values(device, tick), tick
        except _Gone:
            device.handle = None
            device.retry_at = self._clock() + self._retry_s
            return _lost(device, LOST), None

    def _values(self, device: _Device, tick: _Tick) -> GpuReading:
        nvml, h = self._nvml, device.handle
        missing: dict[str, str] = {}

        def ask(field_names: str, *calls: tuple[Any, ...]) -> Any:
            """The first call that answers; else None, with the reason under each of the names."""
            reason = ""
            for call in calls:
                try:
                    answer = self._call(call[0], h, *call[1:])
                except Exception as error:
                    name = error_name(error)
                    if name in _GONE:
                        raise _Gone from error
                    tick.failed.add(name)
                    reason = REASONS.get(name, f"the driver answers: {name}")
                else:
                    tick.answered += 1
                    return answer
            missing.update(dict.fromkeys(field_names.split(), reason))
            return None

        mode = ask("mig", ("nvmlDeviceGetMigMode",))
        missing.pop("mig", None)
        mig = bool(mode and mode[0])
        use = ask("utilization", ("nvmlDeviceGetUtilizationRates",))
        v2 = getattr(nvml, "nvmlMemory_v2", None)
        ways: list[tuple[Any, ...]] = [("nvmlDeviceGetMemoryInfo", v2)] if v2 is not None else []
        memory = ask("memory_used memory_total", *ways, ("nvmlDeviceGetMemoryInfo",))
        power = ask("power_w", ("nvmlDeviceGetPowerUsage",))
        limit = ask("power_limit_w", ("nvmlDeviceGetEnforcedPowerLimit",), ("nvmlDeviceGetPowerManagementLimit",))
        energy = ask("energy_j", ("nvmlDeviceGetTotalEnergyConsumption",))
        clock = ask("sm_clock_mhz", ("nvmlDeviceGetClockInfo", getattr(nvml, "NVML_CLOCK_SM", 1)))
        heat = ask("temperature_c", ("nvmlDeviceGetTemperature", getattr(nvml, "NVML_TEMPERATURE_GPU", 0)))
        bits = ask(
            "throttle",
            ("nvmlDeviceGetCurrentClocksEventReasons",),
            ("nvmlDeviceGetCurrentClocksThrottleReasons",),
        )
        compute = ask("pids", ("nvmlDeviceGetComputeRunningProcesses",))
        slices, names, inside = self._slices(h) if mig else ([], [], [])
        if mig and "utilization" in missing:
            missing["utilization"] = MIG
        held: dict[int, int | None] = {}
        for process in [*(compute or ()), *inside]:
            before = held.get(process.pid)
            held[process.pid] = process.usedGpuMemory if before is None else before
        return GpuReading(
            uuid=device.uuid,
            index=device.index,
            name=device.name,
            utilization=None if use is None else float(use.gpu),
            memory_used=None if memory is None else int(memory.used),
            memory_total=None if memory is None else int(memory.total),
            power_w=None if power is None else power / 1000,
            power_limit_w=None if limit is None else limit / 1000,
            energy_j=None if energy is None else energy / 1000,
            sm_clock_mhz=clock,
            temperature_c=heat,
            throttle=throttle_words(bits or 0),
            pids=None if compute is None and not inside else tuple(sorted(held)),
            mig=mig,
            missing=missing,
            slices=tuple(slices),
            mig_uuids=tuple(names),
            processes=tuple(sorted(held.items())),
        )

    def _slices(self, handle: Any) -> tuple[list[tuple[int, int]], list[str], list[Any]]:
        memory: list[tuple[int, int]] = []
        names: list[str] = []
        processes: list[Any] = []
        try:
            count = int(self._call("nvmlDeviceGetMaxMigDeviceCount", handle))
        except Exception:  # an older library: the parent's values stand alone
            return memory, names, processes
        for i in range(count):
            try:
                part = self._call("nvmlDeviceGetMigDeviceHandleByIndex", handle, i)
                info = self._call("nvmlDeviceGetMemoryInfo", part)
                names.append(_text(self._call("nvmlDeviceGetUUID", part)))
                memory.append((int(info.used), int(info.total)))
                processes.extend(self._call("nvmlDeviceGetComputeRunningProcesses", part))
            except Exception as error:  # NotFound: this place holds no slice
                if error_name(error) in _GONE:
                    raise _Gone from error
        return memory, names, processes

    def _lose_access(self, publish: Callable[[GpuReading], None]) -> None:
        """Every call fails in the same way, as in a container whose devices were taken: only a new start can help."""
        self.state = ACCESS_LOST
        self.close()
        self._next_try = self._clock() + self._retry_s
        for device in self._devices:
            publish(_lost(device, ACCESS_LOST))


def _lost(device: _Device, reason: str) -> GpuReading:
    return GpuReading(
        uuid=device.uuid, index=device.index, name=device.name, lost=True, missing=dict.fromkeys(VALUES, reason)
    )


def _text(value: Any) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)
