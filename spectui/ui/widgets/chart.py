"""Curves over time. Takes values, draws cells; decides nothing and keeps no data of its own."""

from __future__ import annotations

from textual.app import ComposeResult
from textual.content import Content
from textual.widget import Widget

from spectui.ui.widgets.chart_data import ChartData, Line, Mark, Reference, View
from spectui.ui.widgets.chart_layout import Grid, Kept, draw
from spectui.ui.widgets.lines import Part

__all__ = ["Chart", "ChartData", "Line", "Mark", "Reference", "View"]

_CLOSEST_S = 2.0


class Chart(Widget):
    """``show(data)`` draws what has changed. The title goes to the border, or into the picture without one.

    Three pieces side by side, since Textual sends with a changed cell all that is left of it in its widget: the axis
    stands still, the curves move a cell every few seconds, only their newest end and the labels change each time.
    """

    DEFAULT_CSS = """
    Chart { layout: horizontal; height: 1fr; min-height: 1; }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._parts = (Part(form=form), Part(form=form), Part(form=form))
        self._widths = (-1, -1, -1)
        self._data: ChartData | None = None
        self._view = View()
        self._kept = Kept()
        self._grid: Grid | None = None
        self._titled = ""

    def compose(self) -> ComposeResult:
        yield from self._parts

    @property
    def form(self) -> str:
        """braille, block or ascii: as given, else the app's ``chart_form``."""
        return self._parts[0].form

    @property
    def spans_asked(self) -> int:
        """Spans that were asked to be drawn again since the start."""
        return sum(part.spans_asked for part in self._parts)

    @property
    def view(self) -> View:
        return self._view

    def show(self, data: ChartData) -> None:
        if self._data is not None and data.title != self._data.title:
            self._kept = Kept()
        self._data = data
        title = f"{data.title} {data.unit}".strip()
        if title != self._titled:  # setting it draws the whole border again
            self._titled = title
            self.border_title = Content(title)
        self.redraw()

    def look(self, view: View) -> None:
        """Zooms, or puts the cursor somewhere."""
        if view.zoom is not None and not view.zoom[0] < view.zoom[1]:
            view = View(None, view.cursor)
        if view.zoom != self._view.zoom:
            self._kept = Kept()
        self._view = view
        self.redraw()

    def move_cursor(self, cells: int) -> None:
        """By whole cells, from the right end when there is none yet; stays inside the picture."""
        grid = self._grid
        if self._data is None or grid is None:
            return
        now = grid.columns - 1 if self._view.cursor is None else grid.column(self._view.cursor) + cells
        column = min(grid.columns - 1, max(0, now))
        self.look(View(self._view.zoom, grid.start + (column + 0.5) * grid.cell_s))

    def zoom_by(self, factor: float) -> None:
        """A factor below 1 shows less time, around the cursor or at the right end; all of it again ends the zoom."""
        if self._data is None:
            return
        start, end = self._view.zoom or (self._data.now - self._data.span_s, self._data.now)
        span = max(_CLOSEST_S, (end - start) * factor)
        if span >= self._data.span_s:
            self.look(View(None, self._view.cursor))
            return
        middle = self._view.cursor
        right = end if middle is None else min(end, middle + span / 2)
        self.look(View((right - span, right), middle))

    def live(self) -> None:
        """Neither zoom nor cursor: back to what happens now."""
        self.look(View())

    def on_resize(self) -> None:
        self.redraw()

    def redraw(self) -> None:
        if self._data is None or not self.is_attached:
            return
        width, height = self.size
        heading = self.styles.border_top[0] in ("", "none", "hidden")
        drawn = draw(self._data, self._view, width, height, form=self.form, kept=self._kept, heading=heading)
        self._kept, self._grid = drawn.kept, drawn.grid
        if drawn.widths != self._widths:
            self._widths = drawn.widths
            for part, cells in zip(self._parts, drawn.widths, strict=True):
                part.display = cells > 0
                part.styles.width = cells
        for part, rows in zip(self._parts, drawn.parts, strict=True):
            part.show(rows)

    def text_lines(self) -> list[str]:
        """What is shown, without style."""
        pieces = [[text.ljust(part.size.width) for text in part.text_lines()] for part in self._parts if part.display]
        return ["".join(row).rstrip() for row in zip(*pieces, strict=False)]
