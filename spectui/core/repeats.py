"""Bare numbers: repeats of a speed, speeds over load, passes of a drafter that remembers, answers of a forced length.

For stored or typed figures without records behind them; where records are at hand, ``stats`` gives intervals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

from spectui.core.stats import NOT_FAIR as UNFAIR

FLOOR = 0.05
"""Runs of one setting differ by more than 6 % from each other: a few per cent between two numbers are no difference."""
NO_CLEAR_DIFFERENCE = "no clear difference"
FASTER = "faster"
SLOWER = "slower"
ONE_RUN = "one run, no verdict"


@dataclass(frozen=True, slots=True)
class Repeats:
    """A against B by their repeats: ``change`` and the word are of B relative to A."""

    median_a: float
    median_b: float
    change: float
    """B over A, minus 1."""
    overlap: bool
    spread_a: float
    """(largest − smallest) / median."""
    spread_b: float
    word: str


def median(values: Sequence[float]) -> float:
    ordered = sorted(values)
    middle = len(ordered) // 2
    return ordered[middle] if len(ordered) % 2 else (ordered[middle - 1] + ordered[middle]) / 2


def spread(values: Sequence[float]) -> float:
    """(largest − smallest) / median."""
    return (max(values) - min(values)) / median(values)


def compare_repeats(a: Sequence[float], b: Sequence[float], *, floor: float = FLOOR) -> Repeats:
    """Speeds (larger is better) of the same thing measured again and again. Raises ValueError without positive values.

    Faster or slower needs ranges that do not overlap and a change beyond the floor.
    """
    if not a or not b or min(*a, *b) <= 0:
        raise ValueError("both sides need at least one speed above 0")
    change = median(b) / median(a) - 1.0
    overlap = max(a) >= min(b) and max(b) >= min(a)
    if len(a) < 2 or len(b) < 2:
        word = ONE_RUN
    elif overlap or abs(change) <= floor:
        word = NO_CLEAR_DIFFERENCE
    else:
        word = FASTER if change > 0 else SLOWER
    return Repeats(median(a), median(b), change, overlap, spread(a), spread(b), word)


@dataclass(frozen=True, slots=True)
class Crossing:
    """Where a gain at low load turns into a loss. There is no single winner over loads."""

    levels: tuple[int, ...]
    speedups: tuple[float, ...]
    words: tuple[str, ...]
    text: str
    """``between 32 and 128 (64 is a tie)``: never one invented number."""


def crossing(levels: Sequence[int], ratios: Sequence[float], words: Sequence[str] | None = None) -> Crossing:
    """Of ratios of throughput by concurrency. ``words`` (faster, slower, anything else a tie) come from intervals where
    there are any; else a ratio within the floor of 1 is a tie. Raises ValueError when the lists do not match."""
    if not levels or len(levels) != len(ratios) or (words is not None and len(words) != len(levels)):
        raise ValueError(f"{len(levels)} levels, {len(ratios)} ratios: they must be as many, and at least one")
    told = words if words is not None else [_word(r) for r in ratios]
    rows = sorted(zip(levels, ratios, told, strict=True))
    known = [(level, word) for level, _, word in rows if word in (FASTER, SLOWER)]
    parts = []
    for (low, before), (high, after) in pairwise(known):
        if before != after:
            between = [(str(level), word) for level, _, word in rows if low < level < high]
            ties = [level for level, word in between if word != UNFAIR]
            unfair = [level for level, word in between if word == UNFAIR]
            said = [f"{_listed(ties)} {'is a tie' if len(ties) == 1 else 'are ties'}"] if ties else []
            said += [f"no fair trial at {_listed(unfair)}"] if unfair else []
            held = f" ({', '.join(said)})" if said else ""
            parts.append(f"between {low} and {high}{held}")
    if not parts:
        parts.append(_no_crossing(rows, known))
    at, gains, names = zip(*rows, strict=True)
    return Crossing(at, gains, names, "; ".join(parts))


def crossing_of_speeds(
    levels: Sequence[int], baseline: Sequence[float], speculative: Sequence[float], *, floor: float = FLOOR
) -> Crossing:
    """Of bare speeds, one a level: speculative over baseline."""
    if len(baseline) != len(speculative) or any(v <= 0 for v in baseline):
        raise ValueError("every level needs a speed of both, the baseline's above 0")
    ratios = [s / b for s, b in zip(speculative, baseline, strict=True)]
    return crossing(levels, ratios, [_word(r, floor) for r in ratios])


def _word(ratio: float, floor: float = FLOOR) -> str:
    return FASTER if ratio > 1 + floor else SLOWER if ratio < 1 - floor else NO_CLEAR_DIFFERENCE


def _listed(items: Sequence[str]) -> str:
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} and {items[-1]}"


def _no_crossing(rows: Sequence[tuple[int, float, str]], known: Sequence[tuple[int, str]]) -> str:
    levels = [level for level, _, _ in rows]
    over = f"{levels[0]}" if len(levels) == 1 else f"{levels[0]} to {levels[-1]}"
    unfair = [str(level) for level, _, word in rows if word == UNFAIR]
    ties = [str(level) for level, _, word in rows if word not in (FASTER, SLOWER, UNFAIR)]
    missing = f"; no fair trial at {_listed(unfair)}" if unfair else ""
    if not known:
        if not ties:
            return f"not known: no fair trial at {over}"
        return f"none seen: no difference shown at {_listed(ties) if unfair else over}{missing}"
    side = known[0][1]
    held = f"; no difference shown at {_listed(ties)}" if ties else ""
    return f"none within {over}: {side} wherever there is a difference{held}{missing}"


@dataclass(frozen=True, slots=True)
class ColdAndWarm:
    """Passes over the same prompts with a drafter that remembers, apart: their mean is no result."""

    cold: float
    warm: float | None
    """Median of the passes from the third on, where the store was never emptied in between."""
    cold_ratio: float | None
    warm_ratio: float | None
    notes: tuple[str, ...]


def passes_of_stateful(
    speeds: Sequence[float], baseline: float | None = None, flushed: Sequence[bool | None] | None = None
) -> ColdAndWarm:
    """``flushed``: before each pass, whether a flush worked (True), failed (False) or was not asked for (None).

    With a flush before each pass all are cold and the median of them is the cold speed. Raises ValueError without any
    pass, or when ``flushed`` is not as long.
    """
    if not speeds or (flushed is not None and len(flushed) != len(speeds)):
        raise ValueError("at least one pass is needed, and a word on the flush for each or for none")
    each = list(flushed) if flushed is not None else [None] * len(speeds)
    notes = []
    failed = [i + 1 for i, f in enumerate(each) if f is False]
    if failed:
        what = f"pass {failed[0]}" if len(failed) == 1 else f"passes {_listed([str(n) for n in failed])}"
        notes.append(f"the flush before {what} failed: what the store held then is not known")
    cold = [s for i, s in enumerate(speeds) if each[i] is True or (i == 0 and each[i] is None)]
    since = max((i for i, f in enumerate(each) if f is True), default=0)
    warm = list(speeds[since + 2 :])
    if warm:
        notes.append("the same prompts again: the store copies its own answers, a fresh prompt never sees this speed")
    first = median(cold) if cold else speeds[0]
    settled = median(warm) if warm else None
    over = baseline if baseline and baseline > 0 else None
    return ColdAndWarm(
        first,
        settled,
        first / over if over else None,
        settled / over if over and settled is not None else None,
        tuple(notes),
    )


LENGTH_FORCED = "length forced: acceptance too high"
SYNTHETIC = "synthetic data: acceptance not representative"


@dataclass(frozen=True, slots=True)
class ForcedLength:
    """An answer that was made to go on after its natural end, in SGLang's accept lengths (first token included)."""

    natural: float | None
    tail: float | None
    pooled: float | None
    mark: str | None


def forced_length(natural: tuple[int, int], tail: tuple[int, int], *, ignore_eos: bool = True) -> ForcedLength:
    """``(tokens, verify steps)`` before and after the natural end. Where nothing was forced, what lies after
    the end does not count."""

    def over(tokens: int, steps: int) -> float | None:
        return tokens / steps if steps else None

    if not ignore_eos:
        return ForcedLength(over(*natural), None, over(*natural), None)
    pooled = over(natural[0] + tail[0], natural[1] + tail[1])
    return ForcedLength(over(*natural), over(*tail), pooled, LENGTH_FORCED)
