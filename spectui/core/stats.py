"""Is a difference one? Intervals of ratios of sums, paired by prompt; how much more is needed; when to stop.

Why a jackknife and not a resampling bootstrap: every ratio here is one of sums (tokens over seconds, tokens over
steps), and its logarithm is nearly linear in what each prompt adds. The jackknife takes each prompt out once; its
variance is rather too large than too small where prompts are few, and with Student's t, its degrees of freedom taken
from how unlike the prompts weigh, nominal 95 % holds from five prompts on, where percentiles of a resampling fall short
of it. It needs no random numbers, so the same journal gives the same interval, and costs O(prompts).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import inf, log, sqrt

from spectui.core.blocks import Block, combine, units_of
from spectui.core.estimate import LEVEL, Estimate, interval
from spectui.core.sample import (
    DIFFERENCE,
    MIN_UNITS,
    POWER,
    Need,
    NoiseFloor,
    Sequential,
    needs_blocks,
    noise_floor,
)

__all__ = [
    "DIFFERENCE",
    "LEVEL",
    "MIN_UNITS",
    "POWER",
    "Block",
    "Estimate",
    "Need",
    "NoiseFloor",
    "Sequential",
    "Verdict",
    "as_json",
    "needs_blocks",
    "noise_floor",
    "ratio_of",
    "ratio_of_accept_length",
    "ratio_of_step_time",
    "ratio_of_throughput",
    "ratio_of_tpot",
    "ratio_of_ttft",
    "units_of",
    "verdict",
    "wider",
]

RESOLUTION = 0.002
"""Of the logarithm of a ratio: what clocks and the edges of a window leave open even where nothing else varies."""

Column = Sequence[float]


def _log_ratio_error(over: Sequence[Column], under: Sequence[Column]) -> float:
    """Jackknife standard error of Σ log Σ over − Σ log Σ under, leaving out one unit (the same in all columns) at a
    time."""
    n = len(over[0])
    totals = [sum(column) for column in (*over, *under)]
    if any(total <= max(column) for column, total in zip((*over, *under), totals, strict=True)):
        return inf
    # What is left of each sum without the unit, as a share of it.
    kept = [[1.0 - v / t for v in c] for c, t in zip((*over, *under), totals, strict=True)]
    if len(kept) == 4:
        left_out = [log(a * b / (c * d)) for a, b, c, d in zip(*kept, strict=True)]
    else:
        left_out = [log(a / b) for a, b in zip(*kept, strict=True)]
    mean = sum(left_out) / n
    return sqrt((n - 1) / n * sum([(v - mean) ** 2 for v in left_out]))


def _freedom(*columns: Column) -> float:
    """Degrees of freedom where units weigh unlike: a long answer brings more noise than a short one, and what a few
    such answers decide is decided by few (Satterthwaite's rule, noise in proportion to the share)."""
    parts = [[v / total for v in c] for c, total in zip(columns, [sum(c) for c in columns], strict=True)]
    weights: list[float] = [sum(row) for row in zip(*parts, strict=True)]
    squares = [w * w for w in weights]
    return max(1.0, round(sum(squares) ** 2 / sum(q * q for q in squares) - 1.0, 1))


def ratio_of(
    a: Sequence[Block],
    b: Sequence[Block],
    over: str,
    under: str,
    *,
    centre: float | None = None,
    noise: float = 0.0,
    level: float = LEVEL,
) -> Estimate | None:
    """(Σ over / Σ under) of A over that of B, with its interval; ``over`` and ``under`` name fields of Block.

    Blocks with one id are pairs; repeats of an id in one arm are taken together first, since a drafter that remembers
    makes them no new evidence. With fewer pairs than four fifths of the smaller arm, the arms are taken as independent
    samples. ``centre``: the ratio as measured over the wall clock, where that is not the ratio of sums; how far the two
    lie apart is added to the error. ``noise``: standard deviation of the logarithm of A against A on this node. None
    when a sum is missing or 0.
    """
    one, two = combine(a), combine(b)
    rows_a = {i: (_get(x, over), _get(x, under)) for i, x in one.items()}
    rows_b = {i: (_get(x, over), _get(x, under)) for i, x in two.items()}
    rows_a = {i: v for i, v in rows_a.items() if v[0] is not None and v[1] is not None}
    rows_b = {i: v for i, v in rows_b.items() if v[0] is not None and v[1] is not None}
    common = [i for i in rows_a if i in rows_b]
    paired = bool(common) and len(common) >= 0.8 * min(len(rows_a), len(rows_b))
    pick_a, pick_b = (common, common) if paired else (list(rows_a), list(rows_b))
    columns = [
        [float(rows_a[i][0] or 0.0) for i in pick_a],
        [float(rows_a[i][1] or 0.0) for i in pick_a],
        [float(rows_b[i][0] or 0.0) for i in pick_b],
        [float(rows_b[i][1] or 0.0) for i in pick_b],
    ]
    totals = [sum(c) for c in columns]
    if min(totals, default=0.0) <= 0:
        return None
    sums = log(totals[0] / totals[1]) - log(totals[2] / totals[3])
    middle = sums if centre is None or centre <= 0 else log(centre)
    unit = (one or two)[next(iter(one or two))].unit
    own = RESOLUTION**2 + noise**2 + (middle - sums) ** 2
    if paired:
        n = len(common)
        if n < 2:
            return interval(middle, inf, n, 0, True, unit, level)
        spread = _log_ratio_error((columns[0], columns[3]), (columns[1], columns[2]))
        return interval(middle, sqrt(spread**2 + own), n, _freedom(columns[1], columns[3]), True, unit, level)
    na, nb = len(pick_a), len(pick_b)
    if min(na, nb) < 2:
        return interval(middle, inf, min(na, nb), 0, False, unit, level)
    va = _log_ratio_error((columns[0],), (columns[1],)) ** 2
    vb = _log_ratio_error((columns[2],), (columns[3],)) ** 2
    if va + vb == inf:
        return interval(middle, inf, min(na, nb), 0, False, unit, level)
    under_both = va**2 / _freedom(columns[1]) + vb**2 / _freedom(columns[3])
    freedom = (va + vb) ** 2 / under_both if under_both > 0 else na + nb - 2
    return interval(middle, sqrt(va + vb + own), min(na, nb), freedom, False, unit, level)


def _get(block: Block, name: str) -> float | None:
    value = getattr(block, name)
    return None if value is None else float(value)


def ratio_of_throughput(
    a: Sequence[Block],
    b: Sequence[Block],
    *,
    centre: float | None = None,
    noise: float = 0.0,
    level: float = LEVEL,
) -> Estimate | None:
    """Output throughput of A over B: above 1, A is faster."""
    return ratio_of(a, b, "tokens", "seconds", centre=centre, noise=noise, level=level)


def ratio_of_accept_length(a: Sequence[Block], b: Sequence[Block], *, level: float = LEVEL) -> Estimate | None:
    return ratio_of(a, b, "decode_tokens", "steps", level=level)


def ratio_of_step_time(
    a: Sequence[Block], b: Sequence[Block], *, noise: float = 0.0, level: float = LEVEL
) -> Estimate | None:
    """Above 1, a step of A takes longer."""
    return ratio_of(a, b, "decode_s", "steps", noise=noise, level=level)


def ratio_of_tpot(
    a: Sequence[Block], b: Sequence[Block], *, noise: float = 0.0, level: float = LEVEL
) -> Estimate | None:
    return ratio_of(a, b, "decode_s", "decode_tokens", noise=noise, level=level)


def ratio_of_ttft(
    a: Sequence[Block], b: Sequence[Block], *, noise: float = 0.0, level: float = LEVEL
) -> Estimate | None:
    """Of mean times to the first token. Not between a cold and a warm pass: a flush empties the prefix cache too."""
    return ratio_of(a, b, "first_s", "requests", noise=noise, level=level)


def wider(prompts: Estimate | None, blocks: Estimate | None) -> Estimate | None:
    """The estimate by prompts, with the interval by blocks where that is the wider one: requests that ran side by side
    or one after the other share what the node did then, and are no independent evidence of it."""
    if prompts is None or blocks is None or blocks.units < 2:
        return prompts
    error, freedom = blocks.log_error, blocks.freedom
    other = interval(log(prompts.ratio), error, prompts.units, freedom, prompts.paired, prompts.unit, prompts.level)
    return other if other.low < prompts.low else prompts


FASTER = "faster"
SLOWER = "slower"
NO_DIFFERENCE = "no difference shown"
NOT_FAIR = "not a fair trial"


@dataclass(frozen=True, slots=True)
class Verdict:
    """``word``: faster, slower, no difference shown, not a fair trial: of A against B."""

    word: str
    reasons: tuple[str, ...] = ()


def verdict(estimate: Estimate | None, reasons: Sequence[str] = ()) -> Verdict:
    """Withheld for any of ``reasons``; faster or slower only where the interval excludes 1."""
    if reasons:
        return Verdict(NOT_FAIR, tuple(reasons))
    if estimate is None:
        return Verdict(NOT_FAIR, ("there is no throughput of both arms to compare",))
    if estimate.units < MIN_UNITS:
        what = f"only {estimate.units} {estimate.unit} were measured in both arms, at least {MIN_UNITS} are needed"
        return Verdict(NO_DIFFERENCE, (what,))
    if not estimate.excludes_one:
        return Verdict(NO_DIFFERENCE, (needs_blocks(estimate).text,))
    return Verdict(FASTER if estimate.ratio > 1 else SLOWER)


def as_json(estimate: Estimate | None) -> Mapping[str, object] | None:
    """``{ratio, interval, units, unit, paired, level}``; an interval without an upper end has None there."""
    if estimate is None:
        return None
    ends = [estimate.low, estimate.high if estimate.high < inf else None]
    return {
        "ratio": estimate.ratio,
        "interval": ends,
        "units": estimate.units,
        "unit": estimate.unit,
        "paired": estimate.paired,
        "level": estimate.level,
    }
