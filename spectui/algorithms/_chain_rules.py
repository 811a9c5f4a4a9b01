"""Rules of the EAGLE family and STANDALONE: a draft that runs step by step, as a chain or as a tree."""

from __future__ import annotations

from spectui.algorithms._rules import PIPELINE, overlap_off, tree_with_pages
from spectui.core.settings import Ref, Rule, above, differs, equal, given, none_of, off, on, one_of, unset

_SMALL_TREE_UNTIL = (0, 5, 5)
_AUTO = (unset("num_steps"), unset("eagle_topk"), unset("num_draft_tokens"), off("adaptive"))
_CHAIN = (("num_steps", 3), ("eagle_topk", 1), ("num_draft_tokens", 4))
_TREE = (("num_steps", 5), ("eagle_topk", 4), ("num_draft_tokens", 8))
_TREE_MODELS = ("LlamaForCausalLM", "Grok1ForCausalLM", "Grok1VForCausalLM")
_CHAIN_MODELS = (
    "DeepseekV2ForCausalLM",
    "DeepseekV3ForCausalLM",
)
_CHAIN_MODELS_055 = (
    "DeepseekV32ForCausalLM",
    "GptOssForCausalLM",
    "BailingMoeForCausalLM",
    "BailingMoeV2ForCausalLM",
)
_AUTO_TEXT = "All three left out: the server chooses steps, topk and draft tokens by the target's architecture."

AUTO_STANDALONE = Rule("automatic", "default", _AUTO, _CHAIN, "All three left out: 3 steps, topk 1, 4 draft tokens.")

AUTO = (
    Rule("automatic", "default", (*_AUTO, one_of("model.architecture", *_TREE_MODELS)), _TREE, _AUTO_TEXT),
    Rule("automatic", "default", (*_AUTO, one_of("model.architecture", *_CHAIN_MODELS)), _CHAIN, _AUTO_TEXT),
    Rule(
        "automatic",
        "default",
        (*_AUTO, one_of("model.architecture", *_CHAIN_MODELS_055)),
        _CHAIN,
        _AUTO_TEXT,
        since=(0, 5, 5),
    ),
    Rule("automatic", "default", (*_AUTO, given("model.architecture")), _TREE, _AUTO_TEXT, until=_SMALL_TREE_UNTIL),
    Rule("automatic", "default", (*_AUTO, given("model.architecture")), _CHAIN, _AUTO_TEXT, since=(0, 5, 10)),
    Rule(
        "automatic",
        "note",
        (*_AUTO, unset("model.architecture")),
        text=f"{_AUTO_TEXT} It is not known here: it will be 5, 4, 8 or 3, 1, 4.",
    ),
)

STEPS = (
    Rule(
        "adaptive off",
        "force",
        (on("adaptive"), above("eagle_topk", 1)),
        (("adaptive", False),),
        "Adaptive steps need topk 1: the server falls back to fixed settings.",
        since=(0, 5, 12),
    ),
    Rule(
        "adaptive off",
        "force",
        (on("adaptive"), unset("eagle_topk")),
        (("adaptive", False),),
        "Adaptive steps need topk 1 to be set: the server falls back to fixed settings.",
        since=(0, 5, 12),
        until=(0, 5, 12),
    ),
    *(
        Rule(
            "adaptive off",
            "force",
            (on("adaptive"), on(key)),
            (("adaptive", False),),
            f"Adaptive steps do not go with {what}: the server falls back to fixed settings.",
            since=(0, 5, 12),
        )
        for key, what in (
            ("server.dp_attention", "data-parallel attention"),
            ("server.enable_multi_layer_eagle", "multi-layer EAGLE"),
            ("server.enable_two_batch_overlap", "two-batch overlap"),
            ("server.enable_pdmux", "PD multiplexing"),
        )
    ),
    Rule(
        "adaptive start",
        "default",
        (on("adaptive"), unset("adaptive_config")),
        (("eagle_topk", 1), ("num_steps", 3)),
        "Adaptive steps start with the middle candidate of the default table, topk 1.",
        since=(0, 5, 15),
    ),
    Rule(
        "adaptive candidates",
        "refuse",
        (on("adaptive"), unset("adaptive_config"), none_of("num_steps", 0, 1, 3, 7)),
        text="num_steps {num_steps} is not among the candidates of adaptive steps (0, 1, 3, 7).",
        since=(0, 5, 15),
        until=(0, 5, 15),
    ),
    Rule(
        "adaptive candidates",
        "refuse",
        (on("adaptive"), unset("adaptive_config"), none_of("num_steps", 0, 1, 3, 5, 7)),
        text="num_steps {num_steps} is not among the candidates of adaptive steps (0, 1, 3, 5, 7).",
        since=(0, 5, 23),
    ),
    Rule(
        "adaptive capture",
        "warn",
        (on("adaptive"), differs("num_steps", 7)),
        text="This release was seen to fail while it captures graphs for adaptive steps: an assertion on the shared "
        "logits buffer, which is sized by the starting steps and not by the largest candidate.",
        since=(0, 5, 15),
        until=(0, 5, 15),
    ),
    Rule(
        "all three or none",
        "refuse",
        (unset("num_steps"), given("eagle_topk"), off("adaptive")),
        text="num_steps, eagle_topk and num_draft_tokens go together: set all three or none (num_steps is missing).",
        certain=True,
    ),
    Rule(
        "all three or none",
        "refuse",
        (unset("num_steps"), unset("eagle_topk"), given("num_draft_tokens"), off("adaptive")),
        text="num_steps, eagle_topk and num_draft_tokens go together: set all three or none "
        "(num_steps and eagle_topk are missing).",
        certain=True,
    ),
    Rule(
        "all three or none",
        "refuse",
        (given("num_steps"), unset("eagle_topk"), off("adaptive")),
        text="num_steps, eagle_topk and num_draft_tokens go together: set all three or none (eagle_topk is missing).",
        certain=True,
    ),
    Rule(
        "all three or none",
        "refuse",
        (given("num_steps"), above("eagle_topk", 1), unset("num_draft_tokens")),
        text="num_steps, eagle_topk and num_draft_tokens go together: set all three or none "
        "(num_draft_tokens is missing).",
        certain=True,
    ),
)

