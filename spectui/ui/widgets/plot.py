"""Values over a number that is not time: tokens since a flush, draft tokens. Drawn at rest, so no space is kept."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import NamedTuple

from spectui.core.axis import fit, nice_step, tick_label
from spectui.core.braille import Canvas, Curve, Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

_Y_LABEL = 5


class Series(NamedTuple):
    label: str
    points: tuple[tuple[float, float], ...]
    """(x, y), in order of x."""
    tag: str = "a"
    dashed: bool = False
    joined: bool = True
    sign: str = "●"
    """Stands on each point where points are not joined, or told apart."""
    signed: bool = False
    """Points carry their sign, also where they are joined."""


class PlotData(NamedTuple):
    x_label: str
    series: tuple[Series, ...] = ()
    floor: float | None = None
    empty: str = "nothing to draw yet"
    x_floor: float | None = 0.0


class Plot(Lines):
    """``show(data)``: axes with ticks, curves told apart by dash, sign and label, a legend in the first row."""

    DEFAULT_CSS = "Plot { height: 1fr; min-height: 1; width: 100%; }"

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._data = PlotData("")

    def show(self, data: PlotData) -> None:
        self._data = data
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        return plot_rows(self._data, width, height, self.form)


def plot_rows(data: PlotData, width: int, height: int, form: str = "braille") -> list[Row]:
    drawn = [one for one in data.series if one.points]
    if not drawn:
        return [(Run(safe_text(data.empty, width), "dim"),)]
    legend: list[Run] = []
    for one in drawn:
        mark = one.sign if one.signed or not one.joined else "╌╌" if one.dashed else "──"
        told = one.label if one.label.startswith(mark) else f"{mark} {one.label}"
        legend += [Run("  " if legend else ""), Run(safe_text(told, 70), one.tag)]
    used = sum(len(run.text) for run in legend)
    told = safe_text(f"over {data.x_label}", 80)
    if data.x_label and used + len(told) + 3 <= width:
        legend.append(Run(" " * (width - used - len(told)) + told, "dim"))
    if height < 5 or width < 24:
        ends = ", ".join(f"{one.label} {one.points[-1][1]:.2f} at {one.points[-1][0]:.0f}" for one in drawn)
        return [(Run(safe_text(ends, width)),)]
    rows, columns = height - 3, width - _Y_LABEL - 2
    ys = [y for one in drawn for _, y in one.points]
    scale = fit(None, ys, max(2, min(6, rows // 2)), data.floor)
    xs = [x for one in drawn for x, _ in one.points]
    low_x = min(xs) if data.x_floor is None else min(data.x_floor, *xs)
    high_x = max(xs) if max(xs) > low_x else low_x + 1.0
    canvas = Canvas(columns, rows, form)
    for number, one in enumerate(drawn):
        if one.joined and len(one.points) > 1:
            dots = columns * canvas.across
            values = tuple(_at(one.points, low_x + (high_x - low_x) * i / max(1, dots - 1)) for i in range(dots))
            canvas.curve(Curve(values, one.tag, one.dashed, sign="*o+x"[number % 4]), scale.low, scale.high)
    for one in sorted(drawn, key=lambda one: one.joined):
        if one.signed or not one.joined or len(one.points) == 1:
            for x, y in one.points:
                column = round((x - low_x) / (high_x - low_x) * (columns - 1))
                canvas.text(column, canvas.row_of(y, scale.low, scale.high), one.sign, one.tag)
    ticks = {canvas.row_of(value, scale.low, scale.high): value for value in scale.ticks()}
    body = canvas.lines()
    found: list[Row] = [tuple(legend)]
    for y in range(rows):
        label = tick_label(ticks[y], scale.step) if y in ticks else ""
        found.append((Run(f"{label:>{_Y_LABEL}}{'┤' if y in ticks else '│'}", "axis"), *body[y]))
    found += _x_axis(low_x, high_x, columns)
    return found[:height]


def _at(points: Sequence[tuple[float, float]], x: float) -> float | None:
    """On the straight lines between points; nothing outside of them."""
    if not points[0][0] <= x <= points[-1][0]:
        return None
    for (x0, y0), (x1, y1) in pairwise(points):
        if x0 <= x <= x1:
            return y0 if x1 == x0 else y0 + (y1 - y0) * (x - x0) / (x1 - x0)
    return points[-1][1]


def _x_axis(low: float, high: float, columns: int) -> list[Row]:
    step = nice_step(high - low, max(2, columns // 14))
    line, words = ["─"] * columns, [" "] * columns
    value = -(-low // step) * step
    while value <= high + step * 1e-6:
        column = round((value - low) / (high - low) * (columns - 1))
        text = tick_label(value, step)
        start = max(0, min(columns - len(text), column - len(text) // 2))
        if all(sign == " " for sign in words[max(0, start - 1) : start + len(text) + 1]):
            line[column] = "┬"
            words[start : start + len(text)] = text
        value += step
    blank = " " * _Y_LABEL
    return [(Run(f"{blank}└" + "".join(line), "axis"),), (Run(f"{blank} " + "".join(words), "axis"),)]
