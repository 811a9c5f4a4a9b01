"""EAGLE-3: a draft head on several layers of the target."""

from __future__ import annotations

from spectui.algorithms import _eagle_family as family
from spectui.algorithms import _knobs as knobs
from spectui.algorithms import _rules as rules
from spectui.core.settings import Algorithm

ALGORITHM = Algorithm(
    "EAGLE3",
    "EAGLE-3",
    "A small head trained on hidden states from several layers of the target drafts a chain or a tree.",
    fits="any text like what the head was trained on, at low to middling concurrency; needs no warm-up",
    starves="a head trained for another model; contexts longer than it was trained on; languages it never saw",
    knobs=(*family.KNOBS, knobs.DRAFT_WINDOW_SIZE, knobs.SINK_SIZE),
    rules=(rules.needs_draft("EAGLE3"), *family.RULES),
    brackets=family.BRACKETS,
    draft="yes",
    needs=("EAGLE-3 draft model trained for this target",),
    switches_off=("mixed chunked prefill (to 0.5.15)", "overlap schedule (to 0.5.10; in 0.5.12 with topk above 1)"),
)
