"""The OpenAI routes: ``/v1/chat/completions`` and ``/v1/completions``, streamed and whole."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spectui.engines.sim.generate import Refused, check_length, new_rid
from spectui.engines.sim.http import Exchange
from spectui.engines.sim.meta import meta_info, spec_tokens_details
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.tokenizer import chat_text

if TYPE_CHECKING:
    from spectui.engines.sim.server import SimServer


class OpenAIRefused(Refused):
    """A refusal in the form of the OpenAI routes."""


def chat(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    messages = body.get("messages")
    if not isinstance(messages, list) or not messages:
        raise OpenAIRefused("Messages cannot be empty.")
    try:
        prompt = server.tokenizer.encode(chat_text(messages))
    except ValueError as problem:
        raise OpenAIRefused(str(problem)) from problem
    if body.get("return_meta_info") and body.get("stream") and server.launch.sim.dialect.since(0, 5, 15):
        raise OpenAIRefused("return_meta_info is not supported with stream=True.")
    limit = body.get("max_completion_tokens") or body.get("max_tokens")
    _start(server, exchange, body, [prompt], limit, is_chat=True)


def completions(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    given = body.get("prompt")
    if given is None or given in ("", []):
        raise OpenAIRefused("Prompt cannot be empty")
    rows = given if isinstance(given, list) and not isinstance(given[0], int) else [given]
    prompts = [server.tokenizer.encode(row) if isinstance(row, str) else list(row) for row in rows]
    _start(server, exchange, body, prompts, body.get("max_tokens", 16), is_chat=False)


def _start(
    server: SimServer,
    exchange: Exchange,
    body: dict[str, Any],
    prompts: list[list[int]],
    limit: int | None,
    is_chat: bool,
) -> None:
    try:
        for prompt in prompts:
            check_length(server, prompt)
    except Refused as problem:
        raise OpenAIRefused(str(problem)) from problem
    sampling = {
        "temperature": body.get("temperature"),
        "max_new_tokens": server.launch.context_length if limit is None else limit,
        "stop": body.get("stop"),
        "stop_token_ids": body.get("stop_token_ids"),
        "ignore_eos": body.get("ignore_eos"),
        "sampling_seed": body.get("seed"),
    }
    prompts = prompts * int(body.get("n") or 1)
    reply = _Reply(server, exchange, body, len(prompts), is_chat)
    streamed = bool(body.get("stream"))
    rid = body.get("rid") or reply.rid
    requests = []
    for i, prompt in enumerate(prompts):
        sink: Callable[[SimRequest], None] = _Chunks(reply, i) if streamed else reply.ended
        requests.append(server.new_request(prompt, sampling, sink, rid if len(prompts) == 1 else f"{rid}_{i}"))
    reply.requests = requests
    exchange.on_drop = lambda: server.scheduler.abort_all(requests)
    if streamed:
        exchange.stream()
    for request in requests:
        server.scheduler.submit(request)


class _Reply:
    """What all choices of an answer share."""

    def __init__(self, server: SimServer, exchange: Exchange, body: dict[str, Any], count: int, is_chat: bool) -> None:
        self.server, self.exchange, self.body, self.is_chat = server, exchange, body, is_chat
        self.rid = new_rid()
        self.created = int(time.time())
        self.model = str(body.get("model") or server.launch.model_name)
        options = body.get("stream_options") or {}
        since = server.launch.sim.dialect.since
        self.usage_at_end = bool(options.get("include_usage"))
        self.usage_always = bool(options.get("continuous_usage_stats")) and since(0, 5, 5)
        self.spec_details = bool(body.get("return_spec_tokens_details")) and since(0, 5, 23)
        self.requests: list[SimRequest] = []
        self._left = count

    @property
    def kind(self) -> str:
        return ("chat.completion" if self.is_chat else "text_completion") + (
            ".chunk" if self.is_chat and self.body.get("stream") else ""
        )

    def frame(self, **more: object) -> dict[str, Any]:
        return {"id": self.rid, "object": self.kind, "created": self.created, "model": self.model} | more

    def usage(self, requests: list[SimRequest], *, stream: bool) -> dict[str, Any]:
        prompt, output = len(requests[0].prompt_ids), sum(r.count for r in requests)
        usage: dict[str, Any] = {"prompt_tokens": prompt, "total_tokens": prompt + output, "completion_tokens": output}
        if self.is_chat or not stream:
            cached = requests[0].cached
            shown = self.server.launch.args["enable_cache_report"] and cached
            usage["prompt_tokens_details"] = {"cached_tokens": cached} if shown else None
        if self.server.launch.sim.dialect.since(0, 5, 10):
            usage["reasoning_tokens"] = 0
        return usage

    def ended(self, request: SimRequest) -> None:
        """One choice is complete; the last one completes the answer."""
        if request.finish is None:
            return
        self._left -= 1
        if self._left or self.exchange.done:
            return
        if self.body.get("stream"):
            self._stream_end()
        else:
            self._whole()

    def _stream_end(self) -> None:
        if self.spec_details:
            details = [spec_tokens_details(r, self.server.launch) for r in self.requests]
            ext = {"spec_tokens_details": details[0] if len(details) == 1 else details}
            self.event(self.frame(choices=[], sglext=ext))
        if self.usage_at_end:
            self.event(self.frame(choices=[], usage=self.usage(self.requests, stream=True)))
        self.exchange.send(b"data: [DONE]\n\n")
        self.exchange.finish()

    def _whole(self) -> None:
        launch = self.server.launch
        choices = []
        for i, r in enumerate(self.requests):
            ended = _finish(r)
            choice: dict[str, Any] = {"index": i}
            if self.is_chat:
                choice["message"] = {
                    "role": "assistant",
                    "content": r.text,
                    "reasoning_content": None,
                    "tool_calls": None,
                }
            else:
                choice["text"] = r.text
            choice |= {"logprobs": None, **ended}
            if self.is_chat and self.body.get("return_meta_info") and launch.sim.dialect.since(0, 5, 15):
                choice["meta_info"] = meta_info(r, launch)
            choices.append(choice)
        answer = self.frame(choices=choices, usage=self.usage(self.requests, stream=False))
        if launch.sim.dialect.since(0, 5, 5):
            answer["metadata"] = {"weight_version": "default"}
        if self.spec_details:
            details = [spec_tokens_details(r, launch) for r in self.requests]
            answer["sglext"] = {"spec_tokens_details": details[0] if len(details) == 1 else details}
        self.exchange.answer(200, answer)

    def event(self, value: dict[str, Any]) -> None:
        self.exchange.send(b"data: " + msgspec.json.encode(value) + b"\n\n")


def _finish(request: SimRequest) -> dict[str, Any]:
    finish = request.finish or {}
    matched = finish.get("matched")
    return {"finish_reason": finish.get("type"), "matched_stop": matched}


class _Chunks:
    """The stream of one choice; the parts that stay the same are encoded once."""

    def __init__(self, reply: _Reply, index: int) -> None:
        self._reply, self._index = reply, index
        self._sent = self._text_sent = 0
        # of a chunk that carries text only two things change: the text and the counts behind it
        mark = "\x00text\x00"
        if reply.is_chat:
            choice: dict[str, Any] = {"index": index, "delta": {"reasoning_content": None, "content": mark}}
        else:
            choice = {"index": index, "text": mark}
        choice |= {"logprobs": None, "finish_reason": None, "matched_stop": None}
        plain = msgspec.json.encode(reply.frame(choices=[choice]))
        head, tail = plain.split(msgspec.json.encode(mark), 1)
        self._head, self._tail = b"data: " + head, tail[:-1]

    def __call__(self, request: SimRequest) -> None:
        reply = self._reply
        last = request.finish is not None
        if reply.exchange.dropped or (not last and self._sent and reply.exchange.congested):
            return
        if not self._sent and reply.is_chat:
            delta: dict[str, Any] = {"reasoning_content": None, "role": "assistant", "content": ""}
            reply.event(reply.frame(choices=[{"index": self._index, "delta": delta, "logprobs": None,
                                              "finish_reason": None, "matched_stop": None}]))  # fmt: skip
        self._sent, text = request.count, request.text[self._text_sent :]
        self._text_sent = len(request.text)
        if reply.is_chat:
            if text:
                self._text(request, text)
            if last:
                choice = {
                    "index": self._index,
                    "delta": {"reasoning_content": None},
                    "logprobs": None,
                    **_finish(request),
                }
                reply.event(reply.frame(choices=[choice]))
        elif not last:
            self._text(request, text)
        else:
            choice = {"index": self._index, "text": text, "logprobs": None, **_finish(request)}
            usage = reply.usage([request], stream=True) if reply.usage_always else None
            reply.event(reply.frame(choices=[choice], usage=usage))
        reply.ended(request)

    def _text(self, request: SimRequest, text: str) -> None:
        reply = self._reply
        usage = b""
        if reply.usage_always:
            usage = b',"usage":' + msgspec.json.encode(reply.usage([request], stream=True))
        elif not reply.is_chat:
            usage = b',"usage":null'
        reply.exchange.send(self._head + msgspec.json.encode(text) + self._tail + usage + b"}\n\n")
