"""Figures of one run held against each other: what must be equal is checked, not believed."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.request import RequestRecord
from spectui.core.told_steps import Told, by_events, counter, told_of
from spectui.core.versions import parse

OK = "ok"
WITHIN = "within allowance"
UNAVAILABLE = "unavailable on this version"
BROKEN = "broken"


@dataclass(frozen=True, slots=True)
class Identity:
    """One check. ``state``: ok, within allowance, unavailable on this version, or broken, which alone keeps a run from
    being ranked."""

    name: str
    state: str
    detail: str

    def as_json(self) -> dict[str, str]:
        return {"name": self.name, "state": self.state, "detail": self.detail}


def counts_finished_request(version: str) -> bool:
    """Versions whose overlapped scheduler may count one more verify step after a request's end (0.5.10 and 0.5.12,
    scheduler_output_processor_mixin.py; 0.5.15 skips finished requests)."""
    found = parse(version)
    return found is not None and (0, 5, 10) <= found < (0, 5, 15)


def bound(completion: int, steps: int, draft_tokens: int, requests: int = 1) -> Identity:
    """Whether so many tokens can come from so many verify steps.

    At most ``steps × draft_tokens`` plus the first token of each request; at least one a step, since a step always
    commits the target's own token.
    """
    most = steps * draft_tokens + requests
    said = f"{completion:,} tokens in {steps:,} verify steps of {draft_tokens} draft tokens"
    if completion > most:
        return Identity("bound", BROKEN, f"impossible: {said}, at most {most:,} can come of them")
    if completion < steps:
        why = "fewer than one token a step is only possible when output was cut"
        return Identity("bound", BROKEN, f"impossible: {said}; {why}")
    return Identity("bound", OK, f"{said}, at most {most:,}")


def identities(
    requests: Iterable[RequestRecord],
    *,
    draft_tokens: int | None,
    version: str,
    counters: Mapping[str, float] | None = None,
    sent: Iterable[RequestRecord] | None = None,
    speculative: bool | None = None,
) -> list[Identity]:
    """All checks of a run.

    ``requests``: the measured ones. ``counters``: what the server's counters grew by meanwhile, label sets summed
    (names as in ``/metrics``); ``sent``: all that we asked for in that time, warm-up and feeding included (default:
    ``requests``). ``speculative`` None: guessed from the records.
    """
    every = list(requests)
    rows = [r for r in every if r.ok and r.completion_tokens]
    if speculative is None:
        speculative = any(r.verify_steps is not None or r.histogram is not None for r in rows)
    everything = every if sent is None else list(sent)
    told = told_of(rows, everything, counters, draft_tokens)
    return [
        _histogram_sum(rows, version, speculative, told),
        _tokens_from_histogram(rows, draft_tokens, speculative, told),
        _events(rows, speculative, told),
        _bound_of(rows, draft_tokens, speculative, told),
        _token_counter(everything, counters),
        _step_counter(everything, counters, version, speculative),
    ]


def _first(wrong: Sequence[tuple[RequestRecord, str]], rows: int) -> str:
    request, what = wrong[0]
    return f"{len(wrong)} of {rows} requests, first number {request.index} ({request.rid or 'no id'}): {what}"


def _histogram_sum(rows: list[RequestRecord], version: str, speculative: bool, told: Told) -> Identity:
    name = "histogram sum"
    if not speculative:
        return Identity(name, OK, "no speculation: every decode token is one step")
    known = [r for r in rows if r.histogram is not None and r.verify_steps is not None]
    if not known:
        return _of_events(name, told, told.source)
    wrong, extra = [], 0
    for r in known:
        more = (r.verify_steps or 0) - sum(r.histogram or ())
        if more == 1 and counts_finished_request(version):
            extra += 1
        elif more:
            wrong.append((r, f"histogram of {sum(r.histogram or ())} steps, verify steps {r.verify_steps}"))
    if wrong:
        return Identity(name, BROKEN, _first(wrong, len(known)))
    if extra:
        return Identity(
            name, WITHIN, f"{extra} of {len(known)} requests count a step after their end, as {version} may"
        )
    return Identity(name, OK, f"equal to the verify steps in all {len(known)} requests")


def _of_events(name: str, told: Told, said: str) -> Identity:
    """A histogram made of the events' sizes, where each is one step."""
    if told.events is not None and told.counter is not None and told.events > told.counter:
        said = f"{told.events:,} events after the first ones, {told.counter:,} verify steps by the server's counter"
        return Identity(name, BROKEN, said)
    return Identity(name, _sure(told), said) if told.steps else Identity(name, UNAVAILABLE, told.why)


