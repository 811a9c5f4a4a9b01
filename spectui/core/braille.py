"""Curves drawn into rows of characters: braille dots, half blocks or plain ASCII. Numbers in, runs of text out.

Values are put into buckets of absolute time, so that a picture that moves with the clock moves by whole cells, and
between two moves only its last column changes: a terminal over SSH gets few bytes.
"""

from __future__ import annotations

import math
from bisect import bisect_left
from collections.abc import Sequence
from typing import NamedTuple

FORMS = ("braille", "block", "ascii")
DOTS = {"braille": (2, 4), "block": (1, 2), "ascii": (1, 1)}
"""Dots in one cell, across and down."""

_BRAILLE = ((0x01, 0x02, 0x04, 0x40), (0x08, 0x10, 0x20, 0x80))
_BLOCK = (" ", "▀", "▄", "█")
_LEVELS = "▁▂▃▄▅▆▇█"
_ASCII_LEVELS = "_.:-=+*#"
_DASH_ON, _DASH = 4, 6
"""Dot columns drawn of each period, for a dashed curve; half of it where a cell is one dot wide."""


class Run(NamedTuple):
    """Text in one style. ``tag`` names the style; the empty tag is plain."""

    text: str
    tag: str = ""


Row = tuple[Run, ...]
Point = tuple[float, "float | None"]
"""(time in s, value); None says that there was nothing to measure, and leaves a gap."""


def points_of(values: Sequence[float | None], until: float, width_s: float) -> tuple[Point, ...]:
    """Points in the middle of buckets of ``width_s`` seconds, the last of which holds the time ``until``."""
    first = math.floor(until / width_s) - len(values) + 1
    return tuple(((first + i + 0.5) * width_s, value) for i, value in enumerate(values))


class Curve(NamedTuple):
    values: tuple[float | None, ...]
    """One for each dot column; None leaves a gap."""
    tag: str
    dashed: bool = False
    first: int = 0
    """Absolute number of the first dot column: the dashes travel with the curve."""
    sign: str = "*"
    """Its character in the ASCII form."""


def buckets(points: Sequence[Point], first: int, count: int, dt: float, gap_s: float) -> tuple[float | None, ...]:
    """Means of the points in ``count`` buckets of ``dt`` seconds; bucket i begins at (first + i)·dt.

    ``points`` are in order of time. Empty buckets between two values at most ``gap_s`` apart, with no None between
    them, are filled in a straight line; all other empty ones are None.
    """
    if count <= 0 or dt <= 0 or not points:
        return (None,) * max(0, count)
    start = max(0, bisect_left(points, first * dt, key=lambda point: point[0]) - 1)
    sums: dict[int, list[float]] = {}
    joins: list[tuple[int, int]] = []
    last: tuple[int, float] | None = None
    for t, value in points[start:]:
        index = math.floor(t / dt) - first
        if index >= count:
            break
        if value is None or not math.isfinite(value):
            last = None
            continue
        if last is not None and index - last[0] > 1 and t - last[1] <= gap_s:
            joins.append((last[0], index))
        held = sums.setdefault(index, [0.0, 0.0])
        held[0] += value
        held[1] += 1
        last = (index, t)
    filled: list[float | None] = [None] * count
    means = {index: total / number for index, (total, number) in sums.items()}
    for index, mean in means.items():
        if index >= 0:
            filled[index] = mean
    for a, b in joins:
        for index in range(max(0, a + 1), b):
            filled[index] = means[a] + (means[b] - means[a]) * (index - a) / (b - a)
    return tuple(filled)


