"""What a chart is told: curves, lines, marks, and what the person looks at. Plain values, given anew each time."""

from __future__ import annotations

from typing import NamedTuple

from spectui.core.braille import Point


class Line(NamedTuple):
    """One curve."""

    label: str
    """Short: A or B. It stands at the right end of the curve, with its value."""
    points: tuple[Point, ...]
    """(epoch seconds, value), in order of time; None is a gap."""
    current: str = ""
    """Its present value as it is to be read; empty shows none."""
    tag: str = "a"
    dashed: bool = False


class Reference(NamedTuple):
    """A horizontal line, e.g. a break-even accept length."""

    value: float
    label: str
    tag: str = "ref"


class Mark(NamedTuple):
    """Something that happened: a flush, a restart, foreign traffic."""

    t: float
    label: str
    tag: str = "mark"


class ChartData(NamedTuple):
    title: str
    unit: str = ""
    lines: tuple[Line, ...] = ()
    now: float = 0.0
    """Epoch seconds at the right edge."""
    span_s: float = 120.0
    references: tuple[Reference, ...] = ()
    marks: tuple[Mark, ...] = ()
    floor: float | None = 0.0
    """Lower bound of the axis: 0 for speeds, 1 for accept lengths; None follows the values."""
    gap_s: float = 5.0
    """Points at most this far apart are joined, also where columns are narrower than that."""
    origin: float | None = None
    """Where given, a zoomed chart labels times since it; else before now."""
    empty: str = "no data yet"
    """What to say where there is nothing to draw: the reason, if there is one."""
    end_word: str = "now"
    """What the right edge of a picture that is not zoomed is called."""


class View(NamedTuple):
    """What the person looks at; nothing set: everything, live."""

    zoom: tuple[float, float] | None = None
    """Epoch seconds of the left and right edge."""
    cursor: float | None = None
    """Epoch seconds under the cursor."""
