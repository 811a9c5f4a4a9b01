"""A value between measured points, or beyond them: along a line, with what that adds to its error. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp, log

BETWEEN = 0.02
"""Added for reading between two measured points, a step time being no straight line."""
BEYOND = 0.25
"""Added for each doubling of width or concurrency beyond what was measured."""
STEPS_ASSUMED = 0.10
"""Added where only a run with another number of draft steps is known."""
BEYOND = 0.25
"""Added for each doubling of width or concurrency beyond what was measured."""
STEPS_ASSUMED = 0.10
"""Added where only a run with another number of draft steps is known."""


@dataclass(frozen=True, slots=True)
class Point:
    at: float
    value: float
    """Logarithm of a step time."""
    variance: float
    why: tuple[str, ...] = ()
    """How this point was itself extrapolated."""
    samples: int = 1


def read(points: Sequence[Point], at: float, wanted: str, unit: str, *, flat: bool) -> Point:
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
        return Point(at, value, variance, (*a.why, *b.why), a.samples + b.samples)
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
    return Point(at, value, near.variance + (BEYOND * doublings) ** 2, (*near.why, why), near.samples)


def narrower(near: Point, plain: Point, width: int) -> Point:
    """Narrower than all that was measured: no dearer than the narrowest that was, and at best on the line down to a
    step without speculation. What is fixed in a verify step (host work, the draft) decides where between; the middle
    is taken, and the span counts as four standard deviations."""
    line = exp(plain.value) + (exp(near.value) - exp(plain.value)) * (width - 1) / max(near.at - 1, 1.0)
    span = max(0.0, near.value - log(max(line, 1e-9)))
    why = f"step time at {width} draft tokens extrapolated from {near.at:.0f} draft tokens and no speculation"
    variance = near.variance + (span / 4) ** 2 + BETWEEN**2
    return Point(float(width), near.value - span / 2, variance, (*near.why, why), near.samples)
