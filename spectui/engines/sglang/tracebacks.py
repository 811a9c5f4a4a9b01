"""Finding exceptions in a log: tracebacks with their chains, and exception lines that stand alone."""

from __future__ import annotations

import re
from dataclasses import dataclass

from spectui.engines.sglang.batchlines import Line
from spectui.engines.sglang.failure import ExceptionRecord

_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?=[A-Za-z_])\w*(?:Error|Exception|Interrupt|Exit|Failure)\b(?::.*)?$")
_IN_TRACE = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::.*)?$")
_KEPT = 64
_ELSEWHERE = re.compile(r"it/s\]|s/it\]|\?it|: error: |Received sigquit|SIGQUIT received")
"""Bars and last words that other processes write between the lines of a message."""
_CHAIN = ("During handling of the above", "The above exception was")
_STRONG = re.compile(
    r"^(?:\w+: +)?(?:.{0,60}Not enough memory\. Please|.{0,80}graph failed:|(?:\w+\.)*OutOfMemoryError"
    r"|.{0,60}CUDA out of memory)"
)


class _Trace:
    """A traceback being read."""

    def __init__(self, origin: str, phase: str) -> None:
        self.origin = origin
        self.phase = phase
        self.exception = ""
        self.frames: list[str] = []
        self.tail: list[str] = []

    def record(self) -> ExceptionRecord | None:
        if not self.exception:
            return None
        last = [frame for frame in self.frames if frame.lstrip().startswith("File ")][-1:]
        context = (*last, self.exception, *self.tail[:8])
        return ExceptionRecord(self.origin, self.exception, context, "\n".join(self.frames[-200:]), self.phase)


@dataclass(frozen=True, slots=True)
class Read:
    """What a line was to the reader of tracebacks."""

    consumed: bool
    """It belonged to a traceback and to nothing else."""
    exception: str = ""
    """The exception line, when it was one."""
    announces: bool = False
    """It opened a traceback that is not one of a single request's: its text may name a fatal event."""
    strong: bool = False
    """An exception alone, of a kind that a server does not survive."""


_NOTHING, _TAKEN = Read(False), Read(True)


class Tracebacks:
    """All exceptions that were not a single request's, in order."""

    def __init__(self) -> None:
        self._done: list[ExceptionRecord] = []
        self._open: _Trace | None = None

    @property
    def records(self) -> tuple[ExceptionRecord, ...]:
        open_one = self._open.record() if self._open is not None and self._open.origin != "http" else None
        return (*self._done, open_one) if open_one else tuple(self._done)

    def clear(self) -> None:
        self._done.clear()
        self._open = None

    def read(self, line: Line, previous: str, phase: str) -> Read:
        """``previous``: the line before, which says whose traceback begins; ``phase``: of the start, for the record."""
        message = line.message
        opens = "Traceback (most recent call last):" in message
        if self._open is not None:
            if line.time_s is None and not message.startswith(("INFO:", "ERROR:", "WARNING:")):
                inside = self._inside(self._open, message, opens)
                if inside is not None:
                    return inside
            self._close()
        if opens:
            origin = _origin(message, previous)
            self._open = _Trace(origin, phase)
            return Read(True, announces=origin != "http")
        if _EXCEPTION.match(message) and ":" in message:
            text = message[:1000]
            if len(self._done) < _KEPT:
                self._done.append(ExceptionRecord("alone", text, (text,), "", phase))
            return Read(True, text, strong=_STRONG.match(message) is not None)
        return _NOTHING

    def _inside(self, trace: _Trace, message: str, opens: bool) -> Read | None:
        """None: the line is not of this traceback any more."""
        if opens or message.startswith(_CHAIN):
            return _TAKEN
        if message[:1].isspace():
            if len(trace.frames) < 400:
                trace.frames.append(message[:400])
            return _TAKEN
        first = not trace.exception and bool(trace.frames) and _IN_TRACE.match(message) is not None
        if _EXCEPTION.match(message) or first:
            trace.exception = message.strip()[:1000]
            trace.tail = []
            return Read(True, trace.exception)
        if trace.exception and len(trace.tail) < 20 and not _ELSEWHERE.search(message):
            trace.tail.append(message[:400])
            return _TAKEN
        return None

    def _close(self) -> None:
        trace, self._open = self._open, None
        if trace is not None and trace.origin != "http" and len(self._done) < _KEPT and (record := trace.record()):
            self._done.append(record)


def _origin(message: str, previous: str) -> str:
    if "hit an exception" in message:
        return "scheduler"
    if "warmup error" in message:
        return "warm-up"
    return "http" if "ASGI" in previous or "[http_server]" in message else "main"
