"""A workload in words: its line in the list, and what it feeds, measures and fits."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from spectui.core.braille import Row, Run
from spectui.core.spec import Prompt
from spectui.ui.screens.sentences import many
from spectui.ui.widgets.text_table import Cell, pairs, titled, wrapped
from spectui.workloads import MARKS, Entry, Workload


@dataclass(frozen=True, slots=True)
class Known:
    """A workload that can be chosen, with its sizes, or why it cannot."""

    name: str
    workload: Workload | None
    error: str | None = None
    feeding: int = 0
    measuring: int = 0
    sample: Prompt | None = None


def known_of(entry: Entry) -> Known:
    one = entry.workload
    if one is None:
        return Known(entry.name, None, entry.error)
    sets = one.build(0)
    return Known(
        entry.name, one, None, len(sets.feeding), len(sets.measuring), sets.measuring[0] if sets.measuring else None
    )


def cells(one: Known) -> tuple[Cell, ...]:
    if one.workload is None:
        return (one.name, Run("cannot be read", "bad"), "", "", "", "")
    marks = ", ".join(one.workload.marks)
    return (
        one.name,
        one.workload.title,
        str(one.feeding),
        str(one.measuring),
        str(one.workload.max_tokens),
        Run(marks, "warn"),
    )


def fit_rows(one: Workload, arms: Mapping[str, str], width: int) -> list[Row]:
    """What each arm's algorithm makes of such text, by what the algorithm and the workload say of themselves."""
    from spectui import algorithms

    rows: list[Row] = []
    for letter, name in arms.items():
        algorithm = algorithms.for_name(name)
        head = f"{letter} {algorithm.name}"
        if algorithm.name == "none":
            rows += wrapped("drafts nothing: the same on every text", width, first=f"{head}: ")
            continue
        rows += wrapped(f"fits {algorithm.fits}", width, first=f"{head}: ")
        rows += wrapped(f"starves on {algorithm.starves}", width, first="   ")
        if algorithm.stateful:
            feeds = "its store learns from every answer, so the warm pass feeds it first and the cold one begins empty"
            rows += wrapped(feeds, width, "dim", first="   ")
        if algorithm.stateful and "contaminating" in one.marks:
            rows += wrapped(MARKS["contaminating"], width, "warn", first="   ")
    return rows


def details(one: Known, arms: Mapping[str, str], width: int, judged: Sequence[str] = ()) -> list[Row]:
    workload = one.workload
    if workload is None:
        return [titled(one.name, width), *wrapped(one.error or "cannot be read", width, "bad")]
    rows: list[Row] = [titled(f"{one.name}: {workload.title}", width), *wrapped(workload.help, width)]
    facts: list[tuple[str, Cell]] = [
        ("kinds", ", ".join(workload.kinds)),
        ("feeds", f"{many(one.feeding, 'prompt')} of its own, of which none is measured"),
        ("measures", f"{many(one.measuring, 'prompt')}, answers of at most {workload.max_tokens} tokens"),
    ]
    for mark in workload.marks:
        facts.append(("mark", Run(f"{mark}: {MARKS.get(mark, '')}", "warn")))
    rows += pairs(facts, width)
    for note in workload.notes:
        rows += wrapped(note, width, "dim")
    if arms:
        rows.append(titled("fit", width))
        for text in judged:
            rows += wrapped(text, width, "strong")
        rows += fit_rows(workload, arms, width)
    if one.sample is not None:
        rows += [titled("a prompt that is measured", width), *prompt_rows(one.sample, width)]
    return rows


def prompt_rows(prompt: Prompt, width: int, most: int = 1200) -> list[Row]:
    rows: list[Row] = []
    for message in prompt.messages or ():
        rows += wrapped(str(message.get("content"))[:most], width, first=f"{message.get('role')}: ", rest="  ")
    if prompt.text is not None:
        rows += wrapped(prompt.text[:most], width)
    return rows
