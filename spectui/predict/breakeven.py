"""What a step costs on this node, and what an accept length is worth there: break-even and predicted throughput.

Step times come from runs that were measured here (``predict/step_times.py`` reads them). Between measured widths and
concurrencies they are interpolated; beyond them they are extrapolated, which the result says, with a wider interval.
Algorithms are kept apart: a chain of n drafts runs its draft model n times a step, a store of n-grams does not.

Errors are standard errors of logarithms, so that they add where values are multiplied. Pure: no clock, no files.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import exp, hypot, log, sqrt
from statistics import NormalDist

from spectui.core.estimate import LEVEL

RUN_TO_RUN = 0.03
"""Standard deviation of the logarithm of a step time between two runs of one setting, until a node has shown its own:
clocks, batch shapes and what else the node does."""
BETWEEN = 0.02
"""Added for reading between two measured points, a step time being no straight line."""
BEYOND = 0.25
"""Added for each doubling of width or concurrency beyond what was measured."""
STEPS_ASSUMED = 0.10
"""Added where only a run with another number of draft steps is known."""


@dataclass(frozen=True, slots=True)
class Setup:
    """What step times of two runs must have in common to be comparable. None: not known, and then it matches any."""

    model: str | None = None
    simulated: bool | None = None
    version: str | None = None
    tp_size: int | None = None
    gpus: tuple[str, ...] | None = None
    """Names of the node's GPUs."""
    details: tuple[tuple[str, object], ...] = ()
    """Further arguments of the server that change what a step costs, by name."""

    def matches(self, other: Setup) -> bool:
        mine = (self.model, self.simulated, self.version, self.tp_size, self.gpus)
        theirs = (other.model, other.simulated, other.version, other.tp_size, other.gpus)
        if any(a is not None and b is not None and a != b for a, b in zip(mine, theirs, strict=True)):
            return False
        known = dict(other.details)
        return all(value is None or known.get(key) in (None, value) for key, value in self.details)


@dataclass(frozen=True, slots=True)
class StepSample:
    """One pass of one run, as far as its step time goes."""

    setup: Setup
    algorithm: str
    width: int
    """Tokens verified a step: draft tokens, 1 without speculation."""
    draft_steps: int
    """Passes of a draft model in each step; 0 where there is none."""
    concurrency: int
    step_ms: float
    log_error: float
    """Over the requests of the pass."""
    overhead_s: float = 0.0
    """Seconds of a request's share of the wall clock that no verify step explains: prefill, queue, the tail."""
    tokens: float = 0.0
    """Mean output tokens of a request."""
    run: str = ""


@dataclass(frozen=True, slots=True)
class StepTime:
    ms: float
    log_error: float
    extrapolated: bool = False
    why: str = ""
    """What it was extrapolated from, in words."""
    samples: int = 1

    @property
    def interval(self) -> tuple[float, float]:
        return _interval(self.ms, self.log_error)


@dataclass(frozen=True, slots=True)
class BreakEven:
    """The accept length beyond which speculation is faster than none, at one concurrency."""

    accept_length: float
    low: float
    high: float
    extrapolated: bool = False
    why: str = ""


@dataclass(frozen=True, slots=True)
class Length:
    """A predicted accept length and how far such predictions were off."""

    value: float
    log_error: float
    kind: str
    """exact replay, other text, several at a time, chain, none."""
    note: str = ""

    @property
    def interval(self) -> tuple[float, float]:
        low, high = _interval(self.value, self.log_error)
        return max(1.0, low), max(1.0, high)


@dataclass(frozen=True, slots=True)
class Prediction:
    """Throughput that a setting should reach at one concurrency."""

    concurrency: int
    accept_length: float
    step_ms: float
    tokens_per_s: float
    low: float
    high: float
    log_error: float
    kind: str
    extrapolated: bool = False
    note: str = ""

    def as_json(self) -> dict[str, object]:
        return {
            "concurrency": self.concurrency,
            "accept_length": self.accept_length,
            "step_time_ms": self.step_ms,
            "tokens_per_s": self.tokens_per_s,
            "interval": [self.low, self.high],
            "kind": self.kind,
            "extrapolated": self.extrapolated,
            "note": self.note,
        }


def ratio_spread(over: Sequence[float], under: Sequence[float]) -> tuple[float, float] | None:
    """Σ over / Σ under and the standard error of its logarithm, the rows being independent. None of nothing; of one
    row the error is not known, and 0.5 is given, which says nothing of it is sure."""
    total, base = sum(over), sum(under)
    if not under or total <= 0 or base <= 0:
        return None
    ratio, n = total / base, len(under)
    if n < 2:
        return ratio, 0.5
    left = sum((a - ratio * b) ** 2 for a, b in zip(over, under, strict=True))
    return ratio, sqrt(n / (n - 1) * left) / total


