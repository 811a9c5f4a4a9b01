"""A run in plain text, for a person at a shell."""

from __future__ import annotations

import textwrap
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from spectui.cli import curve as curves_text
from spectui.cli import shown
from spectui.core.evidence import is_stateful
from spectui.core.identities import BROKEN
from spectui.core.passes import Key, PassResult
from spectui.core.result import RunResult
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.session.fitting import Asked, FitBefore

WIDTH = 100


def wrapped(text: str, *, lead: str = "", limit: int = 1200) -> str:
    """Foreign text made harmless, in lines of at most :data:`WIDTH`; those after the first stand under its text."""
    return textwrap.fill(
        safe_text(text, limit), WIDTH, initial_indent=lead, subsequent_indent=" " * len(lead), break_long_words=False
    )


def print_fit(asked: Asked, fits: Sequence[FitBefore], *, whole: bool) -> None:
    """One line, or, asked to explain, what is fed and how it suits each arm."""
    if whole:
        print(wrapped(asked.text, lead="prompts  "))
        for fit in fits:
            print(wrapped(fit.text, lead="fit      "))
        print()
        return
    said = "; ".join(f"{fit.arm} {fit.algorithm} {fit.fit}{_why_not_good(fit)}" for fit in fits)
    print(wrapped(f"{asked.measuring} prompts measured, {asked.feeding} to feed with; {said}", lead="fit  "))
    print()


def _why_not_good(fit: FitBefore) -> str:
    if fit.fit == "good":
        return ""
    parts = [fit.detail] if is_stateful(fit.algorithm) is not False else []
    said = "; ".join((*parts, *fit.needs[:1]))
    return f" ({said})" if said else ""


def print_run(result: RunResult, curves: Mapping[Key, Any] | None = None) -> None:
    """All passes side by side, as many as fit the width; then states, faults and the warm-up curve of the last one."""
    passes = list(result.passes.values())
    if not passes:
        print("nothing was measured")
        return
    for arm in result.arms:
        head = result.arm(arm)
        simulated = " · simulated" if head.get("simulated") else ""
        told = f"{head.get('algorithm')}  {head.get('url')}  SGLang {head.get('version')}{simulated}"
        print(wrapped(f"{told}  {head.get('model')}  {head.get('route')}", lead=f"{arm}  "))
    print()
    arms = len(result.arms) > 1
    for part in _parts(passes):
        titles = [f"{p.arm + ' ' if arms else ''}{p.pass_name} {_load(p)}" for p in part]
        print(shown.table(("", *titles), list(_rows(part)), right=frozenset(range(1, len(titles) + 1))))
        print()
    for line in _missing(passes):
        print(wrapped(line, lead="n/a  "))
    for p in passes:
        name = f"{p.arm} {p.pass_name} {_load(p)}"
        if p.failed_whole:
            print(wrapped(f"{name}: {p.failed_whole}", lead="failed    "))
            continue
        state = p.proposer_state
        need = f" – {'; '.join(state.needs)}" if state.needs else ""
        print(wrapped(f"{name}: {state.name}: {state.detail}{need}", lead="proposer  "))
        for notice in p.notices:
            print(wrapped(f"{name}: {notice}", lead="notice    "))
        for identity in p.identities:
            if identity.state == BROKEN:
                print(wrapped(f"{name}: {identity.name} is broken: {identity.detail}", lead="identity  "))
    for mark in result.marks:
        told = f"{mark.get('arm') or ''} {mark.get('name')}: {mark.get('detail')}".strip()
        print(wrapped(told, lead="mark      "))
    last = passes[-1]
    chart = curves_text.lines((curves or {}).get(last.key), stateful=is_stateful(last.algorithm) is not False)
    if chart:
        print("\n" + "\n".join(chart))


def _load(one: PassResult) -> str:
    """Requests at a time: those that really were, where they were fewer than asked for."""
    return f"×{min(one.concurrency, one.most_in_flight or one.concurrency)}"


def _parts(passes: Sequence[PassResult], label: int = 26, column: int = 22) -> Iterable[Sequence[PassResult]]:
    many = max(1, (WIDTH - label) // column)
    return [passes[i : i + many] for i in range(0, len(passes), many)]


_Figure = Callable[[PassResult], str]


def _figures() -> Iterable[tuple[str, _Figure]]:
    yield "requests (failed)", lambda p: f"{p.requests} ({p.failed})"
    yield "output tokens", lambda p: f"{p.output_tokens:,}"
    yield "output tok/s", lambda p: number(p.output_tokens_per_s, 1)
    yield "accept length", lambda p: number(p.accept_length, 3)
    yield "accept length, SGLang's", lambda p: number(p.accept_length_sglang, 3)
    yield "verify steps", lambda p: number(p.verify_steps, 0)
    yield "step time", lambda p: number(p.step_time_ms, 2, " ms")
    yield "TTFT p50 · p99", lambda p: pair(p.ttft_ms)
    yield "TPOT p50 · p99", lambda p: pair(p.tpot_ms)
    yield "chunk gap p50 · p99", lambda p: pair(p.chunk_gap_ms)
    yield "E2E latency p50 · p99", lambda p: pair(p.e2e_ms, 0)
    yield "energy", lambda p: number(p.joules_per_token, 2, " J/token")
    yield "proposer", lambda p: "n/a" if p.failed_whole else p.proposer_state.name
    yield "client", lambda p: "the limit" if p.client.get("bound") else "not the limit" if p.client else "n/a"
    yield "identities", _identities


def _identities(one: PassResult) -> str:
    states = [i.state for i in one.identities]
    broken = states.count(BROKEN)
    if broken:
        return f"{broken} broken"
    known = [s for s in states if not s.startswith("unavailable")]
    return f"{len(known)} of {len(states)} hold" if known else "n/a"


def _rows(passes: Sequence[PassResult]) -> Iterable[tuple[str, ...]]:
    for label, figure in _figures():
        row = [figure(p) for p in passes]
        if label == "energy" and set(row) == {"n/a"}:
            continue  # told below, with the reason
        yield (label, *row)


def _missing(passes: Sequence[PassResult]) -> Iterable[str]:
    """Why a figure is not there."""
    found: dict[str, None] = {}
    for p in passes:
        if p.failed_whole:
            continue
        if p.accept_length is None:
            found["accept length, verify steps, step time: the route tells no verify steps of these requests"] = None
        if p.chunk_gap_ms is None:
            found[f"chunk gap: {p.gaps_hidden or 'the stream came in one event'}"] = None
        if p.joules_per_token is None:
            found[f"energy: {p.joules_missing}"] = None
        if p.tpot_ms is None:
            found["TPOT: no answer was longer than one token"] = None
    return found


def number(value: Any, digits: int, unit: str = "") -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}{unit}"


def pair(spread: Any, digits: int = 2) -> str:
    return "n/a" if not spread else f"{spread['p50']:,.{digits}f} · {spread['p99']:,.{digits}f} ms"
