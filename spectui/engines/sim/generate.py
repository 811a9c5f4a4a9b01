"""``/generate``: SGLang's own route, streamed or whole, one request or a batch."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from spectui.engines.sim.http import Exchange
from spectui.engines.sim.meta import meta_info
from spectui.engines.sim.requests import SimRequest

if TYPE_CHECKING:
    from spectui.engines.sim.server import SimServer


class Refused(ValueError):
    """A request that SGLang answers with 400; the text is its message."""


def generate(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    ids, many = _inputs(server, body)
    sampling = body.get("sampling_params") or {}
    rids = _rids(body.get("rid"), len(ids), many)
    if isinstance(sampling, list) and len(sampling) != len(ids):
        raise Refused("The length of sampling_params must be equal to the batch size.")
    stream = bool(body.get("stream"))
    likely = _logprobs(server, body)
    requests: list[SimRequest] = []
    left = [len(ids)]

    def ended() -> None:
        left[0] -= 1
        if left[0]:
            return
        if stream:
            exchange.send(b"data: [DONE]\n\n")
            exchange.finish()
        else:
            _whole(server, exchange, requests, many)

    for i, prompt in enumerate(ids):
        picked = sampling[i] if isinstance(sampling, list) else sampling
        sink: Callable[[SimRequest], None]
        if stream:
            sink = EventStream(server, exchange, i if many else None, ended)
        else:
            sink = lambda r: ended() if r.finish is not None else None  # noqa: E731
        requests.append(server.new_request(prompt, picked, sink, rids[i]))
        requests[-1].logprobs = likely
    exchange.on_drop = lambda: server.scheduler.abort_all(requests)
    if stream:
        exchange.stream()
    for request in requests:
        server.scheduler.submit(request)


def _logprobs(server: SimServer, body: dict[str, Any]) -> int | None:
    """How many likeliest tokens to tell beside each; None where none are asked for."""
    asked, top = body.get("return_logprob"), body.get("top_logprobs_num")
    if not (any(asked) if isinstance(asked, list) else asked):
        return None
    if server.launch.algorithm in ("DFLASH", "DSPARK"):
        raise Refused(f"{server.launch.algorithm} speculative decoding does not support return_logprob yet.")
    if isinstance(top, list):
        top = max(top, default=0)
    return int(top or 0)


def _rids(given: object, count: int, many: bool) -> list[object]:
    if isinstance(given, list):
        if len(given) != count:
            raise Refused("The rids should be a list of the same length as the batch.")
        return given
    return [f"{given}_{i}" for i in range(count)] if many and given else [given] * count


def _inputs(server: SimServer, body: dict[str, Any]) -> tuple[list[list[int]], bool]:
    """Prompts as ids, and whether a list of them was sent."""
    given, many = body.get("input_ids"), False
    if given is None and body.get("text") is not None:
        texts = body["text"]
        many = isinstance(texts, list)
        given = [server.tokenizer.encode(str(t)) for t in (texts if many else [texts])]
    elif isinstance(given, list) and given:
        many = isinstance(given[0], list)
        given = given if many else [given]
    if not given or not all(isinstance(row, list) for row in given):
        raise Refused("Either text, input_ids or input_embeds should be provided.")
    for row in given:
        if not all(isinstance(t, int) and not isinstance(t, bool) and t >= 0 for t in row):
            raise Refused("The input_ids contain values that are no token ids.")
        check_length(server, row)
    return given, many


def check_length(server: SimServer, ids: list[int]) -> None:
    """Raises Refused for a prompt that the context has no room for."""
    launch = server.launch
    longest = launch.context_length
    # a draft model keeps room for one tree, and the message counts it in
    used = len(ids) + (
        int(launch.args["speculative_num_draft_tokens"]) if launch.algorithm not in (None, "NGRAM") else 0
    )
    if used >= longest:
        raise Refused(f"The input ({used} tokens) is longer than the model's context length ({longest} tokens).")
    if not ids:
        raise Refused("The input is empty.")


def _whole(server: SimServer, exchange: Exchange, requests: list[SimRequest], many: bool) -> None:
    if exchange.done:
        return
    rows = []
    for r in requests:
        row: dict[str, Any] = {"text": r.text}
        if server.launch.sim.dialect.since(0, 5, 5):
            row["output_ids"] = r.output_ids
        rows.append(row | {"meta_info": meta_info(r, server.launch)})
    aborted = next((r for r in requests if r.finish is not None and r.finish["type"] == "abort"), None)
    if aborted is not None and not many and aborted.finish is not None and aborted.count == 0:
        exchange.answer(400, {"error": {"message": aborted.finish["message"]}})
    else:
        exchange.answer(200, rows if many else rows[0])


class EventStream:
    """Events of one request. What does not change from event to event is written once."""

    __slots__ = ("_delta_ids", "_delta_text", "_ended", "_every", "_exchange", "_head", "_ids", "_index", "_sent",
                 "_server", "_started_s", "_tail", "_text", "_text_sent", "_with_ids")  # fmt: skip

    def __init__(self, server: SimServer, exchange: Exchange, index: int | None, ended: Callable[[], None]) -> None:
        dialect, a = server.launch.sim.dialect, server.launch.args
        self._server = server
        self._exchange = exchange
        self._index = index
        self._ended = ended
        self._every = max(1, int(a["stream_interval"]))
        self._delta_text = bool(a.get(dialect.incremental_flag))
        self._delta_ids = self._delta_text or not dialect.ids_are_cumulative
        self._with_ids = dialect.since(0, 5, 5)
        self._sent = 0
        self._text_sent = 0
        self._text = b""
        self._ids = b""
        self._head = self._tail = b""
        self._started_s: float | None = None

    def __call__(self, request: SimRequest) -> None:
        exchange = self._exchange
        last = request.finish is not None
        if exchange.dropped:
            return
        if not last and self._sent and (exchange.congested or request.count - self._sent < self._every):
            return
        ids = b",".join(b"%d" % t for t in request.answer.ids[self._sent : request.count])
        # a stop string may have taken back text that was sent
        text = msgspec.json.encode(request.text[self._text_sent :])[1:-1]
        if self._delta_text:
            self._text = text
        elif len(request.text) < self._text_sent:
            self._text = msgspec.json.encode(request.text)[1:-1]
        else:
            self._text += text
        self._ids = ids if self._delta_ids or not self._ids else self._ids + (b"," + ids if ids else b"")
        first = self._sent == 0
        self._sent, self._text_sent = request.count, len(request.text)
        tail = self._meta(request, first) if first or last else self._head + b"%d" % request.count + self._tail
        shown = b'","output_ids":[' + self._ids + b'],"meta_info":' if self._with_ids else b'","meta_info":'
        index = b"" if self._index is None else b',"index":%d' % self._index
        exchange.send(b'data: {"text":"' + self._text + shown + tail + index + b"}\n\n")
        if last:
            self._ended()

    def _meta(self, request: SimRequest, first: bool) -> bytes:
        """The whole meta_info; what the later events share is kept."""
        launch = self._server.launch
        if first:
            self._started_s = time.time()
        meta = meta_info(request, launch, streamed_s=self._started_s or time.time())
        if first and request.finish is None:
            plain = msgspec.json.encode(meta)
            mark = b'"completion_tokens":'
            at = plain.index(mark) + len(mark)
            self._head = plain[:at]
            self._tail = plain[at:].lstrip(b"0123456789")
            if launch.args["enable_metrics"] and launch.sim.dialect.since(0, 5, 10):
                meta["response_sent_to_client_ts"] = self._started_s
        return msgspec.json.encode(meta)


def new_rid() -> str:
    return uuid.uuid4().hex
