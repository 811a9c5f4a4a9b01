"""Knobs that several algorithms have in common."""

from __future__ import annotations

from typing import Any

from spectui.core.settings import Knob
from spectui.core.versions import Version

NUM_STEPS = Knob(
    "num_steps",
    "int",
    "steps",
    "How many times the draft runs before each verify step, so how far ahead it guesses.",
    minimum=1,
    maximum=64,
)
EAGLE_TOPK = Knob(
    "eagle_topk",
    "int",
    "topk",
    "Branches kept at each draft step. 1 is a chain; more is a tree.",
    minimum=1,
    maximum=64,
)
NUM_DRAFT_TOKENS = Knob(
    "num_draft_tokens",
    "int",
    "draft tokens",
    "Width of the verify step: how many tokens the target checks at once, the last committed one included.",
    minimum=1,
    maximum=1024,
    unit="tokens",
)
DRAFT_MODEL_PATH = Knob(
    "draft_model_path",
    "path",
    "draft model",
    "Folder or repository of the draft model.",
)
DRAFT_WINDOW_SIZE = Knob(
    "draft_window_size",
    "int",
    "draft window",
    "How many of the last tokens the draft attends to.",
    minimum=1,
    unit="tokens",
    since=(0, 5, 12),
    off_when_unset=True,
)


def _detail(key: str, kind: str, title: str, text: str, since: Version | None = None, **more: Any) -> Knob:
    return Knob(key, kind, title, text, since=since, advanced=True, off_when_unset=True, **more)


DRAFT_DETAILS = (
    _detail("draft_model_revision", "text", "draft revision", "Revision of the draft's repository.", (0, 5, 5)),
    _detail("draft_load_format", "text", "draft load format", "How the draft's weights are read.", (0, 5, 5)),
    _detail("draft_model_quantization", "text", "draft quantization", "Quantization of the draft.", (0, 5, 10)),
    _detail("draft_attention_backend", "text", "draft attention", "Attention backend of the draft.", (0, 5, 10)),
    _detail("draft_kv_cache_dtype", "text", "draft KV cache", "Type of the draft's KV cache.", (0, 5, 23)),
    _detail("moe_runner_backend", "text", "draft MoE runner", "MoE kernels of the draft.", (0, 5, 5)),
    _detail("moe_a2a_backend", "text", "draft MoE all-to-all", "MoE exchange of the draft.", (0, 5, 10)),
    _detail(
        "attention_mode",
        "choice",
        "verify attention",
        "Kernels that verify and extend: those of prefill or of decode.",
        (0, 5, 5),
        choices=("prefill", "decode"),
    ),
    _detail("token_map", "path", "token map", "File with the draft's most frequent tokens, for a smaller head."),
    _detail("multi_layer_eagle", "flag", "multi-layer EAGLE", "One draft layer for each step.", (0, 5, 10)),
    _detail("block_verification", "flag", "block verification", "Verifies the block as a whole.", (0, 5, 23)),
)
SKIP_DP_MLP_SYNC = _detail(
    "skip_dp_mlp_sync",
    "flag",
    "skip MLP sync",
    "EAGLE only: leaves out a synchronisation of data-parallel ranks.",
    (0, 5, 12),
    until=(0, 5, 15),
)
SINK_SIZE = _detail(
    "draft_sink_size", "int", "draft sink", "First tokens that the draft always attends to.", (0, 5, 23), minimum=1
)
DOMINO_POOL = _detail(
    "domino_candidate_pool_size", "int", "candidate pool", "Candidates kept a step.", (0, 5, 23), minimum=1
)
THRESHOLDS = (
    Knob(
        "accept_threshold_single",
        "float",
        "accept threshold, single token",
        "A draft token is accepted when the target gives it at least this probability. Below 1 the output changes.",
        minimum=0,
        maximum=1,
        default=1.0,
        hot_since=(0, 4, 9),
    ),
    Knob(
        "accept_threshold_acc",
        "float",
        "accept threshold, accumulated",
        "Loosens acceptance by the accumulated probability. Below 1 the output changes.",
        minimum=0,
        maximum=1,
        default=1.0,
        hot_since=(0, 4, 9),
    ),
)
ADAPTIVE = (
    Knob(
        "adaptive",
        "flag",
        "adaptive steps",
        "Lets the server choose the steps by how much was accepted. Graphs for every candidate are captured at start.",
        since=(0, 5, 12),
    ),
    Knob(
        "adaptive_config",
        "path",
        "adaptive config",
        "JSON file with the candidate steps.",
        since=(0, 5, 12),
    ),
)
REJECTION_SAMPLING = Knob(
    "rejection_sampling",
    "flag",
    "rejection sampling",
    "Verifies sampled text by rejection sampling instead of target-only sampling.",
    since=(0, 5, 15),
)
