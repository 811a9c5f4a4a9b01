"""What else is going on while requests run: GPUs once a second, the server's counters every few seconds.

A thread of its own, so that a slow driver or server never holds up the reading of streams.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spectui.store.journal import Writer

if TYPE_CHECKING:
    from spectui.hosts.gpus import GpuPanel, GpuSampler

GPU_EVERY_S = 1.0
METRICS_EVERY_S = 5.0
"""Reading /metrics takes the interpreter for milliseconds: often enough for a curve, rarely enough not to be felt."""


class Watch:
    """Writes ``gpu`` rows all the time, and ``metrics`` rows of the arm that is being measured."""

    def __init__(self, journal: Writer, *, gpus: bool) -> None:
        self._journal = journal
        self._sampler: GpuSampler | None = None
        if gpus:
            from spectui.hosts.gpus import GpuSampler

            self._sampler = GpuSampler()
        self._read: tuple[str, Callable[[], dict[str, Any]]] | None = None
        self._ending = threading.Event()
        self._thread = threading.Thread(target=self._run, name="watch", daemon=True)
        self._failed: OSError | None = None

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

    def follow(self, arm: str | None, read: Callable[[], dict[str, Any]] | None = None) -> None:
        """From now on counters are those of this arm; None: of none."""
        self._read = None if arm is None or read is None else (arm, read)

    def close(self) -> None:
        self._ending.set()
        if self._thread.is_alive():
            self._thread.join(6.0)
        if self._sampler is not None:
            self._sampler.stop()

    def _run(self) -> None:
        beats = 0
        try:
            while not self._ending.wait(GPU_EVERY_S):
                beats += 1
                if self._sampler is not None:
                    readings = self._sampler.latest().readings
                    if readings:
                        self._journal.row("gpu", gpus=[msgspec.to_builtins(reading) for reading in readings])
                reading = self._read
                if reading is not None and beats % int(METRICS_EVERY_S / GPU_EVERY_S) == 0:
                    arm, read = reading
                    values = read()
                    if self._read is reading:
                        self._journal.row("metrics", arm=arm, at="during", **values)
        except OSError as error:  # the journal's disk is full: the main thread meets it too
            self._failed = error
