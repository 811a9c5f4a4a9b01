"""A run's journal folded into results: one :class:`PassResult` for each arm, concurrency and pass, never pooled.

Tolerant by design: rows of unknown kinds, rows that lack what they need, and runs that were torn off give what can be
had of them.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import Any

from spectui.core.energy import heat_over, joules_over
from spectui.core.evidence import Evidence
from spectui.core.gather import gather
from spectui.core.live import LiveFold
from spectui.core.passes import Key, PassResult, merged, windows_of
from spectui.core.proposer import ProposerState
from spectui.core.request import RequestRecord
from spectui.core.rows import Row

__all__ = ["Key", "LiveFold", "PassResult", "RunResult", "fold", "record_of", "run_json"]

_FIELDS = {f.name for f in fields(RequestRecord)}
_NEEDED = {f.name for f in fields(RequestRecord) if f.default is MISSING and f.default_factory is MISSING}
_TUPLES = ("histogram", "increments", "event_s", "marks")


@dataclass(frozen=True)
class RunResult:
    """A whole run. ``passes`` in the order in which they were measured."""

    head: Mapping[str, Any]
    passes: Mapping[Key, PassResult]
    marks: tuple[Mapping[str, Any], ...] = ()
    client: Mapping[str, Any] = field(default_factory=dict)
    """The runner's own cost: of the pass that was worst off, ``bound`` when any was."""
    status: str = "running"
    """complete, interrupted, failed; running when the journal has no end."""
    reason: str = ""
    skipped: int = 0
    """Rows that could not be read as what they claim to be."""

    def arm(self, name: str) -> Mapping[str, Any]:
        """What the head says of an arm; empty when it says nothing."""
        return next((a for a in self.head.get("arms") or () if isinstance(a, dict) and a.get("name") == name), {})

    @property
    def arms(self) -> list[str]:
        return list(dict.fromkeys(key[0] for key in self.passes))

    @property
    def last(self) -> PassResult | None:
        return list(self.passes.values())[-1] if self.passes else None


def record_of(row: Mapping[str, Any]) -> RequestRecord | None:
    """A request row as a record; None when it lacks what a record needs. Unknown keys are skipped."""
    if not row.keys() >= _NEEDED:
        return None
    values = {k: v for k, v in row.items() if k in _FIELDS}
    try:
        for name in _TUPLES:
            if values.get(name) is not None:
                values[name] = tuple(values[name])
            elif name != "histogram":
                values.pop(name, None)
        record = RequestRecord(**values)
        numbers = (record.start_s, record.end_s, record.concurrency, record.block, record.index)
        return record if all(isinstance(n, (int, float)) for n in numbers) else None
    except TypeError:
        return None


@dataclass
class _Span:
    """Between two readings of an arm's counters."""

    before: Mapping[str, float]
    sent: list[RequestRecord] = field(default_factory=list)
    grown: dict[str, float] | None = None


@dataclass
class _Arm:
    key: Key | None = None
    span: _Span | None = None
    marks: list[Row] = field(default_factory=list)


