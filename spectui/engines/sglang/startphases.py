"""The stages of a server's start, from the lines that mark them.

Source of the lines: srt/model_executor/model_runner.py, srt/mem_cache, srt/speculative/eagle_worker*.py,
srt/managers/scheduler.py and srt/entrypoints/http_server.py of 0.4.9 to 0.5.23; 0.5.23 has no distributed line.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

PHASES = (
    "start",
    "distributed set-up",
    "weights",
    "draft weights",
    "memory pool",
    "compile",
    "graph capture",
    "draft graph capture",
    "warm-up",
    "ready",
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One stage of a start. Times are those of the log's prefix (epoch seconds), else of ``feed``'s ``at``."""

    name: str
    begin_s: float | None
    end_s: float | None = None
    progress: tuple[int, int] | None = None
    """(i, n) of shards, kernels or batch sizes."""
    detail: str = ""

    @property
    def seconds(self) -> float | None:
        if self.begin_s is None or self.end_s is None:
            return None
        return max(self.end_s - self.begin_s, 0.0)


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    """state, phase, progress, decode, prefill, note or exception."""
    time_s: float | None
    text: str
    value: object = None
    """The Phase, DecodeLine, PrefillLine, Note … that it is about."""


_CAPTURE = re.compile(
    r"Capture (?:(?P<name>.{1,60}?) )?(?:cuda |cpu |npu |musa |xpu |hip )?graph (?P<edge>begin|end)\b", re.IGNORECASE
)
_SIZES = re.compile(r"\bbs=\[([\d, ]{1,4000})\]")
_BAR = re.compile(r"(\d+)/(\d+) \[")
_COMPILING = re.compile(r"\bcompil(?:e|es|ing|ation)\b|\bautotun\w+|DeepGEMM|\bJIT\b|\bninja\b|\bnvcc\b", re.IGNORECASE)
_OF = re.compile(r"\b(\d+) ?/ ?(\d+)\b")


class StartPhases:
    """Phases so far, in order. A phase that is only likely to follow is taken back when another one begins."""

    def __init__(self) -> None:
        self.phases: list[Phase] = []
        self.captured_limit: int | None = None
        """Largest batch that a decode or verify graph was captured for."""
        self._presumed = False
        self._ended_s: float | None = None
        self._weights_done = False

    @property
    def name(self) -> str:
        """The phase to blame for what happens now: a warm-up only presumed is still the work on graphs before it."""
        if self._presumed and len(self.phases) > 1 and self.phases[-1].name == "warm-up":
            return self.phases[-2].name
        return self.phases[-1].name if self.phases else ""

    def read(self, message: str, now: float | None, *, loading: bool) -> list[Event]:
        """What a line moves. ``loading``: the server does not answer HTTP yet."""
        events: list[Event] = []
        if message.startswith("server_args="):
            if not self.phases and loading:
                self._begin("start", now, events)
        elif "Init torch distributed begin" in message:
            if not self._weights_done:
                self._begin("distributed set-up", now, events)
        elif "Load weight begin" in message:
            self._begin("draft weights" if self._weights_done else "weights", now, events)
        elif "Load weight end" in message:
            self._weights_done = True
            self._finish(now, "memory pool", events)
        elif "KV Cache is allocated" in message or ("KV Cache" in message and "VA upper bound" in message):
            if not (self.phases and self.phases[-1].name == "memory pool"):
                self._begin("memory pool", now, events)
            self._presumed = False
        elif "Memory pool end" in message:
            self._presumed = False
            self._finish(now, None, events)
        elif found := _CAPTURE.search(message):
            self._capture(found, message, now, events)
        elif (bar := _BAR.search(message)) and self.phases:
            self._tick(int(bar[1][:9]), int(bar[2][:9]), now, events)
        elif loading and self._weights_done and len(message) < 400 and _COMPILING.search(message):
            self._compile(message, now, events)
        return events

    def http_up(self, now: float | None) -> list[Event]:
        events: list[Event] = []
        self._begin("warm-up", now, events)
        return events

    def ready(self, now: float | None) -> list[Event]:
        self._presumed = False
        if self.phases and self.phases[-1].end_s is None:
            self.phases[-1] = replace(self.phases[-1], end_s=now)
        self.phases.append(Phase("ready", now, now))
        return [Event("phase", now, "ready", self.phases[-1])]

    def _capture(self, found: re.Match[str], message: str, now: float | None, events: list[Event]) -> None:
        name = (found["name"] or "").lower()
        draft = "draft" in name
        if found["edge"].lower() == "end":
            self._finish(now, "warm-up", events)
            return
        sizes = _SIZES.search(message)
        if sizes and not draft and "prefill" not in name and "piecewise" not in name:
            numbers = [int(size[:9]) for size in sizes[1].replace(" ", "").split(",") if size]
            self.captured_limit = max(numbers, default=self.captured_limit)
        self._begin("draft graph capture" if draft else "graph capture", now, events, detail=found["name"] or "")

    def _compile(self, message: str, now: float | None, events: list[Event]) -> None:
        """Compilers announce nothing: their phase reaches back to the end of the one before."""
        if not self.phases or self.phases[-1].name != "compile":
            self._begin("compile", self._ended_s if self._ended_s is not None else now, events)
        if found := _OF.search(message):
            self._tick(int(found[1][:9]), int(found[2][:9]), now, events)

    def _begin(self, name: str, now: float | None, events: list[Event], *, detail: str = "") -> None:
        if self._presumed and self.phases:
            self.phases.pop()
            self._presumed = False
        last = self.phases[-1] if self.phases else None
        self._ended_s = None
        if last is not None and last.name == name:
            self.phases[-1] = replace(last, end_s=None, progress=None, detail=detail or last.detail)
            return
        if last is not None and last.end_s is None:
            self.phases[-1] = replace(last, end_s=now)
        self.phases.append(Phase(name, now, detail=detail))
        events.append(Event("phase", now, name, self.phases[-1]))

    def _finish(self, now: float | None, then: str | None, events: list[Event]) -> None:
        """The open phase has ended; ``then`` is presumed to follow."""
        if self.phases and self.phases[-1].end_s is None:
            self.phases[-1] = replace(self.phases[-1], end_s=now)
        self._ended_s = now
        if then is not None and (not self.phases or self.phases[-1].name != then):
            self.phases.append(Phase(then, now))
            self._presumed = True
            events.append(Event("phase", now, then, self.phases[-1]))

    def _tick(self, done: int, of: int, now: float | None, events: list[Event]) -> None:
        if not self.phases or of <= 0 or done > of or self.phases[-1].name == "ready":
            return
        self.phases[-1] = replace(self.phases[-1], progress=(done, of))
        events.append(Event("progress", now, f"{done}/{of}", self.phases[-1]))
