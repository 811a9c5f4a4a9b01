"""A against B at one concurrency: ratios with intervals, the verdict or why there is none, and what decides it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from spectui.core.fairness import FAILURE_LIMIT, Side, reasons
from spectui.core.repeats import Crossing, crossing
from spectui.core.stats import (
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
)


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
    """Accept length that A, and B, must exceed to be the faster one at these step times."""
    verdict: Verdict

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
            "verdict": self.verdict.word,
            "reasons": list(self.verdict.reasons),
            "accept_length_ratio": self.accept_length.ratio if self.accept_length else None,
            "step_time_ratio": self.step_time.ratio if self.step_time else None,
            "joules_per_token_ratio": self.joules_per_token,
            "break_even_accept_length": {"A": self.break_even[0], "B": self.break_even[1]},
            "details": {name: as_json(e) for name, e in others.items()},
        }


def compare(a: Side, b: Side, *, noise: float = 0.0, failure_limit: float = FAILURE_LIMIT) -> Comparison:
    """``noise``: standard deviation of the logarithm of A against A on this node (``stats.noise_floor``), 0 where it
    was never measured. Prompts of both arms are paired; drafting and verifying are always compared prompt by prompt."""
    one, two = a.result, b.result
    known = {"a": one.speculative, "b": two.speculative}
    concurrency = max(one.concurrency, two.concurrency)
    units_a, units_b = units_of(one.records, two.records, concurrency=concurrency, speculative=known)
    prompts_a, prompts_b = units_of(one.stepped, two.stepped, concurrency=1, speculative=known)
    mine, theirs = one.output_tokens_per_s, two.output_tokens_per_s
    centre = mine / theirs if mine and theirs else None
    whole = ratio_of_throughput(units_a, units_b, centre=centre, noise=noise)
    alike = (one.key[2] == "cold") == (two.key[2] == "cold")
    joules = (one.joules_per_token, two.joules_per_token)
    return Comparison(
        concurrency,
        whole,
        ratio_of_accept_length(prompts_a, prompts_b),
        ratio_of_step_time(prompts_a, prompts_b),
        ratio_of_tpot(prompts_a, prompts_b),
        ratio_of_ttft(prompts_a, prompts_b) if alike else None,
        joules[0] / joules[1] if joules[0] is not None and joules[1] else None,
        (break_even(one.step_time_ms, two.step_time_ms, two.accept_length),
         break_even(two.step_time_ms, one.step_time_ms, one.accept_length)),
        verdict(whole, reasons(a, b, failure_limit=failure_limit)),
    )  # fmt: skip


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
