"""A sweep: its plan before it begins, true to the clock while it runs, results as they come, the map, the best kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

from textual.containers import Container

from spectui.session import sweep_saving, sweep_spec, sweeping
from spectui.session.sweep_state import SweepState
from spectui.store import profiles
from spectui.ui.screens import page
from spectui.ui.screens.sweep_form import fields, resume_question, spec_again, start_question
from spectui.ui.screens.sweep_planning import Planning
from spectui.ui.screens.sweep_rows import details, map_of, progress_of, result_items
from spectui.ui.widgets.form import Form, Question
from spectui.ui.widgets.plot import Plot
from spectui.ui.widgets.progress_bar import ProgressLine
from spectui.ui.widgets.rows import RowList, TextPage
from spectui.ui.widgets.text_table import Column

COLUMNS = (
    Column("setting", least=18),
    Column("at a time", right=True),
    Column("predicted", right=True, drop=2),
    Column("tok/s", right=True),
    Column("accept", right=True, drop=1),
    Column("state", least=14),
)


@dataclass(frozen=True, slots=True)
class Shown:
    """What the screen was read from: the profiles there are, and the newest sweep."""

    names: tuple[str, ...]
    folder: Path | None = None
    state: SweepState | None = None
    alive: bool = False


class SweepScreen(Planning):
    NAME = "sweep"
    EVERY_S = 2.0
    BINDINGS: ClassVar[list[Any]] = page.bindings("sweep")
    DEFAULT_CSS = """
    SweepScreen {
        & #left, & #right { layout: vertical; height: 1fr; }
        & #left > *, & #right > * { width: 100%; }
        & ProgressLine { height: 1; }
        & #map { height: 1fr; }
        & #details { height: 1fr; }
        &.-narrow #right { height: 8; }
        &.planning #right { display: none; }
        &.-narrow.running #details { display: none; }
        &.planning RowList, &.planning ProgressLine, &.planning #map { display: none; }
        &.running Form, &.running #plan { display: none; }
    }
    """

    def parts(self) -> Iterator[Any]:
        with Container(id="left"):
            yield ProgressLine(id="progress")
            yield Form(id="form")
            yield RowList(id="rows")
            yield TextPage(id="plan")
        with Container(id="right", classes="side"):
            yield Plot(id="map")
            yield TextPage(id="details")

    def read(self) -> Shown:
        names = tuple(entry.name for entry in profiles.list_all() if entry.profile is not None)
        running = sweeping.in_progress()
        folders = [handle.folder for handle in running]
        if not folders:
            folders = sorted((p.parent for p in sweep_spec.sweeps_dir().glob("*/journal.jsonl")), reverse=True)
        if not folders:
            return Shown(names)
        return Shown(names, folders[0], sweeping.state_of(folders[0]), bool(running))

    def title_words(self) -> str:
        if self.planning:
            return "what is swept, and what it will take"
        state: SweepState = self.data.state
        name = state.head.get("sweep_id") or (self.data.folder.name if self.data.folder else "")
        return f"{name} · profile {state.head.get('profile')} · {state.status}"

    def status(self) -> tuple[str, str]:
        if self.planning:
            return self.plan_status()
        state: SweepState = self.data.state
        item = self.rows.item
        name = item.key.rpartition("@")[0] if item is not None else ""
        if name in state.settings and state.state_of(name)[1]:
            return f"{name}: {': '.join(filter(None, state.state_of(name)))}", ""
        if self.data.alive:
            return "it is a process of its own: it goes on when this screen is left", ""
        if state.status != "complete":
            return f"{state.status}: {state.reason or 'no reason was given'} — enter goes on with it", "warn"
        winners = [e for e in state.best if e.get("setting")]
        if not winners:
            return "complete; no setting was shown to be the best in a fair trial", "warn"
        told = "; ".join(f"{e['setting']} at {e['concurrency']} at a time" for e in winners)
        return f"best: {told} — ctrl+s saves it as a profile", "good"

    # -- drawing

    def draw(self) -> None:
        was = self.has_class("planning")
        planning = self.planning
        self.set_class(planning, "planning")
        self.set_class(not planning, "running")
        if planning:
            self._fields()
            self._draw_plan()
            self._want_plan()
        else:
            self._draw_sweep()
        if planning != was or not self.focused:
            self.query_one("#form" if planning else "#rows").focus()

    def _fields(self) -> None:
        values, names = self._values, self.data.names
        if not values["profile"] and names:
            focused = getattr(getattr(self.live, "focused", None), "profile", None)
            mine = str(getattr(focused, "name", ""))
            values["profile"] = mine if mine in names else names[0]
        self.query_one("#form", Form).show(fields(values, names))

    def _draw_sweep(self) -> None:
        state: SweepState = self.data.state
        self.rows.show(COLUMNS, result_items(state), empty="it has no settings")
        self.query_one("#map", Plot).show(map_of(state))
        self._progress()
        self._details()

    def _progress(self) -> None:
        line = self.query_one("#progress", ProgressLine)
        if self.planning or not self.data.alive:
            line.show(None)
            return
        line.show(progress_of(self.data.state, time.time()))

    def tick(self) -> None:
        super().tick()
        if self.is_current and self.data is not None:
            self._progress()

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details()
        self._frame()

    def _details(self) -> None:
        if self.planning:
            return
        item, state = self.rows.item, self.data.state
        name = item.key.rpartition("@")[0] if item is not None else ""
        self.query_one("#details", TextPage).show(lambda width: details(state, name, width))

    # -- keys

    def allowed(self, command: str) -> bool:
        if command == "sweep_start":
            return self.planning or (not self.data.alive and self.data.state.status != "complete")
        if command == "sweep_new":
            return self.data is not None and self.data.state is not None
        if command == "sweep_stop":
            return not self.planning and self.data.alive
        if command == "sweep_save":
            return not self.planning and any(e.get("setting") for e in self.data.state.best)
        return True

    def action_sweep_new(self) -> None:
        if self.data is None or self.data.state is None:
            return
        self._new = not self._new
        self.redraw()

    def action_sweep_start(self) -> None:
        if self.data is None:
            return
        if not self.planning:
            self._resume()
            return
        planned = self._planned
        if planned is None or planned.asked != self._asked:
            self.say("the plan is not made yet: a moment", "dim")
        elif planned.fault or planned.spec is None:
            self.say(planned.fault, "bad")
        else:
            self._confirm(start_question(planned.state), lambda: self._begin(planned.spec))

    def _resume(self) -> None:
        folder, state = self.data.folder, self.data.state
        if self.data.alive or folder is None:
            return
        if state.status == "complete":
            self.say("it is complete: ctrl+n plans another one", "dim")
            return
        self._confirm(
            resume_question(state), lambda: self.later(lambda: f"sweep {sweeping.resume(folder).folder.name} goes on")
        )

    def _begin(self, planned: Any) -> None:
        self._new = False
        spec = spec_again(planned)
        self.later(lambda: f"sweep {sweeping.start(spec).folder.name} has begun")

    def _confirm(self, text: str, act: Callable[[], object]) -> None:
        """Servers are started, which takes the node for a while: not by one key that may have been a slip."""

        def answered(key: str) -> None:
            if key == "y":
                act()

        self.ask(Question(text, answered, letters="yn"))

    def action_sweep_stop(self) -> None:
        if not self.allowed("sweep_stop"):
            self.say("no sweep runs", "dim")
            return
        folder = self.data.folder

        def stop(key: str) -> None:
            if key == "y":
                self.say("ending it: it stops its server first, which may take a while", "warn", 60)

                def end() -> str:
                    sweeping.stop(sweeping.handle_of(folder))
                    return "the sweep has ended; what was measured is kept, enter goes on with it"

                self.later(end)

        self.ask(Question("end the sweep? What was measured is kept. y or n", stop, letters="yn"))

    def action_sweep_save(self) -> None:
        if not self.allowed("sweep_save"):
            self.say("there is no best setting to save yet", "warn")
            return
        folder = self.data.folder

        def save(name: str) -> None:
            if name:
                self.later(lambda: f"saved: {', '.join(p.name for p in sweep_saving.save_best(folder, name))}")

        suggestion = f"{self.data.state.head.get('profile') or 'sweep'}-best"
        self.ask(Question("save the best setting as a profile named", save, given=suggestion))
