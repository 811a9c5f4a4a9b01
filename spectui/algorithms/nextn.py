"""NEXTN: the multi-token-prediction layers that some models carry."""

from __future__ import annotations

from spectui.algorithms import _eagle_family as family
from spectui.algorithms import _knobs as knobs
from spectui.core.settings import Algorithm

ALGORITHM = Algorithm(
    "NEXTN",
    "MTP",
    "The target's own multi-token-prediction layers draft the next tokens; the server runs them as EAGLE.",
    fits="models that ship MTP layers, at low to middling concurrency; needs no warm-up",
    starves="more steps than the layers were trained for",
    knobs=(*family.KNOBS, knobs.SKIP_DP_MLP_SYNC),
    rules=(*family.BUILT_IN, *family.RULES),
    brackets=family.BRACKETS,
    draft="built-in",
    reported=("EAGLE", "FROZEN_KV_MTP"),
    needs=("target with its own MTP layers, or a draft model made of them",),
    switches_off=("mixed chunked prefill (to 0.5.15)", "overlap schedule (to 0.5.10; in 0.5.12 with topk above 1)"),
    aliases=("MTP",),
)
