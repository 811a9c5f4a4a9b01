"""Choosing one thing from a list, by typing a part of its name, by arrows, or by the digit beside it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label, OptionList
from textual.widgets.option_list import Option

from spectui.core.safe import safe_text, to_ascii
from spectui.ui.screens.dialogs import fit

_WIDTH = 78


@dataclass(frozen=True, slots=True)
class Item:
    value: str
    name: str
    detail: str = ""


class SearchInput(Input):
    """While it is empty, a digit chooses."""

    async def _on_key(self, event: events.Key) -> None:
        digit = event.character if event.character and event.character in "123456789" else None
        if digit is not None and not self.value and isinstance(self.screen, ChooseScreen) and self.screen.pick(digit):
            event.stop()
            event.prevent_default()
            return
        await super()._on_key(event)


class ChooseScreen(ModalScreen[str | None]):
    """Ends with the value of the chosen item, with the typed text where ``free``, or with None."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("down", "move(1)", show=False, priority=True),
        Binding("up", "move(-1)", show=False, priority=True),
        Binding("pagedown", "move(10)", show=False, priority=True),
        Binding("pageup", "move(-10)", show=False, priority=True),
    ]

    def __init__(
        self, title: str, items: Sequence[Item], *, free: str = "", digits: bool = True, current: str | None = None
    ) -> None:
        super().__init__()
        self._title, self._items, self._free, self._digits = title, list(items), free, digits
        self._current = current
        self._shown: list[Item] = []

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Content(self._title), classes="title")
            field = SearchInput(placeholder=self._free or "type to search", id="search")
            field.cursor_blink = False
            yield field
            yield OptionList(id="items")
            digits = "1–9 choose, " if self._digits else ""
            yield Label(Content(f"{digits}↑ ↓ move, enter choose, esc leave"), classes="hint")

    def on_mount(self) -> None:
        self.query_one(OptionList).can_focus = False
        self._show("")
        at = next((i for i, item in enumerate(self._shown) if item.value == self._current), 0)
        self.query_one(OptionList).highlighted = at if self._shown else None

    def on_resize(self) -> None:
        fit(self, self.query_one(OptionList), beside=4, beside_low=1)

    def _show(self, text: str) -> None:
        words = text.lower().split()
        found = [i for i in self._items if all(w in f"{i.name} {i.detail}".lower() for w in words)]
        self._shown = found
        options = self.query_one(OptionList)
        options.clear_options()
        plain = getattr(self.app, "chart_form", "") == "ascii"
        lines = [self._line(number, item) for number, item in enumerate(found)]
        options.add_options([Option(Content(to_ascii(line) if plain else line)) for line in lines])
        if found:
            options.highlighted = 0

    def _line(self, number: int, item: Item) -> str:
        digit = f"{number + 1} " if self._digits and number < 9 else "  "
        name = safe_text(item.name, 44)
        return safe_text(
            f"{digit if self._digits else ''}{name:<26} {item.detail}", min(_WIDTH, max(20, self.app.size.width - 7))
        )

    def on_input_changed(self, event: Input.Changed) -> None:
        self._show(event.value)

    def pick(self, digit: str) -> bool:
        """Ends with the item beside that digit; False where there is none."""
        number = int(digit) - 1
        if not self._digits or number >= len(self._shown):
            return False
        self.dismiss(self._shown[number].value)
        return True

    def on_input_submitted(self, event: Input.Submitted) -> None:
        at = self.query_one(OptionList).highlighted
        if at is not None and at < len(self._shown):
            self.dismiss(self._shown[at].value)
        elif self._free and event.value.strip():
            self.dismiss(event.value.strip())

    def on_option_list_option_selected(self, event: OptionList.OptionSelected) -> None:
        self.dismiss(self._shown[event.option_index].value)

    def action_move(self, by: int) -> None:
        options = self.query_one(OptionList)
        if self._shown:
            options.highlighted = min(len(self._shown) - 1, max(0, (options.highlighted or 0) + by))

    def action_leave(self) -> None:
        self.dismiss(None)
