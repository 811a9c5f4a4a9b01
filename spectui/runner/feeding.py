"""When a store has been fed enough: accept length no longer rises, on enough tokens to believe it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from spectui.core.accept import steps_of
from spectui.core.proposer import FED_TOKENS, LEAST_TOKENS
from spectui.core.request import RequestRecord
from spectui.core.spec import RunSpec, settings_line
from spectui.core.trend import MIN_VALUES, RISE_SHARE, rise, steady

LEAST = 2 * MIN_VALUES
"""Steadiness is judged over the later half of the requests, and over no fewer than these: the first ones rise, and
more of them tell a smaller rise from noise."""
HELD = 3
"""So many requests in a row must find it steady. Looked at after each request, one of many looks is lucky: on answers
that differ by a third a single look ends a slow rise (half-life 4,000 tokens) at 0.89 of its end in the middle of
cases, three in a row at 0.95."""


def least_tokens(spec: RunSpec, model: str, algorithm: str, settings: dict[str, Any]) -> int:
    """Below how many tokens no feed counts as steady: what this text was seen to need with the same model and
    settings, else a general floor."""
    if spec.feed_least is not None:
        return spec.feed_least
    line = settings_line(algorithm, settings)
    seen = [known.tokens for known in spec.feed_known if known.model == model and known.settings == line]
    return max(LEAST_TOKENS, min(seen)) if seen else FED_TOKENS


class Feeding:
    """Takes the records of feeding requests in the order in which they ended."""

    def __init__(self, least: int = FED_TOKENS, limit: int | None = None, *, whole: bool = False) -> None:
        """``least``: tokens below which nothing is steady. ``limit``: so many are enough, steady or not. ``whole``:
        steadiness ends nothing."""
        self.least = least
        self._whole = whole
        self.requests = 0
        self.tokens = 0
        self.steady = False
        """It was found steady; what requests that were in flight then add does not take it back."""
        self._limit = limit
        self._held = 0
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
            self._held = self._held + 1 if self._level() else 0
        self.tokens += tokens
        self.steady = self.steady or (self._held >= HELD and self.tokens >= self.least)

    @property
    def enough(self) -> bool:
        return (self.steady and not self._whole) or self.spent

    @property
    def spent(self) -> bool:
        """All the tokens that it may cost."""
        return self._limit is not None and self.tokens >= self._limit

    @property
    def rising(self) -> bool:
        """A rise is shown over the requests that steadiness is judged over, and it was never found steady."""
        last = self._last()
        return not self.steady and rise(self._positions[last], self._lengths[last], self._steps[last]).shown

    @property
    def accept_length(self) -> float | None:
        """Of the window that steadiness is judged over."""
        last = self._last()
        return _mean(self._lengths[last], self._steps[last])

    def _level(self) -> bool:
        """No rise over the later half, and the last third no higher than the one before it."""
        last = self._last()
        if not steady(self._positions[last], self._lengths[last], self._steps[last]):
            return False
        third = len(self._lengths) // 3
        if third < LEAST // 3:
            return False
        now = _mean(self._lengths[-third:], self._steps[-third:]) or 0.0
        before = _mean(self._lengths[-2 * third : -third], self._steps[-2 * third : -third]) or 0.0
        return now <= (1 + RISE_SHARE) * before

    def _last(self) -> slice:
        return slice(-max(LEAST, len(self._lengths) // 2), None)

    def detail(self, *, limited: bool = False, stopped: bool = False) -> dict[str, Any]:
        """The end of a feed phase. ``limited``: there were more prompts than it might use."""
        length = self.accept_length
        ended = "requests" if limited else "prompts"
        if self.enough:
            ended = "tokens" if self.spent else "steady"
        elif stopped:
            ended = "stopped"
        return {
            "requests": self.requests,
            "tokens": self.tokens,
            "steady": self.steady,
            "accept_length": None if length is None else round(length, 4),
            "rising": self.rising,
            "ended": ended,
            "least": self.least,
        }


def _mean(lengths: Sequence[float], steps: Sequence[int]) -> float | None:
    """Weighted by verify steps; None of none."""
    total = sum(steps)
    return sum(a * b for a, b in zip(lengths, steps, strict=True)) / total if total else None
