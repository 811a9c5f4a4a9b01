"""The session's snapshot as what the widgets of the home screen take."""

from __future__ import annotations

import textwrap
from collections.abc import Mapping
from math import inf

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.session.view import ArmView, RunView, Snapshot
from spectui.ui.widgets.arm_card import ArmCardData, Setting, Start, Store
from spectui.ui.widgets.chart_data import ChartData, Line, Mark, Reference
from spectui.ui.widgets.gpu_panel import GpuPanelData
from spectui.ui.widgets.metric_table import MetricRow
from spectui.ui.widgets.status_line import HeaderData

BEFORE_S = 10.0
"""A mark so soon before the first token belongs to the run."""
SPANS_S = (30.0, 60.0, 120.0)
"""Of a picture that stands still; while time goes on it is always the last: a shorter one would have to be drawn anew
as often as it is shorter."""


def head_data(shot: Snapshot) -> HeaderData:
    """What is measured or waited for, how far it is, and how long it takes."""
    run: RunView | None = shot.run if shot.run is not None and shot.run.active else shot.wait or shot.run
    left = f"spectui  {shot.node}"
    if run is None:
        return HeaderData(left, "no run yet")
    if run.active:
        return HeaderData(left, run.task, run.share, run.left_s)
    return HeaderData(left, f"last run: {run.task}, {run.status}")


def card_data(view: ArmView, *, focused: bool) -> ArmCardData:
    start = view.start
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
        view.idle,
        Start(start.share, start.left_s, start.phases, start.now) if start is not None else None,
        view.trouble or None,
        focused,
    )


def gpu_data(shot: Snapshot) -> GpuPanelData:
    return GpuPanelData(
        shot.gpus, shot.gpu_history, shot.gpu_owner, shot.gpu_mean, shot.gpu_holders, f"GPUs: {shot.gpu_note}"
    )


def metric_rows(shot: Snapshot, most: int | None = None) -> list[MetricRow]:
    return [MetricRow(row.name, row.a, row.b, row.against, row.tone, row.note) for row in shot.table[:most]]


def tiny_rows(shot: Snapshot, width: int, height: int) -> list[Row]:
    """One line for both arms, or one each where that is too long; then what happens, as far as there is room."""
    arms = [shot.summary] if len(shot.summary) <= width or height < 2 else shot.summary.split("   ")
    words = textwrap.wrap(safe_text(shot.status.text, 400), max(1, width)) or [""]
    rows: list[Row] = [(Run(text),) for text in [*arms, *words]]
    return rows[: max(1, height)]


def charts(shot: Snapshot, run: str = "r", compare: str = "c") -> tuple[ChartData, ChartData]:
    """tok/s and accept length, on one clock. After a run the picture stands still, so that it can be looked at.
    ``run``, ``compare``: the keys of these commands."""
    still = shot.chart_now is not None
    now = shot.chart_now if shot.chart_now is not None else shot.now
    marks = tuple(Mark(t, word) for t, word in shot.marks)
    empty = (
        "nothing was measured in these two minutes"
        if shot.run is not None
        else f"no run yet: {run} measures, {compare} compares"
    )
    breaks = tuple(Reference(value, f"{arm} breaks even {value:.1f}") for arm, value in sorted(shot.break_even.items()))
    end = "end of run" if still else "now"
    span_s = span_of(shot, now) if still else SPANS_S[-1]
    speed = ChartData(
        "output tok/s",
        lines=lines_of(shot.tok_s, shot.tok_s_now),
        now=now,
        span_s=span_s,
        marks=marks,
        empty=empty,
        end_word=end,
    )
    lengths = speed._replace(
        title="accept length", lines=lines_of(shot.accept, shot.accept_now), references=breaks, floor=1.0
    )
    return speed, lengths


def span_of(shot: Snapshot, now: float) -> float:
    """The shortest stretch that holds the whole of a run that has ended, and the flush it began with."""
    times = [t for points in (shot.tok_s, shot.accept) for curve in points.values() for t, v in curve if v is not None]
    first = min(times, default=-inf)
    first = min([first, *(t for t, _ in shot.marks if first - t < BEFORE_S)])
    return next((span for span in SPANS_S if now - first < 0.97 * span), SPANS_S[-1])


def lines_of(points: Mapping[str, tuple[tuple[float, float | None], ...]], now: Mapping[str, str]) -> tuple[Line, ...]:
    return tuple(
        Line(arm, values, now.get(arm, ""), arm.lower(), dashed=arm == "B")
        for arm, values in sorted(points.items())
        if any(value is not None for _, value in values)
    )
