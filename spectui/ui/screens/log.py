"""The whole log of a server: followed or held still, searched, and harmless whatever is in it."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import events
from textual.message import Message

from spectui.core.braille import Row, Run
from spectui.ui.screens import page
from spectui.ui.screens.sentences import many
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.lines import Lines
from spectui.ui.widgets.text_table import fitted

MOST_BYTES = 8_000_000
"""Of a larger log, its end; what was left out is said in the title."""


class LogLines(Lines, can_focus=True):
    """``show(lines)``; ``follow`` keeps the end in sight. Long lines are cut, and seen whole with left and right."""

    DEFAULT_CSS = "LogLines { height: 1fr; width: 100%; }"

    class Scrolled(Message):
        """By a key."""

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self.lines: Sequence[str] = ()
        self.follow = True
        self.top = 0
        self.left = 0
        self.search = ""
        self.hit: int | None = None
        self.empty = "the log is empty"

    def show(self, lines: Sequence[str]) -> None:
        self.lines = lines
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if not self.lines:
            return ((Run(fitted(self.empty, width), "dim"),),)
        last = max(0, len(self.lines) - height)
        self.top = last if self.follow else max(0, min(self.top, last))
        return [self._row(i, width) for i in range(self.top, min(len(self.lines), self.top + height))]

    def _row(self, number: int, width: int) -> Row:
        text = self.lines[number][self.left :]
        tag = (
            "strong" if number == self.hit else "a" if self.search and self.search in self.lines[number].lower() else ""
        )
        if not tag and any(word in text for word in ("ERROR", "Error:", "Traceback", "CUDA out of memory")):
            tag = "bad"
        elif not tag and "WARN" in text:
            tag = "warn"
        return (Run(fitted(text, width).rstrip(), tag),)

    def go_to(self, line: int) -> None:
        self.follow = False
        self.hit = line
        self.top = max(0, line - max(1, self.size.height // 2))
        self.redraw()

    def on_key(self, event: events.Key) -> None:
        height = max(1, self.size.height - 1)
        steps = {"up": -1, "k": -1, "down": 1, "j": 1, "pageup": -height, "pagedown": height}
        if event.key in steps:
            self.follow = False
            self.top = max(0, self.top + steps[event.key])
        elif event.key == "home":
            self.follow, self.top = False, 0
        elif event.key == "end":
            self.follow = True
        elif event.key in ("left", "right"):
            self.left = max(0, self.left + (20 if event.key == "right" else -20))
        else:
            return
        event.stop()
        self.redraw()
        self.post_message(self.Scrolled())


class LogScreen(page.Page):
    """``path``: the log; without one, that of the arm in focus."""

    NAME = "log"
    BINDINGS: ClassVar[list[Any]] = page.bindings("log")

    def __init__(self, live: Any = None, *, path: str | None = None, name: str = "") -> None:
        super().__init__(live)
        record = getattr(getattr(live, "focused", None), "record", None)
        self._path = path or (record.log_path if record is not None else None)
        self._of = name or (record.name if record is not None else "")
        self._at = 0
        self._left_out = 0
        self._rest = b""
        self._lines: list[str] = []

    def parts(self) -> Any:
        yield LogLines(id="log-lines")

    @property
    def log_lines(self) -> LogLines:
        return self.query_one("#log-lines", LogLines)

    def read(self) -> list[str]:
        """What the log gained; a log that was begun anew is read from its start."""
        if self._path is None:
            return self._lines
        size = os.stat(self._path).st_size
        if size < self._at:
            self._at, self._rest, self._lines = 0, b"", ["… the log was begun anew …"]
        with Path(self._path).open("rb") as file:
            if self._at == 0 and size > MOST_BYTES:
                self._at = self._left_out = size - MOST_BYTES
            file.seek(self._at)
            new = file.read(MOST_BYTES)
        self._at += len(new)
        if not new and self._lines:
            return self._lines
        parts = (self._rest + new).split(b"\n")
        self._rest = parts.pop()
        fresh = [part.decode("utf-8", "replace").rstrip("\r") for part in parts]
        # As a terminal would leave them: a bar that was drawn over and over stands in its last form.
        self._lines = [*self._lines, *(line.rpartition("\r")[2] for line in fresh)]
        return self._lines

    def on_log_lines_scrolled(self) -> None:
        self._frame()

    def tick(self) -> None:
        super().tick()
        if self.is_current and not self._reading:
            self.reread()

    def draw(self) -> None:
        lines = self.log_lines
        if self._path is None:
            lines.empty = "only logs of servers that spectui started can be read here"
        lines.show(self.data)

    def title_words(self) -> str:
        lines = self.log_lines
        state = "following" if lines.follow else f"held at line {lines.top + 1}"
        cut = f" · the first {self._left_out / 1e6:.0f} MB are left out" if self._left_out else ""
        return f"{self._of} · {many(len(self.data), 'line')} · {state}{cut}"

    def status(self) -> tuple[str, str]:
        if self.log_lines.search:
            hits = sum(1 for line in self.data if self.log_lines.search in line.lower())
            return f"{many(hits, 'line')} with {self.log_lines.search!r}: n and p move between them", ""
        return self._path or "", "dim"

    def allowed(self, command: str) -> bool:
        return bool(self.log_lines.search) if command in ("log_next", "log_before") else True

    def action_log_follow(self) -> None:
        lines = self.log_lines
        lines.follow = not lines.follow
        lines.redraw()
        self._frame()

    def action_filter(self) -> None:
        self.ask(Question("search the log for (nothing ends the search)", self._search, given=self.log_lines.search))

    def _search(self, typed: str) -> None:
        lines = self.log_lines
        lines.search = typed.lower()
        lines.hit = None
        if typed:
            self._go(-1, start=len(lines.lines))
        lines.redraw()
        self._frame()

    def action_log_next(self) -> None:
        self._go(1)

    def action_log_before(self) -> None:
        self._go(-1)

    def _go(self, step: int, start: int | None = None) -> None:
        lines = self.log_lines
        if not lines.search:
            self.action_filter()
            return
        at = start if start is not None else lines.hit if lines.hit is not None else lines.top - 1
        found = range(at + 1, len(lines.lines)) if step > 0 else range(at - 1, -1, -1)
        hit = next((i for i in found if lines.search in lines.lines[i].lower()), None)
        if hit is None:
            self.say(
                f"no {'further' if lines.hit is not None else ''} line with {lines.search!r} in this direction", "warn"
            )
            return
        lines.go_to(hit)
        self._frame()
