"""How many more, when to stop, and what this node makes of a setting against itself."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import ceil, exp, inf, log, sqrt

from spectui.core.estimate import LEVEL, Estimate
from spectui.core.students import normal_cdf, normal_quantile, t_quantile

MIN_UNITS = 5
"""Pairs below which nominal 95 % does not hold, prompts being as unlike as they are."""
DIFFERENCE = 0.05
"""The smallest difference that is looked for."""
POWER = 0.80
OUT_OF_REACH = 400
"""Pairs; more than most would wait for."""


@dataclass(frozen=True, slots=True)
class Need:
    """What it takes to see a difference of ``difference`` four times out of five."""

    total: int
    more: int
    reachable: bool
    text: str


def needs_blocks(estimate: Estimate, *, difference: float = DIFFERENCE, power: float = POWER) -> Need:
    """How many more units like those measured. The spread is itself an estimate; it is taken one standard error of its
    own above what was seen (at most half again), so that few units do not promise too much."""
    n = estimate.units
    if n < 2 or estimate.log_error == inf:
        return Need(MIN_UNITS, max(0, MIN_UNITS - n), True, f"needs at least {MIN_UNITS} {estimate.unit}")
    margin = min(1.5, 1.0 + sqrt(1.0 / (2.0 * max(1.0, estimate.freedom))))
    spread = estimate.log_error * sqrt(n) * margin
    wanted = log(1.0 + difference)
    # A spread that two or three blocks tell is hardly one: the sample must hold as many as an interval needs anyway.
    least = max(float(MIN_UNITS), n * MIN_UNITS / (estimate.freedom + 1.0))
    total = least
    for _ in range(12):
        freedom = max(1.0, round(estimate.freedom * total / n, 1))
        sigmas = t_quantile(0.5 + LEVEL / 2.0, freedom) + normal_quantile(power)
        total = max(least, (sigmas * spread / wanted) ** 2)
    asked = ceil(total)
    more = max(0, asked - n)
    if asked > OUT_OF_REACH:
        text = (
            f"a difference of {100 * difference:.0f} % is out of reach here: {estimate.unit} differ so much that about "
            f"{asked:,} of them were needed; step time and accept length apart settle sooner"
        )
        return Need(asked, more, False, text)
    if not more:
        return Need(asked, 0, True, f"{n} {estimate.unit} are enough to see a difference of {100 * difference:.0f} %")
    return Need(asked, more, True, f"needs about {more:,} more {estimate.unit} to see {100 * difference:.0f} %")


@dataclass(frozen=True, slots=True)
class Sequential:
    """Looks at growing samples that together keep the error rate: O'Brien and Fleming's boundary by spending.

    Each look may spend what the spending function has released since the look before; the sum of what was spent never
    passes ``1 − level``, whatever the dependence between looks, so it holds at the price of a little power.
    """

    planned: int
    """Units after which there is no further look."""
    level: float = LEVEL
    spent: float = 0.0

    def released(self, units: int) -> float:
        """Error that may have been spent when so many units have been seen."""
        alpha = 1.0 - self.level
        share = min(1.0, units / self.planned) if self.planned > 0 else 1.0
        if share <= 0:
            return 0.0
        edge = normal_quantile(1.0 - alpha / 2.0)
        return 2.0 * (1.0 - normal_cdf(edge / sqrt(share)))

    def look(self, estimate: Estimate) -> tuple[bool, Estimate, Sequential]:
        """(stop, the estimate with this look's interval, the state for the next look). Stop: the interval excludes 1,
        or the planned number is reached."""
        now = self.released(estimate.units)
        mine = max(0.0, now - self.spent)
        after = replace(self, spent=max(now, self.spent))
        if mine < 1e-12 or estimate.units < MIN_UNITS:
            return estimate.units >= self.planned, replace(estimate, low=0.0, high=inf, level=1.0), after
        shown = estimate.at(1.0 - mine)
        return shown.excludes_one or estimate.units >= self.planned, shown, after


@dataclass(frozen=True, slots=True)
class NoiseFloor:
    """Of A against A on one node."""

    sd: float
    """Standard deviation of the logarithm of the ratio that the spread over prompts does not explain."""
    largest: float
    """Largest of the ratios' distances from 1."""
    runs: int


def noise_floor(estimates: Sequence[Estimate]) -> NoiseFloor | None:
    """From comparisons of a setting with itself; None of fewer than three."""
    if len(estimates) < 3:
        return None
    beyond = sum(log(e.ratio) ** 2 - (e.log_error**2 if e.log_error < inf else 0.0) for e in estimates)
    largest = max(exp(abs(log(e.ratio))) - 1.0 for e in estimates)
    return NoiseFloor(sqrt(max(0.0, beyond / len(estimates))), largest, len(estimates))
