"""The other routes: health, info, loads, tokenizing, cache, state, corpora, pausing and aborting."""

from __future__ import annotations

import asyncio
import json
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.engines.sim.generate import Refused, new_rid
from spectui.engines.sim.http import TEXT, Exchange
from spectui.engines.sim.proposers import Ngram
from spectui.engines.sim.scheduler import POOL_TOKENS
from spectui.engines.sim.tokenizer import chat_text

if TYPE_CHECKING:
    from spectui.engines.sim.requests import SimRequest
    from spectui.engines.sim.server import SimServer

FLUSHED = (
    "Cache flushed.\nPlease check backend logs for more details. (When there are running or waiting requests, the "
    "operation will not be performed.)\n"
)
_NGRAM_OFF = "Ngram speculative decoding is not enabled."


def health(server: SimServer, exchange: Exchange) -> None:
    """Runs the model for one token, as SGLang's health route does from 0.5.5 on."""
    plain = not server.launch.sim.dialect.health_generates and exchange.path == "/health"
    if plain:
        exchange.answer(200, "")
    elif not server.ready or server.ending:
        exchange.answer(503, "")
    else:
        server.spawn(_health(server, exchange))


async def _health(server: SimServer, exchange: Exchange) -> None:
    loop = asyncio.get_running_loop()
    done: asyncio.Future[None] = loop.create_future()

    def ended(request: SimRequest) -> None:
        if request.finish is not None and not done.done():
            done.set_result(None)

    sampling = {"max_new_tokens": 1, "temperature": 0.0}
    request = server.new_request([server.tokenizer.encode("a")[0]], sampling, ended, f"HEALTH_CHECK_{time.time()}")
    request.internal = True
    server.scheduler.submit(request)
    try:
        await asyncio.wait_for(done, 20.0)
        await asyncio.sleep(server.life_scale)
        answer = 200
    except asyncio.TimeoutError:
        answer = 503
    if not exchange.done:
        exchange.answer(answer, "")


def ready(server: SimServer, exchange: Exchange) -> None:
    exchange.answer(200 if server.ready and not server.ending else 503, "")


def ping(server: SimServer, exchange: Exchange) -> None:
    exchange.answer(200, "")


def model_info(server: SimServer, exchange: Exchange) -> None:
    exchange.answer(200, server.model_info())


def server_info(server: SimServer, exchange: Exchange) -> None:
    exchange.answer(200, server.server_info())


def models(server: SimServer, exchange: Exchange) -> None:
    name = server.launch.model_name
    row = {"id": name, "object": "model", "created": int(time.time()), "owned_by": "sglang", "root": name,
           "parent": None, "max_model_len": server.launch.context_length}  # fmt: skip
    exchange.answer(200, {"object": "list", "data": [row]})


def get_load(server: SimServer, exchange: Exchange) -> None:
    s, since = server.scheduler, server.launch.sim.dialect.since
    if not since(0, 5, 5):
        exchange.answer(200, {"load": s.used_tokens})
        return
    both = len(s.running) + len(s.waiting)
    row: dict[str, Any] = {"dp_rank": 0, "num_reqs": both, "num_waiting_reqs": len(s.waiting)}
    row["num_tokens"] = s.used_tokens
    if since(0, 5, 12):
        row["num_pending_tokens"] = 0
    if since(0, 5, 10):
        row["ts_tic"] = time.perf_counter()
    exchange.answer(200, [row])


