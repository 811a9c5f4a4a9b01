"""The order of a sweep: what runs next, what need not run, how long it takes, when an arm has lost.

Planned anew after each result, from everything known by then, so what was dropped because of a setting that then fails
comes back by itself. Pure: the caller brings the clock.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from math import hypot, log
from statistics import NormalDist

from spectui.core.blocks import Block, blocks_of
from spectui.core.request import RequestRecord
from spectui.core.sample import MIN_UNITS, Sequential
from spectui.core.stats import ratio_of_throughput
from spectui.predict.breakeven import Prediction
from spectui.predict.settings_grid import Setting, launch_groups

LATEST = 0.8
"""Share of the requests after which a run is no longer ended early: it is nearly done."""

Cell = tuple[str, int]
"""(name of the setting, concurrency): what one run measures."""


@dataclass(frozen=True, slots=True)
class Measured:
    """What a cell came to. ``fair``: nothing speaks against holding others to it."""

    tokens_per_s: float
    low: float
    high: float
    log_error: float
    fair: bool = True


@dataclass(frozen=True, slots=True)
class Costs:
    """Seconds by name and by cell. What is missing is a guess, and the estimate says so."""

    start_s: Mapping[str, float] = field(default_factory=dict)
    run_s: Mapping[Cell, float] = field(default_factory=dict)
    guessed: bool = False
    """Some of them are guesses, for want of a run on this node."""
    start_guess_s: float = 120.0
    run_guess_s: float = 60.0
    extra_s: float = 0.0
    """Once, for what belongs to no cell."""

    def start(self, name: str) -> float:
        return self.start_s.get(name, self.start_guess_s)

    def run(self, cell: Cell) -> float:
        return self.run_s.get(cell, self.run_guess_s)


@dataclass(frozen=True, slots=True)
class Launch:
    """One start of a server and what is measured on it, in order; the first cells need no change of settings."""

    cells: tuple[Cell, ...]
    seconds: float

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(dict.fromkeys(name for name, _ in self.cells))


@dataclass(frozen=True, slots=True)
class Clock:
    """What is left to do."""

    settings: int
    restarts: int
    seconds: float
    ends: float
    """Epoch seconds."""
    guessed: bool = False

    @property
    def text(self) -> str:
        """``11 settings, 4 restarts, 14 minutes, ends 16:40``"""
        minutes = round(self.seconds / 60)
        lasts = _many(round(self.seconds), "second") if self.seconds < 90 else _many(minutes, "minute")
        end = datetime.fromtimestamp(self.ends)
        words = [_many(self.settings, "setting"), _many(self.restarts, "restart"), lasts, f"ends {end:%H:%M}"]
        return ", ".join(words) + (" (a guess: no such run on this node yet)" if self.guessed else "")


@dataclass(frozen=True, slots=True)
class SweepPlan:
    launches: tuple[Launch, ...]
    """In the order in which they pay, the running server's rest first."""
    skipped: Mapping[Cell, str]
    """Predicted losers, with the reason."""
    clock: Clock

    @property
    def cells(self) -> tuple[Cell, ...]:
        return tuple(cell for launch in self.launches for cell in launch.cells)

    def dropped(self, concurrency: Collection[int]) -> dict[str, str]:
        """Settings of which no cell is left to run, all having been skipped, with the reason of the first."""
        names = dict.fromkeys(name for name, _ in self.skipped)
        return {n: self.skipped[n, min(concurrency)] for n in names if all((n, c) in self.skipped for c in concurrency)}


def plan(
    settings: Sequence[Setting],
    concurrency: Sequence[int],
    *,
    predicted: Mapping[Cell, Prediction],
    measured: Mapping[Cell, Measured],
    failed: Collection[str] = (),
    done: Collection[Cell] = (),
    costs: Costs,
    now: float,
    keep_losers: bool = False,
    running: str | None = None,
) -> SweepPlan:
    """What to do from here.

    ``settings``: those that can run. ``done``: cells that need no run any more, whether or not they gave a figure.
    ``running``: the setting that the server in hand was started with, or changed to: what needs no restart goes first.
    The setting without speculation is never dropped: everything is held against it.
    """
    open_cells = [
        (s, (s.name, c)) for s in settings if s.name not in failed for c in concurrency if (s.name, c) not in done
    ]
    skipped: dict[Cell, str] = {}
    for setting, cell in open_cells:
        if not keep_losers and setting.algorithm != "none":
            why = _loses(cell, predicted, measured, failed)
            if why:
                skipped[cell] = why
    left = [(s, cell) for s, cell in open_cells if cell not in skipped]
    worth = _worths(settings, left, predicted, measured)
    launches: list[tuple[float, Launch]] = []
    for group in launch_groups(settings):
        names = [s.name for s in group]
        mine = [cell for _, cell in left if cell[0] in names]
        if not mine:
            continue
        warm = running in names
        if warm and running is not None:
            mine.sort(key=lambda cell: cell[0] != running)
        seconds = (0.0 if warm else costs.start(group[0].name)) + sum(costs.run(cell) for cell in mine)
        rate = sum(worth[cell] for cell in mine) / max(seconds, 0.1)
        first = any(s.algorithm == "none" for s in group)
        launches.append((float("inf") if warm else 1e12 + rate if first else rate, Launch(tuple(mine), seconds)))
    launches.sort(key=lambda entry: -entry[0])
    ordered = tuple(launch for _, launch in launches)
    total = costs.extra_s + sum(launch.seconds for launch in ordered)
    restarts = sum(1 for rank, _ in launches if rank != float("inf"))
    many = len({name for launch in ordered for name in launch.names})
    return SweepPlan(ordered, skipped, Clock(many, restarts, total, now + total, costs.guessed and bool(ordered)))


