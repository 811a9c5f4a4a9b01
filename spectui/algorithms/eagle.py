"""EAGLE and EAGLE-2: a draft head on the target's last hidden state."""

from __future__ import annotations

from spectui.algorithms import _eagle_family as family
from spectui.algorithms import _knobs as knobs
from spectui.core.settings import Algorithm

ALGORITHM = Algorithm(
    "EAGLE",
    "EAGLE",
    "A small head trained on the target's last hidden states drafts a chain or a tree of tokens.",
    fits="any text like what the head was trained on, at low to middling concurrency",
    starves="a head trained for another model or as EAGLE-3; contexts longer than it was trained on",
    knobs=(*family.KNOBS, knobs.SKIP_DP_MLP_SYNC),
    rules=(*family.BUILT_IN, *family.RULES),
    brackets=family.BRACKETS,
    draft="built-in",
    reported=("EAGLE", "FROZEN_KV_MTP"),
    needs=("draft model trained for this target, or a target with its own MTP layers",),
    switches_off=("mixed chunked prefill (to 0.5.15)", "overlap schedule (to 0.5.10; in 0.5.12 with topk above 1)"),
    aliases=("EAGLE2",),
)
