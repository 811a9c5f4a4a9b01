"""Rules that several algorithms have in common, as SGLang 0.4.9 to 0.5.23 apply them.

Read in ``srt/server_args.py`` (to 0.5.12) and ``srt/arg_groups/speculative_hook.py`` (from 0.5.15).
"""

from __future__ import annotations

from spectui.core.settings import (
    Ref,
    Rule,
    above,
    differs,
    equal,
    given,
    none_of,
    off,
    on,
    one_of,
    unset,
)

CAP_48 = Rule(
    "running requests",
    "default",
    (unset("server.max_running_requests"),),
    (("server.max_running_requests", 48),),
    "With speculation an unset limit of running requests becomes 48; set max_running_requests on both servers.",
)

PIPELINE = Rule(
    "pipeline",
    "refuse",
    (above("server.pp_size", 1),),
    text="Speculation with pipeline parallelism (pp_size {server.pp_size}) is not supported.",
)

NO_DP_ATTENTION = "{name} does not support data-parallel attention."


def dp_attention(name: str, *, until: tuple[int, int, int] | None = None) -> Rule:
    return Rule(
        "dp attention",
        "refuse",
        (on("server.dp_attention"),),
        text=NO_DP_ATTENTION.replace("{name}", name),
        until=until,
    )


def needs_draft(name: str) -> Rule:
    return Rule(
        "draft path",
        "refuse",
        (unset("draft_model_path"),),
        text=f"{name} needs a draft model: set speculative.draft_model_path.",
        certain=True,
    )


def overlap_off(since: tuple[int, int, int] | None, until: tuple[int, int, int] | None, *tests: object) -> Rule:
    return Rule(
        "overlap",
        "force",
        (on("server.overlap_schedule"), *tests),  # type: ignore[arg-type]
        (("server.overlap_schedule", False),),
        "This release switches the overlap schedule off with this kind of speculation.",
        since=since,
        until=until,
    )


def mixed_chunk_off(*, until: tuple[int, int, int] | None = None) -> Rule:
    return Rule(
        "mixed chunk",
        "force",
        (on("server.enable_mixed_chunk"),),
        (("server.enable_mixed_chunk", False),),
        "Mixed chunked prefill is switched off with this kind of speculation.",
        until=until,
    )


def fixed_chain(name: str) -> tuple[Rule, ...]:
    """Steps and topk are 1 whatever was asked."""
    return (
        Rule(
            "no steps",
            "force",
            (),
            (("num_steps", 1), ("eagle_topk", 1)),
            f"{name} drafts a whole block at once: steps and topk are ignored and are 1.",
        ),
    )


LORA_NGRAM_ONLY = Rule(
    "lora",
    "refuse",
    (on("server.enable_lora"),),
    text="With LoRA this release supports no speculation but NGRAM.",
    since=(0, 5, 10),
    until=(0, 5, 15),
)

CUDA_ONLY = Rule(
    "device",
    "refuse",
    (none_of("server.device", "cuda"),),
    text="This algorithm runs on CUDA devices only, not on {server.device}.",
)

# -- the EAGLE family -------------------------------------------------------------------------------------------------

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


def tree_with_pages(
    *spans: tuple[tuple[int, int, int], tuple[int, int, int] | None, tuple[str, ...]],
) -> tuple[Rule, ...]:
    """A draft tree over pages of more than one token: which attention backends can do it, by release."""
    paged = (above("eagle_topk", 1), above("server.page_size", 1))
    rules: list[Rule] = []
    for since, until, backends in spans:
        names = ", ".join(backends)
        rules += [
            Rule(
                "tree with pages",
                "refuse",
                (*paged, none_of("server.attention_backend", *backends)),
                text="topk {eagle_topk} with page size {server.page_size} is supported on "
                f"{names} only, not on {{server.attention_backend}}: set page_size 1 or another backend.",
                since=since,
                until=until,
            ),
            Rule(
                "tree with pages",
                "warn",
                (*paged, unset("server.attention_backend")),
                text="topk {eagle_topk} with page size {server.page_size} is supported on "
                f"{names} only, and the attention backend is left to the server.",
                since=since,
                until=until,
            ),
        ]
    return tuple(rules)


FAMILY_TREE_WITH_PAGES = (
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

FAMILY_OVERLAP = (
    overlap_off(None, (0, 4, 9)),
    overlap_off((0, 5, 5), (0, 5, 10), none_of("env.SGLANG_ENABLE_SPEC_V2", "1", "true", "True")),
    overlap_off((0, 5, 5), (0, 5, 10), unset("env.SGLANG_ENABLE_SPEC_V2")),
    overlap_off((0, 5, 12), (0, 5, 12), above("eagle_topk", 1)),
    overlap_off((0, 5, 12), (0, 5, 12), one_of("env.SGLANG_ENABLE_SPEC_V2", "0", "false", "False")),
    overlap_off((0, 5, 23), None, one_of("server.device", "cpu")),
)

FAMILY_PIPELINE = (
    Rule(PIPELINE.name, "refuse", PIPELINE.when, text=PIPELINE.text, until=(0, 5, 15)),
    Rule(
        PIPELINE.name,
        "refuse",
        (*PIPELINE.when, on("server.enable_multi_layer_eagle")),
        text="Multi-layer EAGLE with pipeline parallelism is not supported.",
        since=(0, 5, 23),
    ),
)

FAMILY_DEVICE = Rule(
    "device",
    "refuse",
    (one_of("server.device", "cpu"),),
    text="Before 0.5.23 speculation does not run on a CPU.",
    until=(0, 5, 15),
)
