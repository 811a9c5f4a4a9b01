"""UNO: the target drafts for itself, through a LoRA adapter."""

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
    above,
    below,
    differs,
    equal,
    given,
    none_of,
    on,
    unset,
)

_FIRST = (0, 5, 23)
_TREE = above("eagle_topk", 1)

ALGORITHM = Algorithm(
    "UNO",
    "Uno",
    "The target itself drafts several tokens in one pass through a LoRA adapter trained for it.",
    fits="one GPU with FA3 attention, and text like what the adapter was trained on",
    starves="more than one GPU: it runs without tensor parallelism only",
    knobs=(
        Knob("uno.lora_path", "path", "adapter", "Folder of the LoRA adapter.", since=_FIRST),
        knobs.NUM_DRAFT_TOKENS,
        replace(knobs.NUM_STEPS, help="Depth of the tree; used with topk above 1 only."),
        replace(knobs.EAGLE_TOPK, help="1 drafts a line; more a tree."),
        *knobs.THRESHOLDS,
    ),
    rules=(
        Rule("adapter", "refuse", (unset("uno.lora_path"),), text="UNO needs uno.lora_path.", certain=True),
        Rule("width", "refuse", (unset("num_draft_tokens"),), text="UNO needs num_draft_tokens.", certain=True),
        Rule("line", "default", (unset("eagle_topk"),), (("eagle_topk", 1),), "Left out, UNO drafts a line."),
        Rule(
            "line",
            "force",
            (equal("eagle_topk", 1),),
            (("num_steps", 1),),
            "With topk 1 UNO drafts a line: steps are ignored and are 1.",
        ),
        Rule("tree", "refuse", (_TREE, unset("num_steps")), text="UNO with topk above 1 needs num_steps."),
        Rule(
            "tree",
            "refuse",
            (_TREE, below("num_draft_tokens", Ref("num_steps", add=1))),
            text="UNO with topk above 1 needs at least steps + 1 draft tokens, not {num_draft_tokens}.",
        ),
        Rule(
            "tree",
            "refuse",
            (_TREE, above("num_draft_tokens", 128)),
            text="UNO with topk above 1 takes at most 128 draft tokens, not {num_draft_tokens}.",
        ),
        Rule(
            "tree",
            "refuse",
            (_TREE, above("frontier", 2048)),
            text="UNO takes draft tokens x topk of at most 2048, not {frontier}.",
        ),
        *(
            Rule(
                "tree thresholds",
                "refuse",
                (_TREE, differs(key, 1.0)),
                text=f"UNO with topk above 1 needs {key} at 1.",
            )
            for key in ("accept_threshold_single", "accept_threshold_acc")
        ),
        *(
            Rule("one GPU", "refuse", (above(f"server.{key}", 1),), text=f"UNO needs {key} 1.")
            for key in ("tp_size", "pp_size")
        ),
        rules.dp_attention("UNO"),
        rules.CUDA_ONLY,
        Rule(
            "attention",
            "refuse",
            (none_of("server.attention_backend", "fa3"),),
            text="UNO needs the attention backend fa3, not {server.attention_backend}.",
        ),
        Rule("lora", "refuse", (on("server.enable_lora"),), text="UNO does not go with LoRA serving."),
        Rule("lora", "refuse", (given("server.lora_paths"),), text="UNO does not go with LoRA serving."),
        rules.mixed_chunk_off(),
    ),
    brackets=(Bracket("num_draft_tokens", (2, 4, 6, 8, 12, 16, 24, 32, 48, 64)),),
    needs=("UNO adapter trained for this target", "one GPU, CUDA, attention backend fa3"),
    switches_off=("mixed chunked prefill", "tensor and pipeline parallelism", "LoRA serving"),
    since=_FIRST,
)
