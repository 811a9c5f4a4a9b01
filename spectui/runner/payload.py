"""The JSON of one stream event, decoded only as far as it is needed.

One shape covers the native route and both OpenAI routes of SGLang 0.4.9 to 0.5.23; what a server leaves out is None.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Annotated, Any

import msgspec

NULL = msgspec.Raw(b"null")
MOST_TOKENS = 2**31
"""No answer has more; a count beyond it is noise, and counts as absent."""
Count = Annotated[int, msgspec.Meta(ge=0, le=MOST_TOKENS)]


class Meta(msgspec.Struct, gc=False):
    """``meta_info`` of the native route, as far as every event needs it."""

    completion_tokens: Count | None = None
    finish_reason: Any = None


class Going(msgspec.Struct, gc=False):
    """``meta_info`` of an event that does not finish the request."""

    completion_tokens: Count
    finish_reason: None


class Step(msgspec.Struct, gc=False):
    """An event in the middle of an incremental native stream; one that lacks a field is no such event."""

    text: str
    output_ids: list[int]
    meta_info: Going


class Delta(msgspec.Struct, gc=False):
    role: str | None = None
    content: str | None = None
    reasoning_content: str | None = None
    reasoning: str | None = None


class Choice(msgspec.Struct, gc=False):
    delta: Delta | None = None
    text: str | None = None
    finish_reason: str | None = None


class Usage(msgspec.Struct, gc=False):
    completion_tokens: Count | None = None


class Event(msgspec.Struct):
    text: str | None = None
    output_ids: list[int] | None = None
    meta_info: Meta | None = None
    choices: list[Choice] | None = None
    usage: Usage | None = None
    error: msgspec.Raw = NULL
    object: str | None = None
    message: msgspec.Raw = NULL
    sglext: msgspec.Raw = NULL


_typed = msgspec.json.Decoder(Event).decode
decode_step = msgspec.json.Decoder(Step).decode


def decode(payload: bytes) -> Event | None:
    """The event, or None when the payload is no JSON object (a gateway's keep-alive, noise)."""
    try:
        return _typed(payload)
    except msgspec.MsgspecError:
        pass
    tree = as_tree(payload)
    return None if tree is None else _lenient(tree)


def as_tree(payload: bytes) -> dict[str, Any] | None:
    """The whole payload as plain values; lone surrogates and broken UTF-8 become U+FFFD."""
    try:
        tree = json.loads(payload.decode("utf-8", "replace"))
    except (ValueError, RecursionError):
        return None
    return tree if isinstance(tree, dict) else None


def clean(text: str) -> str:
    """Joins surrogate pairs that came in two pieces, and replaces those that stayed alone."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def _lenient(tree: Mapping[str, Any]) -> Event:
    """Every field that has the expected type; a field of another type counts as absent."""
    meta, usage = tree.get("meta_info"), tree.get("usage")
    choices = tree.get("choices")
    return Event(
        text=_text(tree.get("text")),
        output_ids=_ids(tree.get("output_ids")),
        meta_info=Meta(number(meta.get("completion_tokens")), meta.get("finish_reason"))
        if isinstance(meta, dict)
        else None,
        choices=[_choice(c) for c in choices if isinstance(c, dict)] if isinstance(choices, list) else None,
        usage=Usage(number(usage.get("completion_tokens"))) if isinstance(usage, dict) else None,
        error=_raw(tree.get("error")),
        object=_text(tree.get("object")),
        message=_raw(tree.get("message")),
        sglext=_raw(tree.get("sglext")),
    )


def _choice(tree: Mapping[str, Any]) -> Choice:
    delta = tree.get("delta")
    reason = tree.get("finish_reason")
    if isinstance(reason, dict):
        reason = reason.get("type")
    return Choice(
        delta=Delta(*(_text(delta.get(k)) for k in ("role", "content", "reasoning_content", "reasoning")))
        if isinstance(delta, dict)
        else None,
        text=_text(tree.get("text")),
        finish_reason=_text(reason),
    )


def _text(value: object) -> str | None:
    return clean(value) if isinstance(value, str) else None


def _ids(value: object) -> list[int] | None:
    if isinstance(value, list) and all(isinstance(i, int) for i in value):
        return value
    return None


def _raw(value: object) -> msgspec.Raw:
    return NULL if value is None else msgspec.Raw(json.dumps(value).encode())


def number(value: object) -> int | None:
    """A count of tokens, also when a server wrote it as 12.0."""
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_TOKENS:
        return None
    return int(value)


def is_null(raw: msgspec.Raw) -> bool:
    return bytes(raw) in (b"null", b"")


def error_words(value: object) -> str:
    """What a server says of an error, out of the nested, the flat and the bare shape; never empty."""
    if isinstance(value, str) and value.strip():
        return value.strip()
    if isinstance(value, dict):
        for key in ("error", "message", "detail"):
            inner = value.get(key)
            if inner:
                return error_words(inner)
        return json.dumps(value, ensure_ascii=False)[:500]
    if isinstance(value, list) and value:
        return error_words(value[0])
    return "an error without words"


_UNFINISHED = re.compile(
    r'"(?P<key>content|text|reasoning_content|reasoning)"\s*:\s*"(?P<text>(?:[^"\\]|\\.)*)\\?$', re.S
)


def torn_text(payload: bytes) -> tuple[str, str] | None:
    """Field and text of the string that a stream broke off in; a character cut in half is one U+FFFD."""
    found = _UNFINISHED.search(payload.decode("utf-8", "replace"))
    if found is None:
        return None
    text = re.sub(r"\\u[0-9a-fA-F]{0,3}$", "", found["text"])
    try:
        return found["key"], clean(json.loads(f'"{text}"', strict=False))
    except ValueError:
        return None
