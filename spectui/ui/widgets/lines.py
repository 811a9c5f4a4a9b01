"""The ground of every widget that moves: rows of runs in, only changed spans out.

Textual sends every dirty cell again, changed or not, and with a span all that is left of it in the same widget
(``ChopsUpdate.render_segments``, Textual 8.2). So a widget here compares its new rows with those on the screen and asks
for one span a row, from the first to the last cell that differs; equal rows cost nothing. What changes often stands
far left, or in a widget of its own.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.cells import get_character_cell_size
from rich.segment import Segment
from rich.style import Style
from textual.color import Color
from textual.geometry import Region
from textual.strip import Strip
from textual.widget import Widget

from spectui.core.braille import FORMS, Row, Run
from spectui.core.safe import to_ascii
from spectui.ui import themes

Cell = tuple[str, str]
"""(signs, tag) of one cell; no signs for the second half of a wide one."""

LOOKS: dict[str, tuple[str, str, str]] = {
    "dim": ("", "", "dim"),
    "strong": ("", "", "bold"),
    "a": ("primary", "cyan", ""),
    "b": ("secondary", "yellow", ""),
    "c": ("accent", "magenta", ""),
    "d": ("success", "green", ""),
    "good": ("success", "green", ""),
    "warn": ("warning", "yellow", ""),
    "bad": ("error", "red", "bold"),
    "ref": ("", "", "dim"),
    "axis": ("", "", "dim"),
    "mark": ("accent", "magenta", ""),
    "run1": ("", "", "dim"),
    "run2": ("foreground", "default", ""),
    "run3": ("primary", "cyan", ""),
    "run4": ("secondary", "yellow", ""),
    "run5": ("secondary", "yellow", "bold underline"),
}
"""Tag -> (colour of the theme, colour of an ANSI terminal, further style). ``a`` to ``d`` are the arms, ``run1`` to
``run5`` the lengths of accepted runs. Not component classes of the style sheet: those would be worked out for each tag
of each widget before the first frame, a tenth of the time that it takes."""
TAGS = tuple(LOOKS)
UNDERLINED = frozenset(tag for tag, (_, _, more) in LOOKS.items() if "underline" in more)
LEAST_CONTRAST = 4.5
"""Of letters against their ground (WCAG 2.1, 1.4.3)."""


def tag_style(tag: str, variables: Mapping[str, str], *, ansi: bool) -> Style:
    """What a tag adds to the style of the widget that it stands in."""
    name, ansi_name, more = LOOKS[tag]
    look = Style.parse(more) if more else Style.null()
    if not name:
        return look
    if ansi:
        return look + Style(color=ansi_name)
    wanted = Color.parse(variables.get(f"tag-{name}") or themes.FOREIGN.get(name) or variables[name])
    return look + Style(color=legible(wanted, Color.parse(variables["background"])).hex6)


def legible(colour: Color, ground: Color) -> Color:
    """The colour, moved towards black or white until it can be read on its ground: themes of others are not made for
    letters in their accents."""
    end = Color(0, 0, 0) if luminance(ground) > 0.18 else Color(255, 255, 255)
    for step in range(11):
        found = colour.blend(end, step / 10)
        if contrast(found, ground) >= LEAST_CONTRAST:
            return found
    return end


def contrast(one: Color, other: Color) -> float:
    """From 1 to 21, by WCAG 2.1."""
    low, high = sorted((luminance(one), luminance(other)))
    return (high + 0.05) / (low + 0.05)


def luminance(colour: Color) -> float:
    r, g, b = (v / 12.92 if v <= 0.04045 else ((v + 0.055) / 1.055) ** 2.4 for v in colour.normalized)
    return 0.2126 * r + 0.7152 * g + 0.0722 * b


class Lines(Widget):
    """Shows what :meth:`rows` returns. A subclass keeps its values, and calls :meth:`redraw` when they have changed.

    The form (braille, block or ascii) is the app's ``chart_form`` unless one is given; in the ascii form every sign
    outside ASCII is replaced by one inside, cell for cell.
    """

    DEFAULT_CSS = """
    Lines {
        height: auto;
        max-height: 100%;
    }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(id=id, classes=classes)
        self._form = form
        self._shown: list[list[Cell]] | None = None
        self._drawn_size: tuple[int, int] = (0, 0)
        self._strips: dict[int, Strip] = {}
        self._kept: dict[tuple[int, bool, Row], list[Cell]] = {}
        self._tag_styles: dict[str, Style] = {}
        self._height_asked = 0
        self.spans_asked = 0
        """Spans that were asked to be drawn again since the start, the whole widget counting as one."""

    @property
    def form(self) -> str:
        if self._form is not None:
            return self._form
        form = str(getattr(self.app, "chart_form", "braille"))
        return form if form in FORMS else "braille"

    def rows(self, width: int, height: int) -> Sequence[Row]:
        """At most ``height`` rows of at most ``width`` cells; what is beyond is cut."""
        return ()

    def redraw(self) -> None:
        """Compares what is to be shown with what is shown, and refreshes the spans that differ."""
        if not self.is_attached:
            return
        width, height = self.size
        if width and self.styles.auto_dimensions:
            wanted = self.get_content_height(self.size, self.size, width)
            if wanted != self._height_asked:  # asked for once: what holds it may have no more room to give
                self._height_asked = wanted
                if wanted != height:
                    self.refresh(layout=True)
        fresh = self._cells(width, height)
        if self._shown is None or self._drawn_size != (width, height):
            self._shown, self._drawn_size = fresh, (width, height)
            self._strips.clear()
            self.spans_asked += 1
            self.refresh()
            return
        regions: list[Region] = []
        for y, (old, new) in enumerate(zip(self._shown, fresh, strict=True)):
            if old is not new and old != new:
                self._strips.pop(y, None)
                start, end = changed_span(old, new)
                if start < end:
                    regions.append(Region(start, y, end - start, 1))
        self._shown = fresh
        if regions:
            self.spans_asked += len(regions)
            self.refresh(*regions)

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        """Rows wanted where the height is left to the widget."""
        return 1

    def _cells(self, width: int, height: int) -> list[list[Cell]]:
        if width <= 0 or height <= 0:
            return []
        kept, self._kept = self._kept, {}
        ascii_only = self.form == "ascii"
        found: list[list[Cell]] = []
        for row in list(self.rows(width, height))[:height]:
            known = width, ascii_only, tuple(row)
            cells = kept.get(known)  # most rows are those of the frame before
            found.append(to_cells(row, width, ascii_only=ascii_only) if cells is None else cells)
            self._kept[known] = found[-1]
        found += [[(" ", "")] * width for _ in range(height - len(found))]
        return found

    def on_resize(self) -> None:
        self.redraw()

    def notify_style_update(self) -> None:
        super().notify_style_update()
        self._tag_styles.clear()
        self._strips.clear()

    def render_line(self, y: int) -> Strip:
        width = self.size.width
        if self._shown is None or self._drawn_size != (width, self.size.height):
            self._drawn_size = (width, self.size.height)
            self._shown = self._cells(*self._drawn_size)
            self._strips.clear()
        if y >= len(self._shown):
            return Strip.blank(width, self._style(""))
        strip = self._strips.get(y)
        if strip is None:
            strip = self._strips[y] = self._strip(self._shown[y])
        return strip

    def _strip(self, cells: list[Cell]) -> Strip:
        segments: list[Segment] = []
        text, tag = "", ""
        for signs, wanted in cells:
            lined = tag in UNDERLINED or wanted in UNDERLINED  # there a blank is seen
            if wanted != tag and (signs.strip() or lined):
                if text and (text.strip() or lined):
                    segments.append(Segment(text, self._style(tag)))
                    text = ""
                text, tag = text + signs, wanted  # blanks before it cost less in its style than in their own
            else:
                text += signs
        if text:
            segments.append(Segment(text, self._style(tag)))
        return Strip(segments, len(cells))

    def _style(self, tag: str) -> Style:
        style = self._tag_styles.get(tag)
        if style is None:
            style = self.rich_style
            if tag in LOOKS:
                style += tag_style(tag, self.app.theme_variables, ansi=self.app.native_ansi_color)
            self._tag_styles[tag] = style
        return style

    def text_lines(self) -> list[str]:
        """What is shown, without style: for tests, screen captures and the plain copy of a screen."""
        return ["".join(signs for signs, _ in row).rstrip() for row in self._shown or []]


