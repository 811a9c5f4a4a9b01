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
from spectui.predict.step_points import Point, narrower, read
from spectui.predict.step_samples import RUN_TO_RUN, Setup, StepSample, ratio_spread, run_to_run

__all__ = [
    "RUN_TO_RUN",
    "BreakEven",
    "Length",
    "Prediction",
    "Setup",
    "StepSample",
    "StepTime",
    "StepTimeModel",
    "predict",
    "ratio_spread",
]

STEPS_ASSUMED = 0.10
"""Added where only a run with another number of draft steps is known."""


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


@dataclass(frozen=True)
class StepTimeModel:
    """Step time by algorithm, width and concurrency, from samples of one setup."""

    samples: tuple[StepSample, ...]
    run_to_run: float = field(default=RUN_TO_RUN)

    @classmethod
    def of(cls, samples: Iterable[StepSample], setup: Setup | None = None) -> StepTimeModel:
        """From the samples that match the setup, with the spread between runs that they show."""
        kept = tuple(s for s in samples if setup is None or setup.matches(s.setup))
        return cls(kept, run_to_run(kept))

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
        found = read(points, log(concurrency), f"{concurrency} at a time", "at a time", flat=False)
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

    def _by_width(self, level: int, rows: Sequence[StepSample], width: int) -> Point:
        widths: dict[int, list[StepSample]] = {}
        for row in rows:
            widths.setdefault(row.width, []).append(row)
        points = [self._pool(w, same) for w, same in sorted(widths.items())]
        plain = [s for s in self.samples if s.algorithm == "none" and s.concurrency == level]
        if width < points[0].at and plain:
            return replace(narrower(points[0], self._pool(1, plain), width), at=log(level))
        found = read(points, float(width), f"{width} draft tokens", "draft tokens", flat=True)
        return replace(found, at=log(level))

    def _pool(self, width: int, rows: Sequence[StepSample]) -> Point:
        """Runs of one setting taken together; a next run lies as far off as they lie from each other."""
        weights = [1.0 / (r.log_error**2 + self.run_to_run**2) for r in rows]
        mean = sum(w * log(r.step_ms) for w, r in zip(weights, rows, strict=True)) / sum(weights)
        return Point(float(width), mean, 1.0 / sum(weights) + self.run_to_run**2, samples=len(rows))


def _follows_width(rows: Sequence[StepSample]) -> bool:
    """Draft steps say nothing beyond the width: chains (width − 1 steps), or no draft model."""
    return all(r.draft_steps in (0, r.width - 1) for r in rows)


def _interval(value: float, error: float) -> tuple[float, float]:
    reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * error
    return value * exp(-reach), value * exp(min(reach, 300.0))
