"""What the rows of a journal hold, by type: a file that was edited, or mixed up, is told by file, line and key.

A key that is missing or null is no fault, nor is one that nobody knows: readers take what is there.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from types import GenericAlias
from typing import Any, TypedDict, get_type_hints

import msgspec

from spectui.core.gpu import GpuReading
from spectui.core.request import RequestRecord

_Object = dict[str, Any]


class _Any(TypedDict, total=False):
    t: float | None


class _Head(_Any, total=False):
    run_id: str | None
    arms: list[_Object] | None
    workload: _Object | None
    passes: list[str] | None
    concurrency: list[int] | None
    requests: int | None
    max_tokens: int | None
    temperature: float | None
    seed: int | None
    node: _Object | None


class _Arm(TypedDict, total=False):
    name: str
    url: str | None
    label: str | None
    version: str | None
    algorithm: str | None
    model: str | None
    settings_asked: _Object | None
    settings_in_force: _Object | None
    server: _Object | None
    route: str | None
    marks: list[str] | None
    gpus: list[str] | None


class _Phase(_Any, total=False):
    arm: str | None
    pass_name: str | None
    phase: str | None
    concurrency: int | None
    block: int | None
    state: str | None
    detail: _Object | None


class _Sample(_Any, total=False):
    arm: str | None
    pass_name: str | None
    phase: str | None
    concurrency: int | None
    tokens: int | None
    steps: int | None
    step_tokens: int | None
    running: int | None
    done: int | None
    failed: int | None


class _Metrics(_Any, total=False):
    arm: str | None
    at: str | None
    counters: dict[str, float | None] | None
    gauges: dict[str, float | None] | None
    unavailable: str | None


class _Mark(_Any, total=False):
    arm: str | None
    name: str | None
    detail: str | None


class _Client(_Any, total=False):
    arm: str | None
    pass_name: str | None
    concurrency: int | None
    cpu_s: float | None
    wall_s: float | None
    lag_ms_p99: float | None
    late_share: float | None
    bound: bool | None


class _End(_Any, total=False):
    status: str | None
    reason: str | None
    exit_code: int | None


class _Answer(TypedDict, total=False):
    """A line of ``answers.jsonl``, which has no kind."""

    arm: str | None
    pass_name: str | None
    phase: str | None
    concurrency: int | None
    index: int | None
    prompt_id: str | None
    prompt_ids: list[int] | None
    output_ids: list[int] | None
    text: str | None
    thoughts: str | None


@cache
def _types() -> dict[str, Any]:
    table: Any = TypedDict  # made while running, out of the values that are written
    request = {name: hint | None for name, hint in get_type_hints(RequestRecord).items()}
    # Readings are averaged: a whole number that was written as 60.0 does no harm.
    values = {n: float if hint in (int, int | None) else hint for n, hint in get_type_hints(GpuReading).items()}
    reading = table("_Reading", {n: hint | None for n, hint in values.items()}, total=False)
    return {
        "head": _Head,
        "phase": _Phase,
        "sample": _Sample,
        "request": table("_Request", {"t": float | None, **request}, total=False),
        "metrics": _Metrics,
        "gpu": table("_Gpus", {"t": float | None, "gpus": GenericAlias(list, (reading,)) | None}, total=False),
        "mark": _Mark,
        "client": _Client,
        "end": _End,
    }


def fault_of(row: Mapping[str, Any], convert: Callable[..., Any] = msgspec.convert) -> str:
    """What is wrong with a row's types, with the key; empty where nothing is, or its kind is not known."""
    kind = row.get("kind")
    if kind is None:
        wanted: Any = _Answer if "output_ids" in row else None
    else:
        wanted = _types().get(kind) if isinstance(kind, str) else None
    if wanted is None:
        return ""
    try:
        convert(row, wanted)
        if kind == "head":
            for arm in row.get("arms") or ():
                convert(arm, _Arm)
    except msgspec.ValidationError as error:
        return f"{kind or 'answer'} row: {str(error).replace('`', '')}"
    return ""
