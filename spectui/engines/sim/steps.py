"""How long a forward pass takes: tables by algorithm, width and batch, from recordings of a real server.

``recorded``: SmolLM2-135M on one H200, SGLang 0.5.15. ``kimi``: a very large model spread over eight GPUs.
"""

from __future__ import annotations

from bisect import bisect_right
from dataclasses import dataclass

_BATCHES = (1, 4, 16, 32, 64, 128)


@dataclass(frozen=True, slots=True)
class _Table:
    plain: tuple[float, ...]
    """Milliseconds of a step without speculation, by batch as in ``_BATCHES``."""
    verify: tuple[float, ...]
    """Milliseconds of a verify step of 8 tokens a request."""
    per_width: float
    """Share of a verify step that one more token a request costs at batch 1; wide batches cost more."""
    draft: tuple[float, ...]
    """Milliseconds of one pass of a draft model."""
    prefill: float
    prefill_token: float
    per_context: float
    """Milliseconds that a token of the mean sequence length adds."""


_TABLES = {
    "recorded": _Table(
        plain=(1.19, 1.25, 1.52, 1.95, 2.8, 4.6),
        verify=(2.72, 3.3, 4.7, 6.4, 9.8, 17.0),
        per_width=0.012,
        draft=(0.42, 1.1, 1.25, 1.5, 2.1, 3.2),
        prefill=20.0,
        prefill_token=0.02,
        per_context=0.00019,
    ),
    "kimi": _Table(
        plain=(11.75, 14.8, 21.5, 28.0, 39.0, 60.0),
        verify=(30.2, 41.0, 66.0, 96.0, 150.0, 270.0),
        per_width=0.006,
        draft=(4.2, 5.2, 7.0, 9.0, 13.0, 22.0),
        prefill=110.0,
        prefill_token=0.09,
        per_context=0.0002,
    ),
}


def _at(values: tuple[float, ...], batch: int) -> float:
    place = bisect_right(_BATCHES, batch)
    if place >= len(_BATCHES):
        return values[-1] * batch / _BATCHES[-1]
    low, high = _BATCHES[place - 1], _BATCHES[place]
    share = (batch - low) / (high - low)
    return values[place - 1] * (1 - share) + values[place] * share


class StepTimes:
    """Seconds of a pass, for one setting of a server."""

    def __init__(self, profile: str, width: int, draft_passes: int, largest_graph: int) -> None:
        """``width``: tokens a request that one step verifies, 1 without speculation."""
        self._table = _TABLES[profile]
        self._width = width
        self._passes = draft_passes
        self._largest_graph = largest_graph

    def decode(self, batch: int, mean_length: float) -> float:
        """One decode or verify pass over ``batch`` requests of ``mean_length`` tokens."""
        table = self._table
        if self._width <= 1:
            ms = _at(table.plain, batch)
        else:
            spread = table.per_width * (1 + batch / 8)
            ms = _at(table.verify, batch) * max(0.6, 1 + (self._width - 8) * spread)
            if self._passes:
                # a chain's verify has no tree to build on the CPU
                ms = ms * 0.72 + self._passes * _at(table.draft, batch)
        ms += table.per_context * mean_length
        return ms / 1000 * (1.0 if batch <= self._largest_graph else 2.1)

    def prefill(self, new_tokens: int) -> float:
        """One prefill pass over ``new_tokens`` tokens that no cache held."""
        return (self._table.prefill + self._table.prefill_token * new_tokens) / 1000
