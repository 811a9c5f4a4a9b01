"""From what was asked to what is in force: the rules of SGLang's argument check."""

from __future__ import annotations

import random
from typing import Any

from spectui.engines.sim import dialect as dialects
from spectui.engines.sim.arguments import BadArguments, Launch

MODEL_TYPES = (
    # a word of the model's path -> model_type, architecture, automatic (steps, topk, draft tokens)
    ("deepseek", "deepseek_v3", "DeepseekV3ForCausalLM", (3, 1, 4)),
    ("kimi", "kimi_k2", "DeepseekV3ForCausalLM", (3, 1, 4)),
    ("glm", "glm4_moe", "Glm4MoeForCausalLM", (3, 1, 4)),
    ("gpt-oss", "gpt_oss", "GptOssForCausalLM", (3, 1, 4)),
    ("qwen", "qwen3", "Qwen3ForCausalLM", None),
    ("grok", "grok_1", "Grok1ForCausalLM", (5, 4, 8)),
)


def model_type(path: str) -> tuple[str, str, tuple[int, int, int] | None]:
    """(model_type, architecture, automatic triple) that a model of this path would have; Llama when nothing fits."""
    low = path.lower()
    for word, kind, architecture, triple in MODEL_TYPES:
        if word in low:
            return kind, architecture, triple
    return "llama", "LlamaForCausalLM", (5, 4, 8)


def resolve(launch: Launch, prefill_graph: dict[str, Any], *, piecewise: bool) -> None:
    """Fill in defaults and apply the rules, in place.

    Raises:
        BadArguments: as SGLang's own check raises.
    """
    a, since = launch.args, launch.sim.dialect.since
    a["tokenizer_path"] = a["tokenizer_path"] or a["model_path"]
    a["served_model_name"] = a["served_model_name"] or a["model_path"]
    a["attention_backend"] = a["attention_backend"] or "fa3"
    a["sampling_backend"] = a["sampling_backend"] or "flashinfer"
    a["mem_fraction_static"] = 0.85 if a["mem_fraction_static"] is None else a["mem_fraction_static"]
    a["chunked_prefill_size"] = a["chunked_prefill_size"] or 8192
    if a["random_seed"] is None:
        a["random_seed"] = random.Random(launch.sim.seed).randrange(2**29)
    if a["speculative_algorithm"] is not None:
        _speculative(launch)
    if since(0, 5, 15):
        top = a["cuda_graph_max_bs_decode"] or 256
        sizes = a["cuda_graph_bs_decode"] or graph_sizes(int(top), speculative=launch.algorithm is not None)
        prefill = dict(prefill_graph, backend="disabled" if not piecewise else prefill_graph["backend"])
        if not piecewise:
            a["cuda_graph_backend_prefill"] = "disabled"
        a["cuda_graph_max_bs_decode"] = top
        a["cuda_graph_config"] = {
            "decode": {"backend": "full", "max_bs": top, "bs": sizes, "tc_compiler": "eager",
                       "full_prefill_max_req": None},
            "prefill": prefill,
        }  # fmt: skip
    launch.internal["max_speculative_num_draft_tokens"] = a["speculative_num_draft_tokens"]


def graph_sizes(top: int, *, speculative: bool) -> list[int]:
    """Batch sizes whose graphs are captured, up to ``top``; speculation captures small batches more densely."""
    if speculative:
        sizes = [*range(1, 9), *range(10, 33, 2), *range(40, 65, 4), *range(72, 257, 8), *range(272, 2049, 16)]
    else:
        sizes = [1, 2, 4, 8, 12, 16, 24, *range(32, 257, 8), *range(272, 2049, 16)]
    return [size for size in sizes if size <= top] or [top]


def _speculative(launch: Launch) -> None:
    a, dialect = launch.args, launch.sim.dialect
    name = str(a["speculative_algorithm"]).upper()
    if dialects.ALGORITHMS.get(name, (9, 9, 9)) > dialect.number:
        raise BadArguments("ValueError", f"Unknown speculative algorithm name: {name}")
    if name == "NEXTN":
        name = "EAGLE"
    a["speculative_algorithm"] = name
    if name == "NGRAM":
        _ngram(launch)
    elif name in ("DFLASH", "DSPARK"):
        _block(launch)
    else:
        _eagle_family(launch)
    if a["max_running_requests"] is None:
        a["max_running_requests"] = 48
        if dialect.since(0, 5, 5):
            launch.log_lines.append(
                "Max running requests is reset to 48 for speculative decoding. You can override this by explicitly "
                "setting --max-running-requests."
            )
    if name == "NGRAM":
        launch.log_lines.append(
            "The mixed chunked prefill are disabled because of using ngram speculative decoding."
            if dialect.since(0, 5, 15)
            else "The overlap scheduler and mixed chunked prefill are disabled because of using ngram speculative "
            "decoding."
        )
        if not dialect.since(0, 5, 15):
            a["disable_overlap_schedule"] = True
    if a["page_size"] > 1 and (a["speculative_eagle_topk"] or 1) > 1 and a["attention_backend"] not in _TREE_PAGES:
        raise BadArguments(
            "ValueError",
            "speculative_eagle_topk > 1 with page_size > 1 is unstable and produces incorrect results for paged "
            "attention backends. This combination is only supported for the 'flashinfer' backend.",
        )


