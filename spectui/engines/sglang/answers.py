"""What control calls give back, and how load answers of all versions are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, slots=True)
class FlushOutcome:
    flushed: bool
    attempts: int
    status: int | None
    reason: str
    """Empty when flushed."""

    @property
    def state(self) -> str:
        """flushed, needs_admin_key or unknown (the cache holds nobody knows what)."""
        if self.flushed:
            return "flushed"
        return "needs_admin_key" if self.status in (401, 403) else "unknown"


@dataclass(frozen=True, slots=True)
class GeneratedToken:
    """Proof that a server serves."""

    text: str
    tokens: int
    seconds: float
    meta_info: dict[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Load:
    """Requests at one data-parallel rank now."""

    rank: int
    running: int | None
    waiting: int | None
    tokens: int | None
    """Tokens held in the KV cache."""
    throughput: float | None = None
    accept_length: float | None = None
    """Lifetime average; works without --enable-metrics."""


@dataclass(frozen=True, slots=True)
class StateOutcome:
    """What became of a hot change, by reading it back."""

    applied: bool | None
    """None: the server does not show the value, so nobody can say."""
    asked: dict[str, Any]
    in_force: dict[str, Any]
    status: int | None
    detail: str


@dataclass(frozen=True, slots=True)
class CorpusOutcome:
    ok: bool
    corpus_id: str
    message: str
    tokens: int | None = None


def same(seen: object, asked: object) -> bool:
    if isinstance(seen, int | float) and isinstance(asked, int | float):
        return abs(seen - asked) < 1e-9
    return seen == asked


def whole(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and not isinstance(value, bool) and value == value else None


def read_loads(body: object) -> list[Load] | None:
    """Load answers of all versions: 0.4.9's single number, /get_load's list, and /v1/loads."""
    if isinstance(body, Mapping) and "loads" not in body:
        tokens = whole(body.get("load"))
        return None if tokens is None else [Load(0, None, None, tokens)]
    rows = body.get("loads") if isinstance(body, Mapping) else body
    if not isinstance(rows, list):
        return None
    found: list[Load] = []
    for index, row in enumerate(rows):
        if not isinstance(row, Mapping):
            continue
        waiting = whole(row.get("num_waiting_reqs"))
        running = whole(row.get("num_running_reqs"))
        everyone = whole(row.get("num_reqs"))
        if running is None and everyone is not None:
            # /get_load counts waiting requests among num_reqs.
            running = max(everyone - (waiting or 0), 0)
        spec = row.get("speculative")
        length = spec.get("accept_length") if isinstance(spec, Mapping) else None
        rate = row.get("gen_throughput")
        rank = whole(row.get("dp_rank"))
        tokens = whole(row.get("num_used_tokens", row.get("num_tokens")))
        found.append(
            Load(
                index if rank is None else rank,
                running,
                waiting,
                tokens,
                float(rate) if isinstance(rate, int | float) else None,
                float(length) if isinstance(length, int | float) and length else None,
            )
        )
    return found
