"""Aligned columns of text, and wrapped sentences: values in, rows of runs out. Nothing here draws."""

from __future__ import annotations

import textwrap
from collections.abc import Sequence
from dataclasses import dataclass

from rich.cells import cell_len, get_character_cell_size

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text

GAP = 2
_LONGEST = 4000

Cell = str | Run
"""One field of a row; a run where it has a style."""


@dataclass(frozen=True, slots=True)
class Column:
    title: str
    right: bool = False
    """Figures stand to the right."""
    drop: int = 0
    """Where there is no room, the columns with the highest number go first; those with 0 stay."""
    least: int = 0
    """Cells that it may be cut down to before any column goes; 0: it is never cut."""


def fitted(text: str, cells: int, *, right: bool = False) -> str:
    """Harmless, and exactly ``cells`` wide; what was cut ends in an ellipsis."""
    if cells <= 0:
        return ""
    shown = safe_text(text, _LONGEST)
    if cell_len(shown) > cells:
        kept, used = [], 0
        for sign in shown:
            size = get_character_cell_size(sign)
            if used + size > cells - 1:
                break
            kept.append(sign)
            used += size
        shown = "".join(kept) + "…"
    blank = " " * (cells - cell_len(shown))
    return blank + shown if right else shown + blank


def text_of(cell: Cell) -> str:
    return cell if isinstance(cell, str) else cell.text


def widths(columns: Sequence[Column], cells: Sequence[Sequence[Cell]], width: int) -> list[int]:
    """Cells for each column, 0 for those that have no room."""
    wanted = []
    for i, column in enumerate(columns):
        longest = max((cell_len(safe_text(text_of(row[i]), 200)) for row in cells if i < len(row)), default=0)
        wanted.append(max(cell_len(column.title), longest))
    found = list(wanted)

    def over() -> int:
        shown = [w for w in found if w]
        return sum(shown) + GAP * max(0, len(shown) - 1) - width

    def squeeze() -> None:
        for i in sorted(range(len(found)), key=lambda i: -found[i]):
            if over() > 0 and found[i] and columns[i].least:
                found[i] = max(min(found[i], columns[i].least), found[i] - over())

    while over() > 0:
        squeeze()
        if over() <= 0:
            break
        going = [i for i, column in enumerate(columns) if column.drop and found[i]]
        if not going:
            break
        found[max(going, key=lambda i: (columns[i].drop, i))] = 0
        found = [w if kept else 0 for w, kept in zip(wanted, found, strict=True)]
    last = next((i for i in reversed(range(len(found))) if found[i]), None)
    while last is not None and over() > 0:
        found[last] = max(0, found[last] - over())
        last = next((i for i in reversed(range(len(found))) if found[i]), None)
    return found


def table_row(columns: Sequence[Column], sizes: Sequence[int], cells: Sequence[Cell], tag: str = "") -> Row:
    """One row. A cell's own style wins over ``tag``."""
    runs: list[Run] = []
    for column, size, cell in zip(columns, sizes, cells, strict=False):
        if not size:
            continue
        if runs:
            runs.append(Run(" " * GAP))
        style = cell.tag if isinstance(cell, Run) and cell.tag else tag
        runs.append(Run(fitted(text_of(cell), size, right=column.right), style))
    return tuple(runs)


def heading(columns: Sequence[Column], sizes: Sequence[int]) -> Row:
    return table_row(columns, sizes, [column.title for column in columns], "dim")


def table(columns: Sequence[Column], cells: Sequence[Sequence[Cell]], width: int) -> list[Row]:
    """The heading, then all rows."""
    sizes = widths(columns, cells, width)
    return [heading(columns, sizes), *(table_row(columns, sizes, row) for row in cells)]


def wrapped(text: str, width: int, tag: str = "", *, first: str = "", rest: str | None = None) -> list[Row]:
    """A sentence over as many rows as it takes. ``first`` begins the first one, ``rest`` (blanks) the others."""
    if width <= 0:
        return []
    after = " " * len(first) if rest is None else rest
    rows: list[Row] = []
    for part in text.split("\n"):
        shown = safe_text(part.expandtabs(4), _LONGEST)
        room = max(1, width - cell_len(first))
        pieces = textwrap.wrap(shown, room, break_on_hyphens=False) or [""]
        for piece in pieces:
            rows.append((Run(after if rows else first), Run(piece, tag)))
    return rows


def titled(text: str, width: int) -> Row:
    """A heading between parts: ``── details ─────``."""
    shown = safe_text(text, max(0, width - 6))
    return (Run("── ", "dim"), Run(shown, "strong"), Run(" " + "─" * max(0, width - cell_len(shown) - 4), "dim"))


def pairs(rows: Sequence[tuple[str, Cell]], width: int, name_width: int = 0) -> list[Row]:
    """Names to the left in one column, values wrapped beside them."""
    size = name_width or min(24, max((cell_len(name) for name, _ in rows), default=0))
    found: list[Row] = []
    for name, value in rows:
        tag = "" if isinstance(value, str) else value.tag
        lines = wrapped(text_of(value), max(1, width - size - GAP), tag)
        for i, line in enumerate(lines):
            found.append((Run(fitted(name if i == 0 else "", size), "dim"), Run(" " * GAP), *line))
    return found
