"""The result of a sweep: the best setting at each concurrency with what ties with it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from math import exp, hypot
from pathlib import Path
from statistics import NormalDist
from typing import Any

from spectui.core.estimate import LEVEL
from spectui.core.fairness import against_best
from spectui.core.passes import PassResult
from spectui.core.result import RunResult
from spectui.core.stats import FASTER, NO_DIFFERENCE, NOT_FAIR, SLOWER
from spectui.predict.breakeven import ratio_spread
from spectui.predict.sweep import Cell, Measured
from spectui.session import SessionError
from spectui.session.comparing import ArmSource, compare_sources


@dataclass(frozen=True, slots=True)
class MeasuredCell:
    """A cell that was run: the pass that ranks it, with where it lies."""

    setting: str
    concurrency: int
    folder: Path
    result: RunResult
    one: PassResult
    stopped_early: bool = False
    why: str = ""
    """Why it was stopped early."""

    @property
    def cell(self) -> Cell:
        return self.setting, self.concurrency

    def figures(self, noise: float) -> Measured | None:
        """Tokens a second with an interval over its prompts and the node's noise between runs."""
        speed = self.one.output_tokens_per_s
        if speed is None:
            return None
        rows = self.one.good
        found = ratio_spread([float(r.completion_tokens or 0) for r in rows], [r.end_s - r.start_s for r in rows])
        error = hypot(found[1] if found else 0.5, noise)
        reach = NormalDist().inv_cdf(0.5 + LEVEL / 2) * error
        fair = not against_best(self.one) and not self.stopped_early
        return Measured(speed, speed * exp(-reach), speed * exp(reach), error, fair)

    def as_json(self, noise: float, baseline: MeasuredCell | None = None) -> dict[str, Any]:
        """``baseline``: without speculation at the same concurrency."""
        figures = self.figures(noise)
        one = self.one
        return {
            "tokens_per_s": one.output_tokens_per_s,
            "interval": [figures.low, figures.high] if figures else None,
            "over_none": None if baseline is None or baseline.setting == self.setting else over(self, baseline),
            "accept_length": one.accept_length,
            "step_time_ms": one.step_time_ms,
            "requests": len(one.good),
            "failed": one.failed,
            "ttft_ms": one.ttft_ms,
            "proposer_state": one.proposer_state.name,
            "reservations": against_best(one),
            "run": self.folder.name,
            "pass": one.pass_name,
            "passes": {
                p.pass_name: {"tokens_per_s": p.output_tokens_per_s, "accept_length": p.accept_length}
                for p in self.result.passes.values()
                if p.concurrency == self.concurrency
            },
        }


def best(cells: Iterable[MeasuredCell], concurrency: Iterable[int], noise: float) -> list[dict[str, Any]]:
    """One entry a concurrency: never one winner over all loads.

    The best is the fastest of those whose trial was fair; it is held against each other one, prompt by prompt. What is
    not shown to be slower ties with it. Settings whose verdict is withheld are listed with the reasons, and not ranked.
    """
    rows = list(cells)
    return [_at(level, [c for c in rows if c.concurrency == level], noise) for level in concurrency]


def _at(level: int, cells: list[MeasuredCell], noise: float) -> dict[str, Any]:
    known = [(f, c) for c in cells if (f := c.figures(noise)) is not None]
    entry: dict[str, Any] = {
        "concurrency": level,
        "setting": None,
        "tokens_per_s": None,
        "interval": None,
        "tied_with": [],
        "withheld": [
            {"setting": c.setting, "tokens_per_s": f.tokens_per_s, "reasons": against_best(c.one)}
            for f, c in known
            if not f.fair and not c.stopped_early
        ],
        "against": [],
    }
    fair = sorted(((f, c) for f, c in known if f.fair), key=lambda pair: -pair[0].tokens_per_s)
    if not fair:
        return entry
    figures, top = fair[0]
    entry.update(
        setting=top.setting,
        tokens_per_s=figures.tokens_per_s,
        interval=[figures.low, figures.high],
        accept_length=top.one.accept_length,
        run=top.folder.name,
    )
    plain = next((c for c in cells if not c.one.speculative), None)
    if plain is not None and plain is not top:
        entry["over_none"] = over(top, plain)
    for _, other in [pair for pair in known if pair[1] is not top and (pair[0].fair or pair[1].stopped_early)]:
        said = {"setting": other.setting, **over(top, other)}
        entry["against"].append(said)
        if said["verdict"] != FASTER and not other.stopped_early:
            entry["tied_with"].append(other.setting)
    return entry


def over(top: MeasuredCell, other: MeasuredCell) -> dict[str, Any]:
    """One setting over another: ratio, interval, verdict, and what would narrow it, as ``spectui compare`` says it:
    prompts are paired, so what they differ by among themselves does not count."""
    try:
        compared = compare_sources(_source(top), _source(other), top.one.pass_name)
    except SessionError as error:
        return {"ratio": None, "interval": None, "verdict": NOT_FAIR, "reasons": [str(error)]}
    row: Mapping[str, Any] = compared.rows[0].as_json()
    said = {key: row[key] for key in ("ratio", "interval", "verdict", "reasons")}
    if top.stopped_early or other.stopped_early:
        # Its last requests were cut off by us, which breaks its counts against the server's; that is why it lost.
        low, high = row["interval"] or (0.0, float("inf"))
        word = FASTER if low > 1.0 else SLOWER if high < 1.0 else NO_DIFFERENCE
        said.update(verdict=word, reasons=[other.why or top.why or "stopped early"])
    return said


def _source(cell: MeasuredCell) -> ArmSource:
    return ArmSource(cell.result, cell.one.arm, cell.folder)