def predict(
    length: Length, step: StepTime, concurrency: int, *, tokens: float | None = None, overhead_s: float = 0.0
) -> Prediction:
    """Output tokens a second of ``concurrency`` requests: accept length / step time, each.

    ``tokens`` and ``overhead_s``, of a request, from a run of the same workload: the seconds that no step explains are
    then part of it, and the first token is the prefill's.
    """
    per_token = step.ms / 1000 / length.value
    decode = (tokens - 1) * per_token if tokens is not None and tokens > 1 else None
    speed = (
        concurrency / per_token if decode is None or tokens is None else concurrency * tokens / (overhead_s + decode)
    )
    share = 1.0 if decode is None else decode / (overhead_s + decode)
    error = hypot(length.log_error, step.log_error) * share
    low, high = _interval(speed, error)
    notes = [text for text in (length.note, step.why) if text]
    return Prediction(
        concurrency, length.value, step.ms, speed, low, high, error, length.kind, step.extrapolated, "; ".join(notes)
    )


@dataclass(frozen=True, slots=True)
class _Point:
    at: float
    value: float
    """Logarithm of a step time."""
    variance: float
    why: tuple[str, ...] = ()
    """How this point was itself extrapolated."""
    samples: int = 1


@dataclass(frozen=True)
class StepTimeModel:
    """Step time by algorithm, width and concurrency, from samples of one setup."""

    samples: tuple[StepSample, ...]
    run_to_run: float = field(default=RUN_TO_RUN)

    @classmethod
    def of(cls, samples: Iterable[StepSample], setup: Setup | None = None) -> StepTimeModel:
        """From the samples that match the setup, with the spread between runs that they show."""
        kept = tuple(s for s in samples if setup is None or setup.matches(s.setup))
        return cls(kept, _run_to_run(kept))

    def at(self, algorithm: str, width: int, concurrency: int, *, draft_steps: int | None = None) -> StepTime | None:
        """None where no run of the algorithm is known. ``draft_steps``: None where it does not matter."""
        mine = [s for s in self.samples if s.algorithm == algorithm]
        other = 0.0
        if draft_steps is not None and not _follows_width(mine):
            same = [s for s in mine if s.draft_steps == draft_steps]
            other = 0.0 if same else STEPS_ASSUMED
            mine = same or mine
        if not mine:
            return None
        levels: dict[int, list[StepSample]] = {}
        for sample in mine:
            levels.setdefault(sample.concurrency, []).append(sample)
        if concurrency in levels:
            levels = {concurrency: levels[concurrency]}
        points = [self._by_width(level, rows, width) for level, rows in sorted(levels.items())]
        found = _read(points, log(concurrency), f"{concurrency} at a time", "at a time", flat=False)
        why = list(found.why)
        value = found.value + self._slower(algorithm, levels, concurrency)
        if other:
            why.append(f"step time of {algorithm} with other draft steps")
        return StepTime(exp(value), sqrt(found.variance + other**2), bool(why), "; ".join(why), found.samples)

    def _slower(self, algorithm: str, levels: Mapping[int, object], concurrency: int) -> float:
        """Of an algorithm that ran at one concurrency only: a step grows with the batch as it does without speculation,
        at the least. Logarithm of the factor."""
        if algorithm == "none" or len(levels) != 1 or concurrency in levels:
            return 0.0
        there, here = self.baseline(concurrency), self.baseline(next(iter(levels)))
        if there is None or here is None or there.extrapolated or here.extrapolated:
            return 0.0
        return log(there.ms / here.ms)

    def baseline(self, concurrency: int) -> StepTime | None:
        return self.at("none", 1, concurrency)

    def break_even(
        self, algorithm: str, width: int, concurrency: int, *, draft_steps: int | None = None
    ) -> BreakEven | None:
        """Step time with speculation over step time without, at the same concurrency; None where either is unknown, and
        without speculation, which has nothing to break even with."""
        if algorithm == "none":
            return None
        with_it, without = self.at(algorithm, width, concurrency, draft_steps=draft_steps), self.baseline(concurrency)
        if with_it is None or without is None:
            return None
        value = with_it.ms / without.ms
        low, high = _interval(value, hypot(with_it.log_error, without.log_error))
        why = "; ".join(text for text in (with_it.why, without.why) if text)
        return BreakEven(value, low, high, with_it.extrapolated or without.extrapolated, why)

    def request(self, concurrency: int) -> tuple[float, float] | None:
        """(output tokens, overhead in seconds) of a request, from the runs nearest in concurrency; None without one."""
        known = [s for s in self.samples if s.tokens > 1]
        if not known:
            return None
        nearest = min(abs(log(s.concurrency / concurrency)) for s in known)
        rows = [s for s in known if abs(log(s.concurrency / concurrency)) <= nearest + 1e-9]
        return sum(s.tokens for s in rows) / len(rows), sum(s.overhead_s for s in rows) / len(rows)

    def known(self, algorithm: str) -> tuple[int, ...]:
        """Widths that were measured."""
        return tuple(sorted({s.width for s in self.samples if s.algorithm == algorithm}))

    def with_samples(self, samples: Iterable[StepSample]) -> StepTimeModel:
        return replace(self, samples=(*self.samples, *samples))

    def _by_width(self, level: int, rows: Sequence[StepSample], width: int) -> _Point:
        widths: dict[int, list[StepSample]] = {}
        for row in rows:
            widths.setdefault(row.width, []).append(row)
        points = [self._pool(w, same) for w, same in sorted(widths.items())]
        plain = [s for s in self.samples if s.algorithm == "none" and s.concurrency == level]
        if width < points[0].at and plain:
            return replace(_narrower(points[0], self._pool(1, plain), width), at=log(level))
        found = _read(points, float(width), f"{width} draft tokens", "draft tokens", flat=True)
        return replace(found, at=log(level))

    def _pool(self, width: int, rows: Sequence[StepSample]) -> _Point:
        """Runs of one setting taken together; a next run lies as far off as they lie from each other."""
        weights = [1.0 / (r.log_error**2 + self.run_to_run**2) for r in rows]
        mean = sum(w * log(r.step_ms) for w, r in zip(weights, rows, strict=True)) / sum(weights)
        return _Point(float(width), mean, 1.0 / sum(weights) + self.run_to_run**2, samples=len(rows))


