"""Measuring routes: which ones a server can do, and the request that each of them sends.

In order of preference: the native route with token ids (live counts, ids, all speculative details); chat with usage in
every event and the details at its end (0.5.23); chat with usage in every event (0.5.5 on); chat with the total at its
end. Chat prompts always go through the model's chat template; completion prompts go to the native route as text.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import msgspec

from spectui.core.spec import Prompt, RunSpec
from spectui.engines.sglang.info import ServerInfo
from spectui.runner.transport import Call

IDS, DETAILS, USAGE, TOTAL, TEXT = "ids", "details", "usage", "total", "text"
_NAMES = {
    IDS: "/generate with input_ids",
    TEXT: "/generate with text",
    DETAILS: "/v1/chat/completions with usage in every event and speculative details",
    USAGE: "/v1/chat/completions with usage in every event",
    TOTAL: "/v1/chat/completions with the total at the end",
}
_encode = msgspec.json.Encoder().encode


@dataclass(frozen=True, slots=True)
class Route:
    """How prompts of one kind are sent to one server."""

    kind: str
    incremental: bool = False
    seed: bool = False
    """A seed that is sent reaches the sampler."""

    @property
    def native(self) -> bool:
        return self.kind in (IDS, TEXT)

    @property
    def name(self) -> str:
        """For the journal."""
        if self.native:
            return f"{_NAMES[self.kind]}, {'incremental' if self.incremental else 'cumulative'}"
        return _NAMES[self.kind]

    @property
    def tells_steps(self) -> bool:
        """Events carry token counts, so that an event is a step while streams are not joined."""
        return self.kind != TOTAL


def is_incremental(info: ServerInfo) -> bool:
    """Whether the native route streams increments (``--incremental-streaming-output``, earlier ``--stream-output``)."""
    return info.server.get("incremental_streaming") is True


def candidates(info: ServerInfo, *, chat: bool) -> list[Route]:
    """Routes to try for a kind of prompt, the best first."""
    incremental, contract = is_incremental(info), info.contract
    if not chat:
        return [Route(TEXT, incremental, contract.native_seed)]
    routes = []
    if contract.tokenizes_messages:
        routes.append(Route(IDS, incremental, contract.native_seed))
    if contract.chat_spec_details:
        routes.append(Route(DETAILS, seed=contract.chat_seed))
    if contract.usage_in_every_event:
        routes.append(Route(USAGE, seed=contract.chat_seed))
    routes.append(Route(TOTAL, seed=contract.chat_seed))
    return routes


def call(
    route: Route, prompt: Prompt, spec: RunSpec, *, model: str, rid: str, ids: list[int] | None, limit: int
) -> Call:
    """The request for a prompt; ``ids`` are its tokens where the route sends those, ``limit`` its output tokens."""
    if route.native:
        return Call("/generate", _encode(_native(route, prompt, spec, rid, ids, limit)))
    return Call("/v1/chat/completions", _encode(_chat(route, prompt, spec, model, rid, limit)))


def _native(route: Route, prompt: Prompt, spec: RunSpec, rid: str, ids: list[int] | None, limit: int) -> dict[str, Any]:
    sampling: dict[str, Any] = {"max_new_tokens": limit}
    if spec.temperature is not None:
        sampling["temperature"] = spec.temperature
    if spec.ignore_eos:
        sampling["ignore_eos"] = True
    if spec.seed is not None and route.seed:  # an unknown sampling parameter would fail the request
        sampling["sampling_seed"] = spec.seed
    body: dict[str, Any] = {"sampling_params": sampling, "stream": True, "rid": rid}
    if ids is not None:
        body["input_ids"] = ids
    else:
        body["text"] = prompt.text or ""
    return body


def _chat(route: Route, prompt: Prompt, spec: RunSpec, model: str, rid: str, limit: int) -> dict[str, Any]:
    messages = prompt.messages or ({"role": "user", "content": prompt.text or ""},)
    options: dict[str, Any] = {"include_usage": True}
    if route.kind in (DETAILS, USAGE):
        options["continuous_usage_stats"] = True
    body: dict[str, Any] = {
        "model": model or "default",
        "messages": messages,
        "max_tokens": limit,
        "stream": True,
        "stream_options": options,
        "rid": rid,
    }
    if spec.temperature is not None:
        body["temperature"] = spec.temperature
    if spec.seed is not None and route.seed:
        body["seed"] = spec.seed
    if spec.ignore_eos:
        body["ignore_eos"] = True
    if spec.thinking is not None:
        body["chat_template_kwargs"] = {"thinking": spec.thinking, "enable_thinking": spec.thinking}
    if route.kind == DETAILS:
        body["return_spec_tokens_details"] = True
    return body