def _sure(told: Told) -> str:
    return OK if told.counter is not None else WITHIN


def _cut(r: RequestRecord) -> int:
    counts = r.histogram or ()
    return sum(n * (k + 1) for k, n in enumerate(counts)) - (r.completion_tokens or 0) + 1


def _tokens_from_histogram(
    rows: list[RequestRecord], draft_tokens: int | None, speculative: bool, told: Told
) -> Identity:
    name = "tokens from histogram"
    if not speculative:
        return Identity(name, OK, "no speculation: every decode token is one step")
    known = [r for r in rows if r.histogram is not None]
    if not known:
        return _of_events(name, told, f"exact in all {len(rows)} requests, {told.source}")
    wrong, cut = [], 0
    for r in known:
        most = (draft_tokens or len(r.histogram or ())) - 1
        left = _cut(r)
        if not 0 <= left <= most:
            counts = f"{(r.completion_tokens or 0) - 1} decode tokens, the histogram holds {left:+d}"
            wrong.append((r, f"{counts}; the last step may hold 0 to {most} more"))
        elif left:
            cut += 1
    if wrong:
        return Identity(name, BROKEN, _first(wrong, len(known)))
    if cut:
        return Identity(name, WITHIN, f"{cut} of {len(known)} requests were cut inside their last step")
    return Identity(name, OK, f"exact in all {len(known)} requests")


def _events(rows: list[RequestRecord], speculative: bool, told: Told) -> Identity:
    """Increments against the histogram; a stream that joins steps can only be held against the sum of tokens."""
    name = "events"
    known = [r for r in rows if r.increments]
    if not known:
        return Identity(name, UNAVAILABLE, "the stream carries no counts on this route")
    wrong: list[tuple[RequestRecord, str]] = []
    joined = silent = 0
    for r in known:
        if sum(r.increments) != r.completion_tokens:
            wrong.append((r, f"events hold {sum(r.increments)} tokens, the server counts {r.completion_tokens}"))
            continue
        events = len(r.increments) - 1
        counts = list(r.histogram) if r.histogram is not None else None
        steps = sum(counts) if counts is not None else r.verify_steps
        if not speculative:
            counts, steps = None, (r.completion_tokens or 1) - 1
        if steps is None:
            silent += 1
            continue
        if events > steps:
            wrong.append((r, f"{events} events after the first, {steps} steps"))
        elif events < steps:
            joined += 1
        elif counts is not None and not _same_steps(r.increments[1:], counts, _cut(r)):
            wrong.append((r, "the events' sizes are not those of the histogram"))
    if wrong:
        return Identity(name, BROKEN, _first(wrong, len(known)))
    if joined:
        return Identity(name, WITHIN, f"in {joined} of {len(known)} requests events join several steps; tokens agree")
    if silent:
        return _events_of_all(name, len(known), told)
    return Identity(name, OK, f"one event is one step in all {len(known)} requests")


def _events_of_all(name: str, requests: int, told: Told) -> Identity:
    """No request tells its steps: their sum against the counter."""
    if told.counter is None or told.events is None:
        return Identity(name, OK, f"they hold all tokens in all {requests} requests; steps are not told on this route")
    said = f"{told.events:,} events after the first ones, {told.counter:,} verify steps by the server's counter"
    if told.events > told.counter:
        return Identity(name, BROKEN, said)
    if told.events < told.counter:
        return Identity(name, WITHIN, f"{said}: events join several steps; tokens agree")
    return Identity(name, OK, f"one event is one step in all {requests} requests: {said}")


def _same_steps(increments: Sequence[int], counts: list[int], cut: int) -> bool:
    """The last step may show fewer tokens than the histogram counts: those beyond the cut."""
    left = list(counts)
    for n in [*increments[:-1], *([increments[-1] + cut] if increments else [])]:
        if not 1 <= n <= len(left):
            return False
        left[n - 1] -= 1
    return not any(left)


