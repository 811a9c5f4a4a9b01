"""The answer as it streams, coloured by how many tokens each verify step gave: where drafting works is seen at once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from rich.cells import get_character_cell_size
from textual.content import Content

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

_PIECE = 2000
_KEPT_LINES = 400


class Piece(NamedTuple):
    text: str
    tokens: int
    """Tokens that came with it: the length of the accepted run, at least 1."""


class AnswerData(NamedTuple):
    rid: str
    """Another one begins a new answer."""
    pieces: tuple[Piece, ...] = ()
    done: bool = False
    label: str = ""


def level(tokens: int) -> str:
    """Style of a run of that many tokens: 1, 2, 3–4, 5–7, 8 and more."""
    return next((tag for most, tag in ((1, "run1"), (2, "run2"), (4, "run3"), (7, "run4")) if tokens <= most), "run5")


class AnswerView(Lines):
    """The last lines that fit. With ``ruler`` each line has a second one below it, with the number of tokens under
    the first letter of each run: legible without any colour. It is on where the form is ASCII or colour is off."""

    DEFAULT_CSS = """
    AnswerView { height: 1fr; }
    """

    def __init__(
        self,
        *,
        ruler: bool | None = None,
        form: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._ruler = ruler
        self._data = AnswerData("")
        self._wrapped = Wrapped(0)

    def on_mount(self) -> None:
        if self.ruler:
            self.border_subtitle = "below each run: its tokens"
        else:
            self.border_subtitle = Content.assemble(
                ("tokens a step: 1", "$text-muted"), " 2 ", ("3–4 ", "$primary"), ("5–7 ", "$secondary"),
                ("8+", "$secondary bold underline"),
            )  # fmt: skip

    @property
    def ruler(self) -> bool:
        if self._ruler is not None:
            return self._ruler
        return self.form == "ascii" or bool(self.app.no_color)

    @ruler.setter
    def ruler(self, value: bool | None) -> None:
        self._ruler = value
        self.redraw()

    def show(self, data: AnswerData) -> None:
        self._data = data
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        data = self._data
        if not data.pieces:
            return ((Run("the answer appears here as it streams"[:width], "dim"),),)
        if not self._wrapped.extends(data, width):
            self._wrapped = Wrapped(width)
        self._wrapped.add(data)
        ruler = self.ruler and height >= 2
        many = height // 2 if ruler else height
        rows: list[Row] = []
        for line, marks in self._wrapped.tail(many):
            rows.append(line)
            if ruler:
                rows.append(marks)
        return rows


class Wrapped:
    """Pieces broken into lines of a width. It grows piece by piece: a long answer is not broken anew each time."""

    def __init__(self, width: int) -> None:
        self.width = width
        self._rid: str | None = None
        self._pieces: tuple[Piece, ...] = ()
        self._lines: list[tuple[list[Run], list[str]]] = [([], [])]
        self._used = 0

    def extends(self, data: AnswerData, width: int) -> bool:
        count = len(self._pieces)
        if width != self.width or data.rid != self._rid or len(data.pieces) < count:
            return False
        return count == 0 or data.pieces[count - 1] == self._pieces[-1]

    def add(self, data: AnswerData) -> None:
        fresh = data.pieces[len(self._pieces) :]
        self._rid, self._pieces = data.rid, data.pieces
        for piece in fresh:
            self._add(piece)
        if len(self._lines) > _KEPT_LINES:
            del self._lines[: -_KEPT_LINES // 2]

    def _add(self, piece: Piece) -> None:
        tag = level(piece.tokens)
        digit = str(piece.tokens) if piece.tokens < 10 else "+"
        first = True
        for number, part in enumerate(piece.text[:_PIECE].replace("\r\n", "\n").split("\n")):
            if number:
                self._break()
            for sign in safe_text(part, _PIECE):
                size = get_character_cell_size(sign)
                if self._used + size > self.width:
                    self._break()
                line, marks = self._lines[-1]
                if line and line[-1].tag == tag and not first:
                    line[-1] = Run(line[-1].text + sign, tag)
                else:
                    line.append(Run(sign, tag))
                if size:
                    marks.append((digit if first else "·").ljust(size, "·"))
                first = False
                self._used += size

    def _break(self) -> None:
        self._lines.append(([], []))
        self._used = 0

    def tail(self, many: int) -> list[tuple[Row, Row]]:
        """(text, ruler) of the last lines; an empty line at the end is left out."""
        lines = self._lines[:-1] if len(self._lines) > 1 and not self._lines[-1][0] else self._lines
        return [(tuple(line), (Run("".join(marks), "dim"),)) for line, marks in lines[-many:]] if many > 0 else []
