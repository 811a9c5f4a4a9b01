"""One line on stderr that says how far a run is, while a person waits; silent in scripts."""

from __future__ import annotations

import sys
import time
from types import TracebackType

from spectui.core.rows import Row


class Progress:
    """Feed it journal rows. Writes only to a terminal, at most four times a second, and leaves a clean line."""

    def __init__(self, *, quiet: bool = False) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._what: dict[str, str] = {}
        self._last = 0.0
        self._width = 0

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._on and self._width:
            sys.stderr.write("\r" + " " * self._width + "\r")
            sys.stderr.flush()

    def row(self, row: Row) -> None:
        if not self._on:
            return
        kind, arm = row.get("kind"), str(row.get("arm") or "")
        if kind == "phase" and row.get("state") == "begin":
            self._what[arm] = f"{arm} {row.get('pass_name', '')} {row.get('phase', '')}"
            self._show(self._what[arm], at_once=True)
        elif kind == "sample":
            text = f"{self._what.get(arm, arm)}: {row.get('done', 0)} done, {row.get('tokens', 0)} tokens"
            self._show(text)
        elif kind == "mark":
            self._show(f"{arm} {row.get('name', '')}: {row.get('detail', '')}", at_once=True)

    def say(self, text: str) -> None:
        if self._on:
            self._show(text, at_once=True)

    def _show(self, text: str, *, at_once: bool = False) -> None:
        now = time.monotonic()
        if not at_once and now - self._last < 0.25:
            return
        self._last = now
        shown = "".join(c if c.isprintable() else "?" for c in text)[:100]
        sys.stderr.write("\r" + shown.ljust(self._width))
        sys.stderr.flush()
        self._width = max(self._width, len(shown))
