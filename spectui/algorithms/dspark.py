"""DSPARK: a block draft whose verify window can be cut by its own confidence."""

from __future__ import annotations

from dataclasses import replace

from spectui.algorithms import _knobs as knobs
from spectui.algorithms import _rules as rules
from spectui.core.settings import (
    Algorithm,
    Bracket,
    Knob,
    Ref,
    Rule,
    below,
    differs,
    equal,
    given,
    none_of,
    off,
    on,
    unset,
)

_FIRST = (0, 5, 23)

ALGORITHM = Algorithm(
    "DSPARK",
    "DSpark",
    "A draft model writes gamma tokens at once, and its confidence can shorten what the target has to check.",
    fits="targets that ship a DSpark draft",
    starves="text on which the draft is sure and wrong",
    knobs=(
        replace(knobs.DRAFT_MODEL_PATH, help="Draft model; may be left out where the target's folder carries one."),
        Knob(
            "dspark.block_size",
            "int",
            "gamma",
            "Drafted tokens a step; the verify window is one more. Left out it comes from the draft's config, else 7.",
            minimum=1,
            maximum=1024,
            unit="tokens",
            since=_FIRST,
        ),
        replace(
            knobs.NUM_DRAFT_TOKENS, minimum=2, help="Verify window: gamma + 1; where both are set they must agree."
        ),
        Knob(
            "dspark.sps_table_path",
            "path",
            "step-speed table",
            "JSON file with measured steps per second, from which the verify budget is planned.",
            since=_FIRST,
        ),
        Knob(
            "dspark.confidence_sts_path",
            "path",
            "confidence calibration",
            "JSON file that calibrates the draft's confidence.",
            since=_FIRST,
        ),
        Knob(
            "dspark.align_verify_tokens_to_graph_tier",
            "flag",
            "align to graphs",
            "Rounds the verified tokens to a captured graph size; needs SGLANG_RAGGED_VERIFY_MODE=compact.",
            since=_FIRST,
        ),
        *knobs.THRESHOLDS,
        *(knob for knob in knobs.DRAFT_DETAILS if knob.key not in ("multi_layer_eagle", "token_map")),
    ),
    rules=(
        Rule(
            "built-in draft",
            "note",
            (unset("draft_model_path"),),
            text="No draft path: the target must carry its draft, in its weights or in a folder dspark/.",
        ),
        Rule(
            "gamma",
            "refuse",
            (given("dspark.block_size"), differs("num_draft_tokens", Ref("dspark.block_size", add=1))),
            text="Draft tokens {num_draft_tokens} must be gamma + 1 (gamma {dspark.block_size}): "
            "leave num_draft_tokens out.",
            certain=True,
        ),
        *rules.fixed_chain("DSPARK"),
        Rule(
            "gamma",
            "default",
            (unset("dspark.block_size"), given("num_draft_tokens")),
            (("dspark.block_size", Ref("num_draft_tokens", add=-1)),),
            "Gamma is draft tokens - 1.",
        ),
        Rule(
            "gamma",
            "default",
            (unset("dspark.block_size"), given("model.draft_block_size")),
            (("dspark.block_size", Ref("model.draft_block_size")),),
            "Gamma comes from the draft's config.",
        ),
        Rule(
            "gamma",
            "default",
            (unset("dspark.block_size"),),
            (("dspark.block_size", 7),),
            "Left out, gamma comes from the draft's config, else it is 7.",
        ),
        Rule(
            "verify window",
            "default",
            (unset("num_draft_tokens"),),
            (("num_draft_tokens", Ref("dspark.block_size", add=1)),),
            "The verify window is gamma + 1.",
        ),
        Rule(
            "verify window",
            "refuse",
            (below("num_draft_tokens", 2),),
            text="DSPARK needs at least 2 draft tokens.",
        ),
        Rule(
            "graph tiers",
            "warn",
            (on("dspark.align_verify_tokens_to_graph_tier"), unset("env.SGLANG_RAGGED_VERIFY_MODE")),
            text="dspark.align_verify_tokens_to_graph_tier has no effect without SGLANG_RAGGED_VERIFY_MODE=compact.",
        ),
        Rule(
            "graph tiers",
            "warn",
            (on("dspark.align_verify_tokens_to_graph_tier"), none_of("env.SGLANG_RAGGED_VERIFY_MODE", "compact")),
            text="dspark.align_verify_tokens_to_graph_tier has no effect without SGLANG_RAGGED_VERIFY_MODE=compact.",
        ),
        Rule(
            "step-speed table",
            "warn",
            (given("dspark.sps_table_path"), equal("env.SGLANG_RAGGED_VERIFY_MODE", "static")),
            text="dspark.sps_table_path has no effect with SGLANG_RAGGED_VERIFY_MODE=static.",
        ),
        Rule(
            rules.PIPELINE.name,
            "refuse",
            (*rules.PIPELINE.when, none_of("server.disaggregation_mode", "prefill")),
            text="DSPARK with pipeline parallelism runs in a prefill server only.",
        ),
        Rule(
            rules.PIPELINE.name,
            "refuse",
            (*rules.PIPELINE.when, unset("server.disaggregation_mode")),
            text="DSPARK with pipeline parallelism runs in a prefill server only.",
        ),
        Rule(
            "dp attention",
            "refuse",
            (on("server.dp_attention"), off("server.enable_dp_lm_head")),
            text="DSPARK with data-parallel attention needs enable_dp_lm_head.",
        ),
        Rule(
            "device",
            "refuse",
            (none_of("server.device", "cuda", "npu", "xpu"),),
            text="DSPARK does not run on {server.device}.",
        ),
        rules.CAP_48,
    ),
    brackets=(Bracket("dspark.block_size", (1, 2, 3, 4, 5, 6, 7, 8, 12, 16), also=(("num_draft_tokens", None),)),),
    draft="built-in",
    needs=("DSpark draft model, in a folder of its own or shipped with the target",),
    switches_off=("pipeline parallelism (but in a prefill server)",),
    since=_FIRST,
    aliases=("D-SPARK",),
)
