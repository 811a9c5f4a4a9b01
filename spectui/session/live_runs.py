"""The live session's runs: measure an arm, feed it first, compare both, stop, and say how it ended."""

from __future__ import annotations

import threading
from dataclasses import replace

from spectui.session import SessionError
from spectui.session.following import Following
from spectui.session.live_base import LETTERS, LiveBase
from spectui.session.live_history import seconds_of_last
from spectui.session.measuring import feeding
from spectui.session.predicting import note_miss
from spectui.session.running import RunOptions
from spectui.session.table import off_words

_LOOK_S = 0.3


class Runs(LiveBase):
    def run(self, *, flush: str | None = None) -> str:
        """Measures the arm in focus."""
        return self._begun(self.measuring.begin([self.focused], self._options(flush)))

    def feed(self, *, flush: str | None = None) -> str:
        """Flushes, feeds until it is steady, measures: both arms where both were measured before."""
        chosen = [self.focused]
        other = self.other(self.focused)
        if {"A", "B"} <= self.measuring.figures.passes.keys() and other.ready:
            chosen = [self.arms[letter] for letter in LETTERS]
        return self._begun(self.measuring.begin(chosen, feeding(self._options(flush))))

    def compare(self, *, flush: str | None = None) -> str:
        """Both arms in turn; a live one against a stored run on its prompts; two stored runs at once."""
        a, b = (self.arms[letter] for letter in LETTERS)
        for arm in (a, b):
            if arm.empty:
                raise SessionError(f"{arm.letter} is empty: o chooses a server or a stored run for it")
        if a.stored is not None and b.stored is not None:
            self.measuring.compare_again(self.arms)
            return "compared two stored runs"
        if a.stored is not None or b.stored is not None:
            stored, fresh = (a, b) if a.stored is not None else (b, a)
            assert stored.stored is not None
            self.measuring.begin_like(stored.stored.folder, fresh)
            return f"measuring {fresh.letter} on the prompts of {stored.name}"
        if a.url == b.url:
            raise SessionError("A and B are the same server: o chooses another, or compare with a stored run")
        return self._begun(self.measuring.begin([a, b], self._options(flush)))

    def _begun(self, run: Following) -> str:
        """Until its own progress tells, the time left is that of the last such run: looked for aside."""

        def look() -> None:
            while not run.fold.head and not run.ended and not run.lost() and not self.closing:
                self._closing.wait(_LOOK_S)
            run.usual_s = seconds_of_last(run.folder)

        threading.Thread(target=look, name="usual-time", daemon=True).start()
        return ""

    def flush_question(self, both: bool) -> str:
        """What must be asked before a run; nothing where the run cannot begin anyway."""
        if both and any(arm.empty for arm in self.arms.values()):
            return ""
        return self.measuring.flush_question(list(self.arms.values()) if both else [self.focused])

    def _options(self, flush: str | None) -> RunOptions:
        options = self.measuring.options
        return options if flush is None else replace(options, flush=flush)

    def stop(self) -> str:
        """Ends the run, or a start that is being waited for."""
        busy = next((arm for arm in self.arms.values() if arm.busy), None)
        if busy is not None and not self.measuring.active:
            self.changing.cancelled.add(busy.letter)
            return f"stopping the start of {busy.letter}"
        self.measuring.stop()
        return "the run was stopped; what was measured is kept"

    def _say_end(self) -> None:
        run = self.measuring.run
        if run is None:
            return
        view = run.view(self.clock())
        if view.status in ("failed", "interrupted"):
            stopped = self.measuring.stopping or view.status == "interrupted"
            word = "the run was stopped" if stopped else f"the run failed: {view.reason or 'it gave no reason'}"
            self.say(f"{word}; what was measured is kept in {view.run_id}", "warn" if stopped else "bad")
            return
        for letter, prediction in list(self.predicted.items()):
            result = self.measuring.figures.passes.get(letter)
            length = prediction.accept_length
            if result is None or result.accept_length is None or length is None or letter not in view.arms:
                continue
            if run.result is not None and view.status == "complete":
                arm = self.arms[letter]
                self.predicted[letter] = note_miss(prediction, arm.name, run.folder, run.result, result)
            shown = f"accept length {result.accept_length:.2f} measured, {length:.2f} predicted"
            self.say(f"{letter}: {shown} ({off_words(result.accept_length, length)})", "good", 15)
