"""Accept length over tokens since the flush, over position in the answer, over turn: where acceptance comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from spectui.core.accept import steps_of
from spectui.core.passes import PassResult
from spectui.core.proposer import warm_up_curve

BINS = 10
"""Over tokens since the flush: a screenful of bars."""
FIRST_EDGE = 16
"""Over position, bins double from here: acceptance changes most near the start."""


@dataclass(frozen=True, slots=True)
class Bin:
    """Accept length over verify steps between two edges, ``to`` not included."""

    start: float
    to: float
    accept_length: float
    steps: int

    def as_json(self) -> dict[str, float | int]:
        return {"from": self.start, "to": self.to, "accept_length": self.accept_length, "steps": self.steps}


def over_tokens(
    positions: Sequence[float], lengths: Sequence[float], steps: Sequence[int], bins: int = BINS
) -> list[Bin]:
    """One value a request, weighted by its verify steps; bins of equal width, empty ones left out."""
    if not positions:
        return []
    width = max(positions) / bins or 1.0
    sums: dict[int, list[float]] = {}
    for x, y, w in zip(positions, lengths, steps, strict=True):
        held = sums.setdefault(min(bins - 1, int(x / width)), [0.0, 0.0])
        held[0] += y * w
        held[1] += w
    return [Bin(i * width, (i + 1) * width, s / w, int(w)) for i, (s, w) in sorted(sums.items()) if w]


def over_position(increments: Iterable[Sequence[int]]) -> list[Bin]:
    """Of streams in which one event is one verify step: by how many tokens the answer already had.

    The first event comes from prefill and is no step."""
    sums: dict[int, list[int]] = {}
    for sizes in increments:
        at = sizes[0] if sizes else 0
        for size in sizes[1:]:
            held = sums.setdefault((at // FIRST_EDGE).bit_length(), [0, 0])
            held[0] += size
            held[1] += 1
            at += size
    edges = {i: (0 if i == 0 else FIRST_EDGE << (i - 1), FIRST_EDGE << i) for i in sums}
    return [Bin(*edges[i], tokens / steps, steps) for i, (tokens, steps) in sorted(sums.items())]


def curve_json(result: PassResult, turns: Mapping[str, int] | None = None) -> dict[str, Any] | None:
    """Key ``curve`` of a pass; None without speculation. ``turns``: prompt id -> number of the user's turn.

    ``half_life`` in generated tokens, with ``end`` (accept length of a full store) and ``gain``; None where a constant
    explains the values as well. ``position`` is empty where a stream joins several steps in one event.
    """
    if not result.speculative:
        return None
    evidence = result.evidence
    fitted = warm_up_curve(evidence)
    rows = [r for r in result.stepped if len(r.increments) > 1 and sum(r.increments) == r.completion_tokens]
    single = [] if result.joined else [r for r in rows if (steps_of(r, True) or 0) <= len(r.increments)]
    measured_at = evidence.positions[evidence.measured_from :]
    return {
        "tokens": [b.as_json() for b in over_tokens(evidence.positions, evidence.lengths, evidence.steps)],
        "measured_from": evidence.tokens_before if measured_at else None,
        "position": [b.as_json() for b in over_position([r.increments for r in single])],
        "turn": [b.as_json() for b in _over_turn(result, turns or {})],
        "half_life": fitted.half_life if fitted else None,
        "end": fitted.end if fitted else None,
        "gain": fitted.gain if fitted else None,
    }


def _over_turn(result: PassResult, turns: Mapping[str, int]) -> list[Bin]:
    sums: dict[int, list[int]] = {}
    for r in result.stepped:
        steps = steps_of(r, True)
        turn = turns.get(r.prompt_id)
        if steps and turn is not None:
            held = sums.setdefault(turn, [0, 0])
            held[0] += (r.completion_tokens or 1) - 1
            held[1] += steps
    if len(sums) < 2:
        return []  # one turn only: there is no course to show
    return [Bin(turn, turn + 1, tokens / steps, steps) for turn, (tokens, steps) in sorted(sums.items())]
