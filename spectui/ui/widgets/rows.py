"""A list of aligned lines under a cursor, and a page of text that scrolls: for the keyboard, and cheap in bytes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import ClassVar

from rich.style import Style
from textual import events
from textual.message import Message

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines
from spectui.ui.widgets.text_table import Cell, Column, heading, table_row, text_of, widths

_STEP_KEYS = {"up": -1, "k": -1, "down": 1, "j": 1}
Content = Callable[[int], Sequence[Row]]
"""Width -> rows."""


@dataclass(frozen=True, slots=True)
class Item:
    key: str
    """Unique in its list: the cursor stays on it when the list changes."""
    cells: tuple[Cell, ...]
    words: str = ""
    """More that the filter looks at."""
    marked: bool = False


class RowList(Lines, can_focus=True):
    """``show(columns, items)``. Arrows, page keys and home/end move; ``begin_filter`` takes letters until enter or
    escape. Posts :class:`Moved` when another item comes under the cursor."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--cursor-blurred"}

    DEFAULT_CSS = """
    RowList {
        height: 1fr;
        min-height: 2;
        & .lines--cursor { text-style: reverse; }
        & .lines--cursor-blurred { text-style: bold; }
    }
    """

    @dataclass
    class Moved(Message):
        """Another item is under the cursor, or none."""

        rows: RowList
        item: Item | None

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._columns: tuple[Column, ...] = ()
        self._items: tuple[Item, ...] = ()
        self._shown_items: tuple[Item, ...] = ()
        self._at = 0
        self._top = 0
        self._key: str | None = None
        self.empty = "reading …"
        self.filter = ""
        self.typing = False

    # -- what it holds

    def show(self, columns: Sequence[Column], items: Sequence[Item], *, empty: str = "") -> None:
        self._columns, self._items = tuple(columns), tuple(items)
        self.empty = empty or "nothing here yet"
        self._take()

    @property
    def item(self) -> Item | None:
        """Under the cursor."""
        return self._shown_items[self._at] if self._shown_items else None

    @property
    def items(self) -> tuple[Item, ...]:
        """Those that the filter leaves."""
        return self._shown_items

    def go_to(self, key: str) -> None:
        found = next((i for i, item in enumerate(self._shown_items) if item.key == key), None)
        if found is not None:
            self._move_to(found)

    def _take(self) -> None:
        words = self.filter.lower().split()
        kept = self._items
        if words:
            kept = tuple(item for item in kept if all(word in _searched(item) for word in words))
        self._shown_items = kept
        at = next((i for i, item in enumerate(kept) if item.key == self._key), None)
        self._at = at if at is not None else max(0, min(self._at, len(kept) - 1))
        self._tell()
        self.redraw()

    def _tell(self) -> None:
        item = self.item
        key = item.key if item is not None else None
        if key != self._key:
            self._key = key
            if self.is_attached:
                self.post_message(self.Moved(self, item))

    def _move_to(self, at: int) -> None:
        self._at = max(0, min(at, len(self._shown_items) - 1))
        self._tell()
        self.redraw()

    # -- keys

    def begin_filter(self) -> None:
        self.typing = True
        self.focus()
        self.redraw()

    def clear_filter(self) -> bool:
        """True when there was one."""
        had = bool(self.filter) or self.typing
        self.filter, self.typing = "", False
        self._take()
        return had

    def on_key(self, event: events.Key) -> None:
        if self.typing:
            self._type(event)
            return
        page = max(1, self.size.height - 2)
        steps = {**_STEP_KEYS, "pageup": -page, "pagedown": page}
        if event.key in steps:
            self._move_to(self._at + steps[event.key])
        elif event.key in ("home", "end"):
            self._move_to(0 if event.key == "home" else len(self._shown_items) - 1)
        else:
            return
        event.stop()

    def _type(self, event: events.Key) -> None:
        if event.key == "escape":
            self.clear_filter()
        elif event.key == "enter":
            self.typing = False
        elif event.key in ("backspace", "ctrl+h"):
            self.filter = self.filter[:-1]
        elif event.key in ("up", "down"):
            self._move_to(self._at + _STEP_KEYS[event.key])
        elif event.is_printable and event.character:
            self.filter += event.character
        else:
            return
        event.stop()
        event.prevent_default()
        self._take()

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.typing = False
        self.redraw()

    # -- drawing

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if height <= 0 or width <= 0:
            return ()
        head: list[Row] = []
        if self.filter or self.typing:
            count = f"{len(self._shown_items)} of {len(self._items)}"
            head.append(
                (Run(f"/{safe_text(self.filter, 60)}{'_' if self.typing else ''}", "a"), Run(f"  {count}", "dim"))
            )
        if not self._shown_items:
            why = f"nothing matches; esc shows all {len(self._items)}" if self._items else self.empty
            return [*head, (Run(safe_text(why, width), "dim"),)][:height]
        sizes = widths(self._columns, [item.cells for item in self._items], width - 2)
        if height - len(head) > 2 and any(column.title for column in self._columns):
            head.append((Run("  "), *heading(self._columns, sizes)))
        room = max(1, height - len(head))
        self._top = max(0, min(self._top, len(self._shown_items) - room))
        if self._at < self._top:
            self._top = self._at
        elif self._at >= self._top + room:
            self._top = self._at - room + 1
        body = [
            self._row(item, sizes, width, number == self._at)
            for number, item in enumerate(self._shown_items[self._top : self._top + room], self._top)
        ]
        return [*head, *body][:height]

    def _row(self, item: Item, sizes: Sequence[int], width: int, here: bool) -> Row:
        sign = "▸" if here else "•" if item.marked else " "
        row = table_row(self._columns, sizes, item.cells)
        if not here:
            return (Run(f"{sign} ", "a" if item.marked else ""), *row)
        text = f"{sign}{'•' if item.marked else ' '}" + "".join(run.text for run in row)
        return (Run(text, "cursor" if self.has_focus else "cursor-blurred"),)

    def _style(self, tag: str) -> Style:
        if tag in ("cursor", "cursor-blurred"):
            return self.get_component_rich_style(f"lines--{tag}")
        return super()._style(tag)


def _searched(item: Item) -> str:
    return f"{' '.join(text_of(cell) for cell in item.cells)} {item.words}".lower()


class TextPage(Lines, can_focus=True):
    """``show(content)``: rows made for a width, scrolled by the keyboard. What is below is said in the last row."""

    DEFAULT_CSS = """
    TextPage { height: 1fr; min-height: 1; }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._content: Content = lambda width: ()
        self._made: tuple[int, Sequence[Row]] | None = None
        self._top = 0

    def show(self, content: Content, *, keep_place: bool = True) -> None:
        self._content, self._made = content, None
        if not keep_place:
            self._top = 0
        self.redraw()

    def scroll_by(self, lines: int) -> None:
        self._top = max(0, self._top + lines)
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if self._made is None or self._made[0] != width:
            self._made = width, self._content(width)
        whole = self._made[1]
        self._top = max(0, min(self._top, len(whole) - height))
        shown = list(whole[self._top : self._top + height])
        below = len(whole) - self._top - height
        if below > 0 and height > 1:
            shown[-1] = (Run(safe_text(f"… {below + 1} more lines", width), "dim"),)
        return shown

    def on_key(self, event: events.Key) -> None:
        page = max(1, self.size.height - 1)
        steps = {**_STEP_KEYS, "pageup": -page, "pagedown": page, "home": -(10**9), "end": 10**9}
        if event.key not in steps:
            return
        self.scroll_by(steps[event.key])
        event.stop()
