"""What else is going on while requests run: GPUs once a second, the server's counters every few seconds.

A thread of its own, so that a slow driver or server never holds up the reading of streams.
"""

from __future__ import annotations

import contextlib
import itertools
import sys
import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import msgspec

from spectui.store.journal import Writer

if TYPE_CHECKING:
    from spectui.core.gpu import GpuReading
    from spectui.hosts.gpus import GpuPanel, GpuSampler

GPU_EVERY_S = 1.0
EDGE_WAIT_S = 0.3
"""So long is a reading waited for at the edge of a window; a slower driver's latest one serves."""
METRICS_EVERY_S = 5.0
"""Reading /metrics takes the interpreter for milliseconds: often enough for a curve, rarely enough not to be felt."""

FAULTS = frozenset({"thermal", "thermal (hardware)", "hardware slowdown", "power brake", "reliability limit"})
"""Reasons for lower clocks that make a result unfit to compare. A power cap is how a busy GPU runs: rows show it."""


@dataclass
class Followed:
    """The arm that is being loaded."""

    arm: str
    read: Callable[[], dict[str, Any]]
    """Fields of a metrics row."""
    gpus: frozenset[str] = frozenset()
    """UUIDs of its GPUs while its requests are measured; empty where they are not known."""
    throttled: bool = False


class Watch:
    """Writes ``gpu`` rows all the time, and ``metrics`` rows of the arm that is being measured."""

    def __init__(self, journal: Writer, *, gpus: bool) -> None:
        self._journal = journal
        self._sampler: GpuSampler | None = None
        if gpus:
            from spectui.hosts.gpus import GpuSampler

            self._sampler = GpuSampler()
        self._followed: Followed | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)

    def start(self) -> GpuPanel | None:
        """Begins; gives the first reading of the GPUs, or the reason why there is none, within a second or so."""
        panel = None
        if self._sampler is not None:
            self._sampler.start()
            self._sampler.wait_first(2.0)
            panel = self._sampler.latest()
        # A metrics text being parsed must not keep the reader of streams waiting for the default 5 ms.
        sys.setswitchinterval(0.0005)
        self._thread.start()
        return panel

    def follow(self, followed: Followed | None) -> None:
        """From now on counters are those of this arm, and its GPUs are looked after; None: of none."""
        self._followed = followed

    def edge(self) -> None:
        """A reading of the GPUs at the beginning or end of what is measured, so that its joules need no guess."""
        if self._sampler is None:
            return
        readings = self._sampler.fresh(EDGE_WAIT_S).readings
        if readings:
            self._journal.row("gpu", gpus=[msgspec.to_builtins(reading) for reading in readings])

    def close(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(6.0)
        if self._sampler is not None:
            self._sampler.stop()

    def _run(self) -> None:
        # A full disk: the main thread meets it too, and says so.
        with contextlib.suppress(OSError):
            for beat in itertools.count(1):
                if self._ending.wait(GPU_EVERY_S):
                    return
                self._beat(beat)

    def _beat(self, beat: int) -> None:
        followed = self._followed
        if self._sampler is not None:
            readings = self._sampler.latest().readings
            if readings:
                self._journal.row("gpu", gpus=[msgspec.to_builtins(reading) for reading in readings])
            if followed is not None and not followed.throttled:
                self._look_for_throttling(followed, readings)
        if followed is not None and beat % int(METRICS_EVERY_S / GPU_EVERY_S) == 0:
            values = followed.read()
            if self._followed is followed:
                self._journal.row("metrics", arm=followed.arm, at="during", **values)

    def _look_for_throttling(self, followed: Followed, readings: Sequence[GpuReading]) -> None:
        for reading in readings:
            reasons = [word for word in reading.throttle if word in FAULTS]
            if reading.uuid in followed.gpus and reasons:
                followed.throttled = True
                detail = f"GPU {reading.index} was slowed down: {', '.join(reasons)}"
                self._journal.row("mark", arm=followed.arm, name="throttled", detail=detail)
                return
