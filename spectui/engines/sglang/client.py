"""Control calls to an SGLang server of any version: who it is, what it counts, and what can be asked of it.

Synchronous, on httpx, which is imported at the first call. The measuring path has a transport of its own.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from typing import Any

from spectui.engines.sglang.answers import (
    CorpusOutcome,
    FlushOutcome,
    GeneratedToken,
    Load,
    StateOutcome,
    read_loads,
    same,
    whole,
)
from spectui.engines.sglang.connection import Answer, Connection, words_of
from spectui.engines.sglang.corpora import Corpora
from spectui.engines.sglang.errors import EngineError, NotReachable, NotSglang, Refused, TimedOut
from spectui.engines.sglang.generating import Generating
from spectui.engines.sglang.info import ServerInfo, looks_like_sglang, read_info, unreadable_info
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable, parse_metrics

INFO_EVERY_S = 5.0
"""An info call interrupts every scheduler and, under its old name, logs a line: never polled faster than this."""


class SglangClient(Generating, Corpora):
    """One server. Every call ends within its limit; failures are the :class:`EngineError` kinds.

    ``key`` and ``admin_key`` are the keys themselves (see :func:`spectui.engines.sglang.address.read_key`).
    ``proxy`` names one, or is ``env`` for the environment's (as ``env_proxy`` is); loopback never has one, and by
    default no other host has.
    """

    def __init__(
        self,
        url: str,
        *,
        key: str | None = None,
        admin_key: str | None = None,
        timeout: float = 5.0,
        env_proxy: bool = False,
        proxy: str | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(
            Connection(url, key=key, admin_key=admin_key, timeout=timeout, env_proxy=env_proxy, proxy=proxy)
        )
        self._clock = clock
        self._info: ServerInfo | None = None
        self._info_at = float("-inf")

    # -- who is there

    def probe(self) -> ServerInfo:
        """Whether an SGLang server is there, and what it is.

        Raises NotReachable, Unauthorized, NotSglang, StillStarting (503) or Broken. A server whose info call fails
        counts as alive when it tells its model or makes one token; its settings are then unreadable.
        """
        try:
            answer = self._ask("info")
        except TimedOut:
            # 0.4.9 and 0.5.5 read the reply of an info call only after the first generation.
            self.generate_one()
            answer = self._ask("info")
        body = answer.json
        if answer.status == 200:
            if not isinstance(body, Mapping) or not looks_like_sglang(body):
                raise NotSglang("what answers there is not an SGLang server", self.url, "Check host and port")
            return self._remember(read_info(body, context_len=self._context_len(body)))
        if answer.status in (404, 405):
            model = self._model_if_sglang()
            if model is None:
                raise NotSglang(
                    "what answers there is not an SGLang server (it has no /server_info)",
                    self.url,
                    "Check host and port",
                )
            return unreadable_info(answer.status, model)
        if answer.status >= 500 and answer.status != 503:
            model = self._model_if_sglang()
            if model is None:
                try:
                    self.generate_one()
                except EngineError:
                    raise self.connection.failure_of(answer, self._path("info")) from None
            return unreadable_info(answer.status, model)
        raise self.connection.failure_of(answer, self._path("info"))

    def _context_len(self, body: Mapping[str, Any]) -> int | None:
        """From /v1/models, where the info body leaves it to the model's own configuration."""
        if body.get("context_length"):
            return None
        try:
            listed = self.connection.call("GET", "/v1/models").json
        except EngineError:
            return None
        rows = listed.get("data") if isinstance(listed, dict) else None
        first = rows[0] if isinstance(rows, list) and rows else None
        return whole(first.get("max_model_len")) if isinstance(first, dict) else None

    def _model_if_sglang(self) -> dict[str, Any] | None:
        try:
            return self.model_info()
        except NotReachable:
            raise
        except EngineError:
            return None

    def _remember(self, info: ServerInfo) -> ServerInfo:
        self._info, self._info_at = info, self._clock()
        return info

    def info(self, *, force: bool = False) -> ServerInfo:
        """The server's settings and ranks; the last answer again when it is younger than 5 s, unless forced."""
        if self._info is not None and not force and self._clock() - self._info_at < INFO_EVERY_S:
            return self._info
        answer = self._ask("info")
        if answer.status != 200:
            raise self.connection.failure_of(answer, self._path("info"))
        body = answer.json
        if not isinstance(body, Mapping) or not looks_like_sglang(body):
            raise NotSglang("what answers there is not an SGLang server", self.url, "Check host and port")
        known = self._info.server.get("context_len") if self._info is not None else None
        return self._remember(read_info(body, context_len=known))

    def model_info(self) -> dict[str, Any]:
        answer = self._ask("model_info")
        body = answer.json
        if answer.status != 200:
            raise self.connection.failure_of(answer, self._path("model_info"))
        if not isinstance(body, dict) or "model_path" not in body:
            raise NotSglang("what answers there is not an SGLang server", self.url, "Check host and port")
        return body

    def health(self, *, timeout: float | None = None) -> int | EngineError:
        """Status of /health, or why there is none. From 0.5.5 on each call makes a token: not for polling in a run."""
        try:
            return self.connection.call("GET", "/health", timeout=timeout).status
        except EngineError as error:
            return error

    # -- what it counts

    def metrics(self, *, timeout: float | None = None) -> MetricsReading | MetricsUnavailable:
        """One reading of /metrics, or why there is none. Never raises for a server's state."""
        try:
            answer = self.connection.call("GET", "/metrics", timeout=timeout)
        except EngineError as error:
            return MetricsUnavailable("down", f"server not reachable: {error.what}")
        if answer.status in (401, 403):
            return MetricsUnavailable("unauthorized", f"/metrics needs a key (HTTP {answer.status})")
        if answer.status in (404, 405):
            return MetricsUnavailable("off", "metrics are off: launch the server with --enable-metrics")
        if answer.status != 200:
            return MetricsUnavailable("broken", f"/metrics failed (HTTP {answer.status})")
        return parse_metrics(answer.text)

    def loads(self) -> list[Load] | None:
        """Requests at each rank; None where this server cannot tell (no such address, or it fails)."""
        answer = self._ask("loads")
        return None if answer.status != 200 else read_loads(answer.json)

    # -- what can be asked of it

    def flush(
        self,
        attempts: int = 10,
        limit_s: float = 30.0,
        sleep: Callable[[float], None] = time.sleep,
    ) -> FlushOutcome:
        """Empty the prefix cache and the n-gram store; refused (400) while anything runs, so tried again for a while.

        It empties them for everyone on the server: whether that is allowed is the caller's question.
        """
        started, pause, made, answer = self._clock(), 0.5, 0, Answer(0, b"")
        while made < attempts:
            made += 1
            try:
                answer = self.connection.call("POST", "/flush_cache", timeout=max(self.connection.timeout, 10.0))
            except EngineError as error:
                return FlushOutcome(False, made, None, error.what)
            if answer.status == 200:
                return FlushOutcome(True, made, 200, "")
            if answer.status in (401, 403):
                return FlushOutcome(
                    False,
                    made,
                    answer.status,
                    f"needs the administrator key (HTTP {answer.status}); --admin-key gives it",
                )
            if answer.status != 400 or made == attempts or self._clock() - started + pause > limit_s:
                break
            sleep(pause)
            pause = min(pause * 1.5, 4.0)
        said = words_of(answer, self.connection.secrets)
        if answer.status == 400:
            reason = f"refused {made} times: requests are running or waiting" + (f" ({said})" if said else "")
        else:
            reason = f"/flush_cache failed (HTTP {answer.status})" + (f": {said}" if said else "")
        return FlushOutcome(False, made, answer.status, reason)

    def set_internal_state(self, values: Mapping[str, Any]) -> StateOutcome:
        """Change accept thresholds (neutral keys) while the server runs, and read back whether they are in force.

        It clears the server's lifetime accept counters. Before 0.5.15 the answer proves nothing, so it never decides.
        """
        before = self.info(force=True)
        contract = before.contract
        asked = dict(values)
        refused = [key for key in asked if key not in contract.hot_keys]
        if refused:
            raise Refused(f"{', '.join(refused)} cannot be changed on a running server", self.url, "Relaunch with it")
        named = {spelling.info_key: asked[key] for key in asked if (spelling := contract.spelling(key))}
        answer = self.connection.call(
            "POST", "/set_internal_state", body={"server_args": named}, timeout=max(self.connection.timeout, 10.0)
        )
        if answer.status in (401, 403, 404, 405):
            raise self.connection.failure_of(answer, "/set_internal_state")
        after = self.info(force=True)
        states = [state for state in after.raw.get("internal_states", []) if isinstance(state, dict)]
        in_force: dict[str, Any] = {}
        applied: bool | None = True
        for key, value in asked.items():
            spelling = contract.spelling(key)
            seen = [state[spelling.info_key] for state in states if spelling and spelling.info_key in state]
            if not seen:
                applied = None if applied else applied
                continue
            differing = [entry for entry in seen if not same(entry, value)]
            in_force[key] = differing[0] if differing else seen[0]
            if differing:
                applied = False
        if applied is None and contract.set_state_tells_truth and answer.status == 200:
            told = answer.json
            applied = all(told) if isinstance(told, list) and told else None
        detail = {True: "in force", False: "the server kept its old value", None: "the server does not show the value"}
        return StateOutcome(applied, asked, in_force, answer.status, detail[applied])


__all__ = [
    "CorpusOutcome",
    "FlushOutcome",
    "GeneratedToken",
    "Load",
    "SglangClient",
    "StateOutcome",
    "read_loads",
]
