"""The noise floor: what is kept of one server against itself, and what it adds."""

from __future__ import annotations

from dataclasses import replace
from math import exp, log
from pathlib import Path

import core_records as made
import pytest

from spectui.core.result import RunResult, fold
from spectui.core.spec import ArmSpec
from spectui.core.stats import Estimate
from spectui.session import SessionError, noise
from spectui.session.noise import Floor
from spectui.session.running import RunOptions

ARM = ArmSpec("A", "http://127.0.0.1:1", owned=True)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))


def floor(concurrency: int = 1, sd: float = 0.01, **values: object) -> Floor:
    base = Floor("node", "GPU", "m", concurrency, sd, 0.02, 20, 1, (0.01, -0.01))
    return replace(base, **values)  # type: ignore[arg-type]


def against_itself(times: int, blocks: int, slower: list[float]) -> RunResult:
    """``slower``: in each time, by how much B took longer; the first time is the one that is not counted."""
    rows = [made.head(made.arm_head("A", "none", simulated=True), made.arm_head("B", "none"), node={"host": "node"})]
    for number in range(times + 1):
        for i in range(blocks):
            at = 1000.0 * number + 20.0 * i
            for name, lasts in (("A", 1.0), ("B", 1.0 + slower[number])):
                start = at + (10.0 if name == "B" else 0.0)
                rows.append(
                    made.row_of(
                        made.record(
                            number * blocks + i, prompt_id=f"p{i}", arm=name, block=number * blocks + i,
                            start_s=start, first_s=start + 0.1,
                            last_s=start + lasts, end_s=start + lasts, completion_tokens=100 + i,
                        )
                    )
                )  # fmt: skip
    return fold(rows)


def test_what_the_prompts_do_not_explain_is_the_floor() -> None:
    slower = [9.0, 0.02, -0.02, 0.02, -0.02]
    (found,) = noise.floors_of(against_itself(4, 8, slower), 8)
    assert (found.times, found.concurrency, found.node, found.gpu) == (4, 1, "node", "simulated")
    assert found.sd == pytest.approx(0.02, abs=0.004)
    assert found.largest == pytest.approx(0.02, abs=0.002)
    assert [round(r, 3) for r in found.log_ratios] == [round(log(1 + s), 3) for s in slower[1:]]


