"""The page on the algorithms, written from what their files declare."""

from __future__ import annotations

from collections.abc import Iterator

from spectui.algorithms import every
from spectui.core.settings import Algorithm, Knob
from spectui.core.versions import KNOWN, Version, spell

_DRAFT = {"yes": "yes", "no": "no", "built-in": "may be left out where the target carries one"}


def markdown() -> str:
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield "# Algorithms"
    yield ""
    yield "Written by `python -m spectui.algorithms > docs/algorithms.md`; a test holds it to the code."
    yield f"Rules are known for SGLang {', '.join(map(spell, KNOWN))}. Another release takes those of the newest known"
    yield "one before it; what that one would refuse is then a warning."
    yield ""
    yield "| name | since | draft model | has state | `[` and `]` move | fits | starves |"
    yield "|---|---|---|---|---|---|---|"
    for algorithm in every():
        moves = ", or ".join(f"`{bracket.key}`" for bracket in algorithm.brackets) or "–"
        cells = (
            algorithm.name,
            _since(algorithm.since),
            _DRAFT[algorithm.draft],
            "yes" if algorithm.stateful else "no",
            moves,
            algorithm.fits,
            algorithm.starves,
        )
        yield f"| {' | '.join(cells)} |"
    for algorithm in every():
        yield ""
        yield from _section(algorithm)


def _section(algorithm: Algorithm) -> Iterator[str]:
    yield f"## {algorithm.name}"
    yield ""
    yield algorithm.error or algorithm.mechanism
    if algorithm.needs:
        yield ""
        yield f"Needs: {'; '.join(algorithm.needs)}."
    if algorithm.switches_off:
        yield ""
        yield f"Switches off: {'; '.join(algorithm.switches_off)}."
    if algorithm.knobs:
        yield ""
        yield "| knob | value | default | releases | relaunch | what it does |"
        yield "|---|---|---|---|---|---|"
        for knob in algorithm.knobs:
            yield f"| {' | '.join(_knob(knob))} |"


def _knob(knob: Knob) -> tuple[str, ...]:
    value = ", ".join(knob.choices) if knob.choices else f"{knob.kind}{knob.range_text()}"
    until = f" to {spell(knob.until)}" if knob.until else ""
    default = "–" if knob.default is None else str(knob.default)
    relaunch = "no" if knob.hot_since else "yes"
    return (f"`{knob.key}`", value, default, _since(knob.since) + until, relaunch, knob.help)


def _since(version: Version | None) -> str:
    return spell(version or KNOWN[0])