def _bound_of(rows: list[RequestRecord], draft_tokens: int | None, speculative: bool, told: Told) -> Identity:
    if not speculative:
        return Identity("bound", OK, "no speculation: one token a step")
    known = [r for r in rows if r.verify_steps is not None]
    if not rows or draft_tokens is None:
        return Identity("bound", UNAVAILABLE, "verify steps or the number of draft tokens are not known")
    if not known and told.counter is not None:
        tokens = sum(r.completion_tokens or 0 for r in rows)
        whole = bound(tokens, told.counter, draft_tokens, len(rows))
        return Identity("bound", whole.state, f"by the server's counter over all {len(rows)} requests: {whole.detail}")
    if not known and told.steps:
        return Identity("bound", _sure(told), f"no event holds more than {draft_tokens} tokens, {told.source}")
    if not known:
        return Identity("bound", UNAVAILABLE, told.why)
    wrong = []
    for r in known:
        said = bound(r.completion_tokens or 0, r.verify_steps or 0, draft_tokens)
        if said.state == BROKEN:
            wrong.append((r, said.detail))
    if wrong:
        return Identity("bound", BROKEN, _first(wrong, len(known)))
    return Identity("bound", OK, f"{len(known)} requests lie within {draft_tokens} tokens a step")


STRAY_TOKENS = 16
"""A health check generates one token and the warm-up of a restart eight: so many strangers' tokens are no traffic.
Beyond that one in a hundred of our own is let pass: it cannot move a figure by more than the noise."""


def _token_counter(sent: list[RequestRecord], counters: Mapping[str, float] | None) -> Identity:
    name = "token counter"
    theirs = counter(counters, "generation_tokens")
    if theirs is None:
        return Identity(name, UNAVAILABLE, "no counters of the server were read")
    ours = sum(r.completion_tokens or 0 for r in sent)
    whole = sum(r.completion_tokens or 0 for r in sent if r.ok)
    return _against(name, "tokens", (ours, whole), theirs, sum(1 for r in sent if not r.ok), STRAY_TOKENS)


def _step_counter(
    sent: list[RequestRecord], counters: Mapping[str, float] | None, version: str, speculative: bool
) -> Identity:
    name = "step counter"
    theirs = counter(counters, "spec_verify_calls")
    if not speculative:
        return Identity(name, OK if theirs in (None, 0.0) else WITHIN, "no speculation: nothing to verify")
    done = [r for r in sent if r.ok]
    if theirs is None or not done:
        return Identity(name, UNAVAILABLE, "the server counts no verify steps here")
    if any(r.verify_steps is None for r in done):
        return _step_counter_of_events(name, sent, theirs, counter(counters, "generation_tokens"))
    ours = sum(r.verify_steps or 0 for r in sent)
    slack = STRAY_TOKENS + (len(sent) if counts_finished_request(version) else 0)
    whole = sum(r.verify_steps or 0 for r in done)
    return _against(name, "verify steps", (ours, whole), theirs, sum(1 for r in sent if not r.ok), slack)


def _step_counter_of_events(name: str, sent: list[RequestRecord], theirs: float, tokens: float | None) -> Identity:
    events = by_events(sent)
    if events is None:
        return Identity(
            name, UNAVAILABLE, "the server tells no steps by request, and its events do not hold all tokens"
        )
    said = f"{events:,} events after the first ones, the server's count {theirs:,.0f} verify steps"
    if theirs < events:
        return Identity(name, BROKEN, f"{said}: more shown than the server has made")
    if theirs == events:
        return Identity(name, OK, said)
    if tokens == sum(r.completion_tokens or 0 for r in sent):
        return Identity(name, WITHIN, f"{said}: events join several steps; tokens agree")
    return Identity(name, UNAVAILABLE, f"{said}; others' requests are in its count too")


def _against(name: str, what: str, counted: tuple[int, int], theirs: float, unfinished: int, slack: int) -> Identity:
    """``counted``: of all requests, and of those alone that ended."""
    ours, whole = counted
    said = f"our count {ours:,}, the server's {theirs:,.0f} {what}"
    if theirs < 0:
        return Identity(name, UNAVAILABLE, "the server's counter went backwards: it was restarted")
    if theirs == ours:
        return Identity(name, OK, said)
    if unfinished and whole <= theirs < ours:
        # A request's tokens are booked when it ends, and of one that was stopped we may have seen more than was booked.
        return Identity(name, WITHIN, f"{said}; {unfinished} requests did not end, and may not be counted there yet")
    if theirs < ours:
        return Identity(name, BROKEN, f"{said}: more counted than the server has made")
    if unfinished:
        return Identity(name, WITHIN, f"{said}; {unfinished} requests did not end well and may hold the difference")
    if theirs - ours <= max(slack, ours // 100):
        return Identity(name, WITHIN, f"{said}; a few come from health checks")
    return Identity(name, BROKEN, f"{said}: the rest is traffic that is not ours")