def _loses(
    cell: Cell, predicted: Mapping[Cell, Prediction], measured: Mapping[Cell, Measured], failed: Collection[str]
) -> str | None:
    """Its whole interval lies below that of another one."""
    mine = predicted.get(cell)
    if mine is None:
        return None
    rivals = [(m.low, m.high, name, "measured") for (name, c), m in measured.items() if c == cell[1] and m.fair]
    rivals += [
        (p.low, p.high, name, "predicted")
        for (name, c), p in predicted.items()
        if c == cell[1] and name != cell[0] and name not in failed and (name, c) not in measured
    ]
    low, high, name, how = max(rivals, default=(0.0, 0.0, "", ""))
    if mine.high >= low:
        return None
    return (
        f"predicted {mine.low:,.0f}–{mine.high:,.0f} tok/s at {cell[1]} at a time, below {name} "
        f"({how} {low:,.0f}–{high:,.0f})"
    )


def _worths(
    settings: Sequence[Setting],
    left: Sequence[tuple[Setting, Cell]],
    predicted: Mapping[Cell, Prediction],
    measured: Mapping[Cell, Measured],
) -> dict[Cell, float]:
    """What a run of each cell would teach: the chance that it is the best, and what others learn from it.

    A setting without a prediction may be anything (1/2). Where settings of one algorithm have no step time of their
    own yet, or an extrapolated one, the one that lies farthest from what is known tells most about the others.
    """
    found: dict[Cell, float] = {}
    anchors = _anchors(settings, left, predicted, measured)
    for setting, cell in left:
        mine = predicted.get(cell)
        best = _best(cell[1], predicted, measured, cell)
        chance = 0.5
        if mine is not None and best is not None:
            spread = max(hypot(mine.log_error, best[1]), 1e-6)
            chance = NormalDist().cdf((log(mine.tokens_per_s) - log(best[0])) / spread)
        found[cell] = chance + (0.5 * anchors[setting.name] if setting.name in anchors else 0.0)
    return found


def _best(
    concurrency: int, predicted: Mapping[Cell, Prediction], measured: Mapping[Cell, Measured], without: Cell
) -> tuple[float, float] | None:
    """(tokens a second, error) of the best other one."""
    rows = [(m.tokens_per_s, m.log_error) for (_, c), m in measured.items() if c == concurrency and m.fair]
    rows += [
        (p.tokens_per_s, p.log_error)
        for cell, p in predicted.items()
        if cell[1] == concurrency and cell != without and cell not in measured
    ]
    return max(rows, default=None)


def _anchors(
    settings: Sequence[Setting],
    left: Sequence[tuple[Setting, Cell]],
    predicted: Mapping[Cell, Prediction],
    measured: Mapping[Cell, Measured],
) -> dict[str, int]:
    """Setting -> how many others of its algorithm a run of it would help to predict: the widest one first, then, with
    that known, the narrowest, which closes the span that the others lie in."""
    waiting: dict[str, dict[str, Setting]] = {}
    for setting, cell in left:
        mine = predicted.get(cell)
        if setting.algorithm != "none" and (mine is None or mine.extrapolated):
            waiting.setdefault(setting.algorithm, {})[setting.name] = setting
    found = {}
    for algorithm, rows in waiting.items():
        if len(rows) < 2:
            continue
        names = {name for name, _ in measured}
        known = [s.width for s in settings if s.algorithm == algorithm and s.name in names]
        widest = max(rows.values(), key=lambda s: s.width)
        narrowest = min(rows.values(), key=lambda s: s.width)
        anchor = widest if not known or widest.width > max(known) else narrowest
        found[anchor.name] = len(rows) - 1
    return found


def _many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


class EarlyStop:
    """Watches a run against the best so far at the same concurrency, and says when it cannot win any more.

    Looks are few and share one error rate (:class:`spectui.core.sample.Sequential`), prompts are paired. ``noise``:
    standard deviation of the logarithm between two runs of one setting on this node.
    """

    def __init__(
        self,
        best: Sequence[RequestRecord],
        *,
        name: str,
        speculative: bool,
        planned: int,
        noise: float,
    ) -> None:
        self._name = name
        self._best: list[Block] = blocks_of(best, speculative=speculative, whole_blocks=False)
        self._looks = Sequential(max(planned, 1))
        self._planned = planned
        self._noise = noise
        self._next = MIN_UNITS
        self._records: list[RequestRecord] = []

    def add(self, record: RequestRecord, *, speculative: bool) -> str | None:
        """A measured request has ended. The reason to stop, or None."""
        self._records.append(record)
        n = len(self._records)
        if n < self._next or n > LATEST * self._planned:
            return None
        self._next = n + max(1, self._planned // 8)
        mine = blocks_of(self._records, speculative=speculative, whole_blocks=False)
        known = {block.id for block in mine}
        theirs = [block for block in self._best if block.id in known]
        estimate = ratio_of_throughput(mine, theirs, noise=self._noise)
        if estimate is None:
            return None
        _, shown, self._looks = self._looks.look(estimate)
        if shown.high >= 1.0:
            return None
        return (
            f"cannot win: {shown.ratio:.2f}× (up to {shown.high:.2f}×) of {self._name} after {n} of "
            f"{self._planned} requests"
        )
