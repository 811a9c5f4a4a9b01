"""Keeps keys out of records, screens and logs: what is stored of arguments and environment holds no secret."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spectui.store.secrets import SecretError, reveal

__all__ = ["HIDDEN", "SecretError", "hide_argv", "hide_env", "is_reference", "is_secret", "resolve"]

HIDDEN = "(not stored)"

_SECRET_NAME = re.compile(r"(?i)(^|[-_])(api[-_]?)?(keys?|tokens?|secrets?|passw(or)?d|passphrase|credentials?|auth)$")
_SECRET_VALUE = re.compile(r"^(sk-|hf_|ghp_|github_pat_|xox[abp]-|AKIA|eyJ|Bearer\s)")
_URL_USER = re.compile(r"(?<=://)[^/@\s:]+:[^/@\s]+(?=@)")
# Flags that end like a secret and are none.
_NOT_SECRET = re.compile(r"(?i)(max|num|total|draft|new|prefill|input|output|special|chunked)[-_]?\w*[-_]tokens?$")


def is_secret(name: str, value: str = "") -> bool:
    """Whether a variable or flag of this name, or this value, looks like a key."""
    bare = name.lstrip("-")
    if _SECRET_VALUE.match(value):
        return True
    return bool(_SECRET_NAME.search(bare)) and not _NOT_SECRET.search(bare)


def is_reference(value: str) -> bool:
    """``env:NAME`` or ``file:PATH``; an address such as ``file:///data`` is none."""
    return value.startswith(("env:", "file:")) and not value.startswith("file://")


def hide_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables with each value that looks like a key left out; references to keys stay."""
    return {
        k: v if is_reference(v) or not is_secret(k, v) else HIDDEN
        for k, v in ((k, _URL_USER.sub(HIDDEN, v)) for k, v in env.items())
    }


def hide_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command with keys left out: ``--api-key X``, ``--api-key=X``, ``-e NAME=X``, ``NAME=X``."""
    out: list[str] = []
    hide_next = False
    for word in argv:
        name, has_value, value = word.partition("=")
        if hide_next and not is_reference(word):
            out.append(HIDDEN)
        elif has_value and name and not is_reference(value) and is_secret(name, value):
            out.append(f"{name}={HIDDEN}")
        elif _SECRET_VALUE.match(word):
            out.append(HIDDEN)
        elif " " in word and ("key" in word.lower() or "token" in word.lower()):
            out.append(_hide_in_text(word))
        else:
            out.append(_URL_USER.sub(HIDDEN, word))
        hide_next = word.startswith("-") and not has_value and is_secret(word)
    return tuple(out)


def _hide_in_text(text: str) -> str:
    """The same inside a word that is a whole command, as after ``ssh host`` or ``bash -c``."""

    def flag(match: re.Match[str]) -> str:
        name, between, value = match.group(1), match.group(2), match.group(3)
        return match.group(0) if is_reference(value) or not is_secret(name, value) else f"{name}{between}{HIDDEN}"

    return re.sub(r"(--?[\w-]+(?=[ =])|\b[A-Za-z_]\w*(?==))([ =]+)([^\s-]\S*)", flag, text)


def resolve(value: str, environ: Mapping[str, str] | None = None) -> str:
    """The key that ``env:NAME`` or ``file:PATH`` refers to; any other text is returned as it is.

    Raises :class:`spectui.store.secrets.SecretError` when the reference leads nowhere.
    """
    return reveal(value, environ) if is_reference(value) else value