def test_what_changes_from_one_time_to_the_next_is_told_apart_from_what_turns_leave() -> None:
    """A node that is slower for minutes on end: taking turns does not see it, two runs one after the other do."""
    even = against_itself(8, 8, [0.0] * 9)
    drifting = [
        replace(r, end_s=r.start_s + lasts, last_s=r.start_s + lasts)
        for r in (*even.passes["A", 1, "warm"].records, *even.passes["B", 1, "warm"].records)
        for lasts in [1.0 if r.index // 8 % 2 else 1.2]
    ]
    rows = [made.head(made.arm_head("A", "none"), made.arm_head("B", "none")), *map(made.row_of, drifting)]
    (found,) = noise.floors_of(fold(rows), 8)
    assert found.sd < 0.001
    assert found.apart == pytest.approx(2**0.5 * 0.0975, rel=0.05)  # ln 1.2 / 2, of eight times
    assert found.drift == found.apart
    assert replace(found, apart=0.0).drift == 0.05


def test_what_a_comparison_would_have_shown_allows_for_a_pause_where_each_time_is_one_short_block() -> None:
    """Of bursts of a second, 12 % apart now and then, as one real server's were: no verdict, and the spread is kept."""
    slower = [0.0, 0.12, -0.01, 0.1, 0.0, 0.02]
    result = against_itself(5, 8, slower)
    rows = [made.head(made.arm_head("A", "none"), made.arm_head("B", "none"), node={"host": "node"})]
    for key in (("A", 1, "warm"), ("B", 1, "warm")):
        for r in result.passes[key].records:
            at = 1000.0 * (r.index // 8) + (10.0 if r.arm == "B" else 0.0)
            burst = replace(
                r, concurrency=8, block=r.index // 8, start_s=at, first_s=at + 0.1,
                last_s=at + r.end_s - r.start_s, end_s=at + r.end_s - r.start_s,
            )  # fmt: skip
            rows.append(made.row_of(burst))
    (found,) = noise.floors_of(fold(rows), 8)
    assert (found.concurrency, found.times, found.verdicts) == (8, 5, 0)
    assert found.largest == pytest.approx(0.12, abs=0.01)
    assert found.sd > 0.05


@pytest.mark.parametrize(
    ("levels", "requests", "size", "prompts"), [((1, 4, 16), 32, 4, 32), ((1,), 8, 1, 8), ((1, 7, 16), 32, 16, 32)]
)
def test_each_time_is_whole_blocks_at_every_concurrency(
    levels: tuple[int, ...], requests: int, size: int, prompts: int
) -> None:
    options = RunOptions(workload="edit", concurrency=levels, requests=requests, max_tokens=16)
    spec, each = noise.build(ARM, options, 3)
    assert (spec.block, each) == (size, prompts)
    assert all(each % spec.block_at(level) == 0 for level in levels)


def test_no_floor_of_two_times() -> None:
    assert noise.floors_of(against_itself(2, 4, [0.0, 0.01, 0.0]), 4) == []


def test_kept_by_node_gpu_model_and_concurrency_the_newest_wins() -> None:
    noise.keep([floor(1, 0.01), floor(4, 0.02)])
    noise.keep([floor(4, 0.03), floor(4, 0.5, gpu="other")])
    known = noise.known()
    assert sorted((f.gpu, f.concurrency, f.sd) for f in known) == [
        ("GPU", 1, 0.01), ("GPU", 4, 0.03), ("other", 4, 0.5),
    ]  # fmt: skip
    place = ("node", "GPU", "m")
    assert [f.sd if (f := noise.floor_for(place, level)) else None for level in (1, 2, 3, 16)] == [
        0.01,
        0.01,
        0.03,
        0.03,
    ]
    assert noise.floor_for(("node", "GPU", "another model"), 1) is None


def test_a_file_that_is_no_list_of_floors_counts_as_none() -> None:
    path = noise.keep([floor()])
    for text in ("{", "3", '[{"sd": "x"}, 5, null]', '{"a": 1}'):
        path.write_text(text)
        assert noise.known() == []


def test_the_server_stands_on_both_sides_and_is_never_flushed() -> None:
    spec, prompts = noise.build(ARM, RunOptions(workload="json", concurrency=(1, 4), max_tokens=16), 5)
    assert [a.name for a in spec.arms] == ["A", "B"]
    assert {a.url for a in spec.arms} == {ARM.url}
    assert (spec.flush, [a.owned for a in spec.arms]) == ("no", [False, False])
    assert len(spec.measuring) == prompts * 6
    each = spec.measuring[:prompts]
    assert spec.measuring == each * 6
    assert "-noise-" in spec.run_id


@pytest.mark.parametrize(
    ("options", "times", "part"),
    [
        (RunOptions(workload="json"), 2, "at least 3"),
        (RunOptions(workload="json", requests=500), 5, "fewer than the 500"),
        (RunOptions(workload="repeat"), 5, "not all different"),
    ],
)
def test_what_makes_no_noise_measurement_is_said(options: RunOptions, times: int, part: str) -> None:
    with pytest.raises(SessionError, match=part):
        noise.build(ARM, options, times)


def test_a_drafter_that_learns_cannot_stand_against_itself() -> None:
    with pytest.raises(SessionError, match="NGRAM learns"):
        noise.measure(ARM, RunOptions(workload="json"), 5, "NGRAM")


def test_what_a_floor_hides_no_number_of_prompts_shows() -> None:
    bare = Estimate(1.01, 0.9, 1.1, 0.05, 16, 15, True)
    hidden = noise.need_text(bare, 0.05, "this")
    assert f"about {100 * (exp(2.8 * 0.05) - 1):.0f} %" in hidden
    assert "however many prompts" in hidden
    assert "more prompts to see 5 %" in noise.need_text(bare, 0.005, "this")
    sure = replace(bare, log_error=0.001)
    assert "enough" in noise.need_text(sure, 0.005, "this")