SHAPE = (
    Rule(
        "steps + 1",
        "force",
        (equal("eagle_topk", 1), given("num_steps")),
        (("num_draft_tokens", Ref("num_steps", add=1)),),
        "With topk 1 the server sets draft tokens to steps + 1.",
    ),
    Rule(
        "tree too small",
        "warn",
        (above("eagle_topk", 1), above("num_draft_tokens", Ref("tree_size"))),
        text="{num_draft_tokens} draft tokens are more than the {tree_size} nodes of the full tree of {num_steps} "
        "steps and topk {eagle_topk}.",
    ),
    Rule(
        "trtllm_mha",
        "refuse",
        (above("eagle_topk", 1), on("server.trtllm_mha")),
        text="The attention backend trtllm_mha takes topk 1 only, not {eagle_topk}.",
        since=(0, 5, 5),
    ),
    Rule(
        "spec v2",
        "refuse",
        (above("eagle_topk", 1), one_of("env.SGLANG_ENABLE_SPEC_V2", "1", "true", "True")),
        text="SGLANG_ENABLE_SPEC_V2 takes topk 1 only, not {eagle_topk}.",
        since=(0, 5, 10),
        until=(0, 5, 10),
    ),
)


TREE_WITH_PAGES = (
    Rule(
        "tree with pages",
        "danger",
        (above("eagle_topk", 1), above("server.page_size", 1)),
        text="topk {eagle_topk} with page size {server.page_size}: known wrong output, not checked by the server.",
        until=(0, 4, 9),
    ),
    *tree_with_pages(
        ((0, 5, 5), (0, 5, 5), ("flashinfer",)),
        ((0, 5, 10), (0, 5, 12), ("flashinfer", "fa3")),
        ((0, 5, 15), None, ("flashinfer", "fa3", "triton")),
    ),
)

REJECTION = (
    Rule(
        "rejection sampling",
        "refuse",
        (on("rejection_sampling"), above("eagle_topk", 1)),
        text="Rejection sampling takes topk 1 only, not {eagle_topk}.",
        since=(0, 5, 15),
    ),
    *(
        Rule(
            "rejection sampling",
            "refuse",
            (on("rejection_sampling"), differs(key, 1.0)),
            text=f"Rejection sampling ignores accept thresholds: leave {key} at 1.",
            since=(0, 5, 15),
        )
        for key in ("accept_threshold_single", "accept_threshold_acc")
    ),
)

OVERLAP = (
    overlap_off(None, (0, 4, 9)),
    overlap_off((0, 5, 5), (0, 5, 10), none_of("env.SGLANG_ENABLE_SPEC_V2", "1", "true", "True")),
    overlap_off((0, 5, 5), (0, 5, 10), unset("env.SGLANG_ENABLE_SPEC_V2")),
    overlap_off((0, 5, 12), (0, 5, 12), above("eagle_topk", 1)),
    overlap_off((0, 5, 12), (0, 5, 12), one_of("env.SGLANG_ENABLE_SPEC_V2", "0", "false", "False")),
    overlap_off((0, 5, 23), None, one_of("server.device", "cpu")),
)

PIPELINES = (
    Rule(PIPELINE.name, "refuse", PIPELINE.when, text=PIPELINE.text, until=(0, 5, 15)),
    Rule(
        PIPELINE.name,
        "refuse",
        (*PIPELINE.when, on("server.enable_multi_layer_eagle")),
        text="Multi-layer EAGLE with pipeline parallelism is not supported.",
        since=(0, 5, 23),
    ),
)

DEVICE = Rule(
    "device",
    "refuse",
    (one_of("server.device", "cpu"),),
    text="Before 0.5.23 speculation does not run on a CPU.",
    until=(0, 5, 15),
)
