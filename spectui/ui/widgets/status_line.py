"""The lines that always say where one is: at the top what runs, at the bottom what happens and which key is next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spectui.core.axis import clock
from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines, width_of

_BAR = 24


class StatusData(NamedTuple):
    text: str
    """One or two sentences."""
    tone: str = ""
    """good, warn, bad, dim or none."""
    keys: tuple[tuple[str, str], ...] = ()
    """(key, what it does), the most useful first; those that do not fit are left out."""


class StatusLine(Lines):
    """Row one: what happens. Row two, where there is one: the keys. A sentence too long for row one takes both when
    no keys are given."""

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._data = StatusData("")

    def show(self, data: StatusData) -> None:
        self._data = data
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 2 if self._data.keys or len(self._data.text) > width else 1

    def rows(self, width: int, height: int) -> Sequence[Row]:
        data = self._data
        if not data.keys and height > 1 and len(data.text) > width:
            cut = data.text.rfind(" ", 0, width + 1)
            cut = cut if cut > width // 2 else width
            first, second = data.text[:cut], data.text[cut:].strip()
            return [(Run(safe_text(first, width), data.tone),), (Run(safe_text(second, width), data.tone),)]
        rows: list[Row] = [(Run(safe_text(data.text, width), data.tone),)]
        if data.keys and height > 1:
            rows.append(keys_row(data.keys, width))
        return rows


def keys_row(keys: Sequence[tuple[str, str]], width: int) -> Row:
    """``enter apply  esc drop  r run``: whole entries only."""
    row: list[Run] = []
    used = 0
    for key, what in keys:
        size = len(key) + 1 + len(what) + (2 if row else 0)
        if used + size > width:
            break
        if row:
            row.append(Run("  "))
        row += [Run(key, "strong"), Run(f" {what}")]
        used += size
    return tuple(row)


class HeaderData(NamedTuple):
    left: str
    """Program, node, GPUs, driver."""
    task: str = ""
    """``json ▸ warm pass ▸ 4 at a time``"""
    share: float | None = None
    """Done, from 0 to 1; None where it is not known."""
    left_s: float | None = None
    """Seconds to go, by this node's history; None where it is not known."""


class HeaderLine(Lines):
    """One row: where this is, what is measured now, how far it is and how long it takes."""

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._data = HeaderData("")

    def show(self, data: HeaderData) -> None:
        self._data = data
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return 1

    def rows(self, width: int, height: int) -> Sequence[Row]:
        data = self._data
        tail: list[Run] = []
        if data.share is not None:
            share = min(1.0, max(0.0, data.share))
            bar = round(share * _BAR)
            if width >= 100:
                tail.append(Run("█" * bar + "░" * (_BAR - bar), "a"))
            tail.append(Run(f" {share * 100:3.0f} %"))
        if data.left_s is not None:
            tail.append(Run(f"  {clock(max(0.0, data.left_s))} left"))
        task = safe_text(data.task, 80)
        used = width_of(tuple(tail)) + len(task) + 4
        if used > width:
            room = max(0, width - width_of(tuple(tail)) - 2)
            return ((Run(f"{safe_text(task, room).ljust(room)}  "), *tail),)
        left = safe_text(data.left, max(0, width - used))
        return ((Run(left, "dim"), Run(" " * (width - used - len(left) + 2) + task + "  "), *tail),)
