"""How accept length went over the checks of one server and profile: slowly enough that no single check shows it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timezone
from math import exp, log, sqrt
from typing import TYPE_CHECKING, Any

from spectui.checks._intervals import LEVEL
from spectui.core.students import t_quantile

if TYPE_CHECKING:
    from spectui.checks._subject import Subject

LEAST_CHECKS = 6
DRIFT_SHARE = 0.05
"""A fall by less than this share of the whole is not called one, however sure."""


@dataclass(frozen=True, slots=True)
class Drift:
    """``share``: change from the first check to this one, by a line through the logarithms; with its interval."""

    share: float
    low: float
    high: float
    checks: int
    days: float

    @property
    def falling(self) -> bool:
        return self.high < 0 and self.share <= -DRIFT_SHARE

    @property
    def text(self) -> str:
        ends = f"{100 * self.low:+.0f} to {100 * self.high:+.0f}"
        return f"{100 * self.share:+.0f} % ({ends}) over {self.checks} checks in {self.days:.1f} days"

    def as_json(self) -> dict[str, Any]:
        return {"share": self.share, "low": self.low, "high": self.high, "checks": self.checks, "days": self.days}


def over(subject: Subject, now: float | None) -> Drift | None:
    """Of accept length, over earlier checks that this one may be held against, and this one; None with too few."""
    if now is None:
        return None
    points = [(float(row["t"]), float(row["accept_length"])) for row in alike(subject)]
    found = drift([*points, (subject.now, now)])
    if found is None:
        return None
    return Drift(*found, checks=len(points) + 1, days=(subject.now - points[0][0]) / 86400)


def alike(subject: Subject) -> list[Mapping[str, Any]]:
    """Earlier checks of the same workload and algorithm, with a store in the same state, since the newest evidence.

    What an n-gram store gives when it is empty, fed, or full of others' text are three different figures.
    """
    since = max((_epoch(entry.get("date")) for entry in subject.stored), default=0.0)
    same = {"workload": subject.workload, "fed": subject.fed, "algorithm": subject.algorithm}
    if subject.stateful and not subject.fed:
        same["store_empty"] = subject.store_empty
    return [
        row
        for row in subject.history
        if _number(row.get("accept_length"))
        and since <= row["t"] < subject.now
        and all(row.get(key, value) == value for key, value in same.items())
    ]


def drift(points: Sequence[tuple[float, float]]) -> tuple[float, float, float] | None:
    """(share, low, high) of the change from the first point to the last. ``points``: (epoch seconds, value).

    None with fewer than six, or all at one moment.
    """
    if len(points) < LEAST_CHECKS or min(value for _, value in points) <= 0:
        return None
    times = [t - points[0][0] for t, _ in points]
    logs = [log(value) for _, value in points]
    n = len(points)
    mean_t, mean_y = sum(times) / n, sum(logs) / n
    square = sum((t - mean_t) ** 2 for t in times)
    span = max(times) - min(times)
    if square <= 0:
        return None
    slope = sum((t - mean_t) * (y - mean_y) for t, y in zip(times, logs, strict=True)) / square
    rest = sum((y - mean_y - slope * (t - mean_t)) ** 2 for t, y in zip(times, logs, strict=True))
    reach = t_quantile(0.5 + LEVEL / 2, n - 2) * sqrt(rest / (n - 2) / square)
    ends = [exp(span * x) - 1 for x in (slope, slope - reach, slope + reach)]
    return ends[0], ends[1], ends[2]


def _epoch(date: object) -> float:
    try:
        read = datetime.fromisoformat(str(date).replace("Z", "+00:00"))
    except ValueError:
        return 0.0
    return (read if read.tzinfo else read.replace(tzinfo=timezone.utc)).timestamp()


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool) and value > 0
