"""What else loaded the machine while two arms were measured: the other arm, another run."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

from spectui.core.accept import counter
from spectui.core.passes import PassResult, merged
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.store import journal, locations

STRAY = 16
"""Tokens that health probes may make in a gap between two blocks; two a second are allowed beside."""
BOTH = "both arms of one host were loaded at the same moment"
_LOOPBACK = ("localhost", "::1", "0.0.0.0", "")  # noqa: S104 - compared with, not bound to


def host_of(result: RunResult, arm: str) -> str:
    """The machine that an arm runs on, as far as its address tells: loopback is the node that measured."""
    name = urlsplit(str(result.arm(arm).get("url") or "")).hostname or ""
    node = str((result.head.get("node") or {}).get("host") or "")
    return node if name in _LOOPBACK or name.startswith("127.") else name


def overlap_s(a: PassResult, b: PassResult) -> float:
    """Seconds in which requests of both passes were measured."""
    return sum(
        max(0.0, min(high, end) - max(low, start))
        for low, high in merged(a.windows.values())
        for start, end in merged(b.windows.values())
    )


def of_stored(a: tuple[RunResult, PassResult], b: tuple[RunResult, PassResult]) -> list[str]:
    """Passes of two runs."""
    hosts = [host_of(result, one.arm) for result, one in (a, b)]
    shared = overlap_s(a[1], b[1])
    if hosts[0] != hosts[1] or shared <= 0:
        return []
    return [f"{BOTH}: the two runs overlap by {shared:.1f} s on {hosts[0]}"]


def of_alternating(rows: Iterable[Row], result: RunResult, arms: tuple[str, str]) -> list[str]:
    """Of one run: what an arm's server generated while the other one was measured, by its own counters."""
    grown = idle_growth(rows)
    found = []
    for mine, other in (arms, arms[::-1]):
        tokens = grown.get(mine, 0)
        if not tokens:
            continue
        said = f"{mine}'s server generated {tokens:,} tokens that are not ours while {other} was measured"
        same = host_of(result, mine) == host_of(result, other)
        found.append(f"{BOTH}: {said}" if same else f"{mine}: traffic that is not ours ({said})")
    return found


def idle_growth(rows: Iterable[Row]) -> dict[str, int]:
    """Arm -> tokens that it generated between its blocks, where nothing of ours was sent to it."""
    last: dict[str, tuple[float, Mapping[str, Any]]] = {}
    grown: dict[str, int] = {}
    for row in rows:
        arm = str(row.get("arm"))
        if row.get("kind") == "request" or (row.get("kind") == "mark" and row.get("name") == "restarted"):
            last.pop(arm, None)
        if row.get("kind") != "metrics" or not isinstance(row.get("counters"), dict):
            continue
        if row.get("at") == "after":
            last[arm] = float(row["t"]), row["counters"]
        elif row.get("at") == "before" and arm in last:
            t, before = last.pop(arm)
            more = (counter(row["counters"], "generation_tokens") or 0.0) - (
                counter(before, "generation_tokens") or 0.0
            )
            if more > STRAY + 2.0 * (float(row["t"]) - t):
                grown[arm] = grown.get(arm, 0) + int(more)
    return grown


def other_runs(arms: Iterable[tuple[str, RunResult, PassResult]], own: Iterable[Path]) -> list[str]:
    """Other runs of spectui that loaded the same host while these passes were measured; ``arms``: A or B, its run and
    pass. A run is there from its journal's first row to its last: a folder may have been copied here later."""
    spans = [
        (name, host_of(result, one.arm), merged(one.windows.values())) for name, result, one in arms if one.windows
    ]
    if not spans:
        return []
    first = min(windows[0][0] for _, _, windows in spans)
    mine = {folder.name for folder in own}
    root = locations.runs_dir()
    found = []
    for path in sorted(root.glob("*/journal.jsonl")) if root.is_dir() else []:
        try:
            if path.parent.name in mine or path.stat().st_mtime < first:
                continue
            head = next(iter(journal.read(path)), {})
            end = _last_time(path)
        except OSError:
            continue
        begin = head.get("t")
        if head.get("kind") != "head" or not isinstance(begin, int | float) or end is None:
            continue
        other = RunResult(head, {})
        hosts = {host_of(other, str(arm.get("name"))) for arm in head.get("arms") or ()}
        shared = {
            name: sum(max(0.0, min(high, end) - max(low, begin)) for low, high in windows)
            for name, host, windows in spans
            if host in hosts
        }
        names = [name for name, seconds in shared.items() if seconds > 0]
        if names:
            host = next(h for n, h, _ in spans if n == names[0])
            found.append(
                f"{' and '.join(dict.fromkeys(names))}: another run, {path.parent.name}, loaded {host} at the same "
                f"time, for {max(shared.values()):.1f} s: measure again while it is not running"
            )
    return found


_TAIL = 1 << 16


def _last_time(path: Path) -> float | None:
    """When the last whole row of a journal was written; None where none says."""
    with open(path, "rb") as file:
        file.seek(max(0, file.seek(0, 2) - _TAIL))
        lines = file.read().splitlines()
    for line in reversed(lines):
        try:
            t = json.loads(line).get("t")
        except (ValueError, AttributeError):
            continue
        if isinstance(t, int | float):
            return float(t)
    return None