_TREE_PAGES = ("flashinfer", "fa3", "triton")


def _ngram(launch: Launch) -> None:
    a, since = launch.args, launch.sim.dialect.since
    if a["device"] != "cuda" and not since(0, 5, 23):
        raise BadArguments("ValueError", "Ngram speculative decoding only supports CUDA device.")
    if a["enable_dp_attention"]:
        raise BadArguments("ValueError", "Currently ngram speculative decoding does not support dp attention.")
    a["speculative_eagle_topk"] = a["speculative_ngram_max_bfs_breadth"]
    if a["speculative_num_draft_tokens"] is None:
        a["speculative_num_draft_tokens"] = a.get("speculative_ngram_max_match_window_size", 12)
        if since(0, 5, 10):
            launch.log_lines.append(
                "speculative_num_draft_tokens is set to 12 by default for ngram speculative decoding. You can "
                "override this by explicitly setting --speculative-num-draft-tokens."
            )
    draft = int(a["speculative_num_draft_tokens"])
    if since(0, 5, 15):
        a["speculative_num_steps"] = draft // max(1, int(a["speculative_eagle_topk"]))
    if a.get("speculative_ngram_external_corpus_path"):
        budget = int(a["speculative_ngram_external_sam_budget"])
        if budget <= 0:
            raise BadArguments(
                "ValueError",
                "--speculative-ngram-external-sam-budget must be positive when "
                "--speculative-ngram-external-corpus-path is set.",
            )
        if budget > draft - 1:
            raise BadArguments(
                "ValueError",
                f"speculative_ngram_external_sam_budget ({budget}) must be at most speculative_num_draft_tokens - 1 "
                f"({draft - 1}).",
            )


def _block(launch: Launch) -> None:
    a = launch.args
    name = a["speculative_algorithm"]
    if a["speculative_draft_model_path"] is None:
        raise BadArguments(
            "ValueError", f"{name} speculative decoding requires setting --speculative-draft-model-path."
        )
    field = "speculative_dflash_block_size" if name == "DFLASH" else "speculative_dspark_block_size"
    block, draft = a.get(field), a["speculative_num_draft_tokens"]
    if name == "DFLASH" and block is not None and draft is not None and block != draft:
        raise BadArguments(
            "ValueError",
            f"speculative_num_draft_tokens ({draft}) must equal speculative_dflash_block_size ({block}) for DFLASH.",
        )
    a["speculative_num_steps"] = a["speculative_eagle_topk"] = 1
    a["speculative_num_draft_tokens"] = block or draft or 16


def _eagle_family(launch: Launch) -> None:
    a, since = launch.args, launch.sim.dialect.since
    name = a["speculative_algorithm"]
    steps, topk = a["speculative_num_steps"], a["speculative_eagle_topk"]
    draft = a["speculative_num_draft_tokens"]
    if steps is None and topk is None and draft is None:
        automatic = model_type(str(a["model_path"]))[2]
        if name == "STANDALONE" or (automatic is None and since(0, 5, 10)):
            automatic = (3, 1, 4)
        steps, topk, draft = automatic or (5, 4, 8)
    elif steps is None and not a.get("speculative_adaptive"):
        raise BadArguments("AssertionError", "")
    elif a.get("speculative_adaptive"):
        steps, topk = steps or 3, topk or 1
        draft = steps + 1
    elif topk is None:
        raise BadArguments("TypeError", "'>' not supported between instances of 'NoneType' and 'int'")
    if draft is None:
        draft = steps + 1 if topk == 1 else None
        if draft is None:
            raise BadArguments("AssertionError", "")
    if topk == 1 and draft != steps + 1:
        launch.log_lines.append(
            "speculative_num_draft_tokens is adjusted to speculative_num_steps + 1 when speculative_eagle_topk == 1"
        )
        draft = steps + 1
    if a["attention_backend"] == "trtllm_mha" and topk != 1:
        raise BadArguments("ValueError", "trtllm_mha backend only supports topk = 1 for speculative decoding.")
    a["speculative_num_steps"], a["speculative_eagle_topk"] = steps, topk
    a["speculative_num_draft_tokens"] = draft
    if a["speculative_draft_model_path"] is None and name == "EAGLE":
        a["speculative_draft_model_path"] = a["model_path"]
    if a["speculative_draft_model_path"] is not None and "speculative_draft_model_revision" in a:
        a["speculative_draft_model_revision"] = a["speculative_draft_model_revision"] or "main"
