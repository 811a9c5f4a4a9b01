"""What shorter chains would accept, read off the histogram of a longer one.

A chain of n drafts (topk 1) is verified from its front: with m < n steps the same drafts come first, and a step that
accepted k of n accepts min(k, m) of m. How often each outcome comes changes a little with m, since other steps start
at other tokens; the histogram stands for the mix of places that the longer chain met.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ChainEstimate:
    """Expected accept length of a chain of ``num_steps`` drafts (``num_steps`` + 1 draft tokens, topk 1)."""

    num_steps: int
    accept_length: float
    """Tokens a verify step, the one after the accepted drafts included."""
    accept_rate: float
    """Accepted drafts by drafts proposed."""

    @property
    def num_draft_tokens(self) -> int:
        return self.num_steps + 1


def chain_lengths(histogram: Sequence[int], num_steps: int | None = None) -> list[ChainEstimate]:
    """Estimates for chains of 1 … ``num_steps`` drafts from h[k] = verify steps that accepted exactly k drafts.

    ``num_steps``: of the chain that was measured; None takes the length of the histogram less one. Raises ValueError
    for an empty histogram, negative counts, or counts beyond ``num_steps``.
    """
    if any(count < 0 for count in histogram):
        raise ValueError("a histogram has no negative counts")
    total = sum(histogram)
    if total == 0:
        raise ValueError("the histogram is empty: no verify step was counted")
    longest = len(histogram) - 1 if num_steps is None else num_steps
    if longest < 1:
        raise ValueError(f"a chain has at least 1 step, not {longest}")
    if any(histogram[longest + 1 :]):
        raise ValueError(f"the histogram counts more than {longest} accepted drafts: not of a chain of {longest} steps")
    estimates = []
    for steps in range(1, longest + 1):
        accepted = sum(min(k, steps) * count for k, count in enumerate(histogram)) / total
        estimates.append(ChainEstimate(steps, 1 + accepted, accepted / steps))
    return estimates


def conditional_rates(histogram: Sequence[int]) -> list[float | None]:
    """Rate k: of the steps that accepted draft k − 1, the share that accepted draft k too (k from 1); None where no
    step came that far."""
    reached = [sum(histogram[k:]) for k in range(len(histogram) + 1)]
    return [reached[k] / reached[k - 1] if reached[k - 1] else None for k in range(1, len(histogram))]
