"""One side of a run while it is being measured: the server, how it is asked, and what was sent to it so far."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from spectui.core.evidence import is_stateful
from spectui.core.rows import ArmHead
from spectui.core.spec import ArmSpec, Prompt, RunSpec
from spectui.engines.sglang.address import proxy_of, read_key
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.errors import EngineError
from spectui.engines.sglang.info import ServerInfo
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable
from spectui.runner.counters import Sent, foreign_traffic
from spectui.runner.routes import IDS, Route, candidates
from spectui.runner.transport import Lag, Transport, open_transport

IDLE_LOOK_S = 1.0
"""Between the two looks that tell whether others use a server."""
BUSY = 0.85
"""CPU seconds of the client a second of wall time, above which it may have been the brake."""
LATE = 0.05
"""Share of reads more than 5 ms late, above which it may have been."""
_THRESHOLDS = ("accept_threshold_single", "accept_threshold_acc")


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


class Arm:
    """A server under measurement. Raises EngineError (see :meth:`open`) where it cannot be one."""

    def __init__(self, spec: ArmSpec, run: RunSpec, *, transport: str | None = None) -> None:
        self.spec = spec
        self.name = spec.name
        self._run = run
        key = read_key(spec.key)
        self.client = SglangClient(spec.url, key=key, admin_key=read_key(spec.admin_key), proxy=spec.proxy)
        self.proxy = proxy_of(spec.url, spec.proxy)
        self.transport: Transport = open_transport(
            spec.url, key=key, silence_s=run.request_timeout_s, proxy=self.proxy, kind=transport
        )
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
    def lossy(self) -> str:
        """Which thresholds of acceptance are loosened, as words; empty for exact verification."""
        values = [(name, self.info.settings.get(name)) for name in _THRESHOLDS]
        return " and ".join(f"{n} {v:g}" for n, v in values if isinstance(v, int | float) and v < 1)

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
