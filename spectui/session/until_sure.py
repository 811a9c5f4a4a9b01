"""Compare until sure: looks at a run of two alternating arms after each pair of blocks, and ends it once it is settled.

The looks together keep the error rate (``core.sample.Sequential``). No prompt is measured twice: with a drafter that
learns, a repeat is no fresh sample, and without one the pool is simply larger.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import inf
from pathlib import Path
from typing import Any

from spectui.core.compare import DRIFT, compare
from spectui.core.estimate import Estimate
from spectui.core.fairness import side_of
from spectui.core.result import RunResult, fold
from spectui.core.rows import Row
from spectui.core.sample import Sequential
from spectui.core.spec import RunSpec, enough_name
from spectui.session import noise

LOOKS = 16
"""At most: each pair of blocks is looked at, so blocks are no smaller than a sixteenth of the prompts."""
WHOLE_BLOCKS = 5
"""Where requests share the batch, blocks are the evidence, and fewer than these give no interval."""

SETTLED, PROMPTS, TIME = "settled", "the prompts ran out", "the time ran out"
INTERRUPTED = "it was interrupted"


@dataclass(frozen=True, slots=True)
class Looked:
    """How it ended at one concurrency."""

    concurrency: int
    estimate: Estimate
    """With the interval of the last look, which is wider than that of a single one."""
    looks: int
    planned: int
    why: str

    @property
    def settled(self) -> bool:
        return self.why == SETTLED

    @property
    def text(self) -> str:
        unit = self.estimate.unit
        done = f"{self.estimate.units} of {self.planned} {unit}, {self.looks} look{'' if self.looks == 1 else 's'}"
        if self.settled:
            return f"settled after {done}"
        return f"not settled: {self.why} ({done})"

    def as_json(self) -> dict[str, Any]:
        return {
            "settled": self.settled,
            "ended_by": self.why,
            "looks": self.looks,
            "units": self.estimate.units,
            "planned": self.planned,
            "level": self.estimate.level,
        }


def pool(spec: RunSpec, *, stateful: bool) -> RunSpec:
    """The spec with all prompts that may be measured, in blocks small enough for looks.

    Where no arm learns, the feeding prompts but the first (the warm-up request) are as fresh as the others.
    """
    measuring = spec.measuring
    if not stateful:
        known = {p.id for p in measuring}
        measuring = (*measuring, *(p for p in spec.feeding[1:] if p.id not in known and p.id != spec.feeding[0].id))
    block = max(1, -(-len(measuring) // LOOKS))
    return replace(spec, measuring=measuring, block=block)


class UntilSure:
    """Takes the rows of a run as they come, from its first one on."""

    def __init__(
        self, spec: RunSpec, *, minutes: float | None = None, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self.spec = spec
        self._limit_s = inf if minutes is None else 60.0 * minutes
        self._clock = clock
        self._rows: list[Row] = []
        self._begun: dict[int, float] = {}
        self._done: dict[tuple[int, int], set[str]] = {}
        self._states: dict[int, Sequential] = {}
        self._looks: dict[int, int] = {}
        self.ended: dict[int, Looked] = {}

    @property
    def pass_name(self) -> str:
        return self.spec.passes[-1]

    def planned(self, level: int) -> int:
        blocks = -(-len(self.spec.measuring) // self.spec.block_at(level))
        return blocks if level > 1 and blocks >= WHOLE_BLOCKS else len(self.spec.measuring)

    def row(self, row: Row) -> None:
        if row.get("kind") in ("sample", "gpu"):
            return
        self._rows.append(row)
        if row.get("kind") != "phase" or row.get("phase") != "measure" or row.get("pass_name") != self.pass_name:
            return
        level, block = int(row.get("concurrency") or 0), int(row.get("block") or 0)
        self._begun.setdefault(level, self._clock())
        if row.get("state") != "end" or level in self.ended:
            return
        done = self._done.setdefault((level, block), set())
        done.add(str(row.get("arm")))
        if len(done) == len(self.spec.arms):
            self._look(level)

    def _look(self, level: int) -> None:
        estimate = self._estimate(fold(self._rows), level)
        planned = self.planned(level)
        out_of_time = self._clock() - self._begun[level] >= self._limit_s
        blocks = sum(1 for (at, _), arms in self._done.items() if at == level and len(arms) == len(self.spec.arms))
        early = estimate is None or (planned < len(self.spec.measuring) and blocks < WHOLE_BLOCKS)
        if not early and estimate is not None:
            state = self._states.get(level) or Sequential(planned)
            self._looks[level] = self._looks.get(level, 0) + 1
            if out_of_time and estimate.units < planned:
                state = replace(state, planned=estimate.units)  # when it ends was not chosen by what was seen
            stop, shown, self._states[level] = state.look(estimate)
            if stop:
                why = SETTLED if shown.excludes_one else PROMPTS if estimate.units >= planned else TIME
                self._end(Looked(level, shown, self._looks[level], planned, why))
        elif out_of_time:
            self._enough(level)

    def _end(self, looked: Looked) -> None:
        self.ended[looked.concurrency] = looked
        self._enough(looked.concurrency)

    def _enough(self, level: int) -> None:
        (Path(self.spec.folder) / enough_name(self.pass_name, level)).touch()

    def finish(self, result: RunResult, *, interrupted: bool = False) -> dict[int, Looked]:
        """After the end of the run: the last look of those that were not settled on the way."""
        for level in self.spec.concurrency:
            estimate = self._estimate(result, level)
            if level in self.ended or estimate is None:
                continue
            state, planned = self._states.get(level) or Sequential(estimate.units), self.planned(level)
            shown = replace(state, planned=min(planned, estimate.units)).look(estimate)[1]
            why = SETTLED if shown.excludes_one else INTERRUPTED if interrupted else PROMPTS
            if (Path(self.spec.folder) / enough_name(self.pass_name, level)).exists():
                why = TIME
            self.ended[level] = Looked(level, shown, max(1, self._looks.get(level, 0)), planned, why)
        return self.ended

    def _estimate(self, result: RunResult, level: int) -> Estimate | None:
        keys = {k[0]: k for k in result.passes if k[1] == level and k[2] == self.pass_name}
        if len(keys) < 2:
            return None
        a, b = (side_of(result, keys[arm.name]) for arm in self.spec.arms)
        floor = noise.floor_for(noise.place_of(result, self.spec.arms[0].name), level)
        return compare(a, b, noise=floor.sd if floor else 0.0, drift=floor.drift if floor else DRIFT).throughput