class Canvas:
    """Cells to draw on, from the top left. Later ink covers earlier ink's colour, never its dots."""

    def __init__(self, columns: int, rows: int, form: str = "braille") -> None:
        self.columns, self.rows, self.form = max(0, columns), max(0, rows), form
        self.across, self.down = DOTS[form]
        self._ink = [[0] * self.columns for _ in range(self.rows)]
        self._signs = [[" "] * self.columns for _ in range(self.rows)]
        self._tags = [[""] * self.columns for _ in range(self.rows)]

    def row_of(self, value: float, low: float, high: float) -> int:
        """The row of cells on which a value lies; values out of bounds lie on the nearest."""
        return self._dot(value, low, high) // self.down

    def _dot(self, value: float, low: float, high: float) -> int:
        dots = self.rows * self.down - 1
        share = (high - value) / (high - low) if high > low else 1.0
        return round(min(1.0, max(0.0, share)) * dots) if share == share else dots

    def curve(self, curve: Curve, low: float, high: float) -> None:
        if not self.rows:
            return
        on, period = (_DASH_ON, _DASH) if self.across == 2 else (_DASH_ON // 2, _DASH // 2)
        before: int | None = None
        for x, value in enumerate(curve.values[: self.columns * self.across]):
            if value is None or not math.isfinite(value):
                before = None
                continue
            y = self._dot(value, low, high)
            if not (curve.dashed and self.form != "ascii" and (curve.first + x) % period >= on):
                top, bottom = (y, y) if before is None else (min(y, before + 1), max(y, before - 1))
                for dot in range(top, bottom + 1):
                    self._point(x, dot, curve)
            before = y

    def _point(self, x: int, y: int, curve: Curve) -> None:
        column, row = x // self.across, y // self.down
        if self.form == "braille":
            self._ink[row][column] |= _BRAILLE[x % 2][y % 4]
            self._signs[row][column] = chr(0x2800 + self._ink[row][column])
        elif self.form == "block":
            self._ink[row][column] |= 1 << (y % 2)
            self._signs[row][column] = _BLOCK[self._ink[row][column]]
        else:
            self._signs[row][column] = curve.sign
        self._tags[row][column] = curve.tag

    def line(self, row: int, sign: str, tag: str) -> None:
        """A horizontal line in the empty cells of a row, clear of the curves, so that it joins none of their dashes."""
        if not 0 <= row < self.rows:
            return
        for column in range(self.columns):
            near = range(max(0, column - 1), min(self.columns, column + 2))
            if self._signs[row][column] == " " and not any(self._is_curve(row, x) for x in near):
                self._signs[row][column], self._tags[row][column] = sign, tag

    def upright(self, column: int, sign: str, tag: str) -> None:
        """A vertical line in the cells of a column that no curve uses."""
        if 0 <= column < self.columns:
            for row in range(self.rows):
                if not self._is_curve(row, column):
                    self._signs[row][column], self._tags[row][column] = sign, tag

    def _is_curve(self, row: int, column: int) -> bool:
        return self._ink[row][column] != 0 or (self.form == "ascii" and self._signs[row][column] in "*o+x#@%&")

    def text(self, column: int, row: int, text: str, tag: str) -> None:
        """Over whatever is there; what does not fit is left out."""
        if not 0 <= row < self.rows:
            return
        for offset, sign in enumerate(text):
            if 0 <= column + offset < self.columns:
                self._signs[row][column + offset], self._tags[row][column + offset] = sign, tag

    def lines(self, start: int = 0, end: int | None = None) -> tuple[Row, ...]:
        """The rows, or their cells from column ``start`` to before ``end``."""
        part = slice(start, end)
        pairs = zip(self._signs, self._tags, strict=True)
        return tuple(runs(zip(signs[part], tags[part], strict=True)) for signs, tags in pairs)


def runs(cells: zip[tuple[str, str]] | Sequence[tuple[str, str]]) -> Row:
    """Cells joined into few long runs: blanks take the style of the run before them."""
    found: list[Run] = []
    text, tag = "", ""
    for sign, wanted in cells:
        if wanted == tag or sign == " ":
            text += sign
        elif not text.strip():
            text, tag = text + sign, wanted
        else:
            found.append(Run(text, tag))
            text, tag = sign, wanted
    if text:
        found.append(Run(text, tag))
    return tuple(found)


def sparkline(values: Sequence[float | None], low: float, high: float, form: str = "braille") -> str:
    """One row of bars, one character a value; a gap is a blank."""
    levels = _ASCII_LEVELS if form == "ascii" else _LEVELS
    top = len(levels) - 1
    bars = []
    for value in values:
        if value is None or not math.isfinite(value):
            bars.append(" ")
        else:
            share = (value - low) / (high - low) if high > low else 0.0
            bars.append(levels[round(min(1.0, max(0.0, share)) * top)])
    return "".join(bars)
