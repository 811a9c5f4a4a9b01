"""Looks at a run of two arms block by block: when it is settled, when it is not, and what is then said."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import core_records as made
import pytest

from spectui.core.result import fold
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, Prompt, RunSpec, WorkloadRef, enough_name
from spectui.session.until_sure import PROMPTS, SETTLED, TIME, UntilSure, pool


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def spec_of(folder: Path, count: int = 32, block: int = 2, **values: object) -> RunSpec:
    measuring = tuple(Prompt(f"p{n}", "g", text=f"t{n}") for n in range(count))
    feeding = tuple(Prompt(f"f{n}", "g", text=f"f{n}") for n in range(10))
    sides = (ArmSpec("A", "http://h:1"), ArmSpec("B", "http://h:2"))
    base = RunSpec("r", str(folder), sides, WorkloadRef("w", "h"), feeding, measuring, block=block)
    return replace(base, **values)  # type: ignore[arg-type]


def block_rows(spec: RunSpec, number: int, ratio: float, rng: random.Random) -> list[Row]:
    """Both arms on the prompts of one block; A takes 1/ratio of B's time."""
    rows: list[Row] = []
    level = spec.concurrency[0]
    for name, lasts in (("A", 1.0 / ratio), ("B", 1.0)):
        phase = {"arm": name, "pass_name": "warm", "phase": "measure", "concurrency": level, "block": number}
        start = 1000.0 + 100.0 * number + (50.0 if name == "B" else 0.0)
        rows.append({"t": start, "kind": "phase", "state": "begin", "detail": {}, **phase})
        for place in range(spec.block):
            n = number * spec.block + place
            took = lasts * rng.uniform(0.97, 1.03)
            rows.append(
                made.row_of(
                    made.record(
                        n, arm=name, block=number, concurrency=level, start_s=start, first_s=start + 0.05,
                        last_s=start + took, end_s=start + took, completion_tokens=100,
                    )
                )
            )  # fmt: skip
            start += took
        rows.append({"t": start, "kind": "phase", "state": "end", "detail": {}, **phase})
    return rows


def followed(spec: RunSpec, ratio: float, watch: UntilSure, seed: int = 7) -> tuple[int, list[Row]]:
    """As the runner does it: blocks until the file in its folder says that it is enough. Gives the blocks measured."""
    rng = random.Random(seed)
    rows: list[Row] = [made.head(made.arm_head("A", "none"), made.arm_head("B", "none"))]
    watch.row(rows[0])
    enough = Path(spec.folder) / enough_name("warm", spec.concurrency[0])
    blocks = len(spec.measuring) // spec.block
    for number in range(blocks):
        if enough.exists():
            return number, rows
        for row in block_rows(spec, number, ratio, rng):
            rows.append(row)
            watch.row(row)
    return blocks, rows


def test_a_large_difference_is_settled_early(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    watch = UntilSure(spec)
    blocks, rows = followed(spec, 1.5, watch)
    ended = watch.finish(fold(rows))[1]
    assert (ended.why, blocks < 16) == (SETTLED, True)
    assert ended.estimate.units == 2 * blocks
    assert ended.estimate.low > 1
    assert ended.text == f"settled after {2 * blocks} of 32 prompts, {ended.looks} looks"


def test_no_difference_uses_up_the_prompts_with_an_interval_that_pays_for_its_looks(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    watch = UntilSure(spec)
    blocks, rows = followed(spec, 1.0, watch)
    ended = watch.finish(fold(rows))[1]
    assert (ended.why, blocks, ended.estimate.units) == (PROMPTS, 16, 32)
    assert ended.estimate.low < 1 < ended.estimate.high
    single = ended.estimate.at(0.95)
    assert ended.estimate.high - ended.estimate.low > single.high - single.low
    assert ended.text.startswith("not settled: the prompts ran out")


def test_time_runs_out(tmp_path: Path) -> None:
    now = [0.0]

    def clock() -> float:
        now[0] += 5.0
        return now[0]

    spec = spec_of(tmp_path)
    watch = UntilSure(spec, minutes=1.0, clock=clock)
    blocks, rows = followed(spec, 1.0, watch)
    ended = watch.finish(fold(rows))[1]
    assert (ended.why, blocks < 16) == (TIME, True)
    assert ended.estimate.high < 2  # the last look may spend all that is left, so that it says something


def test_in_a_crowd_blocks_are_the_evidence_and_five_the_least(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, count=64, block=4, concurrency=(4,))
    watch = UntilSure(spec)
    assert watch.planned(4) == 16
    blocks, rows = followed(spec, 1.5, watch)
    ended = watch.finish(fold(rows))[4]
    assert (ended.why, ended.estimate.unit) == (SETTLED, "blocks")
    assert blocks >= 5


def test_an_interrupted_run_is_judged_by_what_it_has(tmp_path: Path) -> None:
    spec = spec_of(tmp_path)
    watch = UntilSure(spec)
    rows: list[Row] = [made.head(made.arm_head("A", "none"), made.arm_head("B", "none"))]
    for number in range(3):
        rows += block_rows(spec, number, 1.0, random.Random(number))
    for row in rows:
        watch.row(row)
    ended = watch.finish(fold(rows))[1]
    assert ended.estimate.units == 6
    assert not ended.settled


def test_feeding_prompts_are_measured_only_where_nothing_learns(tmp_path: Path) -> None:
    spec = spec_of(tmp_path, count=20)
    assert len(pool(spec, stateful=True).measuring) == 20
    more = pool(spec, stateful=False)
    assert len(more.measuring) == 29  # all but the one that warms up
    assert len({p.id for p in more.measuring}) == 29
    assert spec.feeding[0].id not in {p.id for p in more.measuring}
    assert [pool(replace(spec, concurrency=(1, 16)), stateful=True).block_at(level) for level in (1, 16)] == [2, 16]
