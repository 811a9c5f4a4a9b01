"""Metrics down, arms across: A, B, and A against B with its interval. Aligned text; only changed cells are sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

_GAP = 3


@dataclass(frozen=True, slots=True)
class MetricRow:
    """Texts as they are to be read, units and digits included."""

    name: str
    a: str = ""
    b: str = ""
    against: str = ""
    """``1.54×  [1.49, 1.60]`` or ``no difference shown``."""
    tone: str = ""
    """Tag for the difference: good, bad, warn, dim or none."""
    note: str = ""
    """Stands in place of all three, e.g. how far the answers agree."""


class MetricTable(Lines):
    """``show(rows)``. Columns widen as needed and do not shrink, so that figures stay where the eye left them."""

    def __init__(
        self,
        *,
        header: bool = True,
        names: tuple[str, str, str] = ("A", "B", "A against B"),
        form: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._header = header
        self._names = names
        self._metrics: tuple[MetricRow, ...] = ()
        self._widths = [0, 0, 0, 0]

    def show(self, rows: Sequence[MetricRow], names: tuple[str, str, str] | None = None) -> None:
        self._metrics = tuple(rows)
        if names is not None:
            self._names = names
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self._metrics) + self._header)

    def rows(self, width: int, height: int) -> Sequence[Row]:
        head = MetricRow("", *self._names)
        shown = [head, *self._metrics] if self._header else list(self._metrics)
        if len(shown) > height:
            left = len(shown) - height + 1
            shown = shown[: max(0, height - 1)]
        else:
            left = 0
        # A row of words only (a note) sets no column's width.
        cells = [(row.name, row.a, row.b, row.against) for row in [head, *self._metrics] if not row.note]
        self._widths = [max(w, *(len(cell[i]) for cell in cells)) for i, w in enumerate(self._widths)]
        rows = [table_row(row, self._widths, width, header=self._header and i == 0) for i, row in enumerate(shown)]
        if left:
            rows.append((Run(f"… {left} more"[:width], "dim"),))
        return rows


def table_row(row: MetricRow, widths: Sequence[int], width: int, *, header: bool = False) -> Row:
    """Name to the left, figures to the right of their columns; in little room the difference loses its interval."""
    name_w, a_w, b_w, against_w = widths
    gap = _GAP
    while gap > 1 and name_w + a_w + b_w + against_w + 3 * gap > width:
        gap -= 1
    against = row.against
    if name_w + a_w + b_w + against_w + 3 * gap > width:
        against = against.split("  ")[0].split(" [")[0]
        against_w = max(0, width - name_w - a_w - b_w - 3 * gap)
        if against_w < len(against):
            against, against_w = "", 0
    name_w = max(0, min(name_w, width - a_w - b_w - 2 * gap))
    name = Run(safe_text(row.name, name_w).ljust(name_w), "dim" if header else "")
    if row.note:
        return (name, Run(" " * gap + safe_text(row.note, max(0, width - name_w - gap))))
    figures = f"{' ' * gap}{row.a:>{a_w}}{' ' * gap}{row.b:>{b_w}}"
    parts = [name]
    if header:
        cut = gap + a_w
        parts += [Run(figures[:cut], "a"), Run(figures[cut:], "b")]
    else:
        parts.append(Run(figures))
    if against:
        parts.append(Run(" " * gap + against, "dim" if header else row.tone))
    return tuple(parts)
