"""How far predictions were off on this node, and how long its servers took to start: read back as a spread by kind."""

from __future__ import annotations

import contextlib
import os
import tempfile
import time
from collections.abc import Iterable
from dataclasses import dataclass
from math import exp, log, sqrt
from pathlib import Path
from statistics import median

from spectui.core.rows import Row
from spectui.store import journal, locations

EXACT = "exact replay"
OTHER_TEXT = "other text"
SEVERAL = "several at a time"
CHAIN = "chain"
KINDS = (EXACT, OTHER_TEXT, SEVERAL, CHAIN)

ASSUMED = {EXACT: 0.01, OTHER_TEXT: 0.10, SEVERAL: 0.10, CHAIN: 0.06}
"""Standard deviation of the logarithm of predicted over measured, until the node has shown its own."""
_ASSUMED_WEIGHT = 3
"""Measurements that the assumed spread counts for."""
_KEPT = 500


@dataclass(frozen=True, slots=True)
class Miss:
    """One prediction with what came of it."""

    kind: str
    quantity: str
    """accept length or tokens a second."""
    predicted: float
    measured: float
    setting: str = ""
    run: str = ""


@dataclass(frozen=True, slots=True)
class Spread:
    """Of predicted over measured."""

    kind: str
    count: int
    """Measurements on this node; 0: the spread is assumed."""
    bias: float
    """Mean of the logarithm: above 0, predictions were too high."""
    log_error: float
    """What a next prediction of this kind may be off by, one standard deviation of the logarithm."""
    largest: float
    """Largest distance from 1 of the ratio, as a share."""

    @property
    def text(self) -> str:
        if not self.count:
            return f"no {self.kind} prediction has been checked on this node yet: ±{100 * self.log_error:.0f} % assumed"
        times = "once" if self.count == 1 else f"{self.count} times"
        typical = 100 * (exp(sqrt(max(0.0, self.log_error**2))) - 1)
        return (
            f"{self.kind} predictions were checked {times} on this node: off by {typical:.0f} % typically, "
            f"{100 * self.largest:.0f} % at most"
        )


def spread(kind: str, misses: Iterable[Miss], quantity: str = "accept length") -> Spread:
    """From what was seen, the assumed spread counting for three. Values that are no lengths are left out."""
    logs = [
        log(m.predicted / m.measured)
        for m in misses
        if m.kind == kind and m.quantity == quantity and m.predicted > 0 and m.measured > 0
    ]
    assumed = ASSUMED.get(kind, 0.15)
    squares = _ASSUMED_WEIGHT * assumed**2 + sum(v * v for v in logs)
    error = sqrt(squares / (_ASSUMED_WEIGHT + len(logs)))
    largest = max((abs(exp(v) - 1) for v in logs), default=0.0)
    return Spread(kind, len(logs), sum(logs) / len(logs) if logs else 0.0, error, largest)


def compared(
    kind: str,
    predicted: tuple[float | None, float | None],
    measured: tuple[float | None, float | None],
    setting: str,
    run: str,
) -> list[Miss]:
    """Of accept length and tokens a second, in this order; none of a kind that is no prediction, or of what is not
    known."""
    if kind not in KINDS:
        return []
    names = ("accept length", "tokens a second")
    return [
        Miss(kind, name, guess, found, setting, run)
        for name, guess, found in zip(names, predicted, measured, strict=True)
        if guess and found
    ]


def note(miss: Miss) -> None:
    """Append one. A disk that fails loses only the learning."""
    row = {
        "t": round(time.time(), 3),
        "kind": miss.kind,
        "quantity": miss.quantity,
        "predicted": miss.predicted,
        "measured": miss.measured,
        "setting": miss.setting,
        "run": miss.run,
    }
    _append(locations.known_dir() / "predictions.jsonl", row)


def misses() -> tuple[Miss, ...]:
    """The last 500, the oldest first."""
    found = []
    for row in _rows(locations.known_dir() / "predictions.jsonl"):
        kind, quantity, a, b = (row.get(n) for n in ("kind", "quantity", "predicted", "measured"))
        if isinstance(a, (int, float)) and isinstance(b, (int, float)):
            named = (str(row.get("setting") or ""), str(row.get("run") or ""))
            found.append(Miss(str(kind), str(quantity), float(a), float(b), *named))
    return tuple(found)


def spreads() -> dict[str, Spread]:
    """Kind -> how far its accept lengths were off."""
    known = misses()
    return {kind: spread(kind, known) for kind in KINDS}


def note_start(key: str, seconds: float) -> None:
    """A server became ready after so long. ``key``: what tells starts apart (profile and algorithm)."""
    _append(locations.known_dir() / "starts.jsonl", {"t": round(time.time(), 3), "key": key, "seconds": seconds})


def start_s(*keys: str) -> float | None:
    """Median of the last five starts under the first of the keys that has any; None under none."""
    rows = list(_rows(locations.known_dir() / "starts.jsonl"))
    for key in keys:
        found = [r["seconds"] for r in rows if r.get("key") == key and isinstance(r.get("seconds"), (int, float))]
        if found:
            return float(median(found[-5:]))
    return None


def _rows(path: Path) -> list[Row]:
    try:
        return list(journal.read(path))[-_KEPT:]
    except OSError:
        return []


def _append(path: Path, row: Row) -> None:
    with contextlib.suppress(OSError), journal.Writer(path) as file:
        file.write(row)


def write_whole(path: Path, text: str) -> None:
    """A small file of this kind, the old one or the new one, never half; a disk that fails loses only the learning."""
    name = None
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}.")
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(text)
        os.replace(name, path)
    except OSError:
        if name is not None:
            with contextlib.suppress(OSError):
                os.unlink(name)
