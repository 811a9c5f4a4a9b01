"""What can wait is sent a little at a time, so that the answer to a key finds the line free.

Nothing tells a program how full a terminal's line is: the kernel takes some 20 KB of a pseudo-terminal's output at
once, and ``TIOCOUTQ`` of one is 0 whatever waits in it (Linux 6.18). A chart that moves on by a cell is 1 to 2 KB, at
8 KB/s a quarter of a second in which no key is answered. So the rows that only follow time wait here.
"""

from __future__ import annotations

import re
import time
from collections import deque
from collections.abc import Callable, Container
from typing import Protocol

MOVE = re.compile(r"\x1b\[(\d+);\d+H")
PACE = 6_000
"""Bytes a second that the rows that can wait add at most: above what the home screen needs, below a slow line."""
PIECE = 250
"""Bytes that go together: what a key may find under way."""
HOLD_S = 0.1
"""For which all waits once a key has come: about as long as its answer takes to be drawn."""


class Later(Protocol):
    def cancel(self) -> None: ...


class PatientOutput:
    """``send`` writes what shows the same on a terminal in any state; ``later`` calls after some seconds.

    ``rows`` (from 0) are those that can wait. None can until something says so, and none on a line that is ``quick``.
    """

    def __init__(
        self,
        send: Callable[[str], int],
        later: Callable[[float, Callable[[], None]], Later],
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.rows: Container[int] = ()
        self.quick = False
        self._send, self._later, self._clock = send, later, clock
        self._waiting: deque[tuple[int, str]] = deque()
        """(row, what draws a span of it from anywhere), in the order of drawing."""
        self._end = ""
        """Where the cursor is wanted."""
        self._free_at = 0.0
        self._timer: Later | None = None

    @property
    def waiting(self) -> int:
        """Bytes, as Textual wrote them."""
        return sum(len(text) for _, text in self._waiting)

    def write(self, data: str, height: int) -> None:
        """A frame, or anything else; ``height`` is the terminal's. The picture in the end is that of plain writing."""
        if self.quick or not MOVE.match(data):
            if not data.startswith("\x1b[?2026"):  # where a frame begins and ends, which moves nothing
                self.flush()
            self._send(data)
            return
        spans, self._end = spans_of(data)
        touched = {row for row, _ in spans}
        if len(touched) >= height:  # all is drawn anew: another screen, or another size
            self.flush()
            self._send(data)
            return
        at_once = [span for span in spans if span[0] not in self.rows]
        if rows := {row for row, _ in at_once}:
            before = [span for span in self._waiting if span[0] in rows]
            if before:  # of rows that could wait a moment ago
                self._waiting = deque(span for span in self._waiting if span[0] not in rows)
            self._sent(before + at_once)
        self._waiting.extend(span for span in spans if span[0] in self.rows)
        self._go_on()

    def hold(self) -> None:
        """A key has come; called from whichever thread read it."""
        self._free_at = max(self._free_at, self._clock() + HOLD_S)

    def flush(self) -> None:
        """All that waits, now."""
        self._stop_timer()
        if self._waiting:
            spans = list(self._waiting)
            self._waiting.clear()
            self._sent(spans)

    def drop(self) -> None:
        """Nothing of it is wanted any more."""
        self._stop_timer()
        self._waiting.clear()
        self.rows = ()

    def _go_on(self) -> None:
        if self._timer is not None or not self._waiting:
            return
        wait = self._free_at - self._clock()
        if wait <= 0:
            piece: list[tuple[int, str]] = []
            size = 0
            while self._waiting and (not piece or size + len(self._waiting[0][1]) // 2 <= PIECE):
                piece.append(self._waiting.popleft())
                size += len(piece[-1][1]) // 2  # close to half of what Textual writes needs not be sent
            self._sent(piece)
            wait = self._free_at - self._clock()
        if self._waiting:
            self._timer = self._later(max(0.001, wait), self._timed)

    def _timed(self) -> None:
        self._timer = None
        self._go_on()

    def _sent(self, spans: list[tuple[int, str]]) -> None:
        if spans:
            size = self._send("".join(text for _, text in spans) + self._end)
            self._free_at = max(self._free_at, self._clock()) + size / PACE

    def _stop_timer(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None


def spans_of(frame: str) -> tuple[list[tuple[int, str]], str]:
    """((row, what draws it) …, the move of the cursor behind them). Each begins with its own move, and Textual 8.2 ends
    every style where its text ends, so that each draws the same in whatever order they come."""
    starts = [(found.start(), int(found[1]) - 1) for found in MOVE.finditer(frame)]
    ends = [start for start, _ in starts[1:]] + [len(frame)]
    spans = [(row, frame[start:end].rstrip("\n")) for (start, row), end in zip(starts, ends, strict=True)]
    end = spans.pop()[1] if MOVE.fullmatch(spans[-1][1]) else ""
    return spans, end
