"""Foreign text made harmless for a terminal: text from servers, models, files and process tables is data.

Whatever comes in, what goes out moves no cursor, sets no colour or title, hides nothing, and stays within its length.
Markup is no concern here: nothing that is shown goes through a markup parser.
"""

from __future__ import annotations

import unicodedata

MARK = "\N{REPLACEMENT CHARACTER}"
_STACK = 2
"""Combining signs kept on one letter; text with towers of them spills over the lines around it."""

_ASCII = str.maketrans(
    {
        **dict.fromkeys("●◉", "*"),
        **dict.fromkeys("○◌", "o"),
        **dict.fromkeys("✗×✕", "x"),
        **dict.fromkeys("✓", "v"),
        **dict.fromkeys("·•", "."),
        **dict.fromkeys("–—−‑╌╶╴─━", "-"),
        **dict.fromkeys("→▸▶", ">"),
        **dict.fromkeys("←◂", "<"),
        **dict.fromkeys("│┃┆", "|"),
        **dict.fromkeys("┤├┼┬┴┌┐└┘╭╮╰╯", "+"),
        **dict.fromkeys("▼↓", "v"),
        **dict.fromkeys("▲↑", "^"),
        **dict.fromkeys("‘’′", "'"),
        **dict.fromkeys("“”″", '"'),
        **dict.fromkeys("█▇▆", "#"),
        **dict.fromkeys("▓▅▄▀", "="),
        **dict.fromkeys("▒▃", "-"),
        **dict.fromkeys("░▂▁", "."),
        "…": "~",
        "≥": ">",
        "≤": "<",
        "≈": "~",
        "±": "~",
        "µ": "u",
        "°": " ",
        "\xa0": " ",
    }
)
"""One cell for one cell, so that columns stay where they are."""


def safe_text(text: str, limit: int, *, ascii_only: bool = False) -> str:
    """``text`` on one line, with at most ``limit`` characters; cut text ends in an ellipsis.

    Control characters become their visible pictures (␛ for escape), signs that turn, join or hide text become ``·``,
    broken characters become U+FFFD. Brackets and all else stay as they are. ``ascii_only`` gives ASCII alone.
    """
    if limit <= 0:
        return ""
    cut = len(text) > limit
    shown: list[str] = []
    stacked = _STACK  # a combining sign with no letter before it would sit on the cell to its left
    for sign in text[:limit]:
        code = ord(sign)
        if 32 <= code < 127:
            shown.append(sign)
            stacked = 0
            continue
        seen = _visible(sign, code)
        if seen == "" or unicodedata.category(seen[0]) in ("Mn", "Me", "Mc"):
            if seen and stacked < _STACK:
                stacked += 1
                shown.append(seen)
            continue
        stacked = 0
        shown.append(seen)
    if cut:
        shown[limit - 1 :] = []
        shown.append("…")
    joined = "".join(shown)
    return to_ascii(joined) if ascii_only else joined


def _visible(sign: str, code: int) -> str:
    """What stands for one character outside printable ASCII; empty for what only changes how others look."""
    if code < 32:
        return chr(0x2400 + code)
    if code == 127:
        return "␡"
    if code < 0xA0:  # C1 controls: eight-bit forms of escape sequences
        return MARK
    if 0xFE00 <= code <= 0xFE0F or 0xE0100 <= code <= 0xE01EF:  # variation selectors: terminals differ on the width
        return ""
    if 0x1F3FB <= code <= 0x1F3FF:  # skin tones: two cells or none, by terminal
        return "·"
    category = unicodedata.category(sign)
    if category in ("Cs", "Cn", "Co"):
        return MARK
    if category in ("Cf", "Zl", "Zp"):
        return "·"
    if category == "Zs":
        return "  " if unicodedata.east_asian_width(sign) in "WF" else " "
    return sign


def to_ascii(text: str) -> str:
    """The same in ASCII, keeping columns where each sign takes one cell; a wide one becomes two question marks."""
    if text.isascii():
        return text
    signs: list[str] = []
    for sign in text.translate(_ASCII):
        code = ord(sign)
        if code < 128:
            signs.append(sign)
        elif 0x2400 <= code <= 0x2421:  # pictures of control characters
            signs.append("?")
        elif unicodedata.combining(sign) or unicodedata.category(sign) in ("Mn", "Me"):
            continue
        else:
            signs.append("??" if unicodedata.east_asian_width(sign) in "WF" else _plain_letter(sign))
    return "".join(signs)


def _plain_letter(sign: str) -> str:
    base = unicodedata.normalize("NFD", sign)[0]
    return base if base.isascii() else "?"
