"""Questions before something that costs: yes or no, a word to type, or a name to give."""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.core.safe import safe_text


class ConfirmScreen(ModalScreen[str | None]):
    """Ends with the value of the key that was pressed, None for esc. ``keys``: (key, value, what it does)."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, lines: Sequence[str], keys: Sequence[tuple[str, str, str]]) -> None:
        super().__init__()
        self._title, self._lines, self._keys = title, tuple(lines), tuple(keys)
        for key, value, _ in keys:
            self._bindings.bind(key, f"end('{value}')")

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Content(self._title), classes="title")
            yield Label(Content("\n".join(safe_text(line, 400) for line in self._lines)), id="help-text")
            shown = ", ".join(f"{key} {what}" for key, _, what in self._keys)
            yield Label(Content(f"{shown}, esc leave it as it is"), classes="hint")

    def action_end(self, value: str) -> None:
        self.dismiss(value)

    def action_leave(self) -> None:
        self.dismiss(None)


class TypeScreen(ModalScreen[str | None]):
    """Ends with the typed text. With ``wanted``, only that very text is taken: a confirmation that no slip gives."""

    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape", "leave", show=False)]

    def __init__(self, title: str, lines: Sequence[str] = (), *, value: str = "", wanted: str | None = None) -> None:
        super().__init__()
        self._title, self._lines, self._value, self._wanted = title, tuple(lines), value, wanted

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Content(self._title), classes="title")
            if self._lines:
                yield Label(Content("\n".join(safe_text(line, 400) for line in self._lines)), id="help-text")
            field = Input(self._value, id="typed")
            field.cursor_blink = False
            yield field
            yield Label(Content("enter takes it, esc leaves"), classes="hint")

    def on_input_submitted(self, event: Input.Submitted) -> None:
        text = event.value.strip()
        if self._wanted is not None and text != self._wanted:
            self.query_one(".hint", Label).update(Content(f"type {self._wanted} to go on, esc leaves"))
            return
        if text:
            self.dismiss(text)

    def action_leave(self) -> None:
        self.dismiss(None)
