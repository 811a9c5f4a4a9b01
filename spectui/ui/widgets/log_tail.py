"""The last lines of a server's log, as they are."""

from __future__ import annotations

from collections.abc import Sequence

from textual.content import Content

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines


class LogTail(Lines):
    """``show(lines)``: the last that fit, each cut at the right edge. Nothing in them is taken as style."""

    DEFAULT_CSS = """
    LogTail { height: 1fr; }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._log: tuple[str, ...] = ()
        self._empty = "the log is empty"
        self._titled = ""

    def show(self, lines: Sequence[str], *, title: str = "", empty: str = "the log is empty") -> None:
        self._log = tuple(lines)
        self._empty = empty
        title = safe_text(title, 120)
        if title != self._titled:
            self._titled = title
            self.border_title = Content(title)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if not self._log:
            return ((Run(safe_text(self._empty, width), "dim"),),)
        bordered = self.styles.border_top[0] not in ("", "none", "hidden")
        untitled = bordered or not self._titled or height < 3
        head: list[Row] = [] if untitled else [(Run(safe_text(self._titled, width), "dim"),)]
        kept = self._log[-(height - len(head)) :]
        return [*head, *((Run(safe_text(text.rstrip("\r\n"), width)),) for text in kept)]