class Part(Lines):
    """A piece of a larger widget, which hands it its rows."""

    DEFAULT_CSS = """
    Part { width: 1fr; height: 100%; }
    """

    def __init__(self, *, form: str | None = None, id: str | None = None, classes: str | None = None) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self._rows: Sequence[Row] = ()

    def show(self, rows: Sequence[Row]) -> None:
        self._rows = rows
        self.redraw()

    def rows(self, width: int, height: int) -> Sequence[Row]:
        return self._rows


def to_cells(row: Row, width: int, *, ascii_only: bool = False) -> list[Cell]:
    """Exactly ``width`` cells; whatever control character is left in the text becomes a dot."""
    cells: list[Cell] = []
    for text, tag in row:
        for sign in to_ascii(text) if ascii_only else text:
            code = ord(sign)
            if 32 <= code < 127 or 0x2500 <= code < 0x2900:
                size = 1
            elif code < 32 or 127 <= code < 160 or 0xD800 <= code < 0xE000:
                sign, size = ".", 1
            else:
                size = get_character_cell_size(sign)
            if size == 0:
                if cells and cells[-1][0]:
                    cells[-1] = (cells[-1][0] + sign, cells[-1][1])
                continue
            if len(cells) + size > width:
                cells += [(" ", tag)] * (width - len(cells))
                return cells
            cells.append((sign, tag))
            if size == 2:
                cells.append(("", tag))
    cells += [(" ", "")] * (width - len(cells))
    return cells


def changed_span(old: Sequence[Cell], new: Sequence[Cell]) -> tuple[int, int]:
    """(start, end) from the first to behind the last cell that looks different; halves of wide signs stay together."""
    different = [
        x
        for x, (was, now) in enumerate(zip(old, new, strict=True))
        if was != now and not (was[0] == now[0] == " ")  # the style of a blank is not seen
    ]
    if not different:
        return 0, 0
    start, end = different[0], different[-1] + 1
    while start > 0 and "" in (old[start][0], new[start][0]):
        start -= 1
    while end < len(new) and "" in (old[end][0], new[end][0]):
        end += 1
    return start, end


def width_of(row: Row) -> int:
    return sum(get_character_cell_size(sign) for run in row for sign in run.text)


def line(*parts: str | Run | tuple[str, str]) -> Row:
    """A row of plain strings and (text, tag) pairs."""
    return tuple(Run(part) if isinstance(part, str) else Run(*part) for part in parts)