class _Fold:
    def __init__(self) -> None:
        self.head: Row = {}
        self.urls: dict[str, str] = {}
        self.records: dict[Key, list[RequestRecord]] = {}
        self.order: dict[str, list[tuple[str, Any]]] = {}
        """Of each arm, what happened to its memory: flushes, fills, requests, in order."""
        self.spans: dict[Key, list[_Span]] = {}
        self.arms: dict[str, _Arm] = {}
        self.marks: list[Row] = []
        self.key_marks: dict[Key, list[Row]] = {}
        self.clients: dict[Key | None, Row] = {}
        self.flush: dict[Key, Row] = {}
        self.feed: dict[Key, Row] = {}
        self.gpus: list[Row] = []
        self.status, self.reason, self.skipped = "running", "", 0

    def arm(self, name: Any) -> _Arm:
        return self.arms.setdefault(str(name), _Arm())

    def enter(self, key: Key) -> None:
        self.arm(key[0]).key = key
        span = self.arm(key[0]).span
        if span is not None and span not in self.spans.setdefault(key, []):
            self.spans[key].append(span)

    def row(self, row: Row) -> None:
        kind = row.get("kind")
        reader = getattr(self, f"on_{kind}", None) if isinstance(kind, str) else None
        if reader is None:
            return
        try:
            reader(row)
        except (TypeError, ValueError, KeyError, AttributeError):
            self.skipped += 1

    def mates(self, arm: str) -> list[str]:
        """The arms on the same server, this one first: they share its counters and its store."""
        url = self.urls.get(arm)
        return [arm, *(n for n, u in self.urls.items() if n != arm and u == url)] if url else [arm]

    def on_head(self, row: Row) -> None:
        if self.head:
            return
        self.head = row
        self.urls = {str(a["name"]): str(a.get("url") or "").rstrip("/") for a in row.get("arms") or ()}

    def on_request(self, row: Row) -> None:
        record = record_of(row)
        if record is None:
            self.skipped += 1
            return
        key = (record.arm, record.concurrency, record.pass_name)
        self.enter(key)
        self.records.setdefault(key, []).append(record)
        for name in self.mates(record.arm):
            self.order.setdefault(name, []).append(("request", record))
            span = self.arm(name).span
            if span is not None:
                span.sent.append(record)

    def on_phase(self, row: Row) -> None:
        key = (str(row["arm"]), int(row.get("concurrency") or 0), str(row["pass_name"]))
        self.arm(key[0]).key = key if key[1] else self.arm(key[0]).key
        if row.get("state") != "end":
            return
        detail = row.get("detail") or {}
        phase = row.get("phase")
        if phase == "flush":
            self.flush[key] = detail
        elif phase == "feed":
            self.feed[key] = detail
        if phase in ("flush", "prime", "feed"):
            for name in self.mates(key[0]):
                self.order.setdefault(name, []).append((phase, (key, detail)))

    def on_metrics(self, row: Row) -> None:
        arm, counters = self.arm(row["arm"]), row.get("counters")
        if row.get("at") == "before":
            arm.span = _Span(counters) if isinstance(counters, dict) else None
        elif row.get("at") == "after" and arm.span is not None:
            if isinstance(counters, dict):
                before = arm.span.before
                arm.span.grown = {n: float(v) - float(before.get(n, 0.0)) for n, v in counters.items()}
            arm.span = None

    def on_gpu(self, row: Row) -> None:
        float(row["t"])
        self.gpus.append(row)

    def on_mark(self, row: Row) -> None:
        self.marks.append(row)
        name = row.get("arm")
        for arm in [str(name)] if name is not None else list(self.arms):
            key = self.arm(arm).key
            if row.get("name") == "restarted":
                self.order.setdefault(arm, []).append(("restarted", row))
            (self.arm(arm).marks if key is None else self.key_marks.setdefault(key, [])).append(row)

    def on_client(self, row: Row) -> None:
        whole = row.get("arm") is None or row.get("pass_name") is None
        key = None if whole else (str(row["arm"]), int(row["concurrency"]), str(row["pass_name"]))
        self.clients[key] = {k: v for k, v in row.items() if k not in ("kind", "t")}

    def on_end(self, row: Row) -> None:
        self.status, self.reason = str(row.get("status") or "complete"), str(row.get("reason") or "")

    def result(self) -> RunResult:
        heads = {a["name"]: a for a in self.head.get("arms") or () if isinstance(a, dict) and "name" in a}
        passes = {}
        for key, records in self.records.items():
            if any(r.phase == "measure" for r in records):
                passes[key] = self.one(key, records, heads.get(key[0], {}))
        clients = list(self.clients.values())
        worst = max(clients, key=lambda c: (bool(c.get("bound")), c.get("lag_ms_p99") or 0.0), default={})
        return RunResult(self.head, passes, tuple(self.marks), worst, self.status, self.reason, self.skipped)

    def one(self, key: Key, records: list[RequestRecord], head: Mapping[str, Any]) -> PassResult:
        measured = tuple(r for r in records if r.phase == "measure")
        settings = head.get("settings_in_force") or head.get("settings_asked") or {}
        server = head.get("server") or {}
        draft_tokens = settings.get("num_draft_tokens") or settings.get("dflash.block_size")
        marks = self.everywhere(key[0], head) + self.key_marks.get(key, [])
        joined = any(m.get("name") == "route_joined_steps" for m in marks)
        spans = [s for s in self.spans.get(key, []) if s.grown is not None and s.sent]
        grown: dict[str, float] = {}
        for span in spans:
            for name, value in (span.grown or {}).items():
                grown[name] = grown.get(name, 0.0) + value
        interval = server.get("stream_interval")
        hidden = f"the server sends every {interval} steps only" if isinstance(interval, int) and interval > 1 else None
        windows = merged(windows_of(measured).values())
        joules, missing = joules_over(self.gpus, head.get("gpus") or (), windows)
        prompts = sum(r.prompt_tokens or 0 for r in measured if r.cached_tokens is not None)
        cached = sum(r.cached_tokens or 0 for r in measured)
        algorithm = str(head.get("algorithm") or "")
        evidence: Evidence = gather(
            algorithm,
            key,
            self.order.get(key[0], []),
            draft_tokens,
            any(m.get("name") == "foreign_traffic" for m in marks),
        )
        return PassResult(
            *key,
            measured,
            tuple(records),
            algorithm=algorithm,
            version=str(head.get("version") or ""),
            route=str(head.get("route") or ""),
            draft_tokens=draft_tokens if isinstance(draft_tokens, int) else None,
            joined=joined,
            gaps_hidden=hidden,
            counters=grown or None,
            counted_over=tuple(r for s in spans for r in s.sent),
            joules=joules,
            joules_missing=missing,
            heat=heat_over(self.gpus, head.get("gpus") or (), windows),
            client=self.clients.get(key) or self.clients.get(None) or {},
            marks=tuple(marks),
            flush=self.flush.get(key),
            feed=self.feed.get(key),
            evidence=evidence,
            cached_share=cached / prompts if prompts else None,
            captured_limit=largest if isinstance(largest := server.get("cuda_graph_max_bs"), int) else None,
        )

    def everywhere(self, arm: str, head: Mapping[str, Any]) -> list[Row]:
        """Marks that hold for all passes of an arm: of its server, of the workload, and those set before any pass."""
        names = [*(head.get("marks") or ()), *((self.head.get("workload") or {}).get("marks") or ())]
        if head.get("simulated"):
            names.append("simulated")
        if self.head.get("ignore_eos"):
            names.append("length_forced")
        listed = [{"name": str(n), "detail": str(n), "arm": arm} for n in dict.fromkeys(names)]
        return listed + self.arm(arm).marks


