"""A run in plain text, for a person at a shell."""

from __future__ import annotations

from typing import Any

from spectui.cli import shown
from spectui.core.result import RunResult
from spectui.core.safe import safe_text

_SPREADS = (("TTFT p50 · p99", "ttft_ms"), ("TPOT p50 · p99", "tpot_ms"), ("chunk gap p50 · p99", "chunk_gap_ms"))


def print_run(result: RunResult) -> None:
    passes = [p.as_json() for p in result.passes.values()]
    if not passes:
        print("nothing was measured")
        return
    for arm in result.arms:
        head = result.arm(arm)
        simulated = " · simulated" if head.get("simulated") else ""
        print(
            safe_text(
                f"{arm}  {head.get('url')}  SGLang {head.get('version')}{simulated}  {head.get('algorithm')}  "
                f"{head.get('model')}  route {head.get('route')}",
                300,
            )
        )
    print()
    titles = [f"{p['arm']} {p['pass']} ×{p['concurrency']}" for p in passes]
    print(shown.table(("", *titles), list(_rows(passes)), right=frozenset(range(1, len(titles) + 1))))
    for p in passes:
        state = p.get("proposer") or {}
        name = f"{p['arm']} {p['pass']} ×{p['concurrency']}"
        if state.get("detail"):
            print()
            print(safe_text(f"{name}: proposer {p.get('proposer_state')} – {state.get('detail')}", 600))
        for identity in p.get("identities") or ():
            if identity["state"] == "broken":
                print(safe_text(f"{name}: identity broken: {identity['name']}: {identity['detail']}", 600))
    for mark in result.marks:
        print(safe_text(f"mark {mark.get('arm') or ''} {mark.get('name')}: {mark.get('detail')}", 600))


def _rows(passes: list[dict[str, Any]]) -> Any:
    yield ("requests (failed)", *(f"{p['requests']} ({p['failed']})" for p in passes))
    yield ("output tok/s", *(_number(p.get("output_tokens_per_s"), 1) for p in passes))
    yield ("accept length", *(_number(p.get("accept_length"), 3) for p in passes))
    yield ("verify steps", *(_number(p.get("verify_steps"), 0) for p in passes))
    yield ("step time", *(_number(p.get("step_time_ms"), 2, " ms") for p in passes))
    for label, key in _SPREADS:
        yield (label, *(_pair(p.get(key)) for p in passes))
    yield ("proposer", *(str(p.get("proposer_state") or "n/a") for p in passes))


def _number(value: Any, digits: int, unit: str = "") -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}{unit}"


def _pair(spread: Any) -> str:
    return "n/a" if not spread else f"{spread['p50']:.2f} · {spread['p99']:.2f} ms"
