"""How far something is and how long it takes. Determinate only: what has no end is told in words."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from spectui.core.axis import clock
from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

_BAR = 24


class Progress(NamedTuple):
    text: str
    share: float | None = None
    """From 0 to 1; None where it is not known."""
    left_s: float | None = None
    tone: str = ""


def bar(share: float, cells: int) -> str:
    """``████░░░░`` of so many cells."""
    done = round(min(1.0, max(0.0, share)) * max(0, cells))
    return "█" * done + "░" * (max(0, cells) - done)


def progress_row(data: Progress, width: int) -> Row:
    """The bar first, so that it stands still; then the share, the time left and what is being done."""
    runs: list[Run] = []
    if data.share is not None:
        share = min(1.0, max(0.0, data.share))
        if width >= 50:
            runs.append(Run(bar(share, _BAR), "a"))
        runs.append(Run(f"{share * 100:4.0f} %"))
    if data.left_s is not None:
        runs.append(Run(f"  {clock(max(0.0, data.left_s))} left"))
    used = sum(len(run.text) for run in runs) + (2 if runs else 0)
    if runs:
        runs.append(Run("  "))
    runs.append(Run(safe_text(data.text, max(0, width - used)), data.tone))
    return tuple(runs)


class ProgressLine(Lines):
    """One row; none at all while there is nothing to wait for."""

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._data: Progress | None = None
        self.display = False

    def show(self, data: Progress | None) -> None:
        self._data = data
        if self.display != (data is not None):
            self.display = data is not None
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        return () if self._data is None else (progress_row(self._data, width),)
