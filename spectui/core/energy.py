"""Joules of an arm's GPUs over the windows in which it was measured."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any


def joules_over(
    rows: Iterable[Mapping[str, Any]], uuids: Iterable[str], windows: Sequence[tuple[float, float]]
) -> tuple[float | None, str]:
    """(joules, why not). From the energy counters where all of the GPUs have one, else power times time.

    ``rows``: the journal's gpu rows; ``uuids``: the arm's GPUs; ``windows``: epoch seconds. Values between two readings
    lie on the line between them; a window that readings do not reach gives None.
    """
    wanted = list(dict.fromkeys(uuids))
    if not wanted:
        return None, "the GPUs of this server are not known"
    if not windows:
        return None, "nothing was measured"
    energy: dict[str, list[tuple[float, float]]] = {u: [] for u in wanted}
    power: dict[str, list[tuple[float, float]]] = {u: [] for u in wanted}
    for row in rows:
        for gpu in row.get("gpus") or ():
            uuid = gpu.get("uuid")
            if uuid not in energy:
                continue
            at = float(row["t"]) - float(gpu.get("age_s") or 0.0)
            if gpu.get("energy_j") is not None:
                energy[uuid].append((at, float(gpu["energy_j"])))
            if gpu.get("power_w") is not None:
                power[uuid].append((at, float(gpu["power_w"])))
    total = 0.0
    for uuid in wanted:
        counted = [_between(sorted(energy[uuid]), low, high) for low, high in windows]
        if any(c is None for c in counted):
            counted = [_under(sorted(power[uuid]), low, high) for low, high in windows]
        if any(c is None for c in counted):
            return None, f"no energy or power readings of {uuid} span the measured window"
        total += sum(c or 0.0 for c in counted)
    return total, ""


SLACK_S = 2.0
"""A reading may lie this far outside a window's edge: the slowest sampling is one a second."""


def _at(points: Sequence[tuple[float, float]], when: float) -> float | None:
    if not points or when < points[0][0] - SLACK_S or when > points[-1][0] + SLACK_S:
        return None
    i = bisect_right(points, (when, float("inf")))
    if i == 0 or i == len(points):
        return points[0 if i == 0 else -1][1]
    (t0, v0), (t1, v1) = points[i - 1], points[i]
    return v0 + (v1 - v0) * (when - t0) / (t1 - t0) if t1 > t0 else v1


def _between(points: Sequence[tuple[float, float]], low: float, high: float) -> float | None:
    a, b = _at(points, low), _at(points, high)
    return b - a if a is not None and b is not None and b >= a and len(points) > 1 else None


def _under(points: Sequence[tuple[float, float]], low: float, high: float) -> float | None:
    a, b = _at(points, low), _at(points, high)
    if a is None or b is None:
        return None
    inside = [(low, a), *[p for p in points if low < p[0] < high], (high, b)]
    return sum((t1 - t0) * (v0 + v1) / 2 for (t0, v0), (t1, v1) in pairwise(inside))


SLOWDOWNS = ("thermal", "hardware")
"""Words of throttle reasons that are not the work's own doing, as a power cap is."""


def heat_over(
    rows: Iterable[Mapping[str, Any]], uuids: Iterable[str], windows: Sequence[tuple[float, float]]
) -> dict[str, Any] | None:
    """``{temperature_c, clock_mhz, slowed_share, readings}`` of the arm's GPUs over the windows; None without readings.

    Means over readings; ``slowed_share`` counts those with a thermal or hardware slowdown in force.
    """
    wanted = set(uuids)
    heat: list[float] = []
    clocks: list[float] = []
    slowed = readings = 0
    for row in rows:
        at = float(row["t"])
        if not any(low <= at <= high for low, high in windows):
            continue
        for gpu in row.get("gpus") or ():
            if gpu.get("uuid") not in wanted:
                continue
            readings += 1
            slowed += any(str(r).startswith(SLOWDOWNS) for r in gpu.get("throttle") or ())
            if gpu.get("temperature_c") is not None:
                heat.append(float(gpu["temperature_c"]))
            if gpu.get("sm_clock_mhz") is not None:
                clocks.append(float(gpu["sm_clock_mhz"]))
    if not readings:
        return None
    return {
        "temperature_c": sum(heat) / len(heat) if heat else None,
        "clock_mhz": sum(clocks) / len(clocks) if clocks else None,
        "slowed_share": slowed / readings,
        "readings": readings,
    }
