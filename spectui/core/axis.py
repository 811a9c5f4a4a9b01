"""Axes of a chart: steps that people read (1, 2, 2.5, 5), bounds that do not jump, labels of values and times."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import NamedTuple

_TIME_STEPS = (1, 2, 5, 10, 15, 30, 60, 120, 300, 600, 900, 1800, 3600, 7200, 14400, 43200, 86400)


class Scale(NamedTuple):
    low: float
    high: float
    step: float

    def ticks(self) -> tuple[float, ...]:
        count = max(1, round((self.high - self.low) / self.step))
        return tuple(self.low + self.step * i for i in range(min(count, 50) + 1))


def nice_step(span: float, most: int) -> float:
    """The smallest of 1, 2, 2.5 and 5 times a power of ten of which at most ``most`` cover ``span``."""
    if not math.isfinite(span) or span <= 0:
        return 1.0
    raw = span / max(1, most)
    if raw < 1e-300:
        return 1.0
    power: float = 10.0 ** math.floor(math.log10(raw))
    for factor in (1.0, 2.0, 2.5, 5.0, 10.0):
        if factor * power >= raw * (1 - 1e-9):
            return factor * power
    return 10.0 * power


def fit(previous: Scale | None, values: Iterable[float], most: int, floor: float | None = 0.0) -> Scale:
    """Bounds for ``values`` with at most ``most`` steps between them.

    They grow at once and shrink only when less than half of the present span is used, so that a value that wavers
    does not redraw the whole chart. ``floor`` fixes the lower bound; None lets it follow the values.
    """
    known = [value for value in values if abs(value) < 1e300]  # neither NaN nor what no step divides
    if not known:
        return previous or Scale(floor or 0.0, (floor or 0.0) + 1.0, 1.0)
    low = min(known) if floor is None else min(floor, *known) if min(known) < floor else floor
    high = max(known)
    if previous is not None and high <= previous.high and low >= previous.low and high > low:
        used = (high - low) / (previous.high - previous.low)
        steps = (previous.high - previous.low) / previous.step
        if used >= 0.5 and steps <= most + 1e-9 and (floor is None or low == previous.low):
            return previous
    span = high - low
    if span <= 0:
        span = abs(high) if floor is None and high else 1.0
        high = low + span
    step = nice_step(span, most)
    bottom = math.floor(low / step + 1e-9) * step if floor is None or low < floor else low
    count = max(1, math.ceil((high - bottom) / step - 1e-9))
    top = bottom + count * step
    if not (math.isfinite(top) and top > bottom):
        return Scale(0.0, 1.0, 1.0)
    return Scale(bottom, top, step)


def tick_label(value: float, step: float) -> str:
    """``400``, ``2.5``, ``12k``: as many digits as the step needs."""
    if value == 0:
        return "0"
    suffix = ""
    for least, size, sign in ((1e12, 1e12, "T"), (1e9, 1e9, "G"), (1e6, 1e6, "M"), (1e4, 1e3, "k")):
        if abs(value) >= least:
            value, step, suffix = value / size, step / size, sign
            break
    if abs(value) >= 1e4 or (step < 1e-3 and abs(value) < 1e-2):
        return f"{value:.1e}"
    digits = next((d for d in range(4) if abs(step * 10**d - round(step * 10**d)) < 1e-6), 3)
    return f"{value:.{digits}f}{suffix}"


def time_step(span_s: float, most: int) -> float:
    """Seconds between marks of a time axis: 1, 2, 5, 10, 15, 30 s and so on, at most ``most`` of them."""
    wanted = span_s / max(1, most)
    return float(next((step for step in _TIME_STEPS if step >= wanted), math.ceil(wanted / 86400) * 86400))


def clock(seconds: float) -> str:
    """``0:48``, ``12:05``, ``1:02:03``; negative ones with a minus sign."""
    whole = round(abs(seconds))
    sign = "−" if seconds < 0 and whole else ""
    minutes, rest = divmod(whole, 60)
    if minutes < 60:
        return f"{sign}{minutes}:{rest:02d}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest:02d}"
