"""Runs of the live session: started, followed, stopped, and made into figures and a verdict."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from spectui.core.compare import Comparison, compare
from spectui.core.fairness import side_of
from spectui.core.passes import PassResult
from spectui.core.proposer import FED_TOKENS
from spectui.core.spec import AS_FOUND, ArmSpec
from spectui.session import SessionError, arms, comparing, running
from spectui.session.comparing import ArmSource
from spectui.session.following import Following
from spectui.session.live_arm import LiveArm
from spectui.session.running import RunHandle, RunOptions
from spectui.session.view import StoreView

KEPT_RUNS = 4
FEED_MORE = 128_000
"""Feeding tokens at most where the operator asks for a thorough feed."""


@dataclass(frozen=True, slots=True)
class Figures:
    """The latest measured pass of each arm, and what they say against each other."""

    passes: Mapping[str, PassResult]
    comparison: Comparison | None = None
    answers: str = ""
    final: bool = True
    """False while a run is going on: ratios are of what there is so far, and no verdict is said."""
    note: str = ""
    """Why the two are not compared."""


class Measuring:
    def __init__(self, options: RunOptions) -> None:
        self.options = options
        self.runs: list[Following] = []
        """The run that goes on or ended last, and those before it whose curves are still shown."""
        self.sources: dict[str, ArmSource] = {}
        self.figures = Figures({})
        self.stopping = False
        self._finished: Path | None = None

    @property
    def run(self) -> Following | None:
        return self.runs[-1] if self.runs else None

    @property
    def active(self) -> bool:
        return self.run is not None and not self.run.ended and not self.run.lost()

    def measured_letters(self) -> tuple[str, ...]:
        if self.run is None or not self.active:
            return ()
        return tuple(self.run.letter(name) for name in self.run.fold.arms) or tuple(self.run.letters.values())

    # -- beginning and ending

    def flush_question(self, chosen: Sequence[LiveArm]) -> str:
        """What must be asked before a run may begin; empty where nothing needs to be."""
        from spectui.core.evidence import is_stateful

        if set(self.options.passes) == {AS_FOUND}:
            return ""
        strangers = [a for a in chosen if a.ready and not a.managed and is_stateful(a.algorithm)]
        if not strangers:
            return ""
        names = " and ".join(f"{a.letter} ({a.url})" for a in strangers)
        return (
            f"A {self.options.passes[0]} pass begins with a flush of {names}. spectui did not start it: "
            "a flush empties its caches for everyone who uses it."
        )

    def spec_of(self, arm: LiveArm) -> ArmSpec:
        if not arm.live:
            raise SessionError(f"{arm.letter} is no running server: o chooses one, enter launches a profile")
        if not arm.ready:
            raise SessionError(f"{arm.letter} is not ready: {arm.standing()[1] or 'wait until it is'}")
        assert arm.target is not None
        spec = arms.arm_spec(arm.letter, arm.target, key=arm.key, admin_key=arm.admin_key)
        asked = {"algorithm": arm.algorithm, **(arm.profile.speculative.knobs if arm.profile else {})}
        return replace(spec, label=arm.name, settings_asked=asked)

    def begin(self, chosen: Sequence[LiveArm], options: RunOptions | None = None) -> Following:
        """Measures the arms, in turn where there are two. Raises SessionError."""
        if self.active:
            raise SessionError("a run is going on: x stops it, what was measured is kept")
        specs = [self.spec_of(arm) for arm in chosen]
        handle = running.start(running.build_spec(specs, options or self.options))
        return self.follow(Following(handle, {spec.name: spec.name for spec in specs}))

    def begin_like(self, folder: Path, arm: LiveArm) -> Following:
        """Measures an arm on the prompts of a stored run, so that the two can be paired."""
        if self.active:
            raise SessionError("a run is going on: x stops it, what was measured is kept")
        spec = self.spec_of(arm)
        handle = comparing.rerun_like(folder, spec, self.options)
        return self.follow(Following(handle, {spec.name: arm.letter}))

    def follow(self, run: Following) -> Following:
        run.pump()
        self.stopping = False
        self.runs = [*self.runs, run][-KEPT_RUNS:]
        return run

    def attach(self, handle: RunHandle) -> Following:
        """A run that an earlier spectui began."""
        return self.follow(Following(handle))

    def stop(self) -> None:
        """Ends the run; what was measured is kept."""
        run = self.run
        if run is None or not self.active:
            raise SessionError("no run is going on")
        self.stopping = True
        running.stop(run.handle)

    # -- figures

    def refresh(self, now_arms: Mapping[str, LiveArm]) -> bool:
        """Figures of the run as far as it is; at its end, the verdict. Blocks for some tens of milliseconds."""
        run = self.run
        if run is None:
            return False
        over = run.ended or run.lost()
        if over and self._finished == run.folder:
            return False
        if not run.refold() and not over:
            return False
        if over:
            self._finished = run.folder
            self._finish(run, now_arms)
        elif run.result is not None:
            self._so_far(run)
        return over

    def _so_far(self, run: Following) -> None:
        fresh = {letter: p for letter in "AB" if (p := run.last_pass(letter)) is not None}
        passes = {**{k: v for k, v in self.figures.passes.items() if k not in run.letters.values()}, **fresh}
        both = self._of_run(run)
        self.figures = Figures(passes, both, "", final=False)

    def _of_run(self, run: Following) -> Comparison | None:
        a, b = run.last_pass("A"), run.last_pass("B")
        if run.result is None or a is None or b is None or a.key[1:] != b.key[1:]:
            return None
        try:
            return compare(side_of(run.result, a.key, name="A"), side_of(run.result, b.key, name="B"))
        except (ValueError, ZeroDivisionError, KeyError):
            return None  # too little of either so far

    def _finish(self, run: Following, now_arms: Mapping[str, LiveArm]) -> None:
        result = run.result
        if result is not None:
            for name in result.arms:
                self.sources[run.letter(name)] = ArmSource(result, name, run.folder)
        self.compare_again(now_arms)

    def compare_again(self, now_arms: Mapping[str, LiveArm]) -> None:
        """The latest figures of A against those of B, stored runs included."""
        for letter, arm in now_arms.items():
            if arm.stored is not None:
                self.sources[letter] = arm.stored
        passes: dict[str, PassResult] = {}
        for letter, source in self.sources.items():
            mine = [p for key, p in source.result.passes.items() if key[0] == source.arm]
            if mine:
                passes[letter] = mine[-1]
        if not {"A", "B"} <= passes.keys():
            self.figures = Figures(passes)
            return
        try:
            compared = comparing.compare_sources(self.sources["A"], self.sources["B"])
        except SessionError as error:
            self.figures = Figures(passes, note=str(error))
            return
        last = compared.rows[-1]
        for letter in "AB":
            key = (self.sources[letter].arm, last.concurrency, compared.pass_name)
            passes[letter] = self.sources[letter].result.passes.get(key, passes[letter])
        self.figures = Figures(passes, last, compared.answers)

    def forget(self, letter: str) -> None:
        """The arm is another one now: its figures are no longer its own."""
        self.sources.pop(letter, None)
        self.figures = Figures({k: v for k, v in self.figures.passes.items() if k != letter})

    def last_source(self, letter: str) -> tuple[Path | None, PassResult | None]:
        source = self.sources.get(letter)
        return (source.folder if source is not None else None), self.figures.passes.get(letter)

    def with_arm(self, letter: str) -> Following | None:
        """The latest run that measured this arm."""
        return next((run for run in reversed(self.runs) if run.arm(letter) is not None), None)

    def store_of(self, letter: str, now: float, started: float | None = None) -> StoreView:
        """What the n-gram store of an arm knows, as far as it was seen. ``started``: when its server was launched."""
        run = self.with_arm(letter)
        found = run.arm(letter) if run is not None else None
        seen = (found.last_t or 0.0) if found is not None else 0.0
        if started is not None and started > seen:
            age = max(0.0, now - started)
            return StoreView("cold", 0.0, f"empty: it was started {age // 60:.0f}:{age % 60:02.0f} ago, nothing fed")
        if found is None or found.flushed_at is None:
            return StoreView("unknown", None, "no flush was seen yet: what it has learned is not known")
        tokens = found.tokens_since_flush
        age = max(0.0, now - found.flushed_at)
        name = "cold" if tokens < FED_TOKENS / 2 else "warming" if tokens < FED_TOKENS else "fed"
        if name == "fed" and self.active and found.phase == "feed":
            name = "warming"  # the runner feeds on until it is steady
        last = self.figures.passes.get(letter)
        if last is not None and not self.active and last.proposer_state.name in ("cold", "warming", "fed", "saturated"):
            name = last.proposer_state.name
        most = {"saturated": 1.0, "fed": 0.75, "cold": 0.25}.get(name, 0.67)
        level = most if name == "saturated" else min(most, 0.75 * tokens / FED_TOKENS)
        count = f"{tokens / 1000:.0f}k" if tokens >= 10_000 else f"{tokens:,}"
        return StoreView(name, level, f"{count} tokens since the flush {int(age // 60)}:{int(age % 60):02d} ago")


def feeding(options: RunOptions) -> RunOptions:
    """The same work as a warm pass with a thorough feed."""
    return replace(options, passes=("warm",), feed_tokens=max(options.feed_tokens, FEED_MORE))
