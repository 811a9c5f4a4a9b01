"""A figure of a run with its interval, and whether a new figure agrees with a stored one.

Figures are ratios of sums (decode tokens / verify steps, seconds / verify steps); their error comes from leaving out
one prompt at a time (jackknife), on the logarithm, with Student's t.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, inf, log, sqrt
from typing import Any

from spectui.core.blocks import Block, blocks_of
from spectui.core.request import RequestRecord
from spectui.core.stats import ratio_of
from spectui.core.students import t_quantile

FIGURES = {
    "accept_length": ("decode_tokens", "steps", 1.0),
    "step_time_ms": ("decode_s", "steps", 1000.0),
    "output_tokens_per_s": ("tokens", "seconds", 1.0),
}
"""Figure -> what is summed over what, and the unit."""
LEVEL = 0.95
LEAST_SHIFT = {"accept_length": 0.03, "step_time_ms": 0.10, "output_tokens_per_s": 0.10}
"""Shares below which a shift is never called one: a restart alone moves a step time by several per cent."""


@dataclass(frozen=True, slots=True)
class Figure:
    value: float
    low: float
    high: float
    prompts: int

    def as_list(self) -> list[float]:
        """``[value, low, high]`` as profiles keep it."""
        return [round(self.value, 4), round(self.low, 4), round(self.high, 4)]


def figure(records: Sequence[RequestRecord], name: str, *, speculative: bool) -> Figure | None:
    """A figure over measured requests; None when fewer than two prompts tell it."""
    over, under, unit = FIGURES[name]
    rows = [
        (float(a), float(b))
        for block in blocks_of(records, speculative=speculative, whole_blocks=False)
        if (a := getattr(block, over)) is not None and (b := getattr(block, under)) is not None
    ]
    top, bottom = sum(a for a, _ in rows), sum(b for _, b in rows)
    n = len(rows)
    if n < 2 or top <= 0 or bottom <= 0:
        return None
    left = [log((top - a) / (bottom - b)) for a, b in rows if top > a and bottom > b]
    if len(left) < n:
        return None
    mean = sum(left) / n
    error = sqrt((n - 1) / n * sum((x - mean) ** 2 for x in left))
    reach = t_quantile(0.5 + LEVEL / 2, n - 1) * error
    value = unit * top / bottom
    return Figure(value, value * exp(-reach), value * exp(reach), n)


def stored_figure(entry: Mapping[str, Any], name: str) -> Figure | None:
    """A figure of one result of a profile's evidence: ``name = [value, low, high]``."""
    kept = entry.get(name)
    prompts = entry.get("requests")
    if not isinstance(kept, (list, tuple)) or len(kept) != 3:
        return None
    if not all(isinstance(x, (int, float)) and not isinstance(x, bool) and 0 < x < inf for x in kept):
        return None
    return Figure(float(kept[0]), float(kept[1]), float(kept[2]), prompts if isinstance(prompts, int) else 0)


@dataclass(frozen=True, slots=True)
class Agreement:
    """``ratio``: the new figure over the stored one, with its interval. ``shifted``: −1 lower, 1 higher, 0 neither."""

    ratio: float
    low: float
    high: float
    shifted: int
    how: str
    """prompt by prompt, or against the stored interval."""

    @property
    def resolution(self) -> float:
        """The smallest shift that this check could have seen, as a share."""
        return max(self.ratio / self.low, self.high / self.ratio) - 1 if self.low > 0 else inf


def agree(
    name: str,
    new: Sequence[RequestRecord],
    stored: Figure,
    stored_records: Sequence[RequestRecord] = (),
    *,
    speculative: bool,
) -> Agreement | None:
    """Whether the figure of ``new`` is the stored one. None when the new requests tell no figure.

    Where the stored run is still there and knows the same prompts, they are compared prompt by prompt, which sees far
    smaller shifts; else the new figure and its error against the stored interval (Welch).
    """
    over, under, _ = FIGURES[name]
    found = figure(new, name, speculative=speculative)
    if found is None:
        return None
    blocks = blocks_of(new, speculative=speculative, whole_blocks=False)
    ids = {block.id for block in blocks}
    same: list[Block] = [
        block for block in blocks_of(stored_records, speculative=speculative, whole_blocks=False) if block.id in ids
    ]
    if len(same) >= max(3, 0.8 * len(ids)):
        paired = ratio_of(blocks, same, over, under)
        if paired is not None and paired.high < inf:
            ends = (paired.ratio, paired.low, paired.high)
            return Agreement(*ends, _shift(name, *ends), "prompt by prompt")
    ratio = found.value / stored.value
    mine, theirs = _error(found), _error(stored)
    both = sqrt(mine**2 + theirs**2)
    if both > 0:
        freedom = both**4 / (
            mine**4 / max(1, found.prompts - 1) + theirs**4 / max(1, (stored.prompts or 8) - 1) or both**4
        )
    else:
        freedom = 1.0
    reach = t_quantile(0.5 + LEVEL / 2, max(1.0, freedom)) * both
    ends = (ratio, ratio * exp(-reach), ratio * exp(reach))
    return Agreement(*ends, _shift(name, *ends), "against the stored interval")


def _error(figure: Figure) -> float:
    """Standard error of the logarithm, out of the interval."""
    reach = log(figure.high / figure.low) / 2
    return reach / t_quantile(0.5 + LEVEL / 2, max(1, (figure.prompts or 8) - 1))


def _shift(name: str, ratio: float, low: float, high: float) -> int:
    least = LEAST_SHIFT[name]
    if high < 1 and ratio < 1 - least:
        return -1
    if low > 1 and ratio > 1 + least:
        return 1
    return 0
