"""STANDALONE: a small language model of its own as the draft."""

from __future__ import annotations

from dataclasses import replace

from spectui.algorithms import _chain_rules as chain
from spectui.algorithms import _eagle_family as family
from spectui.algorithms import _rules as rules
from spectui.core.settings import Algorithm

ALGORITHM = Algorithm(
    "STANDALONE",
    "standalone draft",
    "A small language model with the target's vocabulary drafts a chain or a tree.",
    fits="targets with a much smaller sibling that writes alike",
    starves="a draft with another vocabulary (wrong text); a draft that is not much faster than the target",
    knobs=tuple(
        replace(knob, since=knob.since or (0, 5, 5))
        for knob in family.KNOBS
        if knob.key not in ("adaptive", "adaptive_config", "rejection_sampling")
    ),
    rules=(
        rules.needs_draft("STANDALONE"),
        chain.AUTO_STANDALONE,
        *family.CHAIN_AND_TREE,
        rules.dp_attention("STANDALONE"),
        rules.mixed_chunk_off(),
    ),
    brackets=family.BRACKETS,
    draft="yes",
    needs=("small model with the target's own vocabulary and tokenizer",),
    switches_off=("mixed chunked prefill", "overlap schedule (to 0.5.10; in 0.5.12 with topk above 1)"),
    since=(0, 5, 5),
)
