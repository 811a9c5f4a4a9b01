"""Takes secrets out of whatever leaves: text, argument lists, nested tables."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TypeVar

HIDDEN = "<hidden>"
_REFERENCE = re.compile(r"^(env:[A-Za-z_]\w*|file:(?!//).+|\$\{?[A-Za-z_]\w*\}?)$")
_LAST = {
    *("key", "token", "secret", "password", "passwd", "pwd", "passphrase", "credential", "credentials"),
    *("authorization", "cookie"),
}
_ALONE = _LAST - {"key", "token", "pwd"} | {"apikey"}
_NOT = {("special", "token"), ("eos", "token"), ("bos", "token"), ("pad", "token"), ("unk", "token"), ("mask", "token")}
_NAMES = (
    r"(?:[A-Za-z0-9]+[_-])*(?:api[_-]?key|access[_-]?key|secret[_-]?key|key|token|secret|password|passwd|pwd|passphrase"
    r"|credentials?|authorization)"
)
_SHAPES = re.compile(
    r"\b(?:hf_[A-Za-z0-9]{16,}|sk-[A-Za-z0-9_-]{16,}|gh[pousr]_[A-Za-z0-9]{20,}|github_pat_\w{20,}|AKIA[A-Z0-9]{16}"
    r"|xox[abpr]-[A-Za-z0-9-]{10,}|eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)"
)
_WHOLE_WORD = re.compile(r"^(?:sk-|hf_|ghp_|github_pat_|xox[abp]-|AKIA|eyJ)[\w.~+=-]+$")
"""What a whole word that begins so is, however short; inside a text it must be longer to count."""
_HEADER = re.compile(r"(?i)\b(bearer|basic)\s+[A-Za-z0-9._~+/=-]{4,}")
_URL = re.compile(r"(?i)((?:\b[a-z][a-z0-9+.-]{0,20}:)?//)[^\s/:@'\"]*:[^\s/@'\"]+@")
_USER = re.compile(r"(?i)\b(https?://)[^\s/:@'\"<>]+@")
"""A web address with a user alone, which is where tokens are put."""
_QUERY = re.compile(
    r"(?i)([?&#;](?:[\w.-]*[_.-])?(?:key|token|apikey|sig|signature|secret|password|passwd|pwd|auth|credential)=)"
    r"([^\s&#'\"<>]+)"
)
"""Behind the ? of an address a bare ``key`` or ``token`` is one."""
_SCHEME = re.compile(
    r"(?i)((?:proxy-)?authorization[\"']?\s*[:=]\s*[\"']?(?:token|key|apikey|digest|negotiate)\s+)([^\s\"'<>]+)"
)
_BARE = re.compile(r"(?i)(?<![\w-])((?:token|key|auth)=)(?=[\w.~+/-]*\d)(?=[\w.~+/-]*[a-z])([\w.~+/-]{8,}=*)")
"""A bare ``token=`` is mostly a word or a number; one that is followed by letters and digits is a token."""
_COOKIE = re.compile(r"(?i)\b((?:set-)?cookie:\s*)([^\s\"'<>][^\"'\r\n]*)")
_TYPED = re.compile(r"(?i)(\bcurl\b[^|;&\n]*?\s(?:-u|--user)[ =]?[^\s:]+:)(\S+)|(\bsshpass\s+-p\s*)(\S+)")
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
    return isinstance(value, str) and bool(_SHAPES.search(value) or _URL.search(value) or _asks_with_key(value))


def _asks_with_key(text: str) -> bool:
    return any(not is_reference(found[2]) for found in _QUERY.finditer(text))


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
    for index, word in enumerate(argv):
        name, equals, value = word.partition("=")
        flag = before.startswith("-") and "=" not in before and is_secret(before) and not word.startswith("--")
        if is_reference(word) or is_reference(value):
            out.append(word)
        elif flag or _named_before(before, word) or is_typed_password(argv, index) or _WHOLE_WORD.match(word):
            out.append(HIDDEN)
        elif equals and value and re.fullmatch(r"-{0,2}[\w-]+", name) and is_secret(name, value):
            out.append(f"{name}={HIDDEN}")
        else:
            out.append(redact(word))
        before = word
    return tuple(out)


def is_typed_password(words: Sequence[str], index: int) -> bool:
    """``sshpass -p PASSWORD`` and ``curl -u USER:PASSWORD``, whose flags say nothing of a password."""
    before = words[max(0, index - 2) : index]
    if len(before) == 2 and before[1] == "-p" and before[0].rsplit("/", 1)[-1] == "sshpass":
        return True
    curl = any(word.rsplit("/", 1)[-1] == "curl" for word in words[:index])
    return curl and bool(before) and before[-1] in ("-u", "--user") and ":" in words[index]


def _named_before(before: str, word: str) -> bool:
    """``X-Api-Key:`` or ``{"api_key":`` as a word of its own, or ``Bearer``: what follows is the key."""
    bare = before.strip("{\"',").lower()
    if word.lower() in ("bearer", "basic"):
        return False
    return bare in ("bearer", "basic") or (bare.endswith(":") and is_secret_name(bare[:-1].strip("\"'")))


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
            if isinstance(item, str) and isinstance(flag, str) and _named_before(flag, item):
                before = "api_key"
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
    text = _USER.sub(rf"\1{HIDDEN}@", _URL.sub(rf"\1{HIDDEN}@", text))
    for shape in (_QUERY, _SCHEME, _BARE, _COOKIE, _TYPED):
        text = shape.sub(_without_value, text)
    text = _HEADER.sub(rf"\1 {HIDDEN}", text)
    text = _FLAG.sub(lambda found: found[1] + found[2] + _value(found[1], found[3]), text)
    text = _PAIR.sub(
        lambda found: found[1] + found[2] + found[1] + found[3] + _value(found[2], found[4]),
        text,
    )
    return _SHAPES.sub(HIDDEN, text)


def _without_value(found: re.Match[str]) -> str:
    """The match with its second group, or its fourth, hidden; a reference to a key stays."""
    before, value = (found[1], found[2]) if found[1] is not None else (found[3], found[4])
    return found[0] if is_reference(value) else f"{before}{HIDDEN}"


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
