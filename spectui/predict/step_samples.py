"""Step times as runs gave them, and how far two runs of one setting lie apart. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import log, sqrt

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


def run_to_run(samples: Sequence[StepSample]) -> float:
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
