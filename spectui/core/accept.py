"""What is counted, over what: accept length, verify steps, step time and their kin, over records of requests.

Only requests that ended well count; a failed one counts neither for throughput nor for acceptance. The first token of
an answer comes from prefill and belongs to no verify step, hence the ``− 1`` wherever decode tokens are meant.
Times in seconds unless a name says ``_ms``.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.identities import Identity, bound, identities
from spectui.core.request import RequestRecord
from spectui.core.told_steps import counter

__all__ = [
    "CounterAcceptance",
    "Identity",
    "accept_length",
    "accept_length_sglang",
    "accept_rate",
    "accepted_by_position",
    "bound",
    "chunk_gaps",
    "counted",
    "counter",
    "e2e",
    "from_counters",
    "histogram",
    "identities",
    "is_speculative",
    "output_tokens",
    "percentile",
    "spread",
    "step_time_ms",
    "steps_of",
    "tokens_per_event",
    "tpot",
    "ttft",
    "verify_steps",
]


def counted(requests: Iterable[RequestRecord]) -> list[RequestRecord]:
    """Those that figures are made of: ended well, with a known number of output tokens."""
    return [r for r in requests if r.ok and r.completion_tokens is not None and r.completion_tokens > 0]


def output_tokens(requests: Iterable[RequestRecord]) -> int:
    return sum(r.completion_tokens or 0 for r in counted(requests))


def is_speculative(requests: Iterable[RequestRecord]) -> bool:
    """Guessed from the records, for want of a better source: details of drafting, or several tokens in an event."""
    return any(
        r.verify_steps is not None or r.histogram is not None or any(n > 1 for n in r.increments[1:]) for r in requests
    )


def steps_of(request: RequestRecord, speculative: bool) -> int | None:
    """Verify steps of one request: the server's count, else its events (an event is a step unless streams are joined,
    which shows as more tokens than any draft allows and is the caller's to know), else None."""
    if not speculative:
        return max(0, (request.completion_tokens or 1) - 1)
    if request.verify_steps is not None:
        return request.verify_steps
    if request.histogram is not None:
        return sum(request.histogram)
    if request.increments and sum(request.increments) == request.completion_tokens:
        return len(request.increments) - 1
    return None


def _with_steps(requests: Iterable[RequestRecord], speculative: bool | None) -> list[tuple[RequestRecord, int]]:
    rows = counted(requests)
    known = is_speculative(rows) if speculative is None else speculative
    return [(r, n) for r in rows if (n := steps_of(r, known)) is not None]


def verify_steps(requests: Iterable[RequestRecord], *, speculative: bool | None = None) -> int | None:
    """Σ verify steps; without speculation every decode token is one. None when no request tells."""
    rows = _with_steps(requests, speculative)
    return sum(n for _, n in rows) if rows else None


def accept_length(requests: Iterable[RequestRecord], *, speculative: bool | None = None) -> float | None:
    """Σ(completion tokens − 1) / Σ verify steps: decode tokens per verify step, weighted by steps.

    1.0 without speculation. None when there was no step to count. Requests without a step count are left out of both
    sums.
    """
    rows = _with_steps(requests, speculative)
    steps = sum(n for _, n in rows)
    return sum((r.completion_tokens or 0) - 1 for r, _ in rows) / steps if steps else None


def accept_length_sglang(requests: Iterable[RequestRecord], *, speculative: bool | None = None) -> float | None:
    """Σ completion tokens / Σ verify steps: SGLang's ``meta_info.spec_accept_length``, first token included."""
    rows = _with_steps(requests, speculative)
    steps = sum(n for _, n in rows)
    return sum(r.completion_tokens or 0 for r, _ in rows) / steps if steps else None


def histogram(requests: Iterable[RequestRecord], *, speculative: bool | None = None) -> list[int] | None:
    """``h[k]``: verify steps in which exactly k drafts were accepted.

    From the server's details, else from the events (the last step of an answer that was cut then shows what was kept).
    Without speculation ``[Σ(completion tokens − 1)]``. None when a request tells neither.
    """
    rows = counted(requests)
    known = is_speculative(rows) if speculative is None else speculative
    if not rows:
        return None
    if not known:
        return [sum((r.completion_tokens or 1) - 1 for r in rows)]
    total: list[int] = []
    for r in rows:
        if r.histogram is not None:
            mine: Sequence[int] = r.histogram
        elif r.increments:
            grown = [0] * max(1, max(r.increments[1:], default=1))
            for n in r.increments[1:]:
                if n > 0:
                    grown[n - 1] += 1
            mine = grown
        else:
            return None
        total.extend([0] * (len(mine) - len(total)))
        for k, n in enumerate(mine):
            total[k] += n
    return total


def accepted_by_position(counts: Sequence[int]) -> list[float]:
    """Share of verify steps in which draft position i (from 1) was accepted: Σ_{k≥i} h[k] / Σ h."""
    steps = sum(counts)
    if not steps:
        return []
    shares, left = [], steps
    for n in counts[:-1]:
        left -= n
        shares.append(left / steps)
    return shares


