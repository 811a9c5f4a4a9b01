"""Metrics down, arms across: A, B, and A against B with its interval. Aligned text; only changed cells are sent."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

_GAP = 3
_LEAST_WORDS = 8
_LEAST_NAME = 16


class MetricRow(NamedTuple):
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
        self._widths = [max(w, *found) for w, found in zip(self._widths, self._wanted(head), strict=True)]
        if sum(self._widths) + 3 > width:  # pairs of figures (p50 · p99) then stand wider than their column
            self._widths = [max(found) for found in self._wanted(head, pairs=False)]
        rows = [table_row(row, self._widths, width, header=self._header and i == 0) for i, row in enumerate(shown)]
        if left:
            rows.append((Run(f"… {left} more"[:width], "dim"),))
        return rows

    def _wanted(self, head: MetricRow, *, pairs: bool = True) -> list[list[int]]:
        """Widths of what stands in each column. Words (a note, a reason) set none: they take what the figures leave."""
        shown = [row for row in [head, *self._metrics] if not row.note]
        figures = [row for row in shown if pairs or "·" not in row.a + row.b]
        against = [row.against for row in shown if "×" in row.against or row is head]
        return [
            [len(row.name) for row in figures],
            [len(row.a) for row in figures],
            [len(row.b) for row in figures],
            [len(text) for text in against],
        ]


def table_row(row: MetricRow, widths: Sequence[int], width: int, *, header: bool = False) -> Row:
    """Name to the left, figures to the right of their columns; in little room the difference loses its interval. A
    figure wider than its column takes room from the name, then from what stands to its right."""
    name_w, a_w, b_w, against_w = widths
    gap = _GAP
    while gap > 1 and name_w + a_w + b_w + against_w + 3 * gap > width:
        gap -= 1
    short = name_w + a_w + b_w + against_w + 3 * gap - width
    if 0 < short <= name_w - _LEAST_NAME:  # an interval is worth more than the end of a name
        name_w -= short
    name_w = max(0, min(name_w, width - a_w - b_w - 2 * gap))
    name = safe_text(row.name, name_w)
    if row.note:
        at = name_w + gap
        return (Run(name.ljust(at), "dim" if header else ""), Run(safe_text(row.note, max(0, width - at))))
    parts = [Run(name, "dim" if header else "")]
    used = len(name)
    for text, end, tag in ((row.a, name_w + gap + a_w, "a"), (row.b, name_w + 2 * gap + a_w + b_w, "b")):
        start = max(end - len(text), used + 1)
        parts.append(Run(" " * (start - used) + text, tag if header else ""))
        used = start + len(text)
    start = max(name_w + 3 * gap + a_w + b_w, used + gap)
    against = _fitting(row, width - start)
    if against:
        parts += [Run(" " * (start - used)), Run(against, "dim" if header else row.tone)]
    return tuple(parts)


def _fitting(row: MetricRow, room: int) -> str:
    if len(row.against) <= room:
        return row.against
    short = row.against.split("  ")[0].split(" [")[0]  # without the interval
    if len(short) <= room:
        return short
    return safe_text(row.against, room) if row.tone == "dim" and room >= _LEAST_WORDS else ""
