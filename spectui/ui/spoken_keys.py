"""Sentences of the session name keys as they come: where the config binds them anew, the new ones are said."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from spectui.session.view import Snapshot
from spectui.ui.commands import BY_ID, COMMANDS, KEY_WORDS, key_word

_VERBS = (
    "applies|asks|changes|checks|chooses|compares|goes|launches|measures|moves|opens|puts|saves|sets|shows|starts|stops|"
    "ticks|writes|to ask|to compare|to feed"
)
_SPOKEN = re.compile(rf"(?<![\w'-])([a-z]|\]|\[|enter|esc)(?= (?:{_VERBS})\b)")
_OF_HOME = {KEY_WORDS.get(c.key, c.key): c.id for c in COMMANDS if not c.where or "home" in c.where}


def spoken(text: str, keys: Mapping[str, str]) -> str:
    """``r measures`` as ``f5 measures`` where *run* is bound to f5."""

    def now(found: re.Match[str]) -> str:
        name = _OF_HOME.get(found[1])
        return key_word(BY_ID[name], dict(keys)) if name in keys and name is not None else found[1]

    return _SPOKEN.sub(now, text) if keys else text


def respoken(shot: Snapshot, keys: Mapping[str, str]) -> Snapshot:
    """The same moment, its sentences with the operator's own keys."""
    if not keys:
        return shot
    arms = tuple(replace(arm, trouble=spoken(arm.trouble, keys), idle=spoken(arm.idle, keys)) for arm in shot.arms)
    status = replace(shot.status, text=spoken(shot.status.text, keys))
    return replace(shot, arms=arms, status=status)
