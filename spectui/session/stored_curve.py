"""The curve of a stored run beside a live one: both by the time since their measuring began."""

from __future__ import annotations

from functools import lru_cache
from pathlib import Path

from spectui.core.live import LiveArm as Curve
from spectui.core.live import LiveFold
from spectui.session.following import BUCKET_S, SPAN_S
from spectui.session.view import Point
from spectui.store import journal

_BUCKETS = 3600
"""An hour of a stored run; of a longer one the last hour."""


@lru_cache(maxsize=4)
def _curve(folder: Path, arm: str) -> tuple[Curve, float, float] | None:
    """The arm's series, when measuring began in its last pass and when it ended; None where nothing was measured."""
    fold = LiveFold(BUCKET_S, _BUCKETS)
    for row in journal.read(folder / "journal.jsonl"):
        fold.add(row)
    found = fold.arms.get(arm)
    if found is None or found.measuring_since is None:
        return None
    return found, found.measuring_since, max(found.last_t or 0.0, found.measuring_since)


def begin_if_ended(folder: Path, arm: str, now: float) -> float | None:
    """When the stored pass would have begun, had it ended now."""
    kept = _curve(folder, arm)
    return None if kept is None else now - (kept[2] - kept[1])


def points(folder: Path, arm: str, what: str, now: float, begun: float | None) -> tuple[Point, ...]:
    """The last two minutes of ``tok_s`` or ``accept``, moved so that the stored pass begins when the live one did
    (``begun``, epoch seconds)."""
    kept = _curve(folder, arm)
    if kept is None or begun is None:
        return ()
    curve, start, end = kept
    shift = begun - start
    series = curve.tok_s if what == "tok_s" else curve.accept
    count = int(SPAN_S / BUCKET_S) + 1
    until = min(now - shift, end)
    first = (int(until // BUCKET_S) - count + 1) * BUCKET_S
    at = [first + (i + 0.5) * BUCKET_S for i in range(count)]
    return tuple((t + shift, v) for t, v in zip(at, series.values(until, count), strict=True) if t >= start)