def loads(server: SimServer, exchange: Exchange) -> None:
    s, launch = server.scheduler, server.launch
    since, metrics = launch.sim.dialect.since, launch.args["enable_metrics"]
    include = set(",".join(exchange.query.get("include", ["core"])).split(","))
    unknown = include - {"core", "memory", "spec", "lora", "disagg", "queues", "all"}
    if unknown:
        exchange.answer(400, {"detail": f"Invalid include section: {sorted(unknown)[0]}"})
        return
    now = time.time()
    row: dict[str, Any] = {"dp_rank": 0, "num_running_reqs": len(s.running), "num_waiting_reqs": len(s.waiting)}
    if since(0, 5, 15):
        row |= {"timestamp": now, "num_waiting_uncached_tokens": sum(len(r.prompt_ids) for r in s.waiting)}
    else:
        row["num_total_reqs"] = len(s.running) + len(s.waiting)
    row |= {"num_used_tokens": s.used_tokens, "max_total_num_tokens": POOL_TOKENS,
            "max_running_requests": launch.max_running, "token_usage": s.used_tokens / POOL_TOKENS,
            "gen_throughput": s.last_throughput if metrics else 0.0,
            "cache_hit_rate": 0.0, "utilization": 0.0}  # fmt: skip
    if since(0, 5, 12):
        row["num_total_tokens"] = s.used_tokens
    if include & {"memory", "all"}:
        row["memory"] = {"weight_gb": 0.27, "kv_cache_gb": 55.31, "graph_gb": 0.19, "token_capacity": POOL_TOKENS}
    if include & {"spec", "all"} and s.counts.average is not None:
        row["speculative"] = {"accept_length": s.counts.average, "accept_rate": 0.0}
    if include & {"queues", "all"}:
        row["queues"] = {"waiting": len(s.waiting), "grammar": 0, "paused": 0, "retracted": 0}
    stamp = time.strftime("%Y-%m-%dT%H:%M:%S+00:00", time.gmtime(now))
    answer: dict[str, Any] = {"timestamp": stamp, "version": launch.sim.dialect.version, "loads": [row]}
    if not since(0, 5, 15):
        answer |= {"dp_rank_count": 1, "aggregate": {
            "total_running_reqs": len(s.running), "total_waiting_reqs": len(s.waiting),
            "total_reqs": len(s.running) + len(s.waiting), "avg_token_usage": s.used_tokens / POOL_TOKENS,
            "avg_throughput": row["gen_throughput"], "avg_utilization": 0.0}}  # fmt: skip
    exchange.answer(200, answer)


