"""Fewer bytes, the same picture: held against a terminal emulator that reads both."""

from __future__ import annotations

import pyte
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.ui.lean_output import lean

FRONT, OTHER, BACK = "38;2;1;2;3", "38;2;200;2;3", "48;2;9;9;9"


def picture(text: str) -> list[object]:
    screen = pyte.Screen(20, 4)
    pyte.Stream(screen).feed(text)
    return [[screen.buffer[y][x] for x in range(20)] for y in range(4)] + [(screen.cursor.x, screen.cursor.y)]


@pytest.mark.parametrize(
    ("text", "wanted"),
    [
        (f"\x1b[{FRONT};{BACK}ma\x1b[0m\x1b[{OTHER};{BACK}mb\x1b[0m", f"\x1b[{FRONT};{BACK}ma\x1b[{OTHER}mb\x1b[0m"),
        (f"\x1b[{BACK}ma\x1b[0m\x1b[{BACK}mb\x1b[0m", f"\x1b[{BACK}mab\x1b[0m"),
        (f"\x1b[1;{FRONT}ma\x1b[0m\x1b[{FRONT}mb\x1b[0m", f"\x1b[1;{FRONT}ma\x1b[0;{FRONT}mb\x1b[0m"),
        (f"\x1b[{FRONT};{BACK}ma\x1b[0m\x1b[{BACK}mb\x1b[0m", f"\x1b[{FRONT};{BACK}ma\x1b[39mb\x1b[0m"),
        (f"\x1b[{FRONT}ma\x1b[0m\r\n\x1b[2;1H\x1b[{FRONT}mb\x1b[0m", f"\x1b[{FRONT}ma\r\n\x1b[2;1Hb\x1b[0m"),
        (f"\x1b[{FRONT}ma\x1b[0mb\x1b[{FRONT}mc\x1b[0m", f"\x1b[{FRONT}ma\x1b[0mb\x1b[{FRONT}mc\x1b[0m"),
        ("\x1b[?1049h\x1b[?25l", "\x1b[?1049h\x1b[?25l"),
        (f"\x1b[58;5;1;{FRONT}ma\x1b[0m\x1b[{FRONT}mb\x1b[0m", f"\x1b[58;5;1;{FRONT}ma\x1b[0m\x1b[{FRONT}mb\x1b[0m"),
    ],
)
def test_only_what_changes_is_told(text: str, wanted: str) -> None:
    assert lean(text) == wanted


STYLES = st.lists(
    st.sampled_from(["1", "3", "4", "7", "31", "94", "42", "39", "49", FRONT, OTHER, BACK, "48;5;7"]),
    min_size=1,
    max_size=3,
)
SPANS = st.tuples(
    STYLES.map(";".join),
    st.sampled_from(["ab", "x", " ", "é"]),
    st.sampled_from(["", "", "\x1b[2;3H", "\r\n\x1b[3;1H", "plain", "\x1b[K"]),
    st.booleans(),
)


@settings(max_examples=150, deadline=None)
@given(st.lists(SPANS, max_size=8))
def test_the_picture_is_the_same(spans: list[tuple[str, str, str, bool]]) -> None:
    """Also where a span adds to the one before it, or follows a move, plain text or an erasure."""
    text = "".join(f"\x1b[{style}m{word}{chr(27) + '[0m' if ends else ''}{after}" for style, word, after, ends in spans)
    text += "\x1b[0m"
    assert picture(lean(text)) == picture(text)
    assert len(lean(text)) <= len(text)
