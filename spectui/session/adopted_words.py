"""The command line of a server that spectui did not start: its settings read off, and two of them held together."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from spectui import algorithms
from spectui.core.profile import SpeculativePart
from spectui.core.redact import HIDDEN
from spectui.engines.sglang.flags import SPEC_SETTINGS

OWN = ("--host", "--port", "--model-path", "--model", "--api-key", "--admin-api-key")


@dataclass(frozen=True, slots=True)
class WordChange:
    flag: str
    before: str | None
    """None: not given before."""
    after: str | None
    """None: no longer given."""

    @property
    def text(self) -> str:
        if self.before is None:
            return f"+ {self.flag} {self.after}".rstrip()
        if self.after is None:
            return f"- {self.flag} {self.before}".rstrip()
        return f"~ {self.flag} {self.before} -> {self.after}"


def split(argv: Sequence[str]) -> tuple[list[str], list[str]]:
    """(the command, its arguments): the arguments begin at the first long flag."""
    words = argv[0].split() if len(argv) == 1 else list(argv)
    start = next((i for i, word in enumerate(words) if word.startswith("--")), len(words))
    return words[:start], words[start:]


def without(words: Sequence[str], drop: Callable[[str], bool]) -> list[str]:
    """The arguments without some flags and their values."""
    kept: list[str] = []
    dropping = False
    for word in words:
        if re.match(r"--[A-Za-z]", word):
            dropping = drop(word.partition("=")[0])
        if not dropping:
            kept.append(word)
    return kept


def value_of(words: Sequence[str], *flags: str) -> str | None:
    for i, word in enumerate(words):
        flag, equals, value = word.partition("=")
        if flag in flags:
            return value if equals else (words[i + 1] if i + 1 < len(words) else None)
    return None


_SPEC_FLAGS = {spelling.flag: setting for setting in SPEC_SETTINGS for spelling in setting.spellings}


def is_speculative(flag: str) -> bool:
    return flag in _SPEC_FLAGS or flag.startswith("--speculative-")


def settings_of(words: Sequence[str]) -> SpeculativePart:
    """The speculative settings that a command asks for, as a profile has them."""
    named = value_of(words, "--speculative-algorithm", "--speculative-algo")
    chosen = algorithms.for_name(named)
    knobs: dict[str, Any] = {}
    for flag, setting in _SPEC_FLAGS.items():
        if not any(word.partition("=")[0] == flag for word in words):
            continue
        text = value_of(words, flag)
        if setting.kind == "flag":
            knobs[setting.key] = True
        elif text is not None:
            kinds = {"int": int, "float": float}
            try:
                knobs[setting.key] = kinds.get(setting.kind, str)(text)
            except ValueError:
                knobs[setting.key] = text
    return SpeculativePart(chosen.name, knobs, chosen.plugin)


def changes_of(before: Sequence[str], after: Sequence[str]) -> tuple[WordChange, ...]:
    """By flag, what a command gives otherwise than another."""
    old, new = _table(split(before)[1]), _table(split(after)[1])
    found = []
    for flag in dict.fromkeys([*old, *new]):
        if old.get(flag) != new.get(flag):
            shown = [None if v is None else HIDDEN if flag in OWN[-2:] else v for v in (old.get(flag), new.get(flag))]
            if shown[0] != shown[1]:
                found.append(WordChange(flag, shown[0], shown[1]))
    return tuple(found)


def _table(words: Sequence[str]) -> dict[str, str]:
    table: dict[str, str] = {}
    flag = ""
    for word in words:
        if re.match(r"--[A-Za-z]", word):
            flag, equals, value = word.partition("=")
            flag = {"--model": "--model-path", "--speculative-algo": "--speculative-algorithm"}.get(flag, flag)
            table[flag] = value if equals else ""
        elif flag:
            table[flag] = f"{table[flag]} {word}".strip()
    return table
