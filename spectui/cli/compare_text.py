"""A comparison in plain text, for a person at a shell."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

from spectui.cli import shown, tables


def print_compared(said: dict[str, Any]) -> None:
    for arm in said["arms"]:
        simulated = " · simulated" if arm.get("simulated") else ""
        text = f"{arm.get('algorithm')}  {arm.get('url')}  SGLang {arm.get('version')}{simulated}"
        print(tables.wrapped(f"{text}  {arm.get('model')}", lead=f"{arm['name']}  "))
    rows = said["by_concurrency"]
    looks = ", over all looks together" if any(row.get("until_sure") for row in rows) else ""
    print(f"\n{said['pass']} pass; ratios are A over B, intervals at 95 %{looks}\n")
    head = ("at a time", "tok/s A", "tok/s B", "ratio", "interval", "verdict")
    shown_rows = [
        (
            _at_a_time(row),
            *(tables.number(_figure(row, name, "output_tokens_per_s"), 1) for name in "AB"),
            _times(row["ratio"]),
            _interval(row["interval"]),
            row["verdict"],
        )
        for row in rows
    ]
    print(shown.table(head, shown_rows, right=frozenset({0, 1, 2, 3})))
    print("\nwhat decides: drafting (accept length) or verifying (step time)\n")
    parts = ("at a time", "accept length A · B", "ratio", "interval", "step time A · B", "ratio", "interval")
    part_rows = [
        (row["concurrency"], *_part(row, "accept_length", 2, ""), *_part(row, "step_time", 2, " ms")) for row in rows
    ]
    print(shown.table(parts, part_rows, right=frozenset({0, 1, 2, 4, 5})))
    print()
    for row in rows:
        for reason in row["reasons"]:
            print(tables.wrapped(reason, lead=f"×{row['concurrency']}: "))
        told: dict[str, list[str]] = {}
        for name in "AB":
            for notice in (row["arms"][name] or {}).get("notices") or ():
                told.setdefault(notice, []).append(name)
        for notice, names in told.items():
            print(tables.wrapped(f"{' and '.join(names)}: {notice}", lead=f"×{row['concurrency']}: "))
        for name, needed in row["break_even_accept_length"].items():
            have = (row["arms"][name] or {}).get("accept_length")
            if needed is not None and have is not None:
                print(f"×{row['concurrency']}: {name} breaks even at accept length {needed:.2f}; it has {have:.2f}")
    if said.get("crossing"):
        print(tables.wrapped(said["crossing"], lead="turns from gain to loss: "))
    if said.get("answers"):
        print(tables.wrapped(said["answers"], lead="answers: "))
    if said.get("differences"):
        print(tables.wrapped(said["differences"]["text"], lead="         "))
    for note in said.get("notes") or ():
        print(tables.wrapped(note, lead="note: "))
    runs = dict.fromkeys(str(arm["run"]) for arm in said["arms"])
    print(tables.wrapped(" and ".join(runs), lead="run " if len(runs) == 1 else "runs "))
    sys.stdout.flush()


def _at_a_time(row: Mapping[str, Any]) -> str:
    """The concurrency, with what really ran at a time where that is less."""
    most = [n for name in "AB" if (n := _figure(row, name, "most_in_flight"))]
    asked = int(row["concurrency"])
    return f"{asked} ({min(most)} sent)" if most and min(most) < asked else f"{asked}"


def _figure(row: Mapping[str, Any], arm: str, name: str) -> Any:
    return (row["arms"].get(arm) or {}).get(name)


def _part(row: Mapping[str, Any], name: str, digits: int, unit: str) -> tuple[str, str, str]:
    key = "step_time_ms" if name == "step_time" else name
    pair = " · ".join(tables.number(_figure(row, arm, key), digits) for arm in "AB") + unit
    detail = row["details"].get(name) or {}
    return pair, _times(detail.get("ratio")), _interval(detail.get("interval"))


def _interval(ends: Sequence[float | None] | None) -> str:
    if not ends or ends[0] is None or ends[1] is None:
        return "n/a"
    return f"[{ends[0]:.2f}, {ends[1]:.2f}]"


def _times(ratio: float | None) -> str:
    return "n/a" if ratio is None else f"{ratio:.2f}×"
