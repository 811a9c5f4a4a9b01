"""Fewer bytes for the same picture: a style is told by what changes from the one before it.

Textual 8.2 tells every span's style whole and takes it back after: ``ESC[38;2;…;48;2;…m text ESC[0m``. Spans beside
each other mostly share their background, so close to half of what goes to the terminal says nothing new. On a slow line
that is how long a key waits.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import NamedTuple

_STYLE = re.compile(r"\x1b\[([\d;]*)m")
_MOVE = re.compile(r"(?:\r?\n)?\x1b\[\d+;\d+H")
RESET = "\x1b[0m"


class Style(NamedTuple):
    attributes: frozenset[str]
    front: str
    """Parameters of the colour, empty for the terminal's own."""
    back: str


PLAIN = Style(frozenset(), "", "")


def lean(text: str) -> str:
    """What shows the same on a terminal that is in no style before it and after it."""
    if RESET not in text:
        return text
    out: list[str] = []
    now: Style | None = PLAIN
    """The style in force; None where it has a part that is not known here."""
    over = False
    """The span has ended, and its end has not been told yet."""
    for number, part in enumerate(_STYLE.split(text)):
        if number % 2 == 0:
            if part and over and not _MOVE.fullmatch(part):  # a move draws nothing, in whatever style
                out.append(RESET)
                now, over = PLAIN, False
            out.append(part)
        elif part in ("", "0"):
            over = True
        else:
            wanted = _parsed(part)
            if over and now is not None and wanted is not None:
                out.append(_change(now, wanted, part))
            else:
                out.append(f"{RESET if over else ''}\x1b[{part}m")
                wanted = wanted if over or now == PLAIN else None  # it may have been added to what was there
            now, over = wanted, False
    if over:
        out.append(RESET)
    return "".join(out)


@lru_cache(maxsize=1024)
def _change(now: Style, wanted: Style, whole: str) -> str:
    codes = []
    if now.attributes <= wanted.attributes:
        codes += sorted(wanted.attributes - now.attributes)
        codes += [wanted.front or "39"] if wanted.front != now.front else []
        codes += [wanted.back or "49"] if wanted.back != now.back else []
        if not codes:
            return ""
    changed = f"\x1b[{';'.join(codes)}m" if codes else ""
    anew = f"\x1b[0;{whole}m"
    return changed if changed and len(changed) <= len(anew) else anew


@lru_cache(maxsize=1024)
def _parsed(parameters: str) -> Style | None:
    """None where a parameter is not one of those that Textual writes for text."""
    codes = parameters.split(";")
    attributes, front, back = set(), "", ""
    at = 0
    while at < len(codes):
        code = codes[at]
        if code in ("38", "48"):
            many = {"2": 5, "5": 3}.get(codes[at + 1] if at + 1 < len(codes) else "", 0)
            colour = codes[at : at + many]
            if not many or len(colour) < many:
                return None
            front, back = (";".join(colour), back) if code == "38" else (front, ";".join(colour))
            at += many
            continue
        number = int(code or 0)
        if 30 <= number <= 37 or 90 <= number <= 97:
            front = code
        elif 40 <= number <= 47 or 100 <= number <= 107:
            back = code
        elif 1 <= number <= 9:
            attributes.add(code)
        elif number == 39:
            front = ""
        elif number == 49:
            back = ""
        else:
            return None
        at += 1
    return Style(frozenset(attributes), front, back)
