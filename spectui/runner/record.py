"""A request's record, out of what its stream showed and how it ended."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from spectui.core.request import RequestRecord
from spectui.runner import payload as events
from spectui.runner.stream import StreamFold


@dataclass(frozen=True, slots=True)
class Identity:
    """Which request this is: the fields of a record that are known before it is sent."""

    index: int
    prompt_id: str
    group: str
    arm: str
    pass_name: str
    phase: str
    concurrency: int
    block: int
    rid: str


@dataclass(frozen=True, slots=True)
class Ending:
    """How the exchange with the server ended."""

    state: str
    """complete; refused, unreachable, reset, closed, silent, unreadable (all of the connection); status (the server
    answered other than 200); stopped (by us)."""
    t_ns: int
    status: int | None = None
    detail: str = ""
    body: bytes = b""
    """Of an answer other than 200, cut at some kilobytes."""


def record_of(fold: StreamFold, who: Identity, ending: Ending) -> RequestRecord:
    """The record of a request; the fold must be closed."""
    status, error = _status(fold, ending)
    meta, usage = fold.meta(), fold.usage()
    spec = fold.details()
    counted = fold.tokens > 0
    start = fold.start_ns or ending.t_ns
    before = 0
    increments = []
    for count in fold.counts:
        increments.append(count - before)
        before = count
    cached = events.number(meta.get("cached_tokens"))
    if cached is None:
        cached = _inner(usage, "prompt_tokens_details", "cached_tokens")
    reasoning = events.number(meta.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = events.number(usage.get("reasoning_tokens"))
    if reasoning is None:
        reasoning = _inner(usage, "completion_tokens_details", "reasoning_tokens")
    prompt = events.number(meta.get("prompt_tokens"))
    latency = meta.get("e2e_latency")
    completion = fold.tokens if counted else (fold.text_events or None)
    return RequestRecord(
        index=who.index,
        prompt_id=who.prompt_id,
        group=who.group,
        arm=who.arm,
        pass_name=who.pass_name,
        phase=who.phase,
        concurrency=who.concurrency,
        block=who.block,
        rid=who.rid,
        start_s=seconds(start),
        first_s=None if fold.first_ns is None else seconds(fold.first_ns),
        last_s=None if fold.last_ns is None else seconds(fold.last_ns),
        end_s=seconds(max(ending.t_ns, start)),
        status=status,
        error=error,
        finish=fold.finish,
        prompt_tokens=events.number(usage.get("prompt_tokens")) if prompt is None else prompt,
        completion_tokens=completion,
        tokens_estimated=completion is not None and not counted,
        cached_tokens=cached,
        verify_steps=spec.verify_steps,
        accepted_drafts=spec.accepted_drafts,
        proposed_drafts=spec.proposed_drafts,
        histogram=spec.histogram,
        increments=tuple(increments),
        event_s=tuple(round((stamp - start) / 1e9, 6) for stamp in fold.stamps),
        reasoning_tokens=reasoning,
        first_answer_s=None if fold.first_answer_ns is None else seconds(fold.first_answer_ns),
        server_e2e_s=float(latency) if isinstance(latency, int | float) else None,
        marks=_marks(fold),
    )


def _marks(fold: StreamFold) -> tuple[str, ...]:
    marks = []
    if fold.unreadable:
        marks.append("unreadable_events")
    if fold.torn:
        marks.append("torn_event")
    if fold.joined:
        marks.append("route_joined_steps")
    if fold.done and not fold.text_events and not fold.tokens and fold.error is None:
        marks.append("no_output")
    elif fold.done and fold.no_answer:
        marks.append("no_answer_text")
    return tuple(marks)


def _status(fold: StreamFold, ending: Ending) -> tuple[str, str | None]:
    begun = bool(fold.tokens or fold.text_events)
    had = f" after {fold.tokens or fold.text_events} tokens" if begun else ""
    if fold.error is not None:
        return "failed", events.clean(fold.error)
    if ending.state == "stopped":
        return "stopped", ending.detail or None
    if ending.state == "status":
        return "failed", f"HTTP {ending.status}: {body_words(ending.body)}"
    if fold.done:
        return ("ok", None) if begun else ("failed", "the server ended the stream without a token")
    if ending.state == "complete":
        where = " inside an event" if fold.torn else ""
        return "cut off", f"the stream ended{where} without its end mark{had}"
    words = ending.detail or ending.state
    return ("cut off" if begun or fold.torn else "failed"), words + had


def seconds(t_ns: int) -> float:
    """Nanoseconds as seconds, to the microsecond: what a double holds of an epoch time."""
    return round(t_ns / 1e9, 6)


def body_words(body: bytes) -> str:
    """What an answer other than 200 says, in one line."""
    tree = events.as_tree(body)
    if tree is not None:
        return events.error_words(tree)
    return " ".join(body.decode("utf-8", "replace").split())[:300] or "no further words"


def _inner(tree: Mapping[str, Any], outer: str, key: str) -> int | None:
    inner = tree.get(outer)
    return events.number(inner.get(key)) if isinstance(inner, dict) else None
