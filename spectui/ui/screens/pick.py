"""A dialog with a list of rows, of which one is taken."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.screen import ModalScreen

from spectui.core.braille import Run
from spectui.ui.widgets.lines import Part
from spectui.ui.widgets.rows import Item, RowList
from spectui.ui.widgets.text_table import Column, titled


class Pick(ModalScreen["str | None"]):
    """One of a list, by its key; escape is none of them. Letters filter at once."""

    DEFAULT_CSS = """
    Pick {
        align: center middle;
        & > Container {
            width: 100; max-width: 96%; height: 24; max-height: 90%;
            border: round $border; background: $panel; padding: 0 1;
        }
        & Part { height: 1; width: 100%; }
    }
    """
    BINDINGS: ClassVar[list[Any]] = [Binding("escape", "none", show=False), Binding("enter", "take", show=False)]

    def __init__(
        self, title: str, columns: Sequence[Column], items: Sequence[Item], empty: str = "nothing to choose"
    ) -> None:
        super().__init__()
        self._title, self._columns, self._items, self._empty = title, tuple(columns), tuple(items), empty

    def compose(self) -> ComposeResult:
        with Container():
            yield Part(id="pick-title")
            yield RowList(id="pick")
            yield Part(id="pick-keys")

    def on_mount(self) -> None:
        rows = self.query_one("#pick", RowList)
        rows.show(self._columns, self._items, empty=self._empty)
        rows.focus()
        self.query_one("#pick-keys", Part).show(
            [
                (
                    Run("enter", "strong"),
                    Run(" take it  "),
                    Run("/", "strong"),
                    Run(" filter  "),
                    Run("esc", "strong"),
                    Run(" none"),
                )
            ]
        )
        self.call_after_refresh(self._head)

    def _head(self) -> None:
        part = self.query_one("#pick-title", Part)
        part.show([titled(self._title, part.size.width)])

    def on_key(self, event: Any) -> None:
        if event.key == "slash":
            event.stop()
            self.query_one("#pick", RowList).begin_filter()

    def action_take(self) -> None:
        item = self.query_one("#pick", RowList).item
        self.dismiss(item.key if item is not None else None)

    def action_none(self) -> None:
        self.dismiss(None)
