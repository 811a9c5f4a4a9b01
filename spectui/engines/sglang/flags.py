"""How each neutral setting is spelled on SGLang's command line and in its info body, by version.

Source: the argument lists of 0.4.9 to 0.5.12 (srt/server_args.py), 0.5.15 (srt/server_args.py) and 0.5.23
(srt/arg_groups/fields/spec.py). A field of the info body is the flag's name with underscores unless stated.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write a setting, valid from version ``since`` up to, not including, ``until``."""

    flag: str
    since: str = "0.4.9"
    until: str | None = None
    fixed: str | None = None
    """Value that the flag carries where the neutral setting is a plain yes."""
    field: str = ""
    """Key in the info body."""

    @property
    def info_key(self) -> str:
        return self.field or self.flag.lstrip("-").replace("-", "_")


@dataclass(frozen=True, slots=True)
class Setting:
    key: str
    kind: str
    """int, float, text, flag (present or not), list (of int) or path."""
    default: object
    spellings: tuple[Spelling, ...]
    spec: bool = True
    """Belongs to speculation; else to the server."""
    choices: tuple[str, ...] = ()


def _one(
    key: str,
    kind: str,
    flag: str,
    since: str = "0.4.9",
    until: str | None = None,
    default: object = None,
    **more: object,
) -> Setting:
    return Setting(key, kind, default, (Spelling(flag, since, until),), **more)  # type: ignore[arg-type]


_S = "--speculative-"
SPEC_SETTINGS: tuple[Setting, ...] = (
    Setting("draft_model_path", "path", None, (Spelling(_S + "draft-model-path"),)),
    _one("draft_model_revision", "text", _S + "draft-model-revision", "0.5.5"),
    _one("draft_load_format", "text", _S + "draft-load-format", "0.5.5"),
    _one("num_steps", "int", _S + "num-steps"),
    _one("eagle_topk", "int", _S + "eagle-topk"),
    _one("num_draft_tokens", "int", _S + "num-draft-tokens"),
    _one("accept_threshold_single", "float", _S + "accept-threshold-single", default=1.0),
    _one("accept_threshold_acc", "float", _S + "accept-threshold-acc", default=1.0),
    _one("token_map", "path", _S + "token-map"),
    _one("attention_mode", "text", _S + "attention-mode", "0.5.5", default="prefill", choices=("prefill", "decode")),
    _one("moe_runner_backend", "text", _S + "moe-runner-backend", "0.5.5"),
    _one("moe_a2a_backend", "text", _S + "moe-a2a-backend", "0.5.10"),
    _one("draft_attention_backend", "text", _S + "draft-attention-backend", "0.5.10"),
    _one("draft_model_quantization", "text", _S + "draft-model-quantization", "0.5.10"),
    _one("multi_layer_eagle", "flag", "--enable-multi-layer-eagle", "0.5.10", default=False),
    _one("adaptive", "flag", _S + "adaptive", "0.5.12", default=False),
    _one("adaptive_config", "path", _S + "adaptive-config", "0.5.12"),
    _one("skip_dp_mlp_sync", "flag", _S + "skip-dp-mlp-sync", "0.5.12", "0.5.23", default=False),
    _one("rejection_sampling", "flag", _S + "use-rejection-sampling", "0.5.15", default=False),
    _one("block_verification", "flag", _S + "use-block-verification", "0.5.23", default=False),
    _one("draft_window_size", "int", _S + "draft-window-size", "0.5.12"),
    _one("draft_sink_size", "int", _S + "draft-sink-size", "0.5.23"),
    _one("draft_kv_cache_dtype", "text", _S + "draft-kv-cache-dtype", "0.5.23"),
    _one("domino_candidate_pool_size", "int", _S + "domino-candidate-pool-size", "0.5.23", default=2048),
    # 0.5.5 matched over a window and grew branches; 0.5.10 put one trie depth in place of all three.
    _one("ngram.min_match_window_size", "int", _S + "ngram-min-match-window-size", "0.5.5", "0.5.10", 1),
    _one("ngram.max_match_window_size", "int", _S + "ngram-max-match-window-size", "0.5.5", "0.5.10", 12),
    _one("ngram.branch_length", "int", _S + "ngram-branch-length", "0.5.5", "0.5.10", 18),
    _one("ngram.max_trie_depth", "int", _S + "ngram-max-trie-depth", "0.5.10", default=18),
    _one("ngram.min_bfs_breadth", "int", _S + "ngram-min-bfs-breadth", "0.5.5", default=1),
    _one("ngram.max_bfs_breadth", "int", _S + "ngram-max-bfs-breadth", "0.5.5", default=10),
    _one("ngram.match_type", "text", _S + "ngram-match-type", "0.5.5", default="BFS", choices=("BFS", "PROB")),
    _one("ngram.capacity", "int", _S + "ngram-capacity", "0.5.5", default=10_000_000),
    _one("ngram.external_corpus_path", "path", _S + "ngram-external-corpus-path", "0.5.12"),
    _one("ngram.external_sam_budget", "int", _S + "ngram-external-sam-budget", "0.5.12", default=0),
    _one(
        "ngram.external_corpus_max_tokens", "int", _S + "ngram-external-corpus-max-tokens", "0.5.12", default=10_000_000
    ),
    _one("dflash.block_size", "int", _S + "dflash-block-size", "0.5.12"),
    _one("dspark.block_size", "int", _S + "dspark-block-size", "0.5.23"),
    _one("dspark.sps_table_path", "path", _S + "dspark-sps-table-path", "0.5.23"),
    _one("dspark.confidence_sts_path", "path", _S + "dspark-confidence-sts-path", "0.5.23"),
    _one(
        "dspark.align_verify_tokens_to_graph_tier",
        "flag",
        _S + "dspark-align-verify-tokens-to-graph-tier",
        "0.5.23",
        default=False,
    ),
    _one("uno.lora_path", "path", "--uno-lora-path", "0.5.23"),
)

