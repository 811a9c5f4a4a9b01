"""Foreign text made harmless."""

from __future__ import annotations

import unicodedata
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.safe import safe_text, to_ascii

FOREIGN = (Path(__file__).parents[1] / "data" / "ui" / "foreign.log").read_text("utf-8").split("\n")


def test_brackets_and_markup_stay_as_they_are() -> None:  # FC-61
    for line in FOREIGN[:6]:
        assert safe_text(line, 500) == line


def test_escape_sequences_become_visible_and_do_nothing() -> None:  # FC-61
    line = next(line for line in FOREIGN if "\x1b" in line)
    shown = safe_text(line, 500)
    assert "\x1b" not in shown
    assert "\x07" not in shown
    assert "␛[31mred" in shown


def test_a_long_line_is_cut() -> None:  # FC-61
    line = next(line for line in FOREIGN if len(line) > 5000)
    shown = safe_text(line, 80)
    assert shown == "x" * 79 + "…"
    assert safe_text("abc", 3) == "abc"
    assert safe_text("abcd", 3) == "ab…"
    assert safe_text("abc", 0) == ""


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("a\tb\nc", "a␉b␊c"),
        ("\x9b31m", "\ufffd31m"),
        ("\u202eabc\u202c", "·abc·"),
        ("a\u200bb\ufeff", "a·b·"),
        ("a\u2028b", "a·b"),
        ("\ud800x", "\ufffdx"),
        ("e\u0301", "e\u0301"),
        ("\u0301x", "x"),
        ("a" + "\u0301" * 50 + "b", "a\u0301\u0301b"),
        ("👍🏽", "👍·"),
        ("❤\ufe0f", "❤"),
        ("你好 🚀", "你好 🚀"),
        ("a\u3000b", "a  b"),
    ],
)
def test_odd_characters(text: str, shown: str) -> None:
    assert safe_text(text, 100) == shown


@pytest.mark.parametrize(
    ("text", "shown"),
    [("● → ✗ 61 °C", "* > x 61  C"), ("déjà", "deja"), ("你", "??"), ("░▒▓█", ".-=#"), ("1.54× [a–b]", "1.54x [a-b]")],
)
def test_ascii_keeps_the_columns(text: str, shown: str) -> None:
    assert to_ascii(text) == shown
    assert safe_text(text, 100, ascii_only=True) == shown


@settings(max_examples=150, deadline=None)
@given(
    st.text(max_size=60) | st.text(st.characters(codec=None, categories=["Cc", "Cf", "Mn", "Cs", "Zl"]), max_size=20)
)
def test_whatever_comes_in_nothing_that_acts_goes_out(text: str) -> None:
    shown = safe_text(text, 40)
    assert all(unicodedata.category(sign) not in ("Cc", "Cf", "Cs", "Zl", "Zp") for sign in shown)
    assert safe_text(text, 40, ascii_only=True).isascii()
    shown.encode("utf-8")
