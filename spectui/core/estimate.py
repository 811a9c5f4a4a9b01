"""A ratio with its interval."""

from __future__ import annotations

from dataclasses import dataclass
from math import exp, inf, log

from spectui.core.students import t_quantile

LEVEL = 0.95


@dataclass(frozen=True, slots=True)
class Estimate:
    """Of a ratio A over B. ``low`` and ``high`` hold it at ``level``; both are infinite or 0 where too little is known.

    ``unit`` is what was taken as independent: prompts, or whole blocks where requests shared the batch.
    """

    ratio: float
    low: float
    high: float
    log_error: float
    """Standard error of the logarithm of the ratio."""
    units: int
    freedom: float
    paired: bool
    unit: str = "prompts"
    level: float = LEVEL

    @property
    def excludes_one(self) -> bool:
        return self.low > 1.0 or self.high < 1.0

    def at(self, level: float) -> Estimate:
        """The same estimate with an interval of another level."""
        return interval(log(self.ratio), self.log_error, self.units, self.freedom, self.paired, self.unit, level)


def interval(
    centre: float, error: float, units: int, freedom: float, paired: bool, unit: str, level: float
) -> Estimate:
    if units < 2 or freedom < 1 or error == inf:
        return Estimate(exp(centre), 0.0, inf, inf, units, freedom, paired, unit, level)
    reach = t_quantile(0.5 + level / 2.0, freedom) * error
    high = exp(centre + reach) if centre + reach < 700 else inf
    return Estimate(exp(centre), exp(centre - reach), high, error, units, freedom, paired, unit, level)
