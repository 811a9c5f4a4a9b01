"""A form made from fields: the settings of an algorithm, or what to measure with. Keyboard only."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

from textual import events
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Input, Label

from spectui.core.safe import safe_text
from spectui.ui.screens.dialogs import fit

Said = tuple[str, str]
"""(sentence, bad, warn or empty)"""


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    """Where given, left and right go through them."""
    help: str = ""
    placeholder: str = ""


class FieldInput(Input):
    """One line; with choices, left and right (or space) go through them, and a letter jumps to the next one of it."""

    def __init__(self, field: Field) -> None:
        super().__init__(field.value, placeholder=field.placeholder, id=f"field-{field.key.replace('.', '-')}")
        self.field = field
        self.cursor_blink = False

    async def _on_key(self, event: events.Key) -> None:
        if self.field.choices and event.key in ("left", "right", "space"):
            event.stop()
            event.prevent_default()
            known = list(self.field.choices)
            at = known.index(self.value) if self.value in known else -1 if event.key != "left" else 0
            self.value = known[(at + (-1 if event.key == "left" else 1)) % len(known)]
            return
        if self.field.choices and event.is_printable and event.character:
            event.stop()
            event.prevent_default()
            self._jump(event.character)
            return
        await super()._on_key(event)

    def _jump(self, letter: str) -> None:
        """To the next choice that begins with the letter; nothing else can be typed where there are choices."""
        known = list(self.field.choices)
        at = known.index(self.value) if self.value in known else -1
        following = known[at + 1 :] + known[: at + 1]
        self.value = next((one for one in following if one.lower().startswith(letter.lower())), self.value)


class FormScreen(ModalScreen[dict[str, str] | None]):
    """Ends with the texts of the fields by key, or None. ``check`` says what would come of them, at each change;
    while it says something bad, enter does not end the form."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "leave", show=False),
        Binding("down,tab", "step(1)", show=False, priority=True),
        Binding("up,shift+tab", "step(-1)", show=False, priority=True),
        Binding("enter", "accept", show=False, priority=True),
    ]

    def __init__(
        self,
        title: str,
        fields: Sequence[Field],
        *,
        check: Callable[[Mapping[str, str]], Sequence[Said]] | None = None,
        accept: str = "stage",
    ) -> None:
        super().__init__()
        self._title, self._fields, self._check, self._accept = title, tuple(fields), check, accept
        self._bad = False

    def compose(self) -> ComposeResult:
        with Vertical(classes="dialog"):
            yield Label(Content(self._title), classes="title")
            with Vertical(id="fields"):
                for field in self._fields:
                    with Vertical(classes="field"):
                        yield Label(Content(safe_text(field.label, 29)))
                        yield FieldInput(field)
            yield Label(Content(""), id="explain", classes="hint")
            yield Label(Content(""), id="said", classes="said")
            yield Label(Content(f"tab next, ← → go through choices, enter {self._accept}, esc leave"), classes="hint")

    def on_mount(self) -> None:
        self._say()
        self.set_focus(self.query(FieldInput).first())

    def on_resize(self) -> None:
        # title, two rows of help, what is said, keys
        fit(self, self.query_one("#fields"), beside=6, beside_low=1)

    def values(self) -> dict[str, str]:
        return {entry.field.key: entry.value for entry in self.query(FieldInput)}

    def _say(self) -> None:
        said = list(self._check(self.values())) if self._check is not None else []
        self._bad = any(tone == "bad" for _, tone in said)
        label = self.query_one("#said", Label)
        label.update(Content("\n".join(safe_text(text, 240) for text, _ in said)))
        label.set_class(self._bad, "bad")
        label.set_class(not self._bad and any(tone == "warn" for _, tone in said), "warn")

    def on_input_changed(self) -> None:
        self._say()

    def on_descendant_focus(self) -> None:
        if isinstance(self.focused, FieldInput):
            self.query_one("#explain", Label).update(Content(safe_text(self.focused.field.help, 240)))

    def action_step(self, by: int) -> None:
        entries = list(self.query(FieldInput))
        at = entries.index(self.focused) if self.focused in entries else 0
        # At once: a letter that is already waiting behind this key belongs to the field that it leads to.
        self.set_focus(entries[(at + by) % len(entries)])

    def action_accept(self) -> None:
        if not self._bad:
            self.dismiss(self.values())

    def action_leave(self) -> None:
        self.dismiss(None)
