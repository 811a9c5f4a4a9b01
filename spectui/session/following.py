"""One run as the screen follows it: rows into live series at once, into figures now and then."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from spectui.core.live import LiveArm, LiveFold
from spectui.core.passes import PassResult
from spectui.core.result import RunResult, fold
from spectui.core.rows import Row
from spectui.session.running import RunHandle
from spectui.session.view import Answer, Point, RunView
from spectui.store import journal

BUCKET_S = 1.0
SPAN_S = 120.0
_PIECES = 4000
_ROWS_A_PUMP = 20_000


class Following:
    """``pump`` never blocks for long; ``refold`` works on what was pumped and may take tens of milliseconds."""

    def __init__(self, handle: RunHandle, letters: Mapping[str, str] | None = None) -> None:
        self.handle = handle
        self.letters = dict(letters or {})
        """The runner's name of an arm -> letter on the screen, where they differ."""
        self.fold = LiveFold(width_s=BUCKET_S)
        self.rows: list[Row] = []
        self.answer: Answer | None = None
        self.result: RunResult | None = None
        self.ended = False
        self.usual_s: float | None = None
        """What such a run took the last time on this node."""
        self._folded = 0
        self._gone = False
        self._journal = journal.Follower(handle.journal)
        self._texts = journal.Follower(handle.folder / "live.jsonl")
        self._pieces: deque[tuple[int, str]] = deque(maxlen=_PIECES)

    @property
    def folder(self) -> Path:
        return self.handle.folder

    def letter(self, arm: str) -> str:
        return self.letters.get(arm, arm)

    def pump(self) -> bool:
        """Takes new rows; True when there were any."""
        gone = not self.handle.alive()  # before its last rows are read
        fresh = self._journal.new()
        for row in fresh:
            self.fold.add(row)
            if row.get("kind") not in ("sample",):
                self.rows.append(row)
            if row.get("kind") == "end":
                self.ended = True
        self._pump_texts()
        self._gone = gone and not fresh and not self.ended
        return bool(fresh)

    def _pump_texts(self) -> None:
        for row in self._texts.new():
            rid, arm = str(row.get("rid") or ""), str(row.get("arm") or "")
            if self.answer is None or rid != self.answer.rid:
                self._pieces.clear()
            for piece in row.get("pieces") or ():
                if isinstance(piece, Sequence) and len(piece) == 2 and isinstance(piece[1], str):
                    self._pieces.append((int(piece[0] or 1), piece[1]))
            self.answer = Answer(self.letter(arm), rid, tuple(self._pieces), bool(row.get("done")))

    def lost(self) -> bool:
        """The runner is gone without having said how it ended."""
        return self._gone

    def refold(self) -> bool:
        """Figures from the rows so far; True when there was something new."""
        count = len(self.rows)
        if count == self._folded:
            return False
        self.result = fold(self.rows[:count])
        self._folded = count
        return True

    def last_pass(self, letter: str) -> PassResult | None:
        if self.result is None:
            return None
        found = [p for key, p in self.result.passes.items() if self.letter(key[0]) == letter]
        return found[-1] if found else None

    def arm(self, letter: str) -> LiveArm | None:
        return next((a for name, a in self.fold.arms.items() if self.letter(name) == letter), None)

    def points(self, letter: str, what: str, now: float) -> tuple[Point, ...]:
        """The last two minutes of ``tok_s`` or ``accept``, a point a bucket, at its middle."""
        arm = self.arm(letter)
        if arm is None:
            return ()
        series = arm.tok_s if what == "tok_s" else arm.accept
        count = int(SPAN_S / BUCKET_S) + 1
        first = (int(now // BUCKET_S) - count + 1) * BUCKET_S
        values = series.values(now, count)
        return tuple((first + (i + 0.5) * BUCKET_S, value) for i, value in enumerate(values))

    def marks(self, now: float) -> list[tuple[float, str]]:
        words = {"foreign_traffic": "foreign", "restarted": "restart"}
        found = [(t, "flush") for arm in self.fold.arms.values() for t in arm.flushes]
        for row in self.fold.marks:
            word = words.get(str(row.get("name")))
            if word is not None:
                found.append((float(row["t"]), word))
        return [(t, word) for t, word in sorted(found) if t > now - SPAN_S]

    def _how_far(self, now: float) -> tuple[float | None, float | None]:
        """(share done, seconds left): by the last such run until enough requests of this one have ended."""
        share, began = self.fold.progress, self.fold.started_t
        if began is None:
            return share, None
        spent = max(0.0, now - began)
        if self.usual_s and (share or 0.0) < 0.25 and spent < self.usual_s:
            return max(share or 0.0, min(0.95, spent / self.usual_s)), self.usual_s - spent
        return share, spent * (1 - share) / share if share is not None and share >= 0.05 else None

    def view(self, now: float) -> RunView:
        fold = self.fold
        head = fold.head
        workload = str((head.get("workload") or {}).get("name") or self.folder.name)
        current = fold.arms.get(fold.current or "")
        active = not self.ended and not self.lost()
        parts = [workload]
        if current is not None:
            parts += [f"{current.pass_name} pass", f"{current.concurrency} at a time"]
        share, left = self._how_far(now)
        return RunView(
            run_id=self.folder.name,
            workload=workload,
            arms=tuple(sorted(self.letter(name) for name in fold.arms)),
            active=active,
            task=" ▸ ".join(parts),
            phase=f"{self.letter(current.name)} {self._doing(current, left)}".strip() if current is not None else "",
            share=share if active else None,
            left_s=left if active else None,
            status=fold.status if self.ended else "interrupted" if self.lost() else fold.status,
            reason=fold.reason,
        )

    @staticmethod
    def _doing(arm: LiveArm, left: float | None) -> str:
        """What happens to it. A feed of text that this node never fed before has no time left to show: what it has
        had, and what it waits for, instead."""
        words = str(_PHASES.get(arm.phase, arm.phase))
        if arm.phase != "feed" or left is not None or not arm.tokens_since_flush:
            return words
        return f"{words}, {arm.tokens_since_flush:,} tokens so far, until accept length no longer rises"


_PHASES: dict[str, Any] = {
    "flush": "is being flushed",
    "prime": "is being primed",
    "warmup": "warms up",
    "feed": "is being fed",
    "measure": "is being measured",
    "": "",
}
