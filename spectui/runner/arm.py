"""One side of a run while it is being measured: the server, how it is asked, and what was sent to it so far."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any

from spectui.core.evidence import is_stateful
from spectui.core.request import RequestRecord
from spectui.core.rows import ArmHead
from spectui.core.spec import ArmSpec, Prompt, RunSpec
from spectui.engines.sglang.address import read_key
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.errors import EngineError
from spectui.engines.sglang.info import ServerInfo
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable
from spectui.runner.routes import IDS, Route, candidates
from spectui.runner.transport import Lag, Transport, open_transport

IDLE_LOOK_S = 1.0
"""Between the two looks that tell whether others use a server."""
TOKENS_ALLOWED = 8
"""Generated tokens beyond our own that are no sign of others: health probes make one each."""
SHARE_ALLOWED = 0.005
BUSY = 0.85
"""CPU seconds of the client a second of wall time, above which it may have been the brake."""
LATE = 0.05
"""Share of reads more than 5 ms late, above which it may have been."""


@dataclass
class Tally:
    """Of one arm since its pass began, as sample rows show it."""

    tokens: int = 0
    steps: int = 0
    step_tokens: int = 0
    done: int = 0
    failed: int = 0


@dataclass
class Cost:
    """What the client itself took while requests of one pass were measured."""

    cpu_s: float = 0.0
    wall_s: float = 0.0

    def add(self, cpu_s: float, wall_s: float) -> None:
        self.cpu_s += cpu_s
        self.wall_s += wall_s

    def row(self, lag: Lag) -> dict[str, Any]:
        """Fields of a client row. ``bound``: the client, not the server, may have set the pace."""
        late = lag.late_share()
        busy = self.cpu_s / self.wall_s if self.wall_s > 0 else 0.0
        return {
            "cpu_s": round(self.cpu_s, 4),
            "wall_s": round(self.wall_s, 4),
            "lag_ms_p99": lag.p99_ms(),
            "late_share": late,
            "bound": busy > BUSY or (late or 0.0) > LATE,
        }


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


class Arm:
    """A server under measurement. Raises EngineError (see :meth:`open`) where it cannot be one."""

    def __init__(self, spec: ArmSpec, run: RunSpec, *, transport: str | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self._run = run
        key = read_key(spec.key)
        self.client = SglangClient(spec.url, key=key, admin_key=read_key(spec.admin_key))
        self.transport: Transport = open_transport(spec.url, key=key, silence_s=run.request_timeout_s, kind=transport)
        self.info: ServerInfo
        self.routes: dict[bool, Route] = {}
        """For chat prompts (True) and completion prompts (False)."""
        self._fallbacks: dict[bool, list[Route]] = {}
        self._ids: dict[str, list[int]] = {}
        self.tally = Tally()
        self.cost = Cost()
        self.sent = Sent()
        """Since the run began."""
        self.first_counters: MetricsReading | None = None
        self.gpus: frozenset[str] = frozenset()
        """UUIDs, where they could be seen."""
        self.route_change = ""
        """Why the best route was left, if it was."""

    def open(self) -> None:
        """First contact: who is there, and which routes it can do."""
        self.info = self.client.probe()
        reading = self.client.metrics()
        self.first_counters = reading if isinstance(reading, MetricsReading) else None
        kinds = {prompt.messages is not None for prompt in (*self._run.measuring, *self._run.feeding)}
        for chat in sorted(kinds, reverse=True):
            self._fallbacks[chat] = candidates(self.info, chat=chat)
            self.next_route(chat)

    def close(self) -> None:
        self.transport.close()
        self.client.close()

    @property
    def stateful(self) -> bool:
        """Its drafter learns from answers (NGRAM), so that passes differ by what it has seen."""
        return is_stateful(self.info.algorithm) is True

    @property
    def incremental(self) -> bool | None:
        value = self.info.server.get("incremental_streaming")
        return value if isinstance(value, bool) else None

    def next_route(self, chat: bool, why: str = "") -> bool:
        """Takes the best route that is left; False when none is."""
        left = self._fallbacks[chat]
        while left:
            route = left.pop(0)
            if route.kind == IDS and not self._tokenizes():
                self.route_change = "/tokenize does not take messages on this server"
                continue
            self.routes[chat] = route
            if why:
                self.route_change = why
            return True
        return False

    def _tokenizes(self) -> bool:
        prompt = next(p for p in (*self._run.feeding, *self._run.measuring) if p.messages is not None)
        try:
            return self.ids_of(prompt) is not None
        except EngineError:
            return False

    def route_of(self, prompt: Prompt) -> Route:
        return self.routes[prompt.messages is not None]

    @property
    def draft_tokens(self) -> object:
        """The most tokens that a verify step can give; None where nothing is drafted or it is not told."""
        settings = self.info.settings
        return None if settings.get("adaptive") else settings.get("num_draft_tokens")

    @property
    def takes_seed(self) -> bool:
        """A sampling seed reaches the sampler on the routes that measure."""
        return all(self.route_of(prompt).seed for prompt in self._run.measuring)

    @property
    def route_name(self) -> str:
        names = dict.fromkeys(self.route_of(prompt).name for prompt in self._run.measuring)
        return " and ".join(names)

    def ids_of(self, prompt: Prompt) -> list[int] | None:
        """Token ids of a chat prompt through the server's template, asked once. None: the server has no such route."""
        found = self._ids.get(prompt.id)
        if found is None:
            asked = self.client.tokenize(messages=prompt.messages, thinking=self._run.thinking)
            if not asked:
                return None
            found = self._ids[prompt.id] = asked
        return found

    def read_counters(self) -> dict[str, Any]:
        """A metrics row's fields: counters and gauges, or why there are none."""
        reading = self.client.metrics()
        if isinstance(reading, MetricsUnavailable):
            return {"unavailable": reading.reason}
        gauges = {name: sum(ranks.values()) for name, ranks in reading.gauges.items()}
        return {"counters": dict(reading.counters), "gauges": gauges}

    def idle(self, pause: Callable[[float], None] = time.sleep) -> tuple[bool, str]:
        """Whether nobody else uses the server, by two looks; and why not, or why it cannot be told."""
        first = self.client.metrics()
        busy = self._busy(first)
        if busy:
            return False, busy
        since = self.first_counters
        if since is not None and isinstance(first, MetricsReading):
            moved = foreign_traffic(since.counters, first.counters, self.sent)
            if moved:
                return False, f"others have used it since the run began: {moved}"
        pause(IDLE_LOOK_S)
        second = self.client.metrics()
        busy = self._busy(second)
        if busy:
            return False, busy
        if isinstance(first, MetricsReading) and isinstance(second, MetricsReading):
            moved = foreign_traffic(first.counters, second.counters, Sent())
            return (False, f"others use it: {moved}") if moved else (True, "")
        loads = self._loads()
        if loads is None:
            reason = first.reason if isinstance(first, MetricsUnavailable) else "no load address"
            return False, f"whether others use it cannot be seen ({reason})"
        return True, ""

    def _busy(self, reading: MetricsReading | MetricsUnavailable) -> str:
        """Requests that run or wait though none is ours. Load addresses first: gauges keep their last value."""
        loads = self._loads()
        if loads is not None:
            return f"{loads} requests of others are running or waiting" if loads else ""
        if isinstance(reading, MetricsReading):
            waiting = reading.queued or 0
            return f"{waiting} requests of others are waiting" if waiting else ""
        return ""

    def _loads(self) -> int | None:
        try:
            loads = self.client.loads()
        except EngineError:
            return None
        known = [(load.running or 0) + (load.waiting or 0) for load in loads or () if load.running is not None]
        return sum(known) if known else None

    def head(self, marks: tuple[str, ...]) -> dict[str, Any]:
        info = self.info
        server = {key: value for key, value in info.server.items() if value is not None}
        return asdict(
            ArmHead(
                name=self.name,
                url=self.client.url,
                label=self.spec.label or self.client.url,
                version=info.version,
                algorithm=info.algorithm,
                model=info.served_name or info.model_path,
                settings_asked=dict(self.spec.settings_asked),
                settings_in_force=dict(info.settings),
                server=server,
                route=self.route_name,
                simulated=info.simulated,
                marks=marks,
                gpus=tuple(sorted(self.gpus)),
                owned=self.spec.owned,
            )
        )


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
