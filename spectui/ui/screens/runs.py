"""Stored runs: searched, marked, opened with every figure; two of them compared, one put on an arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from spectui.core.braille import Row, Run
from spectui.core.metric import METRICS, significant
from spectui.core.passes import PassResult
from spectui.core.result import RunResult
from spectui.store import locations, run_marks
from spectui.store import runs as history
from spectui.store.runs import RunSummary
from spectui.ui.screens import page
from spectui.ui.screens.sentences import many, sentence, when
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.progress_bar import bar
from spectui.ui.widgets.rows import Item, RowList
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


class RunsScreen(page.Page):
    NAME = "runs"
    BINDINGS: ClassVar[list[Any]] = page.bindings("runs")

    class Opened(Message):
        def __init__(self, run: str, result: RunResult | None, fault: str = "") -> None:
            super().__init__()
            self.run, self.result, self.fault = run, result, fault

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._marked: list[str] = []
        self._opened: dict[str, RunResult | str] = {}
        self._wanted: str | None = None

    def read(self) -> tuple[RunSummary, ...]:
        found = history.list_runs()
        return tuple(sorted(found, key=lambda run: (not run.pinned, -run.when, run.id)))

    def title_words(self) -> str:
        marked = f" · marked: {' and '.join(self._marked)}" if self._marked else ""
        return f"{many(len(self.data), 'run')}, the newest first{marked}"

    def status(self) -> tuple[str, str]:
        if len(self._marked) == 2:
            return f"c compares {self._marked[0]} with {self._marked[1]}", "good"
        if len(self._marked) == 1 and self.allowed("run_compare"):
            return f"c compares both arms of {self._marked[0]}; space marks another run to compare with", "good"
        if len(self._marked) == 1:
            return "space marks the second run of a comparison", ""
        return "space marks two runs to compare; b puts one on arm B, to hold A against it", ""

    def draw(self) -> None:
        runs: Sequence[RunSummary] = self.data
        self._marked = [name for name in self._marked if any(run.id == name for run in runs)]
        empty = "no run yet: r on the home screen measures the arm in focus"
        self.rows.show(COLUMNS, [_item(run, run.id in self._marked) for run in runs], empty=empty)
        self._details()

    @property
    def here(self) -> RunSummary | None:
        item = self.rows.item
        return next((run for run in self.data or () if item is not None and run.id == item.key), None)

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details(fresh=True)
        self._frame()

    def _details(self, *, fresh: bool = False) -> None:
        run = self.here
        if run is None:
            self.details.show(lambda width: ())
            return
        known = self._opened.get(run.id) if run.finished else None
        if known is None and self._wanted != run.id:
            self._wanted = run.id
            self._open(run.id)
        shown = self._opened.get(run.id, "reading …")
        self.details.show(lambda width: details(run, shown, width), keep_place=not fresh)

    @work(thread=True, exclusive=True, group="open", exit_on_error=False)
    def _open(self, name: str) -> None:
        from spectui.session import running

        worker = get_current_worker()
        try:
            message = self.Opened(name, running.result_of(locations.runs_dir() / name))
        except Exception as fault:
            message = self.Opened(name, None, sentence(fault))
        if not worker.is_cancelled:
            self.post_message(message)

    def on_runs_screen_opened(self, message: RunsScreen.Opened) -> None:
        self._opened[message.run] = message.result if message.result is not None else message.fault
        if len(self._opened) > 50:
            del self._opened[next(iter(self._opened))]
        if self.here is not None and self.here.id == message.run:
            self._details()

    def on_screen_resume(self) -> None:
        self._wanted = None
        super().on_screen_resume()

    # -- keys

    def allowed(self, command: str) -> bool:
        if command == "run_compare":
            both = [run for run in self.data or () if run.id in self._marked and len(arms_of(run)) == 2]
            return len(self._marked) == 2 or bool(both)
        if command in ("open", "put_a", "put_b", "run_mark", "run_pin", "run_tags", "run_note"):
            return self.here is not None
        return True

    def action_open(self) -> None:
        self.details.focus()
        self.say("arrows and page keys move; tab goes back to the list", "dim")

    def _put(self, letter: str) -> None:
        run = self.here
        if run is None:
            return
        arms = arms_of(run)
        if len(arms) > 1:
            self.say(
                f"{run.id} has the arms {' and '.join(arms)}: space and c compare them, or one with another run", "warn"
            )
            return
        self.put_on_arm(letter, run.id)

    def action_put_a(self) -> None:
        self._put("A")

    def action_put_b(self) -> None:
        self._put("B")

    def action_run_mark(self) -> None:
        run = self.here
        if run is None:
            return
        if run.id in self._marked:
            self._marked.remove(run.id)
        else:
            self._marked = [*self._marked[-1:], run.id]
        self.redraw()

    def action_run_compare(self) -> None:
        marked = [run for name in self._marked for run in self.data if run.id == name]
        if len(marked) == 1 and len(arms_of(marked[0])) == 2:
            self._show_compared([f"{marked[0].id}:{arm}" for arm in arms_of(marked[0])])
        elif len(marked) == 2:
            self._ask_arms(marked, [])
        else:
            self.say("mark two runs with space first, or one that measured two arms", "warn")

    def _ask_arms(self, runs: Sequence[RunSummary], chosen: list[str]) -> None:
        """Of a run of two arms, which one is meant."""
        if not runs:
            self._show_compared(chosen)
            return
        first, rest = runs[0], runs[1:]
        arms = arms_of(first)
        if len(arms) < 2:
            self._ask_arms(rest, [*chosen, first.id])
            return
        words = " or ".join(f"{arm.lower()} ({_algorithm_of(first, arm)})" for arm in arms)
        text = f"{'B' if chosen else 'A'} is which arm of {first.id}: {words}?"
        letters = "".join(arms).lower()
        self.ask(
            Question(text, lambda key: self._ask_arms(rest, [*chosen, f"{first.id}:{key.upper()}"]), letters=letters)
        )

    def _show_compared(self, names: Sequence[str]) -> None:
        from spectui.ui.screens.compare import CompareScreen

        self.app.push_screen(CompareScreen(self.live, runs=(names[0], names[1])))

    def action_run_pin(self) -> None:
        run = self.here
        if run is not None:
            folder, pinned = locations.runs_dir() / run.id, not run.pinned
            self.later(
                lambda: (
                    f"{run_marks.mark(folder, pinned=pinned).id} {'is pinned' if pinned else 'is not pinned any more'}"
                )
            )

    def action_run_tags(self) -> None:
        run = self.here
        if run is None:
            return

        def change(typed: str) -> None:
            tags = [word for word in typed.replace(",", " ").split() if word]
            gone = [tag for tag in run.tags if tag not in tags]

            def mark() -> str:
                run_marks.mark(_folder(run), add_tags=tags, drop_tags=gone)
                return f"{run.id}: {', '.join(tags) or 'no tags'}"

            self.later(mark)

        self.ask(Question(f"tags of {run.id}, with blanks between", change, given=" ".join(run.tags)))

    def action_run_note(self) -> None:
        run = self.here
        if run is None:
            return

        def change(typed: str) -> None:
            def mark() -> str:
                run_marks.mark(_folder(run), note=typed)
                return f"{run.id}: the note is kept"

            self.later(mark)

        self.ask(Question(f"note on {run.id}", change, given=run.note))


def arms_of(run: RunSummary) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(row.get("arm")) for row in run.results))


def _algorithm_of(run: RunSummary, arm: str) -> str:
    return next((str(row.get("algorithm")) for row in run.results if row.get("arm") == arm), "?")


def _folder(run: RunSummary) -> Path:
    return locations.runs_dir() / run.id


def _item(run: RunSummary, marked: bool) -> Item:
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
