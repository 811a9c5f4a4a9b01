"""What a server's counters say of a measurement: requests of others, steps joined in one event, a restart."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from spectui.core.request import RequestRecord

TOKENS_ALLOWED = 8
"""Generated tokens beyond our own that are no sign of others: health probes make one each."""
SHARE_ALLOWED = 0.005


@dataclass
class Sent:
    """What we asked of a server, to tell our traffic from that of others."""

    requests: int = 0
    tokens: int = 0
    unsure: bool = False
    """A request did not end well, so that the server may have counted more of it than we saw."""

    def add(self, record: RequestRecord) -> None:
        self.requests += 1
        self.tokens += record.completion_tokens or 0
        if not record.ok:
            self.unsure = True


def foreign_traffic(before: dict[str, float], after: dict[str, float], ours: Sent) -> str:
    """What a server's counters say of others' requests between two readings; empty when nothing does.

    Counters move when a request finishes (SGLang 0.4.9 to 0.5.23), so what others have in flight is not seen yet.
    """
    tokens = _grown(before, after, "generation_tokens_total")
    requests = _grown(before, after, "num_requests_total")
    if ours.unsure:
        return ""
    more = None if requests is None else requests - ours.requests
    if tokens is None:
        return f"{more:.0f} requests more than ours have finished" if more is not None and more > 0 else ""
    extra = tokens - ours.tokens
    if extra > max(TOKENS_ALLOWED, SHARE_ALLOWED * ours.tokens) or (more is not None and more > 0 and extra > more):
        return f"{extra:.0f} tokens more than ours were generated"
    return ""


def joined_steps(
    records: Sequence[RequestRecord], before: dict[str, Any], after: dict[str, Any], draft_tokens: object = None
) -> str:
    """What says that events held several verify steps each; empty when nothing does.

    By request where the route tells its steps; else by events larger than a step of ``draft_tokens`` can be, and by
    the server's counter of verify steps over these requests, where it counts no more than their tokens. ``before``
    and ``after`` are fields of metrics rows.
    """
    marked = sum("route_joined_steps" in record.marks for record in records)
    if marked:
        return f"{marked} of {len(records)} streams held several verify steps in one event"
    if isinstance(draft_tokens, int) and draft_tokens > 1:
        large = sum(any(n > draft_tokens for n in record.increments[1:]) for record in records)
        if large:
            return f"{large} of {len(records)} streams held more tokens in one event than a verify step can give"
    if "counters" not in before or "counters" not in after:
        return ""
    if any(r.verify_steps is not None or not (r.ok and r.increments) for r in records):
        return ""
    steps = _grown(before["counters"], after["counters"], "spec_verify_calls_total")
    tokens = _grown(before["counters"], after["counters"], "generation_tokens_total")
    events = sum(len(record.increments) - 1 for record in records)
    if not steps or steps <= events or tokens != sum(record.completion_tokens or 0 for record in records):
        return ""
    return (
        f"the streams show {events:,} events after the first ones, the server counted {steps:,.0f} verify steps: "
        "events held several steps each, so acceptance is taken from its counters"
    )


def _grown(before: dict[str, float], after: dict[str, float], name: str) -> float | None:
    if name not in after and name not in before:
        return None
    # A counter appears with its first increment.
    grown = after.get(name, 0.0) - before.get(name, 0.0)
    return grown if grown >= 0 else None


def restarted(before: dict[str, float], after: dict[str, float]) -> bool:
    """A counter went down: the server was started again in between."""
    return any(after.get(name, 0.0) < value for name, value in before.items() if name.endswith("_total"))
