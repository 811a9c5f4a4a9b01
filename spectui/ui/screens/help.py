"""Every key, in one place, from the table that the bindings come from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Label

from spectui.ui.commands import Command, key_word

_GROUPS = {
    "flip": "Change a setting",
    "measure": "Measure",
    "arms": "Arms",
    "keep": "Keep",
    "look": "Look",
    "screens": "Screens",
}


class HelpScreen(ModalScreen[None]):
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,question_mark,q", "leave", show=False),
    ]

    def __init__(self, commands: Sequence[Command], keys: Mapping[str, str]) -> None:
        super().__init__()
        self._commands, self._keys = tuple(commands), dict(keys)

    def compose(self) -> ComposeResult:
        with VerticalScroll(classes="dialog"):
            yield Label(Content(help_text(self._commands, self._keys)), id="help-text")

    def action_leave(self) -> None:
        self.dismiss(None)


def help_text(commands: Sequence[Command], keys: Mapping[str, str]) -> str:
    lines = ["esc leaves, the arrow keys move"]
    for group, title in _GROUPS.items():
        rows = [c for c in commands if c.group == group]
        if rows:
            lines.append(title)
            lines += [f"  {key_word(c, dict(keys)):<8} {c.help}" for c in rows]
    lines.append('Keys can be changed: table [keys] of config.toml, for example run = "f5"')
    return "\n".join(lines)
