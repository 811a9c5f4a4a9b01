"""``meta_info``: what an answer says of itself, by version."""

from __future__ import annotations

import time
from typing import Any

from spectui.engines.sim.arguments import Launch
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.ties import logprobs


def meta_info(request: SimRequest, launch: Launch, *, streamed_s: float | None = None) -> dict[str, Any]:
    """Keys as in srt/managers/tokenizer_manager.py of each version; speculative ones only at the end.

    ``streamed_s``: when the first event of a stream went out, None for a whole answer.
    """
    dialect = launch.sim.dialect
    since = dialect.since
    meta: dict[str, Any] = {
        "id": request.rid,
        "finish_reason": request.finish,
        "prompt_tokens": len(request.prompt_ids),
    }
    if since(0, 5, 5):
        meta["weight_version"] = "default"
        meta["num_retractions" if since(0, 5, 12) else "total_retractions"] = 0
        meta["queue_time"] = 0.0
    if since(0, 5, 10):
        meta["reasoning_tokens"] = 0
    meta["completion_tokens"] = request.count
    meta["cached_tokens"] = request.cached
    if since(0, 5, 10):
        meta["cached_tokens_details"] = {"device": request.cached, "host": 0} if request.cached else None
        meta["dp_rank"] = None
    timed = launch.args["enable_metrics"] and since(0, 5, 10)
    if request.finish is None:
        return meta
    meta["e2e_latency"] = request.finished_s - request.received
    if request.logprobs is not None:
        meta |= logprobs(request.output_ids, request.answer.tie, request.logprobs)
    if launch.algorithm is not None and request.verify_steps:
        meta |= _speculative(request, launch)
    if timed:
        meta["request_received_ts"] = request.received
        meta["api_server_dispatch_finish_ts"] = request.dispatched
        if streamed_s is not None:
            meta["response_sent_to_client_ts"] = streamed_s
        meta["request_finished_ts"] = request.finished_s
        meta["decode_throughput"] = request.count / max(1e-9, request.finished_s - request.first_s)
        if streamed_s is None:
            meta["response_sent_to_client_ts"] = time.time()
    return meta


def _speculative(request: SimRequest, launch: Launch) -> dict[str, Any]:
    dialect, a = launch.sim.dialect, launch.args
    steps, drafts = request.verify_steps, request.accepted
    if not dialect.since(0, 5, 5):
        return {"spec_verify_ct": steps}
    length = request.count / steps
    if not dialect.since(0, 5, 10):
        passes = a["speculative_num_steps"]
        return {
            "spec_accept_rate": drafts / (steps * passes) if passes else 0.0,
            "spec_accept_length": length if passes else 0,
            "spec_verify_ct": steps,
        }
    proposed = steps * (int(a["speculative_num_draft_tokens"]) - 1)
    said: dict[str, Any] = {"spec_accept_rate": drafts / proposed if proposed else 0.0, "spec_accept_length": length}
    if not dialect.since(0, 5, 12):
        return said | {
            "spec_accept_token_num": drafts,
            "spec_draft_token_num": proposed,
            "spec_verify_ct": steps,
            "spec_accept_histogram": list(request.histogram),
        }
    said |= {"spec_num_correct_drafts": drafts, "spec_num_proposed_drafts": proposed, "spec_verify_ct": steps}
    if not dialect.since(0, 5, 23):
        said |= {"spec_accepted_drafts": drafts, "spec_proposed_drafts": proposed}
    said["spec_correct_drafts_histogram"] = list(request.histogram)
    if not dialect.since(0, 5, 23):
        said["spec_accept_histogram"] = list(request.histogram)
    return said


def spec_tokens_details(request: SimRequest, launch: Launch) -> dict[str, Any]:
    """``sglext.spec_tokens_details`` of 0.5.23's OpenAI routes (srt/entrypoints/openai/protocol.py)."""
    said = _speculative(request, launch) if request.verify_steps and launch.algorithm is not None else {}
    names = ("spec_accept_rate", "spec_accept_length", "spec_cap_length", "spec_block_accept_length",
             "spec_num_correct_drafts", "spec_num_proposed_drafts", "spec_verify_ct", "spec_correct_drafts_histogram",
             "spec_cap_lens_histogram")  # fmt: skip
    return {name: said.get(name) for name in names}
