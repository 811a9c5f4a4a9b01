"""Sentences of the session name keys as they come: where the config binds them anew, the new ones are said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache

from spectui.session.view import Snapshot
from spectui.ui.commands import BY_ID, COMMANDS, KEY_WORDS, key_word

_VERBS = (
    "applies|asks|changes|checks|chooses|clears|compares|goes|launches|marks|measures|moves|opens|picks|plans|puts|runs|"
    "saves|sets|shows|starts|stops|takes|ticks|writes|to ask|to compare|to feed"
)
_SPOKEN = re.compile(
    r"(?<![\w'.-])(ctrl\+[a-z]|[a-z]|[1-8]|\]|\[|enter|esc|tab|space)"
    rf"(?=(?P<place> on the home screen| here)? (?:{_VERBS})\b)"
)


@cache
def _meant(where: str) -> dict[str, str]:
    """Key as sentences write it -> name of the command; those of the screen before those of home."""
    found: dict[str, str] = {}
    for place in (where, "home"):
        for c in COMMANDS:
            if not c.where or place in c.where:
                found.setdefault(KEY_WORDS.get(c.key, c.key), c.id)
    return found


def spoken(text: str, keys: Mapping[str, str], where: str = "home") -> str:
    """``r measures`` as ``f5 measures`` where *run* is bound to f5. ``where``: the screen that says it; its own keys
    are meant unless "on the home screen" follows."""

    def now(found: re.Match[str]) -> str:
        place = "home" if found["place"] == " on the home screen" else where
        name = _meant(place).get(found[1])
        return key_word(BY_ID[name], dict(keys)) if name in keys and name is not None else found[1]

    return _SPOKEN.sub(now, text) if keys else text


def respoken(shot: Snapshot, keys: Mapping[str, str]) -> Snapshot:
    """The same moment, its sentences with the operator's own keys."""
    if not keys:
        return shot
    arms = tuple(arm._replace(trouble=spoken(arm.trouble, keys), idle=spoken(arm.idle, keys)) for arm in shot.arms)
    status = shot.status._replace(text=spoken(shot.status.text, keys))
    return shot._replace(arms=arms, status=status)
