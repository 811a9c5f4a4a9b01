"""Takes secrets out of whatever leaves: text, argument lists, nested tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

HIDDEN = "<hidden>"
_REFERENCE = re.compile(r"^(env:[A-Za-z_]\w*|file:(?!//).+|\$\{?[A-Za-z_]\w*\}?)$")
_LAST = {"key", "token", "secret", "password", "passwd", "passphrase", "credential", "credentials", "authorization"}
_ALONE = _LAST - {"key", "token"} | {"apikey"}
_NOT = {("special", "token"), ("eos", "token"), ("bos", "token"), ("pad", "token"), ("unk", "token"), ("mask", "token")}
_NAMES = (
    r"(?:[A-Za-z0-9]+[_-])*(?:api[_-]?key|access[_-]?key|secret[_-]?key|key|token|secret|password|passwd|passphrase"
    r"|credentials?|authorization)"
)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[A-Z0-9]{16}"
    r"|xox[abpr]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_WHOLE_WORD = re.compile(r"^(?:sk-|hf_|ghp_|github_pat_|xox[abp]-|AKIA|eyJ)[\w.~+=-]+$")
"""What a whole word that begins so is, however short; inside a text it must be longer to count."""
_HEADER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}")
_URL = re.compile(r"(?i)\b([a-z][a-z0-9+.-]{0,20}://)[^\s/:@'\"]*:[^\s/@'\"]+@")
_VALUE = r"\"(?:[^\"\\]|\\.)*\"|'[^']*'|[^\s,;&'\"}\])]+"
_FLAG = re.compile(rf"(?i)(?<![\w-])(--?{_NAMES})(\s+|=)({_VALUE})")
_PAIR = re.compile(rf"(?i)(?<![\w-])([\"']?)({_NAMES})\1(\s*[:=]\s*)({_VALUE})")

Thing = TypeVar("Thing")


def is_secret_name(name: str) -> bool:
    """Does a field, flag or variable of this name hold a secret?

    ``api_key`` and ``HF_TOKEN`` do; ``max_tokens`` does not, nor a bare ``key`` or ``token``, which is mostly a field's
    or a word's.
    """
    words = [word for word in re.split(r"[^a-z0-9]+", re.sub(r"([a-z])([A-Z])", r"\1_\2", name).lower()) if word]
    if not words:
        return False
    if len(words) == 1:
        return words[0] in _ALONE
    if words[-1] == "apikey":
        return True
    return words[-1] in _LAST and tuple(words[-2:]) not in _NOT


def is_reference(value: object) -> bool:
    """True for ``env:NAME``, ``file:PATH`` and ``$NAME``, which name a secret; ``file:///x`` is an address."""
    return isinstance(value, str) and bool(_REFERENCE.match(value.strip()))


def looks_secret(value: object) -> bool:
    """True for text that has the shape of a well-known kind of key or carries a password in an address."""
    return isinstance(value, str) and bool(_SHAPES.search(value) or _URL.search(value))


def redact(thing: Thing, secrets: Iterable[str] = ()) -> Thing:
    """The same text, list or table without secrets. References to secrets, None and empty values stay.

    ``secrets``: values that are known, taken out wherever they stand.
    """
    known = sorted({secret for secret in secrets if secret and len(secret) >= 4}, key=len, reverse=True)
    result: Thing = _redact(thing, known)
    return result


def is_secret(name: str, value: str = "") -> bool:
    """Does a flag or variable of this name, or with this value, hold a key?

    Stricter than :func:`is_secret_name`: of a command or an environment, ``KEY`` and ``--token`` count too.
    """
    bare = name.lstrip("-").lower()
    return is_secret_name(name) or bare in ("key", "keys", "token", "auth") or bool(_WHOLE_WORD.match(value))


def hide_env(env: Mapping[str, str]) -> dict[str, str]:
    """The variables with each value that looks like a key left out; references to keys stay."""
    return {
        name: HIDDEN if value and not is_reference(value) and is_secret(name, value) else redact(value)
        for name, value in env.items()
    }


def hide_argv(argv: Sequence[str]) -> tuple[str, ...]:
    """The words of a command with keys left out: ``--api-key X``, ``--api-key=X``, ``-e NAME=X``, ``NAME=X``."""
    out: list[str] = []
    before = ""
    for word in argv:
        name, equals, value = word.partition("=")
        follows = before.startswith("-") and "=" not in before and is_secret(before) and not word.startswith("--")
        if is_reference(word) or is_reference(value):
            out.append(word)
        elif follows or _WHOLE_WORD.match(word):
            out.append(HIDDEN)
        elif equals and value and re.fullmatch(r"-{0,2}[\w-]+", name) and is_secret(name, value):
            out.append(f"{name}={HIDDEN}")
        else:
            out.append(redact(word))
        before = word
    return tuple(out)


def _redact(thing: Any, known: list[str]) -> Any:
    if isinstance(thing, str):
        return _text(thing, known)
    if isinstance(thing, Mapping):
        return {key: _field(str(key), value, known) for key, value in thing.items()}
    if isinstance(thing, (list, tuple)):
        items: list[Any] = []
        for item in thing:
            flag = items[-1] if items and isinstance(thing[len(items) - 1], str) else ""
            before = flag if isinstance(flag, str) and flag.startswith("-") and "=" not in flag else ""
            items.append(_field(before, item, known) if before and isinstance(item, str) else _redact(item, known))
        return items if isinstance(thing, list) else tuple(items)
    return thing


def _field(name: str, value: Any, known: list[str]) -> Any:
    if not is_secret_name(name) or value is None or value == "" or is_reference(value) or isinstance(value, bool):
        return _redact(value, known)
    return HIDDEN


def _text(text: str, known: list[str]) -> str:
    for secret in known:
        text = text.replace(secret, HIDDEN)
    text = _URL.sub(rf"\1{HIDDEN}@", text)
    text = _HEADER.sub(rf"\1 {HIDDEN}", text)
    text = _FLAG.sub(lambda found: found[1] + found[2] + _value(found[1], found[3]), text)
    text = _PAIR.sub(
        lambda found: found[1] + found[2] + found[1] + found[3] + _value(found[2], found[4]),
        text,
    )
    return _SHAPES.sub(HIDDEN, text)


def _value(name: str, value: str) -> str:
    quote = value[0] if value[:1] in "\"'" and value[-1:] == value[:1] and len(value) > 1 else ""
    bare = value[1:-1] if quote else value
    harmless = (
        not is_secret_name(name)
        or not bare
        or is_reference(bare)
        or bare.lower() in ("none", "null", "true", "false", "unset", HIDDEN, "bearer", "basic")
        or bare.startswith(HIDDEN)
    )
    return value if harmless else f"{quote}{HIDDEN}{quote}"
