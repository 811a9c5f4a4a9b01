"""How far a run is, on stderr: one line that changes, where a person waits at a terminal; and, there or in a script, a
sentence where nothing comes any more."""

from __future__ import annotations

import sys
import threading
import time
from collections.abc import Callable, Sequence
from types import TracebackType

from spectui.core.rows import Row

FIRST_S = 10.0
"""So long nothing comes before it is said what is waited for."""
AGAIN_S = 60.0
"""And so often it is said again."""
_LOOK_S = 1.0
_PHASES = {"warmup": "its warm-up request", "flush": "the flush", "prime": "its corpus", "feed": "feeding"}


class Progress:
    """Feed it journal rows. The line is written to a terminal only, at most four times a second, and left clean.

    ``watch`` begins to look for silence: of a server that takes requests and makes no token, a run would say nothing
    until its limit.
    """

    def __init__(self, *, quiet: bool = False, clock: Callable[[], float] = time.monotonic) -> None:
        self._on = not quiet and sys.stderr.isatty()
        self._clock = clock
        self._what: dict[str, str] = {}
        self._now = "the first token"
        self._tokens: dict[str, object] = {}
        self._last = 0.0
        self._width = 0
        self._heard = clock()
        self._due = FIRST_S
        self._where = ""
        self._limit_s = 0.0
        self._ended = threading.Event()
        self._watching: threading.Thread | None = None
        self._rows: Callable[[], Sequence[Row] | None] | None = None

    def __enter__(self) -> Progress:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.measured()
        self._clear()

    def measured(self) -> None:
        """Nothing is waited for any more: what comes now takes its time without a word from a server."""
        self._ended.set()
        if self._watching is not None:
            self._watching.join()

    def watch(self, where: str, limit_s: float, rows: Callable[[], Sequence[Row] | None] | None = None) -> None:
        """From now on silence is told. ``where``: the servers that are asked; ``limit_s``: what ends a request.

        ``rows``: where nobody calls :meth:`row`, what came since the last look; None while no run goes on.
        """
        self._where, self._limit_s, self._rows = where, limit_s, rows
        self._hear()
        self._watching = threading.Thread(target=self._look_often, name="silence", daemon=True)
        self._watching.start()

    def _look_often(self) -> None:
        while not self._ended.wait(_LOOK_S):
            self.look()

    def look(self) -> None:
        """Says what is waited for, if that has become due."""
        if self._rows is not None:
            fresh = self._rows()
            if fresh is None:
                self._hear()
            for row in fresh or ():
                self.row(row)
        silent = self._clock() - self._heard
        if silent < self._due:
            return
        self._due = AGAIN_S if self._due < AGAIN_S else self._due + AGAIN_S
        self._clear()
        self._write(
            f"spectui: still waiting for {self._now} of {self._where}: nothing for {silent:.0f} s. A request that says "
            f"nothing for {self._limit_s:g} s is given up (--silence-limit); Ctrl-C keeps what was measured\n"
        )

    def _hear(self) -> None:
        self._heard = self._clock()
        self._due = FIRST_S

    def row(self, row: Row) -> None:
        kind, arm = row.get("kind"), str(row.get("arm") or "")
        if kind == "sample":
            if row.get("tokens") != self._tokens.get(arm) or not row.get("running"):
                self._hear()
            self._tokens[arm] = row.get("tokens")
        elif kind in ("head", "phase", "request"):
            self._hear()
        if kind == "phase" and row.get("state") == "begin":
            phase = str(row.get("phase") or "")
            self._now = f"the {row.get('pass_name', '')} pass ({_PHASES.get(phase, phase)})"
            self._what[arm] = f"{arm} {row.get('pass_name', '')} {row.get('phase', '')}"
            self._show(self._what[arm], at_once=True)
        elif kind == "sample":
            text = f"{self._what.get(arm, arm)}: {row.get('done', 0)} done, {row.get('tokens', 0)} tokens"
            self._show(text)
        elif kind == "mark":
            self._show(f"{arm} {row.get('name', '')}: {row.get('detail', '')}", at_once=True)

    def say(self, text: str) -> None:
        self._show(text, at_once=True)

    def _show(self, text: str, *, at_once: bool = False) -> None:
        if not self._on:
            return
        now = self._clock()
        if not at_once and now - self._last < 0.25:
            return
        self._last = now
        shown = "".join(c if c.isprintable() else "?" for c in text)[:100]
        self._write("\r" + shown.ljust(self._width))
        self._width = max(self._width, len(shown))

    def _clear(self) -> None:
        if self._on and self._width:
            self._write("\r" + " " * self._width + "\r")

    def _write(self, text: str) -> None:
        """A line that dropped ends no measuring."""
        try:
            sys.stderr.write(text)
            sys.stderr.flush()
        except OSError:
            self._on = False
