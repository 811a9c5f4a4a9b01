"""The home screen: both arms, live. It draws the session's snapshot and turns keys into the session's methods."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.session.view import Snapshot
from spectui.ui.commands import BY_ID, bindings, key_word
from spectui.ui.screens import home_data
from spectui.ui.widgets.answer_view import AnswerData, AnswerView, Piece
from spectui.ui.widgets.arm_card import ArmCard
from spectui.ui.widgets.chart import Chart, View
from spectui.ui.widgets.gpu_panel import GpuPanel
from spectui.ui.widgets.lines import Part
from spectui.ui.widgets.log_tail import LogTail
from spectui.ui.widgets.metric_table import MetricTable
from spectui.ui.widgets.status_line import HeaderLine, StatusData, StatusLine, keys_row

if TYPE_CHECKING:
    from spectui.ui.app import SpectuiApp
    from spectui.ui.widgets.chart import ChartData

FULL = (120, 36)
"""Columns and rows from which everything is shown."""
COMPACT_ROWS = 5
LEAST = (60, 15)
"""Below either there is room for one line only."""


class HomeScreen(Screen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings("home"),
        Binding("space", "none", show=False),
    ]
    STROKES: ClassVar[int] = 4

    def __init__(self, columns: int, rows: int) -> None:
        self._log_asked = False
        self._chart = "tok_s"
        self._room = self._room_at(columns, rows)
        super().__init__(classes=f"{self._room} show-{self._chart}")
        self._resumed = False
        self._worked_out: tuple[Snapshot, tuple[ChartData, ChartData]] | None = None

    def compose(self) -> ComposeResult:
        small = self._room != "full"
        yield HeaderLine(id="head")
        with Container(id="arms"):
            yield ArmCard(id="arm-a", classes="panel", compact=small)
            yield ArmCard(id="arm-b", classes="panel", compact=small)
        with Container(id="charts"):
            yield Chart(id="tok_s", classes="panel")
            yield Chart(id="accept", classes="panel")
        with Container(id="figures"):
            yield GpuPanel(id="gpus", classes="panel", compact=small)
            yield MetricTable(id="table", classes="panel")
        with Container(id="words"):
            yield AnswerView(id="answer", classes="panel")
            yield LogTail(id="log-a", classes="panel")
            yield LogTail(id="log-b", classes="panel")
        yield Status(id="status")
        yield Part(id="summary")

    def on_mount(self) -> None:
        self.query_one("#gpus").border_title = "GPU"
        self.query_one("#table").border_title = "figures"
        self.query_one("#answer").border_title = "the answer, coloured by accepted run"
        self.paint(cast("SpectuiApp", self.app).snapshot())  # so that the first frame is not an empty one

    def on_screen_resume(self, event: events.ScreenResume) -> None:
        if not self._resumed:
            event.refresh_styles = False  # all was given its style a moment ago
        self._resumed = True

    def on_resize(self) -> None:
        self._fit()
        cast("SpectuiApp", self.app).paint_soon()

    @staticmethod
    def _room_at(width: int, height: int) -> str:
        if width < LEAST[0] or height < LEAST[1]:
            return "tiny"
        return "compact" if width < FULL[0] or height < FULL[1] else "full"

    def _settle(self, room: str) -> None:
        self._room = room
        chart = f"show-{self._chart}"
        self.set_classes(" ".join(name for name in (room, chart, "log" if self.has_class("log") else "") if name))

    def _fit(self) -> None:
        room = self._room_at(*self.app.size)
        if room == self._room:
            return
        self._settle(room)
        for card in self.query(ArmCard):
            card.compact = room != "full"
            card.refresh(layout=True)
        gpus = self.query_one(GpuPanel)
        gpus.compact = room != "full"
        gpus.refresh(layout=True)

    # -- drawing

    def paint(self, shot: Snapshot, stroke: int | None = None) -> None:
        """All of it, or one of the strokes 0 to 3: what answers a key, one chart, the other chart, the rest."""
        if self._room == "tiny":
            if not stroke:
                self.query_one("#summary", Part).show(home_data.tiny_rows(shot, *self.app.size))
            return
        for number in range(self.STROKES) if stroke is None else (stroke,):
            if number == 0:
                self._paint_answer(shot)
            elif number < 3:
                self._paint_chart(shot, number - 1)
            else:
                self._paint_rest(shot)

    def _paint_answer(self, shot: Snapshot) -> None:
        self.query_one(HeaderLine).show(home_data.head_data(shot))
        for card, view in zip(self.query(ArmCard), shot.arms, strict=True):
            card.show(home_data.card_data(view, focused=view.name == shot.focus))
        keys = cast("SpectuiApp", self.app).keys
        shown = tuple((key_word(BY_ID[name], keys), BY_ID[name].word) for name in shot.status.keys)
        self.query_one(Status).show(StatusData(shot.status.text, shot.status.tone, shown))

    def _paint_chart(self, shot: Snapshot, number: int) -> None:
        if self._worked_out is None or self._worked_out[0] is not shot:
            keys = cast("SpectuiApp", self.app).keys
            words = (key_word(BY_ID[name], keys) for name in ("run", "compare"))
            self._worked_out = shot, home_data.charts(shot, *words)
        chart = self._charts[number]
        if chart.display:
            chart.show(self._worked_out[1][number])

    def _paint_rest(self, shot: Snapshot) -> None:
        self.query_one(GpuPanel).show(home_data.gpu_data(shot))
        most = None if self._room == "full" else COMPACT_ROWS
        self.query_one(MetricTable).show(home_data.metric_rows(shot, most))
        self._paint_words(shot)

    def _paint_words(self, shot: Snapshot) -> None:
        self._paint_logs(shot)
        answer = shot.answer
        if answer is not None:
            view = self.query_one(AnswerView)
            title = f"{answer.arm}: the answer, coloured by accepted run"
            if str(view.border_title) != title:
                view.border_title = title
            pieces = tuple(Piece(text, tokens) for tokens, text in answer.pieces)
            view.show(AnswerData(f"{answer.arm} {answer.rid}", pieces, answer.done))

    def _paint_logs(self, shot: Snapshot) -> None:
        """Both logs side by side where asked for and where there is room; that of a start or a failure unasked."""
        troubled = [arm.name for arm in shot.arms if arm.state in ("starting", "failed") and arm.managed]
        full = self._room == "full"
        wanted: list[str] = troubled[:1] if full else []
        if self._log_asked:
            logged = [arm.name for arm in shot.arms if shot.logs.get(arm.name)]
            wanted = logged if full and shot.focus in logged else [shot.focus]
        self.set_class(bool(wanted), "log")
        for letter, tail in zip("AB", self.query(LogTail), strict=True):
            tail.display = letter in wanted
            if letter in wanted:
                tail.show(shot.logs.get(letter, ()), title=shot.log_titles.get(letter, ""))

    def patient_rows(self) -> range:
        """Those that follow time. None while someone looks around in a chart: there a key is answered in it."""
        if self._room == "tiny" or any(chart.view != View() for chart in self._charts):
            return range(0)
        parts = [self.query_one(name).region for name in ("#charts", "#figures", "#words")]
        seen = [part for part in parts if part.height]
        return range(min(part.y for part in seen), max(part.bottom for part in seen)) if seen else range(0)

    # -- looking around

    @property
    def _charts(self) -> tuple[Chart, Chart]:
        return self.query_one("#tok_s", Chart), self.query_one("#accept", Chart)

    def toggle_log(self) -> None:
        self._log_asked = not self._log_asked

    def move_cursor(self, cells: int) -> None:
        """Both charts have one clock, so the cursor stands at one moment in both."""
        first = next(chart for chart in self._charts if chart.display)
        first.move_cursor(cells)
        self._look(first.view)

    def zoom_by(self, factor: float) -> None:
        first = next(chart for chart in self._charts if chart.display)
        first.zoom_by(factor)
        self._look(first.view)

    def live_again(self) -> bool:
        """Neither cursor nor zoom; True when there was one."""
        had = any(chart.view != View() for chart in self._charts)
        self._look(View())
        return had

    def _look(self, view: View) -> None:
        for chart in self._charts:
            chart.look(view)
            hint = "" if view == View() else "← → cursor  + − zoom  esc live"
            if str(chart.border_subtitle or "") != hint:
                chart.border_subtitle = hint

    def switch_chart(self) -> None:
        self._chart = "accept" if self._chart == "tok_s" else "tok_s"
        self._settle(self._room)

    def action_none(self) -> None:
        return


class Status(StatusLine):
    """As many rows of the sentence as it needs, then the keys."""

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 3

    def rows(self, width: int, height: int) -> Sequence[Row]:
        data = self._data
        many = max(1, height - 1)
        text = textwrap.wrap(safe_text(data.text, 2 * width * many), max(1, width), max_lines=many, placeholder=" …")
        rows: list[Row] = [(Run(part, data.tone),) for part in text or [""]]
        if height > 1:
            rows += [() for _ in range(many - len(rows))]
            rows.append(keys_row(fitting(data.keys, width), width))
        return rows


def fitting(keys: Sequence[tuple[str, str]], width: int, always: int = 2) -> list[tuple[str, str]]:
    """As many as have room, and in any case the last ones, which lead to all the others."""
    kept, last = list(keys[:-always]), list(keys[-always:])
    while kept and sum(len(key) + len(what) + 3 for key, what in (*kept, *last)) - 2 > width:
        kept.pop()
    return kept + last
