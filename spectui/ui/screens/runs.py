"""Stored runs: searched, marked, opened with every figure; two of them compared, one put on an arm."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from spectui.core.result import RunResult
from spectui.session import stored
from spectui.store import locations, run_marks
from spectui.store.runs import RunSummary
from spectui.ui.screens import page, runs_rows
from spectui.ui.screens.sentences import many, sentence
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.rows import RowList


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
        found = stored.list_as_they_are()
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
        empty = self.spoken("no run yet: r on the home screen measures the arm in focus")
        self.rows.show(runs_rows.COLUMNS, [runs_rows.item(run, run.id in self._marked) for run in runs], empty=empty)
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
        self.details.show(lambda width: runs_rows.details(run, shown, width), keep_place=not fresh)

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
