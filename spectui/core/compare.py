"""A against B at one concurrency: ratios with intervals, the verdict or why there is none, and what decides it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spectui.core.blocks import blocks_of, in_turn
from spectui.core.evidence import is_stateful
from spectui.core.fairness import FAILURE_LIMIT, Side, reasons
from spectui.core.passes import PassResult
from spectui.core.repeats import Crossing, crossing
from spectui.core.stats import (
    Block,
    Estimate,
    Verdict,
    as_json,
    ratio_of_accept_length,
    ratio_of_step_time,
    ratio_of_throughput,
    ratio_of_tpot,
    ratio_of_ttft,
    units_of,
    verdict,
    wider,
)

DRIFT = 0.05
"""Standard deviation of the logarithm of a ratio whose arms were not measured by turns, where this node's own was never
measured. Three runs of one setting spread over 6.5 % of their median in the field, which is 4 % for one run and 5 % for
the ratio of two; a small model on a real server had 12 %."""

PAUSE_S = 0.09
"""The same for arms that were measured for seconds only: over this many seconds. A server that collects garbage, or
splits a prefill, loses up to half a second, whatever is measured. On an H200 a small model's bursts of 16 requests, of
0.6 s each, one server against itself, spread by 14.5 %; half would have been called different without this."""


@dataclass(frozen=True, slots=True)
class Comparison:
    """All ratios are A over B."""

    concurrency: int
    throughput: Estimate | None
    accept_length: Estimate | None
    step_time: Estimate | None
    tpot: Estimate | None
    ttft: Estimate | None
    """None where one arm was measured cold and the other not: a flush empties the prefix cache too."""
    joules_per_token: float | None
    break_even: tuple[float | None, float | None]
    """Accept length that A, and B, must exceed to be the faster one at these step times; None without speculation."""
    verdict: Verdict
    turns: int = 0
    """Blocks that the arms measured by turns; 0: one arm was measured as a whole before the other began."""
    apart: float = 0.0
    """Standard deviation of the logarithm that was allowed for what the node does between arms that take no turns."""
    in_flight: tuple[float | None, float | None] = (None, None)
    """Requests in flight over the measured time, of A and B, in the mean."""

    def as_json(self) -> dict[str, Any]:
        """A row of ``by_concurrency``; ``details`` has the intervals of the other ratios."""
        whole = as_json(self.throughput) or {}
        others = {
            "accept_length": self.accept_length,
            "step_time": self.step_time,
            "tpot": self.tpot,
            "ttft": self.ttft,
        }
        return {
            "concurrency": self.concurrency,
            "ratio": whole.get("ratio"),
            "interval": whole.get("interval"),
            "units": whole.get("units"),
            "unit": whole.get("unit"),
            "blocks_in_turn": self.turns,
            "in_flight": {"A": self.in_flight[0], "B": self.in_flight[1]},
            "verdict": self.verdict.word,
            "reasons": list(self.verdict.reasons),
            "accept_length_ratio": self.accept_length.ratio if self.accept_length else None,
            "step_time_ratio": self.step_time.ratio if self.step_time else None,
            "joules_per_token_ratio": self.joules_per_token,
            "break_even_accept_length": {"A": self.break_even[0], "B": self.break_even[1]},
            "details": {name: as_json(e) for name, e in others.items()},
        }


def compare(
    a: Side, b: Side, *, noise: float = 0.0, drift: float = DRIFT, failure_limit: float = FAILURE_LIMIT
) -> Comparison:
    """``noise``: standard deviation of the logarithm of A against A on this node (``stats.noise_floor``), 0 where it
    was never measured. ``drift``: the same where the arms are measured one after the other and not by turns. Prompts of
    both arms are paired; what blocks of them have in common widens the interval."""
    one, two = a.result, b.result
    known = {"a": one.speculative, "b": two.speculative}
    concurrency = max(one.concurrency, two.concurrency)
    turns = in_turn(one.records, two.records)
    apart = 0.0 if turns > 1 else out_of_turn(one, two, drift)
    loud = max(noise, apart)
    units_a, units_b = units_of(one.records, two.records, concurrency=concurrency, speculative=known)
    prompts_a, prompts_b = units_of(one.stepped, two.stepped, concurrency=1, speculative=known)
    blocks_a, blocks_b = (
        blocks_of(r.stepped, speculative=r.speculative, whole_blocks=True) if turns > 1 else [] for r in (one, two)
    )

    def timed(ratio: Callable[..., Estimate | None]) -> Estimate | None:
        return wider(ratio(prompts_a, prompts_b, noise=loud), ratio(blocks_a, blocks_b, noise=loud))

    mine, theirs = one.output_tokens_per_s, two.output_tokens_per_s
    centre = mine / theirs if mine and theirs else None
    whole = ratio_of_throughput(units_a, units_b, centre=centre, noise=loud)
    if turns > 1 and whole is not None and whole.unit == "prompts":
        whole = wider(whole, _by_blocks(one, two, centre, loud))
    alike = (one.key[2] == "cold") == (two.key[2] == "cold")
    joules = (one.joules_per_token, two.joules_per_token)
    return Comparison(
        concurrency,
        whole,
        ratio_of_accept_length(prompts_a, prompts_b),
        timed(ratio_of_step_time),
        timed(ratio_of_tpot),
        timed(ratio_of_ttft) if alike else None,
        joules[0] / joules[1] if joules[0] is not None and joules[1] else None,
        _break_evens(one, two),
        verdict(whole, reasons(a, b, failure_limit=failure_limit)),
        turns,
        apart,
        (one.in_flight, two.in_flight),
    )


def out_of_turn(one: PassResult, two: PassResult, drift: float) -> float:
    """What two arms are apart by that took no turns: ``drift``, or one pause where they were measured for seconds only;
    0 where ``drift`` is 0, so that nothing is allowed for."""
    shortest = min(one.wall_s, two.wall_s)
    return max(drift, PAUSE_S / shortest) if drift and shortest > 0 else drift


def known_prompts(*arms: PassResult) -> frozenset[str]:
    """Prompts whose answer a store had seen as a whole before it was generated."""
    seen = [one.evidence.repetition for one in arms if is_stateful(one.algorithm) is not False]
    return frozenset().union(*(r.known_prompts for r in seen if r is not None))


def on_fresh(a: Side, b: Side, *, noise: float = 0.0) -> Estimate | None:
    """Throughput over those prompts only whose answers no store had seen, each with its own time; None where all are
    such. The arm that copies whole answers is fast on them, and says nothing of text that it has not seen."""
    known = known_prompts(a.result, b.result)
    if not known:
        return None
    made = [
        blocks_of(
            [r for r in side.result.records if r.prompt_id not in known],
            speculative=side.result.speculative,
            whole_blocks=False,
        )
        for side in (a, b)
    ]
    return ratio_of_throughput(*made, noise=noise)


def _by_blocks(one: PassResult, two: PassResult, centre: float | None, noise: float) -> Estimate | None:
    """Throughput by blocks: all that ended well in each, over its wall time."""
    made: list[list[Block]] = [blocks_of(r.records, speculative=r.speculative, whole_blocks=True) for r in (one, two)]
    return ratio_of_throughput(*made, centre=centre, noise=noise)


def _break_evens(one: PassResult, two: PassResult) -> tuple[float | None, float | None]:
    """Of A and B; None for an arm that does not speculate, which has no accept length to raise."""
    return (
        break_even(one.step_time_ms, two.step_time_ms, two.accept_length) if one.speculative else None,
        break_even(two.step_time_ms, one.step_time_ms, one.accept_length) if two.speculative else None,
    )


def break_even(step_time: float | None, other_step_time: float | None, other_length: float | None) -> float | None:
    """What accept length must exceed to win: step time over the other's time per token. With no speculation on the
    other side that is step time with speculation over step time without."""
    if not step_time or not other_step_time or not other_length:
        return None
    return step_time / (other_step_time / other_length)


def compare_json(rows: Sequence[Comparison], arms: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """What ``compare --json`` prints; raises ValueError without a row. The verdict at the top is that of the only, or
    the first, concurrency: over loads there is no single winner."""
    if not rows:
        raise ValueError("nothing was compared")
    said: Crossing | None = None
    if len(rows) > 1 and all(r.throughput is not None for r in rows):
        levels = [r.concurrency for r in rows]
        said = crossing(levels, [r.throughput.ratio for r in rows if r.throughput], [r.verdict.word for r in rows])
    return {
        "verdict": rows[0].verdict.word,
        "reasons": list(rows[0].verdict.reasons),
        "by_concurrency": [r.as_json() for r in rows],
        "crossing": said.text if said else None,
        "arms": list(arms),
    }