def tokenize(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    prompt, messages = body.get("prompt"), body.get("messages")
    if messages is not None and not server.launch.sim.dialect.since(0, 5, 12):
        messages = None
    if (prompt is None) == (messages is None):
        raise Refused("Exactly one of 'prompt' or 'messages' must be provided.")
    if messages is not None:
        try:
            prompt = chat_text(messages)
        except ValueError as problem:
            raise Refused(str(problem)) from problem
    tokens: Any
    count: Any
    if isinstance(prompt, list):
        tokens = [server.tokenizer.encode(str(p)) for p in prompt]
        count = [len(t) for t in tokens]
    else:
        tokens = server.tokenizer.encode(str(prompt))
        count = len(tokens)
    exchange.answer(200, {"tokens": tokens, "count": count, "max_model_len": server.launch.context_length})


def detokenize(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    tokens = body.get("tokens")
    if not isinstance(tokens, list):
        raise Refused("tokens must be a list of token ids.")
    special = not body.get("skip_special_tokens", True)
    text: Any
    if tokens and isinstance(tokens[0], list):
        text = [server.tokenizer.decode(row, special=special) for row in tokens]
    else:
        text = server.tokenizer.decode(tokens, special=special)
    exchange.answer(200, {"text": text})


def flush_cache(server: SimServer, exchange: Exchange) -> None:
    timeout = 0.0
    if server.launch.sim.dialect.since(0, 5, 10):
        try:
            timeout = float(exchange.query.get("timeout", ["0"])[0])
        except ValueError:
            exchange.answer(422, {"detail": [{"loc": ["query", "timeout"], "msg": "Input should be a valid number"}]})
            return
    server.spawn(_flush(server, exchange, timeout))


async def _flush(server: SimServer, exchange: Exchange, timeout: float) -> None:
    if timeout > 0:
        await server.scheduler.until_idle(timeout)
    done = server.scheduler.flush()
    if not exchange.done:
        exchange.answer(200 if done else 400, FLUSHED if done else "Flush cache failed.\n", TEXT)


def set_internal_state(server: SimServer, exchange: Exchange) -> None:
    asked = exchange.json().get("server_args")
    if not isinstance(asked, dict):
        raise Refused("server_args is required.")
    dialect, s = server.launch.sim.dialect, server.scheduler
    micro = "pp_max_micro_batch_size" if dialect.since(0, 5, 5) else "max_micro_batch_size"
    unknown = [k for k in asked if k not in (micro, *s.thresholds)]
    for key in unknown:
        server.log.line(f"Updating {key} is not supported.")
    if not unknown:
        average = s.counts.average
        if average is not None:
            server.log.line(f"avg_spec_accept_length={average}")
        s.thresholds.update({k: v for k, v in asked.items() if k in s.thresholds})
        s.reset_lifetime()
        server.log.line("Global server args updated! get_global_server_args()=ServerArgs(...)")
    if not dialect.since(0, 5, 5):
        exchange.answer(500, "Internal Server Error", TEXT)  # 0.4.9 applies, and then fails to answer
    else:
        exchange.answer(200, [not unknown or not dialect.since(0, 5, 15)])


def abort_request(server: SimServer, exchange: Exchange) -> None:
    body = exchange.json()
    server.scheduler.abort_matching(str(body.get("rid") or ""), bool(body.get("abort_all")))
    exchange.answer(200, "")


def pause(server: SimServer, exchange: Exchange) -> None:
    since = server.launch.sim.dialect.since
    mode = "abort"
    if since(0, 5, 10):
        if not exchange.body:
            exchange.answer(422, {"detail": [{"type": "missing", "loc": ["body"], "msg": "Field required"}]})
            return
        mode = str(exchange.json().get("mode", "abort"))
    if mode == "abort":
        server.scheduler.abort_matching("", True)
    server.spawn(_pause(server, exchange))


async def _pause(server: SimServer, exchange: Exchange) -> None:
    await server.scheduler.pause()
    if server.launch.sim.dialect.since(0, 5, 15):
        server.scheduler.last_throughput = 0.0
    if not exchange.done:
        exchange.answer(200, {"message": "Generation paused successfully.", "status": "ok"})


def resume(server: SimServer, exchange: Exchange) -> None:
    if server.launch.sim.dialect.since(0, 5, 10) and not exchange.body:
        exchange.answer(422, {"detail": [{"type": "missing", "loc": ["body"], "msg": "Field required"}]})
        return
    server.scheduler.resume()
    exchange.answer(200, {"message": "Generation continued successfully.", "status": "ok"})


def metrics(server: SimServer, exchange: Exchange) -> None:
    exchange.answer(200, server.metrics.page(), "text/plain; version=1.0.0; charset=utf-8; escaping=underscores")


# -- external corpora ---------------------------------------------------------------------------------------------


def add_corpus(server: SimServer, exchange: Exchange) -> None:
    body, store = exchange.json(), server.scheduler.proposer
    name = str(body.get("corpus_id") or new_rid())

    def refuse(message: str) -> None:
        exchange.answer(400, {"success": False, "corpus_id": name, "message": message, "loaded_token_count": 0})

    if not isinstance(store, Ngram):
        return refuse(_NGRAM_OFF)
    if name in store.corpora:
        return refuse(f"Corpus '{name}' already exists.")
    documents = body.get("documents")
    path = body.get("file_path")
    if (documents is None) == (path is None):
        return refuse("Exactly one of file_path and documents must be given.")
    if path is not None:
        try:
            documents = [json.loads(line) for line in Path(str(path)).read_text("utf-8").splitlines() if line.strip()]
        except (OSError, ValueError) as problem:
            return refuse(f"Cannot read corpus file: {problem}")
    if not isinstance(documents, list) or not all(isinstance(d, str) for d in documents):
        return refuse("documents must be strings.")
    room = store.corpus_limit - sum(store.corpora.values())
    kept: list[list[int]] = []
    for document in documents:
        tokens = server.tokenizer.encode(document)
        if len(tokens) > room:
            if path is not None:
                return refuse("The corpus exceeds --speculative-ngram-external-corpus-max-tokens.")
            break
        room -= len(tokens)
        kept.append(tokens)
    count = store.add_corpus(name, kept)
    server.log.line(f"Loaded external ngram corpus '{name}' ({count} tokens).")
    exchange.answer(200, {"success": True, "corpus_id": name, "message": "", "loaded_token_count": count})
    return None


def remove_corpus(server: SimServer, exchange: Exchange) -> None:
    store, name = server.scheduler.proposer, str(exchange.json().get("corpus_id") or "")
    if not isinstance(store, Ngram):
        exchange.answer(400, {"success": False, "message": _NGRAM_OFF})
    elif store.corpora.pop(name, None) is None:
        exchange.answer(400, {"success": False, "message": f"Corpus '{name}' does not exist."})
    else:
        exchange.answer(200, {"success": True, "message": ""})


def list_corpora(server: SimServer, exchange: Exchange) -> None:
    store = server.scheduler.proposer
    on = isinstance(store, Ngram)
    exchange.answer(200, {"success": on, "corpus_token_counts": dict(store.corpora) if isinstance(store, Ngram) else {},
                          "message": "" if on else _NGRAM_OFF})  # fmt: skip
