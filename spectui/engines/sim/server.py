"""The server itself: routes by version, keys, and what it says of itself."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any

from spectui.engines.sim import control, openai
from spectui.engines.sim.arguments import Launch
from spectui.engines.sim.generate import Refused, generate, new_rid
from spectui.engines.sim.http import TEXT, BadBody, Connection, Exchange, phrase
from spectui.engines.sim.log import Log
from spectui.engines.sim.metrics import Metrics
from spectui.engines.sim.proposers import Proposer
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.resolve import model_type
from spectui.engines.sim.scheduler import POOL_TOKENS, Scheduler
from spectui.engines.sim.tokenizer import tokenizer

Route = Callable[["SimServer", Exchange], None]
_REAL_STARTUP_S = 55.0
_BOTH, _GET, _POST = ("GET", "POST"), ("GET",), ("POST",)
_ADMIN = frozenset(
    [
        "/set_internal_state",
        "/flush_cache",
        "/add_external_corpus",
        "/remove_external_corpus",
        "/list_external_corpora",
        "/abort_request",
        "/pause_generation",
        "/continue_generation",
    ]
)
_DEPRECATED = {"/get_server_info": "/server_info", "/get_model_info": "/model_info", "/get_load": "/v1/loads"}


def routes(launch: Launch) -> dict[str, tuple[tuple[str, ...], Route]]:
    """Path -> methods and what answers, as far as this version has it."""
    since = launch.sim.dialect.since
    table: dict[str, tuple[tuple[str, ...], Route]] = {
        "/health": (_GET, control.health),
        "/health_generate": (_GET, control.health),
        "/ping": (_GET, control.ping),
        "/get_model_info": (_GET, control.model_info),
        "/get_server_info": (_GET, control.server_info),
        "/generate": (("POST", "PUT"), generate),
        "/v1/chat/completions": (_POST, openai.chat),
        "/v1/completions": (_POST, openai.completions),
        "/v1/models": (_GET, control.models),
        "/flush_cache": (_BOTH, control.flush_cache),
        "/abort_request": (_POST, control.abort_request),
        "/pause_generation": (_POST, control.pause),
        "/continue_generation": (_POST, control.resume),
        "/set_internal_state": (("POST", "PUT"), control.set_internal_state),
    }
    if launch.args["enable_metrics"]:
        table["/metrics"] = table["/metrics/"] = (_GET, control.metrics)
    if not since(0, 5, 23):
        table["/get_load"] = (_GET, control.get_load)
    else:
        table["/ready"] = (_GET, control.ready)
    if since(0, 5, 5):
        for path, route in (("tokenize", control.tokenize), ("detokenize", control.detokenize)):
            table[f"/{path}"] = table[f"/v1/{path}"] = (_POST, route)
    if since(0, 5, 10):
        table |= {"/model_info": (_GET, control.model_info), "/server_info": (_GET, control.server_info),
                  "/v1/loads": (_GET, control.loads)}  # fmt: skip
    if since(0, 5, 12):
        table |= {"/add_external_corpus": (_POST, control.add_corpus),
                  "/remove_external_corpus": (_POST, control.remove_corpus),
                  "/list_external_corpora": (_GET, control.list_corpora)}  # fmt: skip
    return table


class SimServer:
    def __init__(self, launch: Launch, proposer: Proposer, log: Log) -> None:
        self.launch = launch
        self.log = log
        self.tokenizer = tokenizer()
        self.metrics = Metrics(launch, POOL_TOKENS)
        self.scheduler = Scheduler(launch, proposer, log, self.metrics)
        self.ready = False
        self.ending = False
        self.life_scale = launch.sim.startup_s / _REAL_STARTUP_S
        """Seconds here for a second of the real server's, in all that is no token: starts, checks, the end."""
        self._routes = routes(launch)
        self._tasks: set[asyncio.Task[None]] = set()
        self._shown_average: float | None = None
        self._seeds = launch.sim.seed * 1_000_003

    def connection(self) -> Connection:
        return Connection(self._serve, self._answered, self._closed)

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def new_request(
        self, prompt: list[int], sampling: Any, on_step: Callable[[SimRequest], None], rid: object = None
    ) -> SimRequest:
        """A request of this server, not yet submitted. Raises Refused for parameters that make no sense."""
        if not isinstance(sampling, dict):
            raise Refused("sampling_params must be an object.")
        self._seeds += 1
        room = max(1, self.launch.context_length - len(prompt) - 1)
        try:
            request = SimRequest(self.tokenizer, str(rid or new_rid()), prompt, sampling, on_step, self._seeds, room,
                                 self.launch.sim.differ)  # fmt: skip
        except (TypeError, ValueError) as problem:
            raise Refused(f"Invalid sampling parameters: {problem}") from problem
        if request.temperature < 0:
            raise Refused(f"temperature must be non-negative, got {request.temperature}.")
        if request.max_new < 1:
            raise Refused(f"max_new_tokens must be at least 1, got {request.max_new}.")
        return request

    # -- http ---------------------------------------------------------------------------------------------------

    def _serve(self, exchange: Exchange) -> None:
        self.metrics.requested(exchange.method, exchange.path)
        found = self._routes.get(exchange.path)
        if not self._allowed(exchange):
            exchange.answer(401, {"error": "Unauthorized"})
        elif found is None:
            exchange.answer(404, {"detail": "Not Found"})
        elif exchange.method not in found[0]:
            exchange.answer(405, {"detail": "Method Not Allowed"})
        else:
            newer = _DEPRECATED.get(exchange.path)
            if newer and self.launch.sim.dialect.new_names:
                self.log.line(
                    f"Endpoint '{exchange.path}' is deprecated and will be removed in a future version. Please use "
                    f"'{newer}' instead."
                )
            self._call(found[1], exchange)

    def _call(self, route: Route, exchange: Exchange) -> None:
        try:
            route(self, exchange)
        except BadBody as problem:
            row = {"type": "json_invalid", "loc": ["body"], "msg": str(problem)}
            exchange.answer(422 if exchange.path == "/generate" else 400, {"detail": [row]})
        except openai.OpenAIRefused as problem:
            said = {"object": "error", "message": str(problem), "type": "BadRequestError", "param": None, "code": 400}
            exchange.answer(400, said)
        except Refused as problem:
            self.log.line(f"[http_server] Error: {problem}")
            exchange.answer(400, {"error": {"message": str(problem)}})
        except Exception as problem:
            self.log.line(f"ERROR:    Exception in ASGI application: {type(problem).__name__}: {problem}")
            if exchange.status == 0:
                exchange.answer(500, "Internal Server Error", TEXT)

    def _allowed(self, exchange: Exchange) -> bool:
        """SGLang's key rules (srt/utils/auth.py): an admin key takes the place of the normal one where it may."""
        a, path = self.launch.args, exchange.path
        if exchange.method == "OPTIONS" or path.startswith(("/health", "/metrics")) or path == "/ready":
            return True
        key = a["api_key"]
        if path in _ADMIN and a.get("admin_api_key"):
            key = a["admin_api_key"]
        return not key or exchange.headers.get("authorization") == f"Bearer {key}"

    def _answered(self, exchange: Exchange) -> None:
        self.metrics.answered(exchange.method, exchange.path, exchange.status)
        self.log.access(exchange.client, exchange.method, exchange.path, exchange.status, phrase(exchange.status))

    def _closed(self, exchange: Exchange) -> None:
        self.metrics.closed(exchange.method, exchange.path)

    # -- what it says of itself ---------------------------------------------------------------------------------

    def model_info(self) -> dict[str, Any]:
        a, since = self.launch.args, self.launch.sim.dialect.since
        kind, architecture, _ = model_type(str(a["model_path"]))
        said: dict[str, Any] = {n: a[n] for n in ("model_path", "tokenizer_path")}
        said |= {"is_generation": True, "preferred_sampling_params": a["preferred_sampling_params"]}
        if since(0, 5, 5):
            said["weight_version"] = a["weight_version"]
        if since(0, 5, 10):
            said |= {"has_image_understanding": False, "has_audio_understanding": False, "model_type": kind,
                     "architectures": [architecture]}  # fmt: skip
        if since(0, 5, 23):
            said |= {"served_model_name": a["served_model_name"], "load_format": a["load_format"],
                     "reasoning_parser": a["reasoning_parser"], "tool_call_parser": a["tool_call_parser"],
                     "disaggregation_mode": a["disaggregation_mode"]}  # fmt: skip
        return said

    def server_info(self) -> dict[str, Any]:
        launch, since = self.launch, self.launch.sim.dialect.since
        said: dict[str, Any] = dict(launch.args)
        said |= {"status": "ready", "max_total_num_tokens": POOL_TOKENS, "max_req_input_len": launch.context_length - 6,
                 "internal_states": [self._internal_state()], "version": launch.sim.dialect.version}  # fmt: skip
        if since(0, 5, 15):
            said["kv_events"] = None
        if since(0, 5, 23):
            said |= {"launch_command": " ".join(["python -m sglang.launch_server", *launch.argv]),
                     "startup_time": launch.sim.startup_s, "frontend": "python"}  # fmt: skip
        said["spectui_simulated"] = True
        return said

    def _internal_state(self) -> dict[str, Any]:
        launch, s, since = self.launch, self.scheduler, self.launch.sim.dialect.since
        state: dict[str, Any]
        if since(0, 5, 5):
            state = {**launch.args, **launch.internal, **s.thresholds}
            if since(0, 5, 10):
                state["pp_max_micro_batch_size"] = launch.args["pp_max_micro_batch_size"] or launch.max_running
        else:
            names = ("attention_backend", "device", "chunked_prefill_size", "disable_radix_cache", "page_size")
            numbers = {None: 0, "EAGLE": 1, "EAGLE3": 2}
            state = {n: launch.args[n] for n in names} | s.thresholds
            state["speculative_algorithm"] = numbers.get(launch.algorithm, 0)
        state["last_gen_throughput"] = s.last_throughput
        graph = 0.19 if launch.algorithm else 0.08
        state["memory_usage"] = {"weight": 0.27, "kvcache": 55.31, "token_capacity": POOL_TOKENS}
        name = "graph" if since(0, 5, 5) else "cuda_graph"
        state["memory_usage"][name] = {"decode": graph, "prefill": 0.0} if since(0, 5, 23) else graph
        if since(0, 5, 10):
            state["effective_max_running_requests_per_dp"] = launch.max_running
        average = s.counts.average
        if average is None and since(0, 5, 5) and not since(0, 5, 12):
            average = self._shown_average  # these versions keep the value that they once told, a flush or not
        if average is not None:
            state["avg_spec_accept_length"] = self._shown_average = average
        if not since(0, 5, 5):
            state["load"] = s.used_tokens
        return state
