"""Does acceptance still rise? A weighted line for the question, a curve with a half-life for the answer."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt

from spectui.core.students import t_cdf, t_quantile


@dataclass(frozen=True, slots=True)
class Rise:
    """Of a line through accept lengths over tokens generated."""

    share: float
    """How much the line rises from the first to the last value, as a share of the mean."""
    p: float
    """Chance of a rise at least as steep where there is none (one-sided)."""
    shown: bool
    """Large enough to matter and too large for the noise."""
    values: int


MIN_VALUES = 6
"""Below this a line through values that differ by prompt says nothing."""
RISE_SHARE = 0.05
"""A rise that matters: as much as a difference between arms that is called one (5 %)."""
RISE_P = 0.05


def _line(x: Sequence[float], y: Sequence[float], w: Sequence[float]) -> tuple[float, float, float, float]:
    """Mean of x, level of y there, slope, and Σ of squares of x: weighted least squares."""
    total = sum(w)
    mx = sum(a * b for a, b in zip(w, x, strict=True)) / total
    my = sum(a * b for a, b in zip(w, y, strict=True)) / total
    xx = sum(a * (b - mx) ** 2 for a, b in zip(w, x, strict=True))
    xy = sum(a * (b - mx) * (c - my) for a, b, c in zip(w, x, y, strict=True))
    return mx, my, (xy / xx if xx > 0 else 0.0), xx


def rise(x: Sequence[float], y: Sequence[float], w: Sequence[float]) -> Rise:
    """``x`` tokens since the flush, ``y`` accept lengths, ``w`` verify steps: one value a request."""
    n = len(y)
    if n < MIN_VALUES or max(x) <= min(x):
        return Rise(0.0, 1.0, False, n)
    mx, my, slope, xx = _line(x, y, w)
    share = slope * (max(x) - min(x)) / my if my else 0.0
    rest = sum(a * (c - my - slope * (b - mx)) ** 2 for a, b, c in zip(w, x, y, strict=True)) / (n - 2)
    error = sqrt(rest / xx)
    p = 1.0 - t_cdf(slope / error, n - 2) if error > 0 else (0.0 if slope > 0 else 1.0)
    return Rise(share, p, share > RISE_SHARE and p < RISE_P, n)


@dataclass(frozen=True, slots=True)
class Curve:
    """``end − gain · 2^(−tokens / half_life)``: how acceptance nears what a full store gives."""

    end: float
    gain: float
    half_life: float
    """In tokens generated since the flush."""

    def at(self, tokens: float) -> float:
        return self.end - self.gain * exp(-log(2.0) * tokens / self.half_life)


def warm_up(x: Sequence[float], y: Sequence[float], w: Sequence[float]) -> Curve | None:
    """The warm-up curve, or None when a constant explains the values as well (F test at 5 %)."""
    n = len(y)
    if n < MIN_VALUES + 2 or max(x) <= min(x):
        return None
    total = sum(w)
    mean = sum(a * c for a, c in zip(w, y, strict=True)) / total
    flat = sum(a * (c - mean) ** 2 for a, c in zip(w, y, strict=True))
    best: tuple[float, Curve] | None = None
    longest = 2.0 * max(x)
    tries = 32
    for i in range(tries):
        half = longest * 2.0 ** (-8.0 * i / (tries - 1))
        decay = [2.0 ** (-b / half) for b in x]
        mx, my, slope, xx = _line(decay, y, w)
        if xx <= 0 or slope >= 0:
            continue
        rest = sum(a * (c - my - slope * (d - mx)) ** 2 for a, c, d in zip(w, y, decay, strict=True))
        if best is None or rest < best[0]:
            best = rest, Curve(my - slope * mx, -slope, half)
    if best is None or flat <= 0:
        return None
    gained = (flat - best[0]) / 2.0
    noise = best[0] / (n - 3)
    return best[1] if noise <= 0 or gained / noise > _f_limit(n - 3) else None


def _f_limit(freedom: int) -> float:
    """What F(2, freedom) passes by chance in 5 % of cases; closed for two degrees above the line."""
    if freedom <= 0:
        return inf
    return freedom / 2.0 * (exp(-2.0 * log(0.05) / freedom) - 1.0)


def steady(x: Sequence[float], y: Sequence[float], w: Sequence[float], share: float = RISE_SHARE) -> bool:
    """Whether a rise of more than ``share`` over these values can be ruled out (one-sided, 5 %), or none is seen
    while the values suffice to see one of three times that size."""
    n = len(y)
    if n < MIN_VALUES or max(x) <= min(x):
        return False
    mx, my, slope, xx = _line(x, y, w)
    rest = sum(a * (c - my - slope * (b - mx)) ** 2 for a, b, c in zip(w, x, y, strict=True)) / (n - 2)
    reach = (max(x) - min(x)) / my if my else 0.0
    error = sqrt(rest / xx) * reach
    seen = slope * reach
    return seen + t_quantile(0.95, n - 2) * error < max(share, 3.0 * share if seen <= share else 0.0)
