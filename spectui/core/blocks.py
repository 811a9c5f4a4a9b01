"""What a comparison takes as one piece of evidence: a prompt, or a block of requests that shared a batch."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import sha256
from itertools import pairwise

from spectui.core.accept import counted, steps_of
from spectui.core.request import RequestRecord


@dataclass(frozen=True, slots=True)
class Block:
    """Sums over the requests of one unit. ``id`` pairs it with the other arm's unit of the same prompts."""

    id: str
    tokens: int
    seconds: float
    """Wall time of a block; of a single prompt, from sending to its end."""
    decode_tokens: int | None = None
    """Tokens after the first, of requests whose verify steps are known."""
    steps: int | None = None
    decode_s: float | None = None
    first_s: float | None = None
    """Σ time to the first token."""
    requests: int = 1
    unit: str = "prompts"


def _sum(values: Iterable[float | int | None]) -> float | None:
    known = list(values)
    return sum(v for v in known if v is not None) if known and all(v is not None for v in known) else None


def combine(blocks: Iterable[Block]) -> dict[str, Block]:
    """By id; what was measured repeatedly is summed into one unit. What one part does not tell, the sum does not."""
    every = list(blocks)
    single = {block.id: block for block in every}
    if len(single) == len(every):
        return single
    found: dict[str, list[Block]] = {}
    for block in every:
        found.setdefault(block.id, []).append(block)
    return {i: same[0] if len(same) == 1 else _together(i, same) for i, same in found.items()}


def _together(name: str, same: Sequence[Block]) -> Block:
    steps, tokens = _sum(b.steps for b in same), _sum(b.decode_tokens for b in same)
    return Block(
        name,
        sum(b.tokens for b in same),
        sum(b.seconds for b in same),
        None if tokens is None else int(tokens),
        None if steps is None else int(steps),
        _sum(b.decode_s for b in same),
        _sum(b.first_s for b in same),
        sum(b.requests for b in same),
        same[0].unit,
    )


def _one(name: str, rows: Sequence[RequestRecord], seconds: float, speculative: bool, unit: str) -> Block:
    steps = _sum(steps_of(r, speculative) for r in rows)
    spans = _sum(r.last_s - r.first_s if r.first_s is not None and r.last_s is not None else None for r in rows)
    tokens = sum(r.completion_tokens or 0 for r in rows)
    first = _sum(r.first_s - r.start_s if r.first_s is not None else None for r in rows)
    return Block(
        name,
        tokens,
        seconds,
        tokens - len(rows) if steps is not None else None,
        None if steps is None else int(steps),
        spans,
        first,
        len(rows),
        unit,
    )


MIN_BLOCKS = 5
"""Whole blocks are the units only where there are as many: below, Student's t makes intervals useless."""


def blocks_of(records: Iterable[RequestRecord], *, speculative: bool, whole_blocks: bool) -> list[Block]:
    """Units of one arm's measured requests. ``whole_blocks``: one an alternating block, with its wall time; else one a
    prompt, with the time from sending it to its end."""
    every = list(records)
    rows = counted(every)
    if not whole_blocks:
        return [_one(r.prompt_id or str(r.index), [r], r.end_s - r.start_s, speculative, "prompts") for r in rows]
    found: dict[int, list[RequestRecord]] = {}
    for r in every:
        if r.status != "stopped":
            found.setdefault(r.block, []).append(r)
    units = []
    for number in sorted(found):
        held = found[number]
        good = counted(held)
        if good:
            wall = max(r.end_s for r in held) - min(r.start_s for r in held)
            units.append(_one(block_id(held), good, wall, speculative, "blocks"))
    return units


def block_id(rows: Iterable[RequestRecord]) -> str:
    """The same for the same prompts, in whatever order they ended."""
    return sha256("\n".join(sorted(r.prompt_id or str(r.index) for r in rows)).encode()).hexdigest()[:16]


def common_blocks(a: Iterable[RequestRecord], b: Iterable[RequestRecord]) -> int:
    """Alternating blocks that both arms measured with the same prompts."""
    mine, theirs = _ids(a), _ids(b)
    return min(sum(i in theirs for i in mine), sum(i in mine for i in theirs))


def in_turn(a: Iterable[RequestRecord], b: Iterable[RequestRecord]) -> int:
    """Blocks of the same prompts that the arms measured by turns (A B, B A, …). 0 where one arm had been measured as a
    whole before the other began: what changed on the node in between cannot be told from the setting then."""
    one, two = list(a), list(b)
    starts: dict[tuple[str, int], float] = {}
    for name, rows in (("a", one), ("b", two)):
        for r in rows:
            starts[name, r.block] = min(r.start_s, starts.get((name, r.block), r.start_s))
    order = [name for name, _ in sorted(starts, key=starts.__getitem__)]
    changes = sum(x != y for x, y in pairwise(order))
    return common_blocks(one, two) if changes > 1 else 0


def _apart(records: Sequence[RequestRecord]) -> bool:
    """Whether each block had ended before the next began, as an arm alone does not do it with several in flight."""
    spans: dict[int, tuple[float, float]] = {}
    for r in records:
        low, high = spans.get(r.block, (r.start_s, r.end_s))
        spans[r.block] = min(low, r.start_s), max(high, r.end_s)
    ordered = sorted(spans.values())
    return all(before[1] <= after[0] for before, after in pairwise(ordered))


def _ids(records: Iterable[RequestRecord]) -> list[str]:
    found: dict[int, list[RequestRecord]] = {}
    for r in records:
        found.setdefault(r.block, []).append(r)
    return [block_id(rows) for rows in found.values()]


def units_of(
    a: Sequence[RequestRecord], b: Sequence[RequestRecord], *, concurrency: int, speculative: Mapping[str, bool]
) -> tuple[list[Block], list[Block]]:
    """Units of both arms (``speculative`` by "a" and "b"): prompts one at a time; whole blocks where requests shared
    the batch, for then they are not independent, and there are enough."""
    whole = concurrency > 1 and common_blocks(a, b) >= MIN_BLOCKS and _apart(a) and _apart(b)
    return (
        blocks_of(a, speculative=speculative["a"], whole_blocks=whole),
        blocks_of(b, speculative=speculative["b"], whole_blocks=whole),
    )
