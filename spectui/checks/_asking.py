"""Requests that probes send themselves: small, greedy, under a rid of their own, each with a limit."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable

from spectui.checks._probe import Finding
from spectui.core.answers import fault
from spectui.engines.sglang.errors import EngineError, Refused

_count = itertools.count(int(time.time()))
LIMIT_S = 20.0


def fresh() -> str:
    """Something that no earlier request said, so that an answer is not copied out of a store or a cache."""
    return f"{next(_count)}"


def asked(ask: Callable[[], Finding], expected: str) -> Finding:
    """The finding of ``ask``, with a failed request as one."""
    try:
        return ask()
    except Refused as error:
        return Finding(False, "refused", expected, error.what, "Ask the server's log why it refused this request")
    except EngineError as error:
        return Finding(False, "failed", expected, error.what, error.next or "Read the server's log")


def judged(text: str, tokens: int, thoughts: str, expected: str) -> Finding:
    """Whether an answer is sane by itself: text there, decodable, not one sign over and over."""
    wrong = fault(text, thoughts)
    if wrong == "no answer text":
        wrong = None  # a model that thinks may not have come to its answer yet
    value = f"{tokens} tokens"
    if wrong is None:
        return Finding(True, value, expected, "the answer is sane")
    step = "Ask the same without speculation: if that answer is sane, the setting damages the output"
    return Finding(False, value, expected, f"the answer is broken: {wrong}", step)


def message_of(body: dict[str, object]) -> tuple[str, int, str]:
    """(text, tokens, thoughts) of a chat answer."""
    choices = body.get("choices")
    first = choices[0] if isinstance(choices, list) and choices else {}
    message = first.get("message") if isinstance(first, dict) else {}
    message = message if isinstance(message, dict) else {}
    usage = body.get("usage")
    tokens = usage.get("completion_tokens") if isinstance(usage, dict) else 0
    text, thoughts = message.get("content") or "", message.get("reasoning_content") or ""
    return str(text), tokens if isinstance(tokens, int) else 0, str(thoughts)
