"""When a store has been fed enough: accept length no longer rises, on enough tokens to believe it."""

from __future__ import annotations

from typing import Any

from spectui.core.accept import steps_of
from spectui.core.proposer import LEAST_TOKENS
from spectui.core.request import RequestRecord
from spectui.core.trend import MIN_VALUES, steady

LEAST = 2 * MIN_VALUES
"""Steadiness is judged over the later half of the requests, and over no fewer than these: the first ones rise, and
more of them tell a smaller rise from noise."""


class Feeding:
    """Takes the records of feeding requests in the order in which they ended."""

    def __init__(self) -> None:
        self.requests = 0
        self.tokens = 0
        self._positions: list[float] = []
        self._lengths: list[float] = []
        self._steps: list[int] = []

    def add(self, record: RequestRecord) -> None:
        self.requests += 1
        tokens = record.completion_tokens or 0
        steps = steps_of(record, True) if record.ok else None
        if steps and tokens > 1:
            self._positions.append(self.tokens + tokens / 2)
            self._lengths.append((tokens - 1) / steps)
            self._steps.append(steps)
        self.tokens += tokens

    @property
    def steady(self) -> bool:
        """Enough tokens, and no rise over the last requests."""
        if self.tokens < LEAST_TOKENS or len(self._lengths) < MIN_VALUES:
            return False
        last = self._last()
        return steady(self._positions[last], self._lengths[last], self._steps[last])

    @property
    def accept_length(self) -> float | None:
        """Of the window that steadiness is judged over."""
        last = self._last()
        steps = sum(self._steps[last])
        if not steps:
            return None
        return sum(a * b for a, b in zip(self._lengths[last], self._steps[last], strict=True)) / steps

    def _last(self) -> slice:
        return slice(-max(LEAST, len(self._lengths) // 2), None)

    def detail(self) -> dict[str, Any]:
        length = self.accept_length
        return {
            "requests": self.requests,
            "tokens": self.tokens,
            "steady": self.steady,
            "accept_length": None if length is None else round(length, 4),
        }
