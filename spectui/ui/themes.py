"""Colours. Few, so that few bytes change; told apart by lightness as well as by hue, and never the only sign."""

from __future__ import annotations

from textual.theme import Theme

# Okabe–Ito: sky blue and orange stay apart for every common kind of colour blindness.
ARM_A = "#56B4E9"
ARM_B = "#E69F00"

FOREIGN = {"primary": ARM_A, "secondary": ARM_B}
"""The arms' colours in themes that are not spectui's own: theirs may be two blues. Moved until they can be read."""

THEMES: tuple[Theme, ...] = (
    Theme(
        name="spectui-dark",
        primary=ARM_A,
        secondary=ARM_B,
        accent="#CC79A7",
        warning="#F0E442",
        error="#FF7B72",
        success="#4DD4AC",
        foreground="#D8DEE4",
        background="#0E1116",
        surface="#0E1116",
        panel="#171B22",
        dark=True,
        variables={
            "border": "#3A424D",
            "tag-primary": ARM_A,
            "tag-secondary": ARM_B,
            "footer-key-foreground": ARM_A,
            "block-cursor-foreground": "#0E1116",
        },
    ),
    Theme(
        name="spectui-light",
        primary="#0B6FA4",
        secondary="#9A5B00",
        accent="#9C3F74",
        warning="#7A6200",
        error="#B3261E",
        success="#0B6B4F",
        foreground="#1C2126",
        background="#FBFBFA",
        surface="#FBFBFA",
        panel="#EFEFEC",
        dark=False,
        variables={
            "border": "#B6BCC4",
            "tag-primary": "#0B6FA4",
            "tag-secondary": "#9A5B00",
            "footer-key-foreground": "#0B6FA4",
        },
    ),
)

DEFAULT = "spectui-dark"
SLOW = "ansi-dark"
"""Sixteen colours of the terminal's own: a third of the bytes of truecolor."""


KNOWN = frozenset({theme.name for theme in THEMES} | {"textual-dark", "textual-light", "ansi-dark", "ansi-light"})


def chosen(name: str | None, *, slow: bool) -> str:
    """The theme to use; an unknown name falls back, it never stops the program."""
    if name in KNOWN:
        return name
    return SLOW if slow else DEFAULT
