"""What EAGLE, EAGLE-3 and NEXTN have in common: a draft that runs step by step, as a chain or as a tree."""

from __future__ import annotations

from spectui.algorithms import _chain_rules as chain
from spectui.algorithms import _knobs as knobs
from spectui.algorithms import _rules as rules
from spectui.core.settings import Bracket, Ref, Rule, equal, given, one_of, unset

KNOBS = (
    knobs.DRAFT_MODEL_PATH,
    knobs.NUM_STEPS,
    knobs.EAGLE_TOPK,
    knobs.NUM_DRAFT_TOKENS,
    *knobs.THRESHOLDS,
    *knobs.ADAPTIVE,
    knobs.REJECTION_SAMPLING,
    *knobs.DRAFT_DETAILS,
)

BRACKETS = (
    Bracket(
        "num_draft_tokens",
        (2, 4, 6, 8, 12, 16, 24, 32, 48, 64),
        # a tree: topk is set and is not 1
        (given("eagle_topk"), given("num_steps"), one_of("eagle_topk", *range(2, 65))),
        (("num_steps", Ref("num_steps")), ("eagle_topk", Ref("eagle_topk"))),
    ),
    Bracket(
        "num_steps",
        (1, 2, 3, 4, 5, 6, 7, 8, 10, 12, 16),
        (equal("eagle_topk", 1),),
        (("eagle_topk", 1), ("num_draft_tokens", Ref("num_steps", add=1))),
    ),
)

CHAIN_AND_TREE = (
    *chain.STEPS,
    *chain.SHAPE,
    *chain.TREE_WITH_PAGES,
    *chain.REJECTION,
    rules.CAP_48,
    *chain.OVERLAP,
    *chain.PIPELINES,
    chain.DEVICE,
    rules.LORA_NGRAM_ONLY,
)

RULES = (*chain.AUTO, *CHAIN_AND_TREE, rules.mixed_chunk_off(until=(0, 5, 15)))

_MTP_MODELS: tuple[tuple[tuple[int, int, int], tuple[str, ...]], ...] = (
    ((0, 4, 9), ("DeepseekV3ForCausalLM",)),
    (
        (0, 5, 5),
        ("DeepseekV32ForCausalLM", "Glm4MoeForCausalLM", "BailingMoeForCausalLM", "BailingMoeV2ForCausalLM"),
    ),
    (
        (0, 5, 10),
        (
            "Glm4MoeLiteForCausalLM",
            "GlmMoeDsaForCausalLM",
            "BailingMoeV2_5ForCausalLM",
            "MistralLarge3ForCausalLM",
            "PixtralForConditionalGeneration",
        ),
    ),
    ((0, 5, 12), ("DeepseekV4ForCausalLM", "HYV3ForCausalLM")),
    ((0, 5, 23), ("HYV4ForCausalLM", "Qwen4ExpForConditionalGeneration")),
)
"""Architectures whose draft path the server takes from the target, with the release it began in."""

BUILT_IN = (
    Rule(
        "built-in draft",
        "note",
        (unset("draft_model_path"),),
        text="No draft path: the target must carry its own MTP layers.",
    ),
    *(
        Rule(
            "built-in draft",
            "default",
            (unset("draft_model_path"), one_of("model.architecture", *models)),
            (("draft_model_path", Ref("server.model_path")),),
            "The draft is taken from the target itself.",
            since=since,
        )
        for since, models in _MTP_MODELS
    ),
    Rule(
        "built-in draft",
        "warn",
        (
            unset("draft_model_path"),
            given("server.model_path"),
            given("model.architecture"),
        ),
        text="This release takes no draft from a target of architecture {model.architecture} by itself: without MTP "
        "layers in it the target would be loaded as its own draft. Set draft_model_path.",
    ),
)
