"""One pass of one arm at one concurrency, as a value with every figure that is made of it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from spectui.core import accept
from spectui.core.evidence import Evidence, is_stateful
from spectui.core.identities import Identity
from spectui.core.notices import fewer_in_flight, never_accepted, without_graphs
from spectui.core.proposer import ProposerState, proposer_state
from spectui.core.request import RequestRecord, all_failed

Key = tuple[str, int, str]
"""(arm, concurrency, pass_name)"""


def windows_of(records: Iterable[RequestRecord]) -> dict[int, tuple[float, float]]:
    """Block -> when its first request was sent and its last one ended. What the runner does between blocks, a flush or
    a reading of counters, is in none of them; of an interrupted block only what had ended counts."""
    found: dict[int, tuple[float, float]] = {}
    for r in records:
        if r.status == "stopped":
            continue
        low, high = found.get(r.block, (r.start_s, r.end_s))
        found[r.block] = min(low, r.start_s), max(high, r.end_s)
    return found


def merged(windows: Iterable[tuple[float, float]]) -> list[tuple[float, float]]:
    """Windows in the order of time, those that overlap taken together: an arm that runs alone goes from one block to
    the next without a pause, several requests in flight, and that time must not count twice."""
    found: list[tuple[float, float]] = []
    for low, high in sorted(windows):
        if found and low <= found[-1][1]:
            found[-1] = found[-1][0], max(found[-1][1], high)
        else:
            found.append((low, high))
    return found


@dataclass(frozen=True)
class PassResult:
    """Figures of the measured requests of one pass; never pooled with another pass. Computed when first asked for."""

    arm: str
    concurrency: int
    pass_name: str
    records: tuple[RequestRecord, ...]
    """The measured requests, in the order in which they ended; failed ones too."""
    sent: tuple[RequestRecord, ...]
    """All requests of the pass, warm-up and feeding included."""
    algorithm: str = ""
    version: str = ""
    route: str = ""
    draft_tokens: int | None = None
    joined: bool = False
    """Streams joined several steps in one event: events tell no steps."""
    gaps_hidden: str | None = None
    """Why chunk gaps say nothing here."""
    counters: Mapping[str, float] | None = None
    """What the server's counters grew by, over ``counted_over``."""
    counted_over: tuple[RequestRecord, ...] = ()
    joules: float | None = None
    joules_missing: str = "the GPUs of this server are not known"
    heat: Mapping[str, Any] | None = None
    """Of the arm's GPUs over the measured windows, from ``energy.heat_over``; None: no readings."""
    client: Mapping[str, Any] = field(default_factory=dict)
    marks: tuple[Mapping[str, Any], ...] = ()
    flush: Mapping[str, Any] | None = None
    """What the flush before this pass said: {flushed, attempts, status, reason}; None: there was none."""
    feed: Mapping[str, Any] | None = None
    evidence: Evidence = field(default_factory=lambda: Evidence(""))
    cached_share: float | None = None
    """Prompt tokens that the prefix cache held, as a share."""
    captured_limit: int | None = None
    """The largest batch that decode graphs were captured for, where the server tells."""

    @property
    def key(self) -> Key:
        return self.arm, self.concurrency, self.pass_name

    @cached_property
    def speculative(self) -> bool:
        if self.algorithm:
            return self.algorithm.lower() != "none"
        return accept.is_speculative(self.records)

    @cached_property
    def good(self) -> tuple[RequestRecord, ...]:
        """The requests that figures are made of."""
        return tuple(accept.counted(self.records))

    @cached_property
    def stepped(self) -> tuple[RequestRecord, ...]:
        """Those whose verify steps are known: with joined streams, only those that the server tells of."""
        if not (self.joined and self.speculative):
            return self.good
        return tuple(r for r in self.good if r.verify_steps is not None or r.histogram is not None)

    @property
    def requests(self) -> int:
        """Measured requests that were sent, failed ones included."""
        return len(self.records)

    @property
    def failed(self) -> int:
        return sum(1 for r in self.records if r.status in ("failed", "cut off"))

    @property
    def stopped(self) -> int:
        return sum(1 for r in self.records if r.status == "stopped")

    @property
    def output_tokens(self) -> int:
        return accept.output_tokens(self.records)

    @cached_property
    def windows(self) -> dict[int, tuple[float, float]]:
        """Block -> when its first request was sent and its last one ended, epoch seconds."""
        return windows_of(self.records)

    @cached_property
    def wall_s(self) -> float:
        """Seconds in which at least one measured request was in flight."""
        return sum(high - low for low, high in merged(self.windows.values()))

    @cached_property
    def most_in_flight(self) -> int:
        """The most requests that were in flight at one moment, whatever was asked for."""
        edges = sorted((t, by) for r in self.records for t, by in ((r.start_s, 1), (r.end_s, -1)))
        most = now = 0
        for _, by in edges:
            now += by
            most = max(most, now)
        return most

    @cached_property
    def in_flight(self) -> float | None:
        """Requests in flight over the measured time, in the mean: what one step really shared."""
        busy = sum(r.end_s - r.start_s for r in self.records if r.status != "stopped")
        return busy / self.wall_s if self.wall_s > 0 else None

    @property
    def output_tokens_per_s(self) -> float | None:
        return self.output_tokens / self.wall_s if self.wall_s > 0 and self.good else None

    @cached_property
    def verify_steps(self) -> int | None:
        return self._counted or accept.verify_steps(self.stepped, speculative=self.speculative)

    @cached_property
    def _counter_steps(self) -> int | None:
        """From the counters, where they span the measured requests and nothing else."""
        if not self.speculative or not self.good or {r.rid for r in self.counted_over} != {r.rid for r in self.good}:
            return None
        steps = accept.counter(self.counters, "spec_verify_calls")
        tokens = accept.counter(self.counters, "generation_tokens")
        return int(steps) if steps and tokens == self.output_tokens else None

    @cached_property
    def _counted(self) -> int | None:
        """The counters' steps, where not every request tells its own: figures of some only would be of a selection."""
        told = {r.rid for r in self.stepped if accept.steps_of(r, True) is not None}
        return self._counter_steps if self.speculative and len(told) < len(self.good) else None

    @cached_property
    def accept_length(self) -> float | None:
        if self._counted:
            return (self.output_tokens - len(self.good)) / self._counted
        return accept.accept_length(self.stepped, speculative=self.speculative)

    @cached_property
    def accept_length_sglang(self) -> float | None:
        if self._counted:
            return self.output_tokens / self._counted
        return accept.accept_length_sglang(self.stepped, speculative=self.speculative)

    @cached_property
    def accept_rate(self) -> float | None:
        return accept.accept_rate(self.stepped, draft_tokens=self.draft_tokens) if self.speculative else None

    @cached_property
    def histogram(self) -> list[int] | None:
        return accept.histogram(self.stepped, speculative=self.speculative)

    @cached_property
    def step_time_ms(self) -> float | None:
        if self._counted:
            spans = [(r.last_s or 0.0) - (r.first_s or 0.0) for r in self.good]
            return 1000 * sum(spans) / self._counted
        return accept.step_time_ms(self.stepped, speculative=self.speculative)

    @cached_property
    def ttft_ms(self) -> dict[str, float] | None:
        return accept.spread(accept.ttft(self.good), 1000)

    @cached_property
    def tpot_ms(self) -> dict[str, float] | None:
        return accept.spread(accept.tpot(self.good), 1000)

    @cached_property
    def chunk_gap_ms(self) -> dict[str, float] | None:
        return None if self.gaps_hidden else accept.spread(accept.chunk_gaps(self.good), 1000)

    @cached_property
    def e2e_ms(self) -> dict[str, float] | None:
        return accept.spread(accept.e2e(self.good), 1000)

    @property
    def joules_per_token(self) -> float | None:
        return self.joules / self.output_tokens if self.joules is not None and self.output_tokens else None

    @cached_property
    def identities(self) -> list[Identity]:
        return accept.identities(
            self.records,
            draft_tokens=self.draft_tokens,
            version=self.version,
            counters=self.counters,
            sent=self.counted_over or None,
            speculative=self.speculative,
        )

    @cached_property
    def notices(self) -> tuple[str, ...]:
        """What must be read beside the figures: drafts that are never accepted, decoding outside captured graphs."""
        drafts = None
        if self.speculative:
            learns = is_stateful(self.algorithm) is not False
            drafts = never_accepted(self.accept_length, self.verify_steps, learns=learns)
        fewer = fewer_in_flight(self.concurrency, self.most_in_flight)
        return tuple(text for text in (drafts, fewer, without_graphs(self.counters, self.captured_limit)) if text)

    @property
    def failed_whole(self) -> str:
        """That all requests failed, and why: then there are no figures, and nothing else is worth a word."""
        return all_failed(self.records)

    @cached_property
    def proposer_state(self) -> ProposerState:
        """From the journal alone; ``fairness.evidence_from`` with the answers sees more."""
        if self.failed_whole and is_stateful(self.algorithm) is not False:
            return ProposerState("unknown", "no request ended well, so nothing can be said of it")
        return proposer_state(self.evidence)

    def group(self, name: str) -> PassResult:
        """The same pass over one kind of content; its tokens a second are over the whole window."""
        rows = tuple(r for r in self.records if r.group == name)
        return PassResult(
            self.arm,
            self.concurrency,
            self.pass_name,
            rows,
            rows,
            algorithm=self.algorithm,
            version=self.version,
            draft_tokens=self.draft_tokens,
            joined=self.joined,
            gaps_hidden=self.gaps_hidden,
        )

    @property
    def groups(self) -> list[str]:
        return list(dict.fromkeys(r.group for r in self.records))

    def as_json(self, state: ProposerState | None = None) -> dict[str, Any]:
        """The figures under the keys that the command line prints; what is not known is None. ``state``: where more
        than the journal was looked at."""
        state = state or self.proposer_state
        return {
            "arm": self.arm,
            "concurrency": self.concurrency,
            "pass": self.pass_name,
            "requests": self.requests,
            "failed": self.failed,
            "stopped": self.stopped,
            "output_tokens": self.output_tokens,
            "tokens_estimated": any(r.tokens_estimated for r in self.good),
            "wall_s": self.wall_s,
            "in_flight": self.in_flight,
            "most_in_flight": self.most_in_flight,
            "output_tokens_per_s": self.output_tokens_per_s,
            "ttft_ms": self.ttft_ms,
            "tpot_ms": self.tpot_ms,
            "chunk_gap_ms": self.chunk_gap_ms,
            "tokens_per_event": accept.tokens_per_event(self.good),
            "e2e_ms": self.e2e_ms,
            "step_time_ms": self.step_time_ms,
            "verify_steps": self.verify_steps,
            "accept_length": self.accept_length,
            "accept_length_sglang": self.accept_length_sglang,
            "accept_rate": self.accept_rate,
            "histogram": self.histogram,
            "accepted_by_position": accept.accepted_by_position(self.histogram or []),
            "identities": [i.as_json() for i in self.identities],
            "notices": list(self.notices),
            "proposer_state": state.name,
            "proposer": state.as_json(),
            "algorithm": self.algorithm,
            "route": self.route,
            "client": dict(self.client),
            "joules_per_token": self.joules_per_token,
            "cached_prompt_share": self.cached_share,
            "flush": dict(self.flush) if self.flush else None,
            "marks": [{"name": m.get("name"), "detail": m.get("detail")} for m in self.marks],
            "by_group": {name: self._group_json(name) for name in self.groups},
        }

    def _group_json(self, name: str) -> dict[str, Any]:
        one = self.group(name)
        return {
            "requests": one.requests,
            "failed": one.failed,
            "output_tokens": one.output_tokens,
            "verify_steps": one.verify_steps,
            "accept_length": one.accept_length,
            "tpot_ms": one.tpot_ms,
        }