def accept_rate(requests: Iterable[RequestRecord], *, draft_tokens: int | None = None) -> float | None:
    """Accepted drafts / proposed drafts by our own count; the server's own figure has meant several things.

    Accepted is Σ k·h[k], proposed is verify steps × (draft tokens − 1), since the first of the draft tokens is the last
    committed one. None without speculation, or when neither the server nor ``draft_tokens`` tells what was proposed.
    """
    accepted = proposed = 0
    for r in counted(requests):
        steps = steps_of(r, True) if is_speculative([r]) else None
        if steps is None:
            continue
        if r.histogram is not None:
            mine = sum(k * n for k, n in enumerate(r.histogram))
        elif r.accepted_drafts is not None:
            mine = r.accepted_drafts
        else:
            mine = (r.completion_tokens or 1) - 1 - steps
        if draft_tokens is not None:
            offered = steps * (draft_tokens - 1)
        elif r.proposed_drafts is not None:
            offered = r.proposed_drafts
        else:
            continue
        accepted += mine
        proposed += offered
    return accepted / proposed if proposed else None


def ttft(requests: Iterable[RequestRecord]) -> list[float]:
    """Time to the first token of each request: from its hand-over to the kernel to the first event with a token."""
    return [r.first_s - r.start_s for r in counted(requests) if r.first_s is not None]


def e2e(requests: Iterable[RequestRecord]) -> list[float]:
    return [r.end_s - r.start_s for r in counted(requests)]


def tpot(requests: Iterable[RequestRecord]) -> list[float]:
    """Time per output token of each request: (last event − first event) / (completion tokens − 1)."""
    return [
        (r.last_s - r.first_s) / (tokens - 1)
        for r in counted(requests)
        if r.first_s is not None and r.last_s is not None and (tokens := r.completion_tokens or 0) > 1
    ]


def chunk_gaps(requests: Iterable[RequestRecord]) -> list[float]:
    """Time between two events of a stream. Not a time per token: an event may hold several."""
    return [b - a for r in counted(requests) for a, b in zip(r.event_s, r.event_s[1:], strict=False)]


def tokens_per_event(requests: Iterable[RequestRecord]) -> float | None:
    sizes = [n for r in counted(requests) for n in r.increments]
    return sum(sizes) / len(sizes) if sizes else None


def step_time_ms(requests: Iterable[RequestRecord], *, speculative: bool | None = None) -> float | None:
    """Σ(last event − first event) / Σ verify steps, in ms: what one step costs one user at this concurrency."""
    rows = [(r, n) for r, n in _with_steps(requests, speculative) if r.first_s is not None and r.last_s is not None]
    steps = sum(n for _, n in rows)
    spent = sum((r.last_s or 0.0) - (r.first_s or 0.0) for r, _ in rows)
    return 1000 * spent / steps if steps else None


def percentile(ordered: Sequence[float], share: float) -> float:
    """Of sorted values, linear between neighbours. ``share`` in 0..1."""
    at = share * (len(ordered) - 1)
    low = int(at)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (at - low)


def spread(values: Iterable[float], scale: float = 1.0) -> dict[str, float] | None:
    """``{p50, p90, p99, mean}`` of the values times ``scale``; None of none."""
    ordered = sorted(values)
    if not ordered:
        return None
    return {
        "p50": scale * percentile(ordered, 0.5),
        "p90": scale * percentile(ordered, 0.9),
        "p99": scale * percentile(ordered, 0.99),
        "mean": scale * sum(ordered) / len(ordered),
    }


@dataclass(frozen=True, slots=True)
class CounterAcceptance:
    """Acceptance of a window, from the server's counters. The lengths are None, with a reason, when nothing ran."""

    tokens: int
    steps: int
    accept_length: float | None
    """First tokens from prefill taken off, where the number of requests is known."""
    accept_length_sglang: float | None
    reason: str | None = None


def from_counters(
    before: Mapping[str, float], after: Mapping[str, float], requests: int | None = None
) -> CounterAcceptance:
    """Acceptance between two readings of ``/metrics``, label sets already summed.

    The counters run since the server's start; the gauge ``sglang:spec_accept_length`` holds the last 40 steps only, and
    ``avg_spec_accept_length`` the whole life since the last flush. Neither is this window.
    """
    names = ("generation_tokens", "spec_verify_calls")
    pairs = [(counter(before, n), counter(after, n)) for n in names]
    if any(b is None for _, b in pairs):
        return CounterAcceptance(0, 0, None, None, "no data: the server has no such counters")
    tokens, steps = (int((b or 0.0) - (a or 0.0)) for a, b in pairs)
    if tokens < 0 or steps < 0:
        return CounterAcceptance(0, 0, None, None, "no data: the counters went backwards, the server was restarted")
    if not tokens or not steps:
        return CounterAcceptance(tokens, steps, None, None, "no data: no request finished in between")
    exact = (tokens - requests) / steps if requests is not None else None
    return CounterAcceptance(tokens, steps, exact, tokens / steps)
