"""Where everything of a chart stands: gutter, curves, labels at their right end, axis. Pure: values in, rows out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

from spectui.core.axis import Scale, clock, fit, tick_label, time_step
from spectui.core.braille import DOTS, Canvas, Curve, Row, Run, buckets, sparkline
from spectui.ui.widgets.chart_data import ChartData, Line, Reference, View

_SIGNS = "*o+x"
_LABEL_SPACING = 11
_END = 2
"""Newest cells of the curves that are drawn apart from the rest."""


class Kept(NamedTuple):
    """What one picture hands on to the next, so that nothing jumps."""

    scale: Scale | None = None
    gutter: int = 0
    margin: int = 0
    size: tuple[int, int] = (0, 0)


class Grid(NamedTuple):
    """Which stretch of time each cell shows."""

    first_cell: int
    columns: int
    cell_s: float

    @property
    def start(self) -> float:
        return self.first_cell * self.cell_s

    def column(self, t: float) -> int:
        return math.floor(t / self.cell_s) - self.first_cell


class Drawn(NamedTuple):
    parts: tuple[tuple[Row, ...], tuple[Row, ...], tuple[Row, ...]]
    """Rows of the gutter, of the curves but for their newest end, and of that end with its labels: the first stands
    still, the second moves every few seconds, the third changes with every value."""
    widths: tuple[int, int, int]
    kept: Kept
    grid: Grid | None = None

    @property
    def rows(self) -> tuple[Row, ...]:
        return tuple(
            tuple(run for part, width in zip(row, self.widths, strict=True) for run in _padded(part, width))
            for row in zip(*self.parts, strict=True)
        )


def _padded(row: Row, width: int) -> Row:
    short = width - sum(len(run.text) for run in row)
    return (*row, Run(" " * short)) if short > 0 else row


def grid_of(data: ChartData, view: View, columns: int) -> Grid:
    """Cells at whole multiples of their own width in time: the picture moves a cell at a time."""
    if view.zoom is not None:
        start, end = view.zoom
        cell_s = max((end - start) / columns, 1e-3)
        return Grid(math.floor(start / cell_s), columns, cell_s)
    cell_s = max(data.span_s / columns, 1e-3)
    return Grid(math.floor(data.now / cell_s) - columns + 1, columns, cell_s)


def draw(
    data: ChartData,
    view: View,
    width: int,
    height: int,
    *,
    form: str = "braille",
    kept: Kept | None = None,
    heading: bool = False,
) -> Drawn:
    """Rows for a field of any size. ``heading`` writes the title into the picture, where no border carries it."""
    kept = kept if kept is not None and kept.size == (width, height) else Kept(size=(width, height))
    if width <= 0 or height <= 0:
        return Drawn(((), (), ()), (0, 0, 0), kept)
    if height == 1:
        return _one_row(data, view, width, form, kept)
    axis_rows = 2 if height >= 5 else 1 if height >= 3 else 0
    plot_rows = height - axis_rows
    # Labels decide how wide the plot is, the plot decides which values are seen: bounds come from the whole window.
    scale = fit(kept.scale, _values(data, view), min(4, max(1, plot_rows // 2)), data.floor)
    gutter = max(kept.gutter, *(len(tick_label(t, scale.step)) + 1 for t in scale.ticks())) if width >= 24 else 0
    margin = max(kept.margin, _margin(data, width)) if width >= 24 else 0
    columns = max(1, width - gutter - margin)
    end = _END if columns >= 4 * _END else 0
    grid = grid_of(data, view, columns)
    canvas = Canvas(columns, plot_rows, form)
    values = _draw_curves(canvas, data, grid, scale, form)
    _draw_overlays(canvas, data, view, grid, scale, values, form, heading=heading)
    labels = _end_labels(data, canvas, scale, values, margin)
    lefts = [_gutter(y, canvas, scale, gutter, bottom=axis_rows == 0) for y in range(plot_rows)]
    middles = list(canvas.lines(0, columns - end))
    ends = canvas.lines(columns - end) if end else ((),) * plot_rows
    rights = [(*row, *((labels[y],) if y in labels else ())) for y, row in enumerate(ends)]
    for text in _axis(data, view, grid, scale, gutter, axis_rows):
        lefts.append((Run(text[:gutter], "axis"),))
        middles.append((Run(text[gutter : gutter + columns - end], "axis"),))
        rights.append((Run(text[gutter + columns - end :], "axis"),))
    return Drawn(
        (tuple(lefts), tuple(middles), tuple(rights)),
        (gutter, columns - end, end + margin),
        kept._replace(scale=scale, gutter=gutter, margin=margin),
        grid,
    )


def _values(data: ChartData, view: View) -> list[float]:
    start, end = view.zoom or (data.now - data.span_s, data.now)
    found = [v for one in data.lines for t, v in one.points if v is not None and start <= t <= end]
    return found + [reference.value for reference in data.references]


def _end_text(one: Line) -> str:
    return f"{one.label} {one.current}".strip()


def _margin(data: ChartData, width: int) -> int:
    texts = [_end_text(one) for one in data.lines]
    longest = max((len(text) for text in texts), default=0)
    with_references = max([longest, *(len(reference.label) for reference in data.references)])
    chosen = with_references if with_references + 2 <= width * 0.3 else longest
    return min(chosen + 2, int(width * 0.4)) if chosen else 0


def _draw_curves(
    canvas: Canvas, data: ChartData, grid: Grid, scale: Scale, form: str
) -> tuple[tuple[float | None, ...], ...]:
    across = DOTS[form][0]
    dt = grid.cell_s / across
    first = grid.first_cell * across
    found = [buckets(one.points, first, grid.columns * across, dt, data.gap_s) for one in data.lines]
    for number in reversed(range(len(found))):  # the first curve lies on top
        one = data.lines[number]
        sign = _SIGNS[number % len(_SIGNS)]
        canvas.curve(Curve(found[number], one.tag, one.dashed, first, sign), scale.low, scale.high)
    return tuple(found)


def _draw_overlays(
    canvas: Canvas,
    data: ChartData,
    view: View,
    grid: Grid,
    scale: Scale,
    values: Sequence[Sequence[float | None]],
    form: str,
    *,
    heading: bool,
) -> None:
    for reference in data.references:
        row = canvas.row_of(reference.value, scale.low, scale.high)
        canvas.line(row, "-" if form == "ascii" else "╌", reference.tag)
    marks = sorted(
        ((column, mark) for mark in data.marks if 0 <= (column := grid.column(mark.t)) < canvas.columns),
        key=lambda found: found[0],
    )
    for number, (column, mark) in enumerate(marks):
        following = marks[number + 1][0] if number + 1 < len(marks) else canvas.columns
        sign = "v" if form == "ascii" else "▼"
        label = mark.label if column + len(mark.label) < following else ""  # never through the next one
        canvas.text(column, canvas.rows - 1, sign + label, mark.tag)
    if not any(value is not None for one in values for value in one):
        empty = data.empty if len(data.empty) <= canvas.columns else data.empty[: max(0, canvas.columns - 1)] + "…"
        canvas.text(max(0, (canvas.columns - len(empty)) // 2), canvas.rows // 2, empty, "dim")
    if heading and canvas.rows >= 2:
        canvas.text(0, 0, f"{data.title} {data.unit}".strip(), "dim")
    if view.cursor is not None:
        column = min(canvas.columns - 1, max(0, grid.column(view.cursor)))
        canvas.upright(column, "|" if form == "ascii" else "│", "strong")
        text = _cursor_text(data, grid, column, values, DOTS[form][0], scale)
        start = column + 2 if column + 2 + len(text) <= canvas.columns else max(0, column - 1 - len(text))
        canvas.text(start, 0, text, "strong")


def _cursor_text(
    data: ChartData, grid: Grid, column: int, values: Sequence[Sequence[float | None]], across: int, scale: Scale
) -> str:
    t = grid.start + (column + 0.5) * grid.cell_s
    parts = [clock(t - (data.now if data.origin is None else data.origin))]
    for one, curve in zip(data.lines, values, strict=True):
        seen = [value for value in curve[column * across : (column + 1) * across] if value is not None]
        shown = tick_label(sum(seen) / len(seen), scale.step / 100) if seen else "n/a"
        parts.append(f"{one.label} {shown}")
    return "  ".join(parts)


def _end_labels(
    data: ChartData, canvas: Canvas, scale: Scale, values: Sequence[Sequence[float | None]], margin: int
) -> dict[int, Run]:
    """Row -> label. Each stands at the height of its curve's end, or on the nearest free row."""
    if margin < 3:
        return {}
    wanted: list[tuple[float, str, str]] = []
    for one, curve in zip(data.lines, values, strict=True):
        last = next((value for value in reversed(curve) if value is not None), None)
        if last is not None or one.current:
            wanted.append((scale.low if last is None else last, _end_text(one), one.tag))
    for reference in data.references:
        if len(reference.label) + 2 <= margin:
            wanted.append((reference.value, reference.label, reference.tag))
        else:
            _label_inside(canvas, scale, reference)
    taken: list[int] = []
    for value, _, _ in wanted[: canvas.rows]:
        row = canvas.row_of(value, scale.low, scale.high)
        taken.append(min((y for y in range(canvas.rows) if y not in taken), key=lambda y: (abs(y - row), y)))
    # Where labels had to move out of each other's way, the greater value still stands above.
    ordered = sorted(wanted[: canvas.rows], key=lambda label: -label[0])
    return {y: Run("  " + text[: margin - 2], tag) for y, (_, text, tag) in zip(sorted(taken), ordered, strict=True)}


