"""DFLASH: a draft model that writes a whole block at once."""

from __future__ import annotations

from dataclasses import replace

from spectui.algorithms import _knobs as knobs
from spectui.algorithms import _rules as rules
from spectui.core.settings import Algorithm, Bracket, Knob, Ref, Rule, below, differs, given, none_of, off, on, unset

_FIRST = (0, 5, 12)

ALGORITHM = Algorithm(
    "DFLASH",
    "DFlash",
    "A draft model fills a whole block of tokens in one pass, and the target checks the block.",
    fits="text like what the draft was trained on; the block size is the only knob that matters",
    starves="a block much longer than what is accepted: each verify step has the width of the block",
    knobs=(
        knobs.DRAFT_MODEL_PATH,
        Knob(
            "dflash.block_size",
            "int",
            "block size",
            "Tokens of a block, so the width of the verify step. Left out it comes from the draft's config, else 16.",
            minimum=1,
            maximum=1024,
            unit="tokens",
            since=_FIRST,
        ),
        replace(knobs.NUM_DRAFT_TOKENS, help="Follows the block size; where both are set they must be equal."),
        knobs.DRAFT_WINDOW_SIZE,
        knobs.SINK_SIZE,
        knobs.DOMINO_POOL,
        *knobs.THRESHOLDS,
        *(knob for knob in knobs.DRAFT_DETAILS if knob.key not in ("multi_layer_eagle", "token_map")),
    ),
    rules=(
        rules.needs_draft("DFLASH"),
        Rule(
            "block size",
            "refuse",
            (given("dflash.block_size"), differs("num_draft_tokens", Ref("dflash.block_size"))),
            text="block size {dflash.block_size} and draft tokens {num_draft_tokens} differ: "
            "leave num_draft_tokens out.",
            certain=True,
        ),
        *rules.fixed_chain("DFLASH"),
        Rule(
            "block size",
            "default",
            (unset("dflash.block_size"),),
            (("dflash.block_size", Ref("num_draft_tokens")),),
            "The block size is the number of draft tokens.",
        ),
        Rule(
            "block size",
            "default",
            (unset("dflash.block_size"), given("model.draft_block_size")),
            (("dflash.block_size", Ref("model.draft_block_size")),),
            "The block size comes from the draft's config.",
        ),
        Rule(
            "block size",
            "default",
            (unset("dflash.block_size"),),
            (("dflash.block_size", 16),),
            "Left out, the block size comes from the draft's config, else it is 16.",
        ),
        Rule(
            "draft tokens",
            "default",
            (unset("num_draft_tokens"),),
            (("num_draft_tokens", Ref("dflash.block_size")),),
            "Draft tokens are the block size.",
        ),
        Rule(
            "draft window",
            "refuse",
            (below("draft_window_size", Ref("num_draft_tokens")),),
            text="draft_window_size {draft_window_size} must be at least the block size {num_draft_tokens}.",
        ),
        rules.PIPELINE,
        rules.dp_attention("DFLASH", until=(0, 5, 15)),
        Rule(
            "dp attention",
            "refuse",
            (on("server.dp_attention"), off("server.enable_dp_lm_head")),
            text="DFLASH with data-parallel attention needs enable_dp_lm_head.",
            since=(0, 5, 23),
        ),
        Rule(
            "device",
            "refuse",
            (none_of("server.device", "cuda", "npu", "xpu"),),
            text="DFLASH does not run on {server.device}.",
        ),
        rules.CAP_48,
        rules.overlap_off(_FIRST, (0, 5, 12)),
        rules.mixed_chunk_off(until=(0, 5, 15)),
        rules.LORA_NGRAM_ONLY,
    ),
    brackets=(Bracket("dflash.block_size", (2, 4, 6, 8, 12, 16, 24, 32), also=(("num_draft_tokens", None),)),),
    draft="yes",
    needs=("DFlash draft model trained for this target",),
    switches_off=("mixed chunked prefill (to 0.5.15)", "overlap schedule (0.5.12)", "pipeline parallelism"),
    since=_FIRST,
    aliases=("D-FLASH",),
)