def _follows_width(rows: Sequence[StepSample]) -> bool:
    """Draft steps say nothing beyond the width: chains (width − 1 steps), or no draft model."""
    return all(r.draft_steps in (0, r.width - 1) for r in rows)


def _read(points: Sequence[_Point], at: float, wanted: str, unit: str, *, flat: bool) -> _Point:
    """Between two points along a line, beyond the last along the last two (``flat``: towards less, the nearest one is
    taken as it is; a narrower step is not much cheaper), of a single point as it is."""
    for point in points:
        if abs(point.at - at) < 1e-9:
            return point
    below = [p for p in points if p.at < at]
    above = [p for p in points if p.at > at]
    if below and above:
        a, b = below[-1], above[0]
        share = (at - a.at) / (b.at - a.at)
        variance = (1 - share) ** 2 * a.variance + share**2 * b.variance + BETWEEN**2
        value = log((1 - share) * exp(a.value) + share * exp(b.value))
        return _Point(at, value, variance, (*a.why, *b.why), a.samples + b.samples)
    near = above[0] if above else below[-1]
    value = near.value
    rest = above[1:] if above else below[:-1]
    if rest and not (flat and above):
        far = rest[0] if above else rest[-1]
        slope = (exp(near.value) - exp(far.value)) / (near.at - far.at)
        value = log(max(exp(near.value) + slope * (at - near.at), 0.2 * exp(near.value)))
    doublings = abs(at - near.at) / log(2) if unit == "at a time" else abs(log(max(at, 1) / max(near.at, 1))) / log(2)
    have = f"{exp(near.at):.0f}" if unit == "at a time" else f"{near.at:.0f}"
    why = f"step time at {wanted} extrapolated from {have} {unit}"
    return _Point(at, value, near.variance + (BEYOND * doublings) ** 2, (*near.why, why), near.samples)


def _narrower(near: _Point, plain: _Point, width: int) -> _Point:
    """Narrower than all that was measured: no dearer than the narrowest that was, and at best on the line down to a
    step without speculation. What is fixed in a verify step (host work, the draft) decides where between; the middle
    is taken, and the span counts as four standard deviations."""
    line = exp(plain.value) + (exp(near.value) - exp(plain.value)) * (width - 1) / max(near.at - 1, 1.0)
    span = max(0.0, near.value - log(max(line, 1e-9)))
    why = f"step time at {width} draft tokens extrapolated from {near.at:.0f} draft tokens and no speculation"
    variance = near.variance + (span / 4) ** 2 + BETWEEN**2
    return _Point(float(width), near.value - span / 2, variance, (*near.why, why), near.samples)


def _run_to_run(samples: Sequence[StepSample]) -> float:
    """Standard deviation between runs of the same point, beyond what their requests explain; the assumed one counts as
    two such runs, so that two runs that happen to agree do not promise too much."""
    groups: dict[tuple[str, int, int, int], list[StepSample]] = {}
    for s in samples:
        groups.setdefault((s.algorithm, s.width, s.draft_steps, s.concurrency), []).append(s)
    squares, freedom = 2 * RUN_TO_RUN**2, 2
    for rows in groups.values():
        if len(rows) > 1:
            values = [log(r.step_ms) for r in rows]
            mean = sum(values) / len(values)
            within = sum(r.log_error**2 for r in rows) / len(rows)
            squares += max(0.0, sum((v - mean) ** 2 for v in values) - (len(rows) - 1) * within)
            freedom += len(rows) - 1
    return sqrt(squares / freedom)


def _interval(value: float, error: float) -> tuple[float, float]:
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * error
    return value * exp(-reach), value * exp(min(reach, 300.0))
