"""Were two runs asked the same, in the same way? What differs is listed before any number is shown."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

SERVER_DEFAULT = "server default"

_SAMPLING = ("temperature", "top_p", "top_k", "max_tokens", "thinking", "ignore_eos")
_ASKED = ("model", "workload", "concurrency", "pass", "address")
_LABELS = {"max_tokens": "output limit", "ignore_eos": "length forced", "thinking": "thinking", "pass": "pass"}


def route_family(route: str | None) -> str | None:
    """``/v1/chat/completions …`` -> chat, ``/generate …`` -> native, ``/v1/completions …`` -> completions."""
    text = (route or "").lower()
    if not text:
        return None
    for sign, family in (("chat", "chat"), ("generate", "native"), ("completions", "completions")):
        if sign in text:
            return family
    return text


def _shown(name: str, value: Any) -> str:
    if value is None:
        return SERVER_DEFAULT if name in _SAMPLING else "not known"
    if name == "temperature":
        return f"{float(value)}"
    if name == "address":
        return route_family(str(value)) or "not known"
    if name == "model":
        return str(value).rstrip("/").rsplit("/", 1)[-1]
    if isinstance(value, bool):
        return "yes" if value else "no"
    return str(value)


def differences(a: Mapping[str, Any], b: Mapping[str, Any]) -> list[str]:
    """What was not alike, as ``temperature 0.0 / 1.0``; the setting under test and the results are not looked at.

    Keys: temperature, top_p, top_k, seed, max_tokens, thinking, ignore_eos, model, workload, concurrency, pass,
    address. A key that neither has is alike; a temperature that is None or missing on one side is the server's default.
    """
    found = []
    for name in (*_SAMPLING, *_ASKED):
        if name not in a and name not in b:
            continue
        mine, theirs = a.get(name), b.get(name)
        if name == "ignore_eos":
            mine, theirs = bool(mine), bool(theirs)
        left, right = _shown(name, mine), _shown(name, theirs)
        if left != right:
            found.append(f"{_LABELS.get(name, name)} {left} / {right}")
    sampled = any((x.get("temperature") or 0.0) > 0 for x in (a, b))
    if sampled and a.get("seed") != b.get("seed"):
        found.append(f"seed {_shown('seed', a.get('seed'))} / {_shown('seed', b.get('seed'))}")
    return found


NOT_LIKE_FOR_LIKE = "not like for like"


def queueing(concurrency: int, limits: Mapping[str, int | None]) -> list[str]:
    """``16 of 64 requests queue on A (limit 48)``, for each server whose request limit is below the concurrency.

    ``limits``: who -> ``max_running_requests`` in force. SGLang sets 48 where speculation is on and none was asked for.
    Where all of them queue alike, it is no difference, but the load was not the one that was asked for, and it is told.
    """
    return [
        f"{concurrency - limit} of {concurrency} requests queue on {who} (limit {limit})"
        for who, limit in limits.items()
        if limit is not None and limit < concurrency
    ]
