"""Evidence about a drafter's memory, gathered from what the journal says happened to it, in order."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from spectui.core.accept import steps_of
from spectui.core.evidence import Evidence
from spectui.core.request import RequestRecord


class _Memory:
    """What this arm's store has seen since the last flush that worked."""

    def __init__(self, known: bool) -> None:
        self.known = known
        self.failed: str | None = None
        self.primed, self.primed_tokens = False, 0
        self.steady: bool | None = None
        self.rising = False
        self.requests: list[tuple[tuple[str, int, str], RequestRecord]] = []


def gather(
    algorithm: str,
    key: tuple[str, int, str],
    events: Iterable[tuple[str, Any]],
    draft_tokens: int | None,
    foreign: bool = False,
) -> Evidence:
    """Of one pass, from the events of its arm: ``("flush", (key, detail))``, ``("prime", …)``, ``("feed", …)``,
    ``("restarted", row)`` and ``("request", record)``."""
    listed = list(events)
    last = max((i for i, (name, what) in enumerate(listed) if name == "request" and _measured(what, key)), default=-1)
    memory = _Memory(False)
    for name, what in listed[: last + 1]:  # what came later cannot have helped this pass
        if name == "request":
            memory.requests.append(((what.arm, what.concurrency, what.pass_name), what))
        elif name == "restarted":
            memory = _Memory(True)
        elif name == "flush":
            memory = _flushed(memory, what[1])
        elif name == "prime":
            memory.primed = True
            memory.primed_tokens += _whole(what[1].get("tokens"))
        elif what[0] == key:
            memory.steady = bool(what[1]["steady"]) if "steady" in what[1] else None
            memory.rising = bool(what[1].get("rising"))
    return _evidence(memory, algorithm, key, draft_tokens, foreign)


def _measured(r: RequestRecord, key: tuple[str, int, str]) -> bool:
    return (r.arm, r.concurrency, r.pass_name) == key and r.phase == "measure"


def _whole(value: object) -> int:
    return int(value) if isinstance(value, (int, float)) else 0


def _flushed(memory: _Memory, detail: Mapping[str, Any]) -> _Memory:
    if detail.get("flushed"):
        return _Memory(True)
    memory.failed = str(detail.get("reason") or f"HTTP {detail.get('status')}")
    return memory


def _evidence(
    memory: _Memory, algorithm: str, key: tuple[str, int, str], draft_tokens: int | None, foreign: bool
) -> Evidence:
    prompts: set[str] = set()
    before = measured = tokens_before = tokens_measured = repeated = 0
    grown = zero = steps_seen = 0
    positions: list[float] = []
    lengths: list[float] = []
    weights: list[int] = []
    measured_from = -1
    others: dict[tuple[str, int, str], None] = {}
    for owner, r in memory.requests:
        tokens = r.completion_tokens or 0
        ours = _measured(r, key)
        if owner != key:
            others[owner] = None
        if ours:
            measured += 1
            tokens_measured += tokens
            repeated += r.prompt_id in prompts
            if measured_from < 0:
                measured_from = len(lengths)
        else:
            before += 1
            tokens_before += tokens
        if r.prompt_id:
            prompts.add(r.prompt_id)
        steps = steps_of(r, True) if r.ok else None
        if r.ok and steps and tokens > 1:
            positions.append(grown + tokens / 2)
            lengths.append((tokens - 1) / steps)
            weights.append(steps)
            counts = r.histogram
            if ours and counts:
                zero, steps_seen = zero + counts[0], steps_seen + sum(counts)
            elif ours and r.increments:
                zero, steps_seen = zero + sum(n == 1 for n in r.increments[1:]), steps_seen + steps
        grown += tokens
    return Evidence(
        algorithm,
        history_known=memory.known,
        flush_failed=memory.failed,
        primed=memory.primed,
        primed_tokens=memory.primed_tokens,
        tokens_before=tokens_before,
        requests_before=before,
        tokens_measured=tokens_measured,
        requests_measured=measured,
        fed_steady=memory.steady,
        fed_rising=memory.rising,
        positions=tuple(positions),
        lengths=tuple(lengths),
        steps=tuple(weights),
        measured_from=max(measured_from, 0) if measured_from >= 0 else len(lengths),
        zero_share=zero / steps_seen if steps_seen else None,
        draft_tokens=draft_tokens,
        repeated_prompts=repeated,
        foreign=foreign,
        same_memory_as=tuple(others),
    )
