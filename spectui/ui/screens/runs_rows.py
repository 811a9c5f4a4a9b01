"""Stored runs in rows: one a run for the list, and every figure of one for its details."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.core.braille import Row, Run
from spectui.core.metric import METRICS, significant
from spectui.core.passes import PassResult
from spectui.core.result import RunResult
from spectui.store.runs import RunSummary
from spectui.ui.screens.sentences import many, when
from spectui.ui.widgets.progress_bar import bar
from spectui.ui.widgets.rows import Item
from spectui.ui.widgets.text_table import Cell, Column, pairs, table, titled, wrapped

COLUMNS = (
    Column(""),
    Column("when"),
    Column("workload", least=8),
    Column("algorithms", least=8),
    Column("passes", drop=3),
    Column("tok/s", right=True),
    Column("accept", right=True, drop=1),
    Column("tags and note", drop=4, least=10),
    Column("state", drop=2, least=10),
)


def item(run: RunSummary, marked: bool) -> Item:
    last = run.results[-1] if run.results else {}
    figures = [_each(run, "output_tokens_per_s"), _each(run, "accept_length")]
    tone = {"failed": "bad", "interrupted": "warn"}.get(run.status, "dim")
    ended = "" if run.status == "complete" else run.status
    passes = ", ".join(dict.fromkeys(f"{row.get('pass')} ×{row.get('concurrency')}" for row in run.results))
    words = ", ".join(filter(None, (" ".join(run.tags), run.note)))
    cells: tuple[Cell, ...] = (
        Run("▲" if run.pinned else "", "mark"),
        when(run.when),
        run.workload or "?",
        " | ".join(run.algorithms) or "?",
        passes,
        figures[0],
        figures[1],
        words,
        Run(" ".join(filter(None, ("simulated" if run.simulated else "", ended))), tone),
    )
    searched = " ".join((run.id, *run.models, *run.versions, *run.gpus, *run.labels, str(last.get("algorithm") or "")))
    return Item(run.id, cells, searched, marked)


def _each(run: RunSummary, key: str) -> str:
    """The last value of each arm: ``372 | 241``."""
    found: dict[str, str] = {}
    for row in run.results:
        value = row.get(key)
        found[str(row.get("arm"))] = significant(value) if isinstance(value, (int, float)) else "n/a"
    return " | ".join(found.values()) or "n/a"


# -- details


def details(run: RunSummary, result: RunResult | str, width: int) -> list[Row]:
    rows: list[Row] = [titled(run.id, width)]
    facts: list[tuple[str, Cell]] = [
        ("begun", when(run.when)),
        ("status", run.status + (f": {run.reason}" if run.reason else "")),
    ]
    if run.simulated:
        facts.append(("simulated", Run("its figures come from the simulated server", "warn")))
    if run.note:
        facts.append(("note", run.note))
    if run.tags:
        facts.append(("tags", ", ".join(run.tags)))
    for label, values in (("model", run.models), ("SGLang", run.versions), ("GPUs", run.gpus)):
        if values:
            facts.append((label, ", ".join(values)))
    rows += pairs(facts, width)
    if isinstance(result, str):
        return rows + wrapped(result, width, "dim")
    for one in result.passes.values():
        rows += pass_rows(result, one, width)
    if result.skipped:
        rows += wrapped(f"{many(result.skipped, 'row')} of its journal could not be read", width, "warn")
    return rows


def pass_rows(result: RunResult, one: PassResult, width: int) -> list[Row]:
    """One pass of one arm: every metric, the histogram as bars, identities and marks."""
    who = f"{one.arm} {one.algorithm or '?'}, {one.pass_name} pass, {one.concurrency} at a time"
    rows: list[Row] = [titled(who, width)]
    values = [(metric.label, metric.of(one)) for metric in METRICS]
    known = [(label, value.text) for label, value in values if value.number is not None]
    missing: list[tuple[str, Cell]] = [
        (label, Run(value.text, "dim")) for label, value in values if value.number is None
    ]
    if width >= 90:
        half = (len(known) + 1) // 2
        known += [("", "")] * (2 * half - len(known))
        columns = (Column(""), Column("", least=12), Column(""), Column("", least=12))
        rows += table(columns, [(*known[i], *known[i + half]) for i in range(half)], width)[1:]
    else:
        rows += pairs(known, width)
    rows += pairs(missing, width)
    state = one.proposer_state
    rows += pairs([("proposer", Run(f"{state.name}: {state.detail}", "" if state.fair else "warn"))], width)
    if one.histogram:
        rows += histogram_rows(one.histogram, width)
    for identity in one.identities:
        tone = {"broken": "bad", "ok": "good"}.get(identity.state, "dim")
        rows += wrapped(f"{identity.name}: {identity.state}. {identity.detail}", width, tone, first="  ", rest="    ")
    for mark in one.marks:
        name, detail = str(mark.get("name")), str(mark.get("detail") or "")
        rows += wrapped(
            f"{name}: {detail}" if detail and detail != name else name, width, "warn", first="▲ ", rest="  "
        )
    return rows


def histogram_rows(counts: Sequence[int], width: int) -> list[Row]:
    """Verify steps by how many drafts were accepted in them."""
    total, most = sum(counts), max(counts)
    if not total:
        return []
    rows: list[Row] = [(Run("verify steps by drafts accepted", "dim"),)]
    room = max(4, min(40, width - 24))
    for number, count in enumerate(counts):
        share = f"{100 * count / total:3.0f} %"
        shown = bar(count / most, room).replace("░", " ")
        rows.append((Run(f"  {number:>3}  "), Run(shown, "a"), Run(f" {share} {count:>8,}", "dim")))
    return rows
