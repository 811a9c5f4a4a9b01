"""What a version of SGLang says differently over HTTP, as far as the simulated server speaks it."""

from __future__ import annotations

from dataclasses import dataclass

DEFAULT = "0.5.15.post1"


@dataclass(frozen=True, slots=True)
class Dialect:
    """One version's manners. Sources are the wheels of each version, file names as of that version."""

    version: str
    number: tuple[int, int, int]
    """(0, 5, 15): what rules are compared by."""

    def since(self, *number: int) -> bool:
        return self.number >= number

    @property
    def ids_are_cumulative(self) -> bool:
        """``output_ids`` of a stream repeat all earlier ones (srt/managers/tokenizer_manager.py, 0.5.10 on)."""
        return self.since(0, 5, 10)

    @property
    def new_names(self) -> bool:
        """``/server_info``, ``/model_info`` and ``/v1/loads`` exist beside the names that they replace."""
        return self.since(0, 5, 10)

    @property
    def health_generates(self) -> bool:
        """``/health`` runs the model, and answers 503 until ready; 0.4.9 answers 200 once HTTP is up."""
        return self.since(0, 5, 5)

    @property
    def has_verify_counter(self) -> bool:
        return self.since(0, 5, 15)

    @property
    def ends_cleanly(self) -> bool:
        """After SIGTERM and draining the process returns 0; older ones kill their own tree."""
        return self.since(0, 5, 23)

    @property
    def incremental_flag(self) -> str:
        return "incremental_streaming_output" if self.since(0, 5, 10) else "stream_output"


def parse(version: str) -> Dialect:
    """``"0.5.15.post1"`` to its dialect.

    Raises:
        ValueError: the text does not begin with three numbers.
    """
    parts = version.split(".")
    if len(parts) < 3 or not all(p.isdigit() for p in parts[:3]):
        raise ValueError(f"not an SGLang version: {version!r}; give one such as {DEFAULT}")
    return Dialect(version, (int(parts[0]), int(parts[1]), int(parts[2])))


FIRST_SEEN: dict[str, tuple[int, int, int]] = {
    # srt/server_args.py of each wheel; what is not listed is taken as known to all
    "speculative_draft_model_revision": (0, 5, 5),
    "speculative_draft_load_format": (0, 5, 5),
    "speculative_attention_mode": (0, 5, 5),
    "speculative_moe_runner_backend": (0, 5, 5),
    "speculative_ngram_min_bfs_breadth": (0, 5, 5),
    "speculative_ngram_max_bfs_breadth": (0, 5, 5),
    "speculative_ngram_match_type": (0, 5, 5),
    "speculative_ngram_capacity": (0, 5, 5),
    "speculative_moe_a2a_backend": (0, 5, 10),
    "speculative_draft_attention_backend": (0, 5, 10),
    "speculative_draft_model_quantization": (0, 5, 10),
    "enable_multi_layer_eagle": (0, 5, 10),
    "speculative_ngram_max_trie_depth": (0, 5, 10),
    "incremental_streaming_output": (0, 5, 10),
    "admin_api_key": (0, 5, 10),
    "speculative_ngram_external_corpus_path": (0, 5, 12),
    "speculative_ngram_external_sam_budget": (0, 5, 12),
    "speculative_ngram_external_corpus_max_tokens": (0, 5, 12),
    "speculative_dflash_block_size": (0, 5, 12),
    "speculative_draft_window_size": (0, 5, 12),
    "speculative_adaptive": (0, 5, 12),
    "speculative_adaptive_config": (0, 5, 12),
    "speculative_skip_dp_mlp_sync": (0, 5, 12),
    "speculative_use_rejection_sampling": (0, 5, 15),
    "decoupled_spec_bind_endpoint": (0, 5, 15),
    "decoupled_spec_connect_endpoints": (0, 5, 15),
    "decoupled_spec_rank": (0, 5, 15),
    "decoupled_spec_role": (0, 5, 15),
    "spec_trace_dir": (0, 5, 15),
    "load_snapshot_publish_interval": (0, 5, 15),
    "cuda_graph_max_bs_decode": (0, 5, 15),
}

LAST_SEEN: dict[str, tuple[int, int, int]] = {"speculative_skip_dp_mlp_sync": (0, 5, 15)}

OWN_FIELDS: dict[str, tuple[tuple[int, int, int], tuple[int, int, int], object]] = {
    # fields that the newest common set lacks: first version, last version, default
    "speculative_ngram_min_match_window_size": ((0, 5, 5), (0, 5, 9), 1),
    "speculative_ngram_max_match_window_size": ((0, 5, 5), (0, 5, 9), 12),
    "speculative_ngram_branch_length": ((0, 5, 5), (0, 5, 9), 18),
    "stream_output": ((0, 4, 9), (0, 5, 9), False),
    "speculative_draft_sink_size": ((0, 5, 23), (9, 0, 0), None),
    "speculative_use_block_verification": ((0, 5, 23), (9, 0, 0), False),
    "speculative_draft_kv_cache_dtype": ((0, 5, 23), (9, 0, 0), None),
    "speculative_dsa_topk_backend": ((0, 5, 23), (9, 0, 0), "sgl-kernel"),
    "speculative_domino_candidate_pool_size": ((0, 5, 23), (9, 0, 0), 2048),
    "speculative_dspark_block_size": ((0, 5, 23), (9, 0, 0), None),
    "speculative_dspark_sps_table_path": ((0, 5, 23), (9, 0, 0), None),
    "speculative_dspark_confidence_sts_path": ((0, 5, 23), (9, 0, 0), None),
    "uno_lora_path": ((0, 5, 23), (9, 0, 0), None),
}

ALGORITHMS: dict[str, tuple[int, int, int]] = {
    "EAGLE": (0, 4, 9),
    "EAGLE3": (0, 4, 9),
    "NEXTN": (0, 4, 9),
    "STANDALONE": (0, 5, 5),
    "NGRAM": (0, 5, 5),
    "DFLASH": (0, 5, 12),
    "FROZEN_KV_MTP": (0, 5, 12),
    "DSPARK": (0, 5, 23),
}
