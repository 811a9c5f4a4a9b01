"""Samples GPUs in a thread of its own, so that a slow or hanging driver call never holds up anything else."""

from __future__ import annotations

import importlib
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from spectui.core.gpu import GpuReading
from spectui.hosts.nvml import NvmlReader
from spectui.hosts.nvml_words import OK

NOT_ANSWERING = "NVML not answering"
STARTING = "starting"
STUCK_AFTER_S = 5.0

# A thread that hangs in the driver cannot be ended. As long as there is one, no other is started.
_stuck: threading.Thread | None = None


class _Ending(Exception):
    """The sampler was asked to stop in the middle of a tick."""


@dataclass(frozen=True, slots=True)
class GpuPanel:
    readings: tuple[GpuReading, ...]
    """By NVML index; each with its own age."""
    state: str
    """``ok``, ``starting``, or one line that says why there is nothing, or nothing new, to show."""
    driver: str | None = None
    age_s: float | None = None
    """Age of the oldest reading; None before the first."""

    @property
    def ok(self) -> bool:
        return self.state == OK


class GpuSampler:
    """Reads all GPUs about once in ``period_s`` seconds and keeps the latest reading of each.

    ``nvml`` stands in for the pynvml module. All calls into it are made by one daemon thread. Drivers average over
    up to a second, so a period below half a second is raised to that; where calls take longer than the period,
    sampling slows down to what they allow. After ``STUCK_AFTER_S`` in one call the state is *NVML not answering*
    and the last readings stay, growing older.
    """

    def __init__(
        self,
        period_s: float = 1.0,
        nvml: Any = None,
        *,
        load: Callable[[], Any] | None = None,
        retry_s: float = 30.0,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._period_s = max(0.5, period_s)
        self._clock = clock
        self._own = nvml is None and load is None
        if load is None:
            load = (lambda: nvml) if nvml is not None else (lambda: importlib.import_module("pynvml"))
        self._reader = NvmlReader(load, retry_s=retry_s, clock=clock)
        self._ending = threading.Event()
        self._lock = threading.Lock()
        self._first = threading.Event()
        self._wake = threading.Event()
        self._wanted = False
        self._fresh = threading.Event()
        self._latest: dict[int, tuple[float, GpuReading]] = {}
        self._state = STARTING
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Begin to sample; does nothing when it runs already or a thread of before still hangs in the driver."""
        if self._thread is not None and self._thread.is_alive():
            return
        if self._own and _stuck is not None and _stuck.is_alive():
            self._state = NOT_ANSWERING
            return
        self._ending.clear()
        self._wake.clear()
        self._thread = threading.Thread(target=self._run, name="gpu-sampler", daemon=True)
        self._thread.start()

    def stop(self, timeout_s: float = 1.5) -> bool:
        """Ask the thread to end and wait for it at most ``timeout_s``; False when it hangs in a driver call."""
        global _stuck
        self._ending.set()
        self._wake.set()
        if self._thread is None:
            return True
        self._thread.join(timeout_s)
        if self._thread.is_alive():
            if self._own:
                _stuck = self._thread
            return False
        return True

    def wait_first(self, timeout_s: float) -> bool:
        """Wait until the GPUs have been read once, or it is known why they cannot be; False after ``timeout_s``."""
        return self._first.wait(timeout_s)

    def latest(self) -> GpuPanel:
        """What is known now. Never waits for the driver."""
        now = self._clock()
        began = self._reader.busy_since
        with self._lock:
            kept = [(at, r) for _, (at, r) in sorted(self._latest.items())]
            state = self._state
        if began is not None and now - began > STUCK_AFTER_S:
            state = NOT_ANSWERING
        readings = tuple(replace(r, age_s=max(0.0, now - at)) for at, r in kept)
        return GpuPanel(readings, state, self._reader.driver, max((r.age_s for r in readings), default=None))

    def fresh(self, timeout_s: float) -> GpuPanel:
        """A reading that is begun now, out of turn; the latest one where the driver takes longer than ``timeout_s``."""
        if self._thread is None or not self._thread.is_alive() or not self.latest().ok:
            return self.latest()
        self._fresh.clear()
        self._wanted = True
        self._wake.set()
        self._fresh.wait(timeout_s)
        return self.latest()

    def __enter__(self) -> GpuSampler:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _run(self) -> None:
        try:
            while not self._ending.is_set():
                wanted = self._wanted
                if wanted:
                    self._wanted = False
                began = self._clock()
                state = self._reader.read(self._keep)
                with self._lock:
                    self._state = state
                    for index in [i for i in self._latest if i >= self._reader.known]:
                        del self._latest[index]
                self._first.set()
                if wanted:
                    self._fresh.set()
                took = self._clock() - began
                # A busy driver gets as long a rest as it took, up to the period.
                self._wake.wait(max(self._period_s - took, min(took, self._period_s)))
                self._wake.clear()
        except _Ending:
            return
        finally:
            self._reader.close()

    def _keep(self, reading: GpuReading) -> None:
        with self._lock:
            self._latest[reading.index] = (self._clock(), reading)
            if self._state == STARTING:
                self._state = OK
        if self._ending.is_set():
            raise _Ending  # between two GPUs: with slow calls a whole tick can take a minute


def read_once(timeout_s: float = 3.0, nvml: Any = None) -> GpuPanel:
    """One reading of all GPUs, for callers that do not watch; waits at most ``timeout_s``."""
    with GpuSampler(nvml=nvml) as sampler:
        if not sampler.wait_first(timeout_s) and sampler.latest().state == STARTING:
            return replace(sampler.latest(), state=NOT_ANSWERING)
        return sampler.latest()
