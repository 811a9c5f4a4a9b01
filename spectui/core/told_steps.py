"""Verify steps where no request tells its own: what the events of its stream and the server's counters say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from spectui.core.request import RequestRecord


def counter(counters: Mapping[str, float] | None, name: str) -> float | None:
    """A counter by its plain name, found with or without SGLang's prefix and the ``_total`` of newer exporters."""
    for spelled in (f"sglang:{name}_total", f"sglang:{name}", f"sglang_{name}_total", f"{name}_total", name):
        if counters and spelled in counters:
            return float(counters[spelled])
    return None


@dataclass(frozen=True, slots=True)
class Told:
    """Verify steps of a pass whose route names none: by the streams' events, and by the server's counter."""

    events: int | None
    """Events after the first of each request, where they hold all tokens."""
    counter: int | None
    """What the counter grew by, where nothing but these requests was counted."""
    alone: bool
    """One request at a time and no event with more tokens than a step can have: events are taken for steps."""

    @property
    def steps(self) -> bool:
        """Each event is one step."""
        return self.events is not None and (self.events == self.counter or (self.counter is None and self.alone))

    @property
    def why(self) -> str:
        if self.events is None:
            return "the server tells no steps on this route, and its events do not hold all tokens"
        said = (
            f"the server sends no histogram on this route; the stream has {self.events:,} events after the first ones"
        )
        if self.counter is None:
            return f"{said}, and no counter of verify steps to hold them against"
        return f"{said}, its counter says {self.counter:,} steps: events join several steps"

    @property
    def source(self) -> str:
        """Where the steps come from, once each event is one."""
        if self.events is None:
            return ""
        if self.counter is not None:
            return (
                f"by the {self.events:,} events after the first ones, as many as the server's counter of verify steps"
            )
        return (
            f"by the {self.events:,} events, one a step as requests ran one at a time; no counter to hold them against"
        )


def told_of(
    rows: list[RequestRecord], sent: list[RequestRecord], counters: Mapping[str, float] | None, draft_tokens: int | None
) -> Told:
    """``rows``: the requests that ended well; ``sent``: all that were sent while ``counters`` grew."""
    events = by_events(rows)
    steps, tokens = counter(counters, "spec_verify_calls"), counter(counters, "generation_tokens")
    only = {r.rid for r in sent} == {r.rid for r in rows} and tokens == sum(r.completion_tokens or 0 for r in rows)
    most = draft_tokens or 0
    alone = all(r.concurrency == 1 and all(n <= most for n in r.increments[1:]) for r in rows)
    return Told(events, int(steps) if steps is not None and only else None, alone)


def by_events(rows: list[RequestRecord]) -> int | None:
    if not rows or any(not r.increments or sum(r.increments) != r.completion_tokens for r in rows):
        return None
    return sum(len(r.increments) - 1 for r in rows)
