"""Values over absolute time: a ring of buckets, with gaps where nothing came."""

from __future__ import annotations

from collections.abc import Iterable


class Series:
    """Sums or means in buckets that begin at whole multiples of ``width_s`` of epoch time, so that two series of one
    width line up however late either began. Holds the last ``size`` buckets. Not thread-safe."""

    __slots__ = ("_count", "_last", "_over", "_under", "size", "width_s")

    def __init__(self, width_s: float = 1.0, size: int = 600) -> None:
        if width_s <= 0 or size < 1:
            raise ValueError(f"a series needs a width above 0 and a size of at least 1, not {width_s} and {size}")
        self.width_s, self.size = width_s, size
        self._over = [0.0] * size
        self._under = [0.0] * size
        self._count = [0] * size
        self._last: int | None = None

    def bucket(self, t: float) -> int:
        """Number of the bucket that holds time ``t``."""
        return int(t // self.width_s)

    def add(self, t: float, value: float, weight: float = 1.0) -> None:
        """Adds to the bucket of ``t``; a time older than the ring is dropped."""
        at = self.bucket(t)
        if self._last is None:
            self._last = at
        elif at > self._last:
            for gone in range(max(self._last + 1, at - self.size + 1), at + 1):
                slot = gone % self.size
                self._over[slot] = self._under[slot] = 0.0
                self._count[slot] = 0
            self._last = at
        elif at <= self._last - self.size:
            return
        slot = at % self.size
        self._over[slot] += value
        self._under[slot] += weight
        self._count[slot] += 1

    def spread(self, since: float, until: float, value: float, weight: float | None = None) -> None:
        """Adds ``value``, and ``weight`` (default: the seconds), over a stretch of time, each bucket by its share."""
        if until <= since:
            self.add(until, value, 0.0 if weight is None else weight)
            return
        span = until - since
        first = max(self.bucket(since), self.bucket(until) - self.size + 1)
        for at in range(first, self.bucket(until) + 1):
            low, high = max(since, at * self.width_s), min(until, (at + 1) * self.width_s)
            if high > low:
                share = (high - low) / span
                self.add((low + high) / 2, value * share, (high - low) if weight is None else weight * share)

    @property
    def last(self) -> int | None:
        """Number of the newest bucket."""
        return self._last

    def _value(self, at: int) -> float | None:
        if self._last is None or at > self._last or at <= self._last - self.size:
            return None
        slot = at % self.size
        return self._over[slot] / self._under[slot] if self._count[slot] and self._under[slot] > 0 else None

    def values(self, until: float, count: int) -> list[float | None]:
        """The ``count`` buckets that end with the one of time ``until``: Σ values / Σ weights, None for a gap."""
        end = self.bucket(until)
        return [self._value(at) for at in range(end - count + 1, end + 1)]

    def latest(self) -> float | None:
        """Of the newest bucket that has a value."""
        if self._last is None:
            return None
        for at in range(self._last, self._last - self.size, -1):
            value = self._value(at)
            if value is not None:
                return value
        return None


def span_of(all_series: Iterable[Series]) -> tuple[float, float] | None:
    """Epoch seconds of the oldest and newest bucket edges over several series; None when all are empty."""
    held = [s for s in all_series if s.last is not None]
    if not held:
        return None
    newest = max((s.last or 0) * s.width_s + s.width_s for s in held)
    oldest = min(((s.last or 0) - s.size + 1) * s.width_s for s in held)
    return oldest, newest