SERVER_SETTINGS: tuple[Setting, ...] = (
    _one("model_path", "path", "--model-path", spec=False),
    _one("max_running_requests", "int", "--max-running-requests", spec=False),
    _one("mem_fraction_static", "float", "--mem-fraction-static", spec=False),
    _one("page_size", "int", "--page-size", spec=False),
    _one("tp_size", "int", "--tp-size", default=1, spec=False),
    _one("dp_size", "int", "--dp-size", default=1, spec=False),
    _one("pp_size", "int", "--pp-size", default=1, spec=False),
    _one("ep_size", "int", "--ep-size", default=1, spec=False),
    _one("attention_backend", "text", "--attention-backend", spec=False),
    _one("prefill_attention_backend", "text", "--prefill-attention-backend", "0.5.5", spec=False),
    _one("decode_attention_backend", "text", "--decode-attention-backend", "0.5.5", spec=False),
    _one("schedule_policy", "text", "--schedule-policy", spec=False),
    _one("sampling_backend", "text", "--sampling-backend", spec=False),
    _one("context_length", "int", "--context-length", spec=False),
    _one("chunked_prefill_size", "int", "--chunked-prefill-size", spec=False),
    _one("kv_cache_dtype", "text", "--kv-cache-dtype", default="auto", spec=False),
    _one("quantization", "text", "--quantization", spec=False),
    _one("dtype", "text", "--dtype", default="auto", spec=False),
    _one("disable_overlap_schedule", "flag", "--disable-overlap-schedule", default=False, spec=False),
    _one("disable_radix_cache", "flag", "--disable-radix-cache", default=False, spec=False),
    _one("enable_mixed_chunk", "flag", "--enable-mixed-chunk", default=False, spec=False),
    _one("enable_dp_attention", "flag", "--enable-dp-attention", until="0.5.23", default=False, spec=False),
    _one("attn_dp_size", "int", "--attn-dp-size", "0.5.23", spec=False),
    _one("enable_metrics", "flag", "--enable-metrics", default=False, spec=False),
    _one("decode_log_interval", "int", "--decode-log-interval", default=40, spec=False),
    _one("stream_interval", "int", "--stream-interval", default=1, spec=False),
    _one("random_seed", "int", "--random-seed", spec=False),
    _one("served_model_name", "text", "--served-model-name", spec=False),
    _one("trust_remote_code", "flag", "--trust-remote-code", default=False, spec=False),
    _one("nccl_port", "int", "--nccl-port", spec=False),
    _one("skip_server_warmup", "flag", "--skip-server-warmup", default=False, spec=False),
    Setting(
        "cuda_graph_max_bs",
        "int",
        None,
        (
            Spelling("--cuda-graph-max-bs", until="0.5.15"),
            Spelling("--cuda-graph-max-bs-decode", "0.5.15"),
        ),
        spec=False,
    ),
    _one("cuda_graph_max_bs_decode", "int", "--cuda-graph-max-bs-decode", "0.5.15", spec=False),
    Setting(
        "cuda_graph_bs",
        "list",
        None,
        (
            Spelling("--cuda-graph-bs", until="0.5.15"),
            Spelling("--cuda-graph-bs-decode", "0.5.15"),
        ),
        spec=False,
    ),
    Setting(
        "disable_cuda_graph",
        "flag",
        False,
        (
            Spelling("--disable-cuda-graph", until="0.5.23"),
            Spelling("--cuda-graph-backend-decode", "0.5.23", fixed="disabled"),
        ),
        spec=False,
    ),
    Setting(
        "incremental_streaming",
        "flag",
        False,
        (
            Spelling("--stream-output", until="0.5.10"),
            Spelling("--incremental-streaming-output", "0.5.10"),
        ),
        spec=False,
    ),
)
