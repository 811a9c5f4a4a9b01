"""How long such a run took the last time on this node: the time left before its own progress can tell."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

_LOOKED_AT = 40
_TAIL = 64 * 1024
_SAME = ("passes", "concurrency", "requests", "max_tokens")


def seconds_of_last(folder: Path) -> float | None:
    """Seconds of the latest complete run that is like the one in ``folder``; None where there is none. Blocks."""
    wanted = _head(folder)
    if not wanted:
        return None
    older = sorted((p for p in folder.parent.iterdir() if p.name < folder.name), key=lambda p: p.name, reverse=True)
    for place in older[:_LOOKED_AT]:
        head = _head(place)
        if head and _like(head, wanted):
            end = _end(place)
            if end.get("status") == "complete":
                return max(0.0, float(end["t"]) - float(head["t"]))
    return None


def _like(one: dict[str, Any], other: dict[str, Any]) -> bool:
    def kind(head: dict[str, Any]) -> list[Any]:
        arms = [(arm.get("algorithm"), arm.get("model")) for arm in head.get("arms") or ()]
        return [(head.get("workload") or {}).get("hash"), arms, *(head.get(key) for key in _SAME)]

    return kind(one) == kind(other)


def _head(folder: Path) -> dict[str, Any]:
    try:
        with open(folder / "journal.jsonl", "rb") as file:
            return _row(file.readline(_TAIL))
    except OSError:
        return {}


def _end(folder: Path) -> dict[str, Any]:
    try:
        with open(folder / "journal.jsonl", "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _TAIL))
            row = _row(file.read().rstrip(b"\n").rpartition(b"\n")[2])
    except OSError:
        return {}
    return row if row.get("kind") == "end" else {}


def _row(line: bytes) -> dict[str, Any]:
    try:
        row = json.loads(line)
    except ValueError:
        return {}
    return row if isinstance(row, dict) and isinstance(row.get("t"), (int, float)) else {}
