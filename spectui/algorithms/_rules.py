"""Rules that several algorithms have in common, as SGLang 0.4.9 to 0.5.23 apply them.

Read in ``srt/server_args.py`` (to 0.5.12) and ``srt/arg_groups/speculative_hook.py`` (from 0.5.15).
"""

from __future__ import annotations

from spectui.core.settings import (
    Rule,
    above,
    none_of,
    on,
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
