"""What must be read beside a figure although nothing is wrong with how it was measured."""

from __future__ import annotations

from collections.abc import Mapping

NEVER_ACCEPTED = 1.05
"""Accept length up to which drafts count as never accepted: less than one in twenty steps gives a token more."""
NEVER_ACCEPTED_STEPS = 120
"""Three of the server's windows of 40 decode steps: fewer prove nothing."""
CAUSES = (
    "the algorithm may not be the one the draft was trained for, the draft may belong to another target, "
    "or prompts go without the chat template"
)
_GRAPHLESS_SHARE = 0.01
"""The warm-up of a batch size may run a step or two without a graph."""


def never_accepted(accept_length: float | None, steps: int | None, *, learns: bool = False) -> str | None:
    """A sentence when so many verify steps accepted next to nothing; else None.

    ``learns``: the drafter copies from earlier answers, so an empty store or unlike text explains it as well.
    """
    if accept_length is None or not steps or steps < NEVER_ACCEPTED_STEPS or accept_length > NEVER_ACCEPTED:
        return None
    causes = "its store holds nothing that is like these answers" if learns else CAUSES
    return f"drafts are never accepted (accept length {accept_length:.2f} over {steps:,} verify steps): {causes}"


def fewer_in_flight(asked: int, most: int) -> str | None:
    """A sentence when a concurrency was asked for that was never reached; else None."""
    if not 0 < most < asked:
        return None
    return (
        f"never more than {most} of the {asked} requests asked for at a time were in flight, since no more were sent: "
        f"a result at {most} at a time"
    )


def without_graphs(counters: Mapping[str, float] | None, largest: int | None = None) -> str | None:
    """A sentence when decode passes ran outside captured graphs; None when none did, or the server does not tell.

    ``counters``: what ``cuda_graph_passes_total`` grew by for each mode, as ``passes_MODE_total`` (0.5.10 and later,
    srt/observability/metrics_collector.py). ``largest``: the largest batch a graph was captured for.
    """
    decode = {n: v for n, v in (counters or {}).items() if n.startswith("passes_decode_") and n.endswith("_total")}
    whole, outside = sum(decode.values()), decode.get("passes_decode_none_total", 0.0)
    if whole <= 0 or outside <= _GRAPHLESS_SHARE * whole:
        return None
    word = "without graphs" if outside >= whole else "partly without graphs"
    limit = f"; graphs are captured up to {largest} at a time" if largest else ""
    return f"{word}: {outside:,.0f} of {whole:,.0f} decode passes ({100 * outside / whole:.0f} %){limit}"
