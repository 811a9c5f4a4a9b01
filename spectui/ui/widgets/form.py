"""A form of lines and a line that asks: values are stepped through or typed, nothing blinks."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from rich.style import Style
from textual import events
from textual.message import Message

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines
from spectui.ui.widgets.rows import RowList
from spectui.ui.widgets.text_table import fitted, wrapped


@dataclass(frozen=True, slots=True)
class Field:
    key: str
    label: str
    value: str = ""
    choices: tuple[str, ...] = ()
    """Stepped through with the arrows; without any, the value is typed."""
    help: str = ""
    fault: str = ""
    """What is wrong with the value."""
    placeholder: str = ""
    """Shown while there is no value: what is taken then."""


class Form(Lines, can_focus=True):
    """``show(fields)``. Up and down choose a field, left and right step a choice, letters are typed. Each change is
    posted as :class:`Changed`; the owner checks it and shows the fields anew."""

    COMPONENT_CLASSES = RowList.COMPONENT_CLASSES
    DEFAULT_CSS = """
    Form {
        & .lines--cursor { text-style: reverse; }
        & .lines--cursor-blurred { text-style: bold; }
    }
    """

    @dataclass
    class Changed(Message):
        form: Form
        key: str
        value: str

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self.fields: tuple[Field, ...] = ()
        self._at = 0
        self._top = 0

    def show(self, fields: Sequence[Field]) -> None:
        self.fields = tuple(fields)
        self._at = max(0, min(self._at, len(self.fields) - 1))
        self.redraw()

    @property
    def values(self) -> dict[str, str]:
        return {one.key: one.value for one in self.fields}

    @property
    def field(self) -> Field | None:
        return self.fields[self._at] if self.fields else None

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        return max(1, len(self.fields) + self._helped)

    @property
    def _helped(self) -> bool:
        """Whether a row tells what the field under the cursor is: not while the form is only looked at."""
        one = self.field
        return self.has_focus or (one is not None and bool(one.fault))

    def on_key(self, event: events.Key) -> None:
        one = self.field
        if one is None:
            return
        if event.key in ("up", "down"):
            self._at = max(0, min(len(self.fields) - 1, self._at + (1 if event.key == "down" else -1)))
            self.redraw()
        elif event.key in ("left", "right") and one.choices:
            at = one.choices.index(one.value) if one.value in one.choices else 0
            self._put(one, one.choices[(at + (1 if event.key == "right" else -1)) % len(one.choices)])
        elif one.choices and event.key == "space":
            at = one.choices.index(one.value) if one.value in one.choices else -1
            self._put(one, one.choices[(at + 1) % len(one.choices)])
        elif event.key in ("backspace", "ctrl+h") and not one.choices:
            self._put(one, one.value[:-1])
        elif event.key == "ctrl+u" and not one.choices:
            self._put(one, "")
        elif event.is_printable and event.character and not one.choices:
            self._put(one, one.value + event.character)
        else:
            return
        event.stop()
        event.prevent_default()

    def _put(self, one: Field, value: str) -> None:
        fields = list(self.fields)
        fields[self._at] = replace(one, value=value, fault="")
        self.fields = tuple(fields)
        self.redraw()
        self.post_message(self.Changed(self, one.key, value))

    def on_focus(self) -> None:
        self.redraw()

    def on_blur(self) -> None:
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        if not self.fields or height <= 0:
            return ()
        names = max(len(one.label) for one in self.fields) + 2
        room = max(1, height - self._helped)
        self._top = max(0, min(self._top, len(self.fields) - room, self._at))
        if self._at >= self._top + room:
            self._top = self._at - room + 1
        rows = [
            self._row(one, names, width, number == self._at)
            for number, one in enumerate(self.fields[self._top : self._top + room], self._top)
        ]
        one = self.field
        if one is not None and height > 1 and self._helped:
            said = one.fault or one.help
            rows.append((Run(safe_text(f"  {said}", width), "bad" if one.fault else "dim"),))
        return rows

    def _row(self, one: Field, names: int, width: int, here: bool) -> Row:
        value = safe_text(one.value, max(1, width - names - 8))
        if one.choices:
            shown = f"◂ {value} ▸" if here and self.has_focus else f"  {value}"
        else:
            shown = f"  {value}{'_' if here and self.has_focus else ''}"
        head = f"{'▸' if here else ' '} {fitted(one.label, names)}"
        tag = ("cursor" if self.has_focus else "cursor-blurred") if here else ""
        runs = [Run(head + shown, tag)]
        if not one.value and one.placeholder:
            runs.append(Run(f" {safe_text(one.placeholder, max(0, width - len(head) - len(shown) - 1))}", "dim"))
        if one.fault:
            runs.append(Run("  ✗", "bad"))
        return tuple(runs)

    def _style(self, tag: str) -> Style:
        if tag in ("cursor", "cursor-blurred"):
            return self.get_component_rich_style(f"lines--{tag}")
        return super()._style(tag)


@dataclass(frozen=True, slots=True)
class Question:
    text: str
    done: Callable[[str], None] = field(repr=False)
    """Called with the answer; an escape calls nothing."""
    expected: str | None = None
    """What must be typed, letter by letter."""
    letters: str = ""
    """One key answers: any of these."""
    given: str = ""
    """What stands there at first."""
    left: Callable[[], None] | None = field(default=None, repr=False)
    """Called when it is left without an answer."""


class AskLine(Lines, can_focus=True):
    """``ask(question)`` takes the keys until enter or escape, then gives the focus back to who had it."""

    DEFAULT_CSS = """
    AskLine { height: 2; display: none; }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self.question: Question | None = None
        self._typed = ""
        self._before: Lines | None = None

    def ask(self, question: Question) -> None:
        if self.question is None:
            had = self.screen.focused
            self._before = had if isinstance(had, Lines) else None
        self.question, self._typed = question, question.given
        self.display = True
        self.focus()
        self.redraw()

    def close(self) -> None:
        self.question = None
        self.display = False
        if self._before is not None and self._before.is_attached:
            self._before.focus()

    def _wanted(self, width: int) -> list[Row]:
        question = self.question
        if question is None or width <= 0:
            return []
        rows = wrapped(question.text, width, "warn")[:4]
        if not question.letters:
            typed = self._typed[-max(1, width - 4) :]
            rows.append((Run(f"> {safe_text(typed, width)}_", "strong"),))
        return rows

    def rows(self, width: int, height: int) -> Sequence[Row]:
        return self._wanted(width)[-height:] if height else ()

    def redraw(self) -> None:
        if self.is_attached and self.question is not None:
            wanted = max(1, len(self._wanted(self.app.size.width)))
            if self.styles.height is None or self.styles.height.value != wanted:
                self.styles.height = wanted
        super().redraw()

    def on_key(self, event: events.Key) -> None:
        question = self.question
        if question is None:
            return
        event.stop()
        event.prevent_default()
        if event.key == "escape":
            self.close()
            if question.left is not None:
                question.left()
        elif question.letters:
            if event.character and event.character.lower() in question.letters:
                self.close()
                question.done(event.character.lower())
        elif event.key == "enter":
            self._answer(question)
        elif event.key in ("backspace", "ctrl+h"):
            self._typed = self._typed[:-1]
        elif event.key == "ctrl+u":
            self._typed = ""
        elif event.is_printable and event.character:
            self._typed += event.character
        self.redraw()

    def on_paste(self, event: events.Paste) -> None:
        event.stop()
        self._typed += event.text.split("\n")[0]
        self.redraw()

    def _answer(self, question: Question) -> None:
        if question.expected is not None and self._typed.strip() != question.expected:
            again = replace(question, text=f"that is not {question.expected}: type it as it stands, or esc", given="")
            self.ask(again)
            return
        typed = self._typed.strip()
        self.close()
        question.done(typed)