def fold(rows: Iterable[Row]) -> RunResult:
    """The journal's rows, in order, as results. Raises nothing on rows that it cannot read."""
    state = _Fold()
    for row in rows:
        if isinstance(row, dict):
            state.row(row)
    return state.result()


def run_json(result: RunResult, states: Mapping[Key, ProposerState] | None = None) -> dict[str, Any]:
    """What ``run --json`` prints: the last pass's figures at the top, and all passes under ``passes``.

    ``states``: of passes whose answers were looked at too (``fairness.evidence_from``); else by the journal alone.

    ``passes`` has a pass by its name; where a name was measured with several arms or at several concurrencies, the
    last one of that name, and all of them are in ``all_passes``.
    """
    last = result.last
    every = [p.as_json((states or {}).get(key)) for key, p in result.passes.items()]
    top = dict(every[-1]) if last is not None else {"requests": 0, "failed": 0, "output_tokens": 0, "identities": []}
    if last is not None and not last.client:
        top["client"] = dict(result.client)
    top["passes"] = {p["pass"]: p for p in every}
    top["all_passes"] = every
    top["status"] = result.status
    top["reason"] = result.reason
    top["run_id"] = result.head.get("run_id")
    top["workload"] = (result.head.get("workload") or {}).get("name")
    top["run_marks"] = [{"name": m.get("name"), "arm": m.get("arm"), "detail": m.get("detail")} for m in result.marks]
    return top