def _label_inside(canvas: Canvas, scale: Scale, reference: Reference) -> None:
    row = canvas.row_of(reference.value, scale.low, scale.high)
    room = canvas.columns - 4
    if room >= 8:
        canvas.text(2, row, f" {reference.label[: room - 2]} ", reference.tag)


def _gutter(y: int, canvas: Canvas, scale: Scale, gutter: int, *, bottom: bool) -> tuple[Run, ...]:
    if gutter == 0:
        return ()
    label, sign = "", "│"
    for tick in scale.ticks():
        on_axis = tick == scale.low and not bottom
        if not on_axis and canvas.row_of(tick, scale.low, scale.high) == y:
            label, sign = tick_label(tick, scale.step), "┤"
    return (Run(label.rjust(gutter - 1) + sign, "axis"),)


def _axis(data: ChartData, view: View, grid: Grid, scale: Scale, gutter: int, rows: int) -> list[str]:
    columns = grid.columns
    line = ["─"] * columns
    words = [" "] * (gutter + columns)
    step = time_step(columns * grid.cell_s, max(1, columns // _LABEL_SPACING))
    for column, text in _time_marks(data, view, grid, step):
        if not 0 <= column < columns:
            continue
        line[column] = "┬"
        start = min(max(0, gutter + column - len(text) // 2), gutter + columns - len(text))
        if start >= 0 and not "".join(words[max(0, start - 1) : start + len(text) + 1]).strip():
            words[start : start + len(text)] = list(text)
    corner = tick_label(scale.low, scale.step).rjust(gutter - 1) + "┼" if gutter else ""
    return [corner + "".join(line), "".join(words)][:rows]


def _time_marks(data: ChartData, view: View, grid: Grid, step: float) -> list[tuple[int, str]]:
    if view.zoom is None:  # the labels stand still while the curves pass
        many = int(grid.columns * grid.cell_s / step)
        ahead = [(grid.columns - 1 - round(i * step / grid.cell_s), clock(-i * step)) for i in range(1, many + 1)]
        return [(grid.columns - 1, data.end_word), *ahead]
    origin = data.now if data.origin is None else data.origin
    first = math.ceil((grid.start - origin) / step)
    count = min(50, int(grid.columns * grid.cell_s / step) + 1)
    return [(grid.column(origin + i * step), clock(i * step)) for i in range(first, first + count)]


def _one_row(data: ChartData, view: View, width: int, form: str, kept: Kept) -> Drawn:
    """``A ▁▃▆▇ 372  B ▁▄▇▇ 241``: each curve its share of the row."""
    scale = fit(kept.scale, _values(data, view), 1, data.floor)
    if not data.lines:
        empty: Row = (Run(data.empty[:width], "dim"),)
        return Drawn((((),), (empty,), ((),)), (0, width, 0), kept._replace(scale=scale))
    shown = data.lines[: max(1, width // 8)]  # the first at any rate
    share = (width - 2 * (len(shown) - 1)) // len(shown)
    row: list[Run] = []
    for one in shown:
        room = share - len(one.label) - len(one.current) - 2
        bars = ""
        if room >= 3:
            grid = grid_of(data, view, room)
            curve = buckets(one.points, grid.first_cell, room, grid.cell_s, data.gap_s)
            bars = sparkline(curve, scale.low, scale.high, form) + " "
        text = f"{one.label} {bars}{one.current}"[: max(0, share)].ljust(share)
        if row:
            row.append(Run("  "))
        row.append(Run(text, one.tag))
    return Drawn((((),), (tuple(row),), ((),)), (0, width, 0), kept._replace(scale=scale))
