"""What else loaded the machine while two arms were measured: the other arm, another run."""

from __future__ import annotations

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


def other_runs(result: RunResult, one: PassResult, own: Iterable[Path]) -> list[str]:
    """Other runs of spectui on this node that loaded the same host in these windows."""
    if not one.windows:
        return []
    start, end = min(w[0] for w in one.windows.values()), max(w[1] for w in one.windows.values())
    host, mine = host_of(result, one.arm), {folder.name for folder in own}
    root = locations.runs_dir()
    for path in sorted(root.glob("*/journal.jsonl")) if root.is_dir() else []:
        try:
            if path.parent.name in mine or path.stat().st_mtime < start:
                continue
            head = next(iter(journal.read(path)), {})
        except OSError:
            continue
        if head.get("kind") != "head" or float(head.get("t") or 0.0) > end:
            continue
        other = RunResult(head, {})
        if host in {host_of(other, str(arm.get("name"))) for arm in head.get("arms") or ()}:
            return [f"{one.arm}: another run, {path.parent.name}, loaded {host} at the same time"]
    return []
