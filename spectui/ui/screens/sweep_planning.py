"""Planning a sweep: the form's values, and in a thread the plan that follows from them."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from spectui.predict.replay_grid import Progress
from spectui.session import sweeping
from spectui.session.sweep_state import SweepState
from spectui.ui.screens import page
from spectui.ui.screens.sentences import sentence
from spectui.ui.screens.sweep_form import DEFAULTS, planning_text, spec_of
from spectui.ui.screens.sweep_rows import plan_rows
from spectui.ui.widgets.form import Form
from spectui.ui.widgets.rows import TextPage


@dataclass(frozen=True, slots=True)
class Planned:
    asked: tuple[str, ...]
    spec: Any
    state: SweepState | None
    fault: str = ""


class Planning(page.Page):
    """The half of the sweep screen that is there before a sweep begins."""

    class PlanMade(Message):
        def __init__(self, planned: Planned) -> None:
            super().__init__()
            self.planned = planned

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._planned: Planned | None = None
        self._replayed: tuple[Progress, float] | None = None
        """How far the replay is that the plan waits for, and when planning began; written by its thread."""
        self._new = False
        """The form is shown although there is a sweep to look at."""
        self._values = dict(DEFAULTS)

    @property
    def planning(self) -> bool:
        """Whether the form is shown."""
        return self._new or self.data is None or self.data.state is None

    def plan_status(self) -> tuple[str, str]:
        planned = self._planned
        if planned is None or planned.asked != self._asked:
            return planning_text(self._replayed, time.monotonic()), "dim"
        if planned.fault:
            return planned.fault, "bad"
        return "enter asks, then starts servers of its own, one after another, as planned", "good"

    def _draw_plan(self) -> None:
        planned = self._planned
        text = self.query_one("#plan", TextPage)
        if planned is None or planned.asked != self._asked:
            text.show(lambda width: ())
        elif planned.state is not None:
            state = planned.state
            text.show(lambda width: plan_rows(state, width))
        else:
            text.show(lambda width: ())

    @property
    def _asked(self) -> tuple[str, ...]:
        return tuple(self._values.values())

    def on_form_changed(self, message: Form.Changed) -> None:
        self._values[message.key] = message.value
        self._draw_plan()
        self._want_plan()
        self._frame()

    def _want_plan(self) -> None:
        if self._planned is None or self._planned.asked != self._asked:
            self.set_timer(0.4, self._plan_soon)

    def _plan_soon(self) -> None:
        if self._planned is None or self._planned.asked != self._asked:
            self._plan(self._asked)

    @work(thread=True, exclusive=True, group="plan", exit_on_error=False)
    def _plan(self, asked: tuple[str, ...]) -> None:
        worker = get_current_worker()
        values = dict(zip(self._values, asked, strict=True))
        begun = time.monotonic()

        def watch(progress: Progress) -> None:
            self._replayed = (progress, begun)

        try:
            spec = spec_of(values, self.live)
            made = sweeping.plan_only(spec, watch=watch, cancelled=lambda: worker.is_cancelled)
            planned = Planned(asked, spec, made)
        except Exception as fault:
            planned = Planned(asked, None, None, sentence(fault))
        self._replayed = None
        if not worker.is_cancelled:
            self.post_message(self.PlanMade(planned))

    def on_planning_plan_made(self, message: Planning.PlanMade) -> None:
        if message.planned.asked != self._asked:
            return
        self._planned = message.planned
        if self.planning:
            self._draw_plan()
        self._frame()
