"""One request as the client saw it: the value that every figure of a run is computed from."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """A request that has ended, well or not. Times are epoch seconds on the runner's clock."""

    index: int
    """Position of the prompt in its set."""
    prompt_id: str
    """Hash of the prompt: pairs the same prompt over arms and runs."""
    group: str
    """Kind of content (chat, code, json …), for results by group."""
    arm: str
    pass_name: str
    """cold, warm, primed or as-found."""
    phase: str
    """warmup, feed or measure."""
    concurrency: int
    block: int
    """Which alternating block of the pass it belongs to, from 0."""
    rid: str
    start_s: float
    """Stamped when the request was handed to the kernel."""
    first_s: float | None
    """Receipt of the first event that carried a token; None when none came."""
    last_s: float | None
    """Receipt of the last event that carried a token."""
    end_s: float
    status: str
    """ok, failed (the server said so or closed), cut off (ended without its end mark), stopped (by us)."""
    error: str | None = None
    finish: str | None = None
    """stop, length or abort, as the server says."""
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    tokens_estimated: bool = False
    """True when no count came from the server and events were counted in its place."""
    cached_tokens: int | None = None
    verify_steps: int | None = None
    """The server's spec_verify_ct; None without speculation or where the route has no such field."""
    accepted_drafts: int | None = None
    proposed_drafts: int | None = None
    histogram: tuple[int, ...] | None = None
    """h[k]: verify steps in which exactly k drafts were accepted."""
    increments: tuple[int, ...] = ()
    """Tokens that each event carried, the first (prefill's) included; empty where counts come only at the end."""
    event_s: tuple[float, ...] = ()
    """Receipt of each event that carried tokens, in seconds after start_s; as long as increments."""
    reasoning_tokens: int | None = None
    first_answer_s: float | None = None
    """Receipt of the first event with answer text, where thoughts came before it."""
    server_e2e_s: float | None = None
    """The server's own e2e_latency, as a second source."""
    marks: tuple[str, ...] = field(default_factory=tuple)

    @property
    def ok(self) -> bool:
        return self.status == "ok"


def all_failed(records: Sequence[RequestRecord]) -> str:
    """That none of these requests ended well, and why; empty where one did, or there are none."""
    if not records or any(record.ok for record in records):
        return ""
    (why, count), *others = Counter(record.error or record.status for record in records).most_common()
    whole = f"all {len(records)} requests failed" if len(records) > 1 else "the only request failed"
    return f"{whole}: {why}" if not others else f"{whole}, {count} of them: {why}"
