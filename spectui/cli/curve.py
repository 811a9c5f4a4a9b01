"""The warm-up curve as a small chart of bars, for a shell."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

WIDTH = 40


def lines(curve: Mapping[str, Any] | None, *, stateful: bool) -> list[str]:
    """At most one chart for each of tokens since the flush, position in the answer, and turn."""
    if not curve:
        return []
    shown: list[str] = []
    tokens = curve.get("tokens") or ()
    if stateful and len(tokens) > 1:
        shown += _chart("accept length over tokens since the flush", "tokens", tokens)
        half = curve.get("half_life")
        if half:
            shown.append(f"  half of what is left to gain comes every {half:,.0f} tokens; full at {curve['end']:.2f}")
        else:
            shown.append("  no half-life: a constant explains these values as well")
    position = curve.get("position") or ()
    if len(position) > 1:
        shown += _chart("accept length over position in the answer", "token", position)
    turn = curve.get("turn") or ()
    if len(turn) > 1:
        shown += _chart("accept length over turn", "turn", turn, single=True)
    return shown


def _chart(title: str, unit: str, bins: Sequence[Mapping[str, Any]], *, single: bool = False) -> list[str]:
    full, part = ("█", "▌") if _draws() else ("#", "")
    most = max(b["accept_length"] for b in bins) or 1.0
    names = [f"{b['from']:,.0f}" if single else f"{b['from']:,.0f} to {b['to']:,.0f}" for b in bins]
    wide = max(len(unit), *(len(n) for n in names))
    shown = [title, f"  {unit.rjust(wide)}  {'accept'.rjust(6)}  {'steps'.rjust(7)}"]
    for name, b in zip(names, bins, strict=True):
        halves = round(2 * WIDTH * b["accept_length"] / most)
        bar = full * (halves // 2) + part * (halves % 2)
        shown.append(f"  {name.rjust(wide)}  {b['accept_length']:6.2f}  {b['steps']:7,}  {bar}")
    return shown


def _draws() -> bool:
    try:
        "█▌".encode(sys.stdout.encoding or "ascii")
    except (UnicodeEncodeError, LookupError):
        return False
    return True
