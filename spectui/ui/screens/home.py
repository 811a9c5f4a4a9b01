"""The home screen: both arms, live. It draws the session's snapshot and turns keys into the session's methods."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from typing import TYPE_CHECKING, ClassVar, cast

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.screen import Screen

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.session.view import ArmView, Snapshot
from spectui.ui.commands import BY_ID, bindings, key_word
from spectui.ui.widgets.answer_view import AnswerData, AnswerView, Piece
from spectui.ui.widgets.arm_card import ArmCard, ArmCardData, Setting, Store
from spectui.ui.widgets.chart import Chart, ChartData, Line, Mark, Reference
from spectui.ui.widgets.gpu_panel import GpuPanel, GpuPanelData
from spectui.ui.widgets.lines import Part
from spectui.ui.widgets.log_tail import LogTail
from spectui.ui.widgets.metric_table import MetricRow, MetricTable
from spectui.ui.widgets.status_line import HeaderData, HeaderLine, StatusData, StatusLine, keys_row

if TYPE_CHECKING:
    from spectui.ui.app import SpectuiApp

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

    def __init__(self) -> None:
        super().__init__()
        self._shown_log_of: str | None = None
        self._log_asked = False
        self._chart = "tok_s"
        self._room = ""

    def compose(self) -> ComposeResult:
        self._settle(self._room_at(*self.app.size))  # before there is anything whose style would be worked out twice
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
            yield LogTail(id="log", classes="panel")
        yield Status(id="status")
        yield Part(id="summary")

    def on_mount(self) -> None:
        self.query_one("#gpus").border_title = "GPU"
        self.query_one("#table").border_title = "figures"
        self.query_one("#answer").border_title = "the answer, coloured by accepted run"
        self.paint(cast("SpectuiApp", self.app).snapshot())  # so that the first frame is not an empty one

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

    def paint(self, shot: Snapshot) -> None:
        if self._room == "tiny":
            self.query_one("#summary", Part).show([(Run(shot.summary),), (Run(shot.status.text),)])
            return
        self._paint_head(shot)
        for card, view in zip(self.query(ArmCard), shot.arms, strict=True):
            card.show(card_data(view, focused=view.name == shot.focus))
        self._paint_charts(shot)
        self.query_one(GpuPanel).show(
            GpuPanelData(shot.gpus, shot.gpu_history, shot.gpu_owner, f"GPUs: {shot.gpu_note}")
        )
        self.query_one(MetricTable).show(
            [
                MetricRow(row.name, row.a, row.b, row.against, row.tone, row.note)
                for row in (shot.table if self._room == "full" else shot.table[:COMPACT_ROWS])
            ]
        )
        self._paint_words(shot)
        keys = cast("SpectuiApp", self.app).keys
        shown = tuple((key_word(BY_ID[name], keys), BY_ID[name].word) for name in shot.status.keys)
        self.query_one(Status).show(StatusData(shot.status.text, shot.status.tone, shown))

    def _paint_head(self, shot: Snapshot) -> None:
        run = shot.run
        if run is None:
            data = HeaderData(f"spectui  {shot.node}", "no run yet")
        elif run.active:
            data = HeaderData(f"spectui  {shot.node}", run.task, run.share, run.left_s)
        else:
            data = HeaderData(f"spectui  {shot.node}", f"last run: {run.task}, {run.status}")
        self.query_one(HeaderLine).show(data)

    def _paint_charts(self, shot: Snapshot) -> None:
        marks = tuple(Mark(t, word) for t, word in shot.marks)
        empty = "no run yet: r measures the arm in focus, c compares both"
        speed = ChartData(
            "output tok/s",
            lines=lines_of(shot.tok_s, shot.tok_s_now),
            now=shot.now,
            marks=marks,
            empty=empty,
        )
        references = tuple(
            Reference(value, f"{arm} breaks even {value:.1f}") for arm, value in sorted(shot.break_even.items())
        )
        lengths = ChartData(
            "accept length",
            lines=lines_of(shot.accept, shot.accept_now),
            now=shot.now,
            references=references,
            floor=1.0,
            empty=empty,
        )
        for name, data in (("tok_s", speed), ("accept", lengths)):
            chart = self.query_one(f"#{name}", Chart)
            if chart.display:
                chart.show(data)

    def _paint_words(self, shot: Snapshot) -> None:
        starting = next((arm.name for arm in shot.arms if arm.state in ("starting", "failed") and arm.managed), None)
        wanted = shot.focus if self._log_asked else starting
        self.set_class(wanted is not None and (self._log_asked or self._room == "full"), "log")
        if wanted is not None:
            self.query_one(LogTail).show(shot.logs.get(wanted, ()), title=shot.log_titles.get(wanted, ""))
        answer = shot.answer
        if answer is not None:
            view = self.query_one(AnswerView)
            title = f"{answer.arm}: the answer, coloured by accepted run"
            if str(view.border_title) != title:
                view.border_title = title
            pieces = tuple(Piece(text, tokens) for tokens, text in answer.pieces)
            view.show(AnswerData(f"{answer.arm} {answer.rid}", pieces, answer.done))

    # -- looking around

    def toggle_log(self) -> None:
        self._log_asked = not self._log_asked

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


def card_data(view: ArmView, *, focused: bool) -> ArmCardData:
    return ArmCardData(
        view.name,
        view.state,
        view.address,
        view.version,
        view.simulated,
        view.algorithm,
        view.staged_algorithm,
        tuple(Setting(s.label, s.value, s.staged) for s in view.settings),
        view.model,
        Store(view.store.state, view.store.level, view.store.detail) if view.store is not None else None,
        view.stateless,
        view.trouble or None,
        focused,
    )


def lines_of(points: dict[str, tuple[tuple[float, float | None], ...]], now: dict[str, str]) -> tuple[Line, ...]:
    return tuple(
        Line(arm, values, now.get(arm, ""), arm.lower(), dashed=arm == "B")
        for arm, values in sorted(points.items())
        if any(value is not None for _, value in values)
    )
