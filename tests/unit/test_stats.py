"""Ratios, verdicts, noise floors and comparisons, on figures that can be followed by hand."""

from __future__ import annotations

import json
from dataclasses import replace
from math import inf, isclose, log

import pytest
from core_records import all_recorded, arm_head, generated, head, of_meta, record, recorded, row_of
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.blocks import Block, blocks_of, combine, units_of
from spectui.core.compare import break_even, compare, compare_json
from spectui.core.fairness import side_of
from spectui.core.result import fold
from spectui.core.stats import (
    Sequential,
    Verdict,
    as_json,
    needs_blocks,
    noise_floor,
    ratio_of,
    ratio_of_throughput,
    verdict,
)
from spectui.core.students import t_cdf, t_quantile


def blocks(seconds: list[float], tokens: int = 100) -> list[Block]:
    return [Block(str(i), tokens, s) for i, s in enumerate(seconds)]


@pytest.mark.parametrize(
    ("share", "freedom", "value"),
    [(0.975, 1, 12.7062), (0.975, 5, 2.5706), (0.95, 30, 1.6973), (0.995, 3, 5.8409), (0.025, 10, -2.2281),
     (0.975, inf, 1.95996)],
)  # fmt: skip
def test_students_quantiles_are_those_of_the_tables(share: float, freedom: float, value: float) -> None:
    assert t_quantile(share, freedom) == pytest.approx(value, abs=1e-4)
    assert t_cdf(value, freedom) == pytest.approx(share, abs=1e-5)


def test_pairing_takes_out_what_prompts_differ_in() -> None:
    a, b = blocks([1.0, 5.0, 2.0, 9.0, 4.0, 7.0]), blocks([1.21, 5.9, 2.45, 10.7, 4.8, 8.5])
    paired = ratio_of_throughput(a, b)
    apart = ratio_of_throughput(a, [replace(x, id=f"x{x.id}") for x in b])
    assert paired is not None
    assert apart is not None
    assert paired.ratio == apart.ratio == pytest.approx(33.56 / 28.0)
    assert paired.excludes_one
    assert not apart.excludes_one
    assert verdict(paired) == Verdict("faster")
    assert verdict(ratio_of_throughput(b, a)) == Verdict("slower")


def test_reasons_withhold_and_few_pairs_show_nothing() -> None:
    e = ratio_of_throughput(blocks([1.0] * 6), blocks([2.0, 2.1, 1.9, 2.0, 2.05, 1.95]))
    assert verdict(e, ["A's store is cold"]) == Verdict("not a fair trial", ("A's store is cold",))
    assert verdict(None).word == "not a fair trial"
    few = ratio_of_throughput(blocks([1.0] * 3), blocks([2.0] * 3))
    assert verdict(few).word == "no difference shown"
    assert "only 3 prompts" in verdict(few).reasons[0]
    one = ratio_of_throughput(blocks([1.0]), blocks([2.0]))
    assert one is not None
    assert (one.low, one.high) == (0.0, inf)
    assert json.dumps(as_json(one))
    assert ratio_of_throughput([], blocks([1.0])) is None


def test_no_difference_says_how_many_more() -> None:
    e = ratio_of_throughput(blocks([1.0, 1.3, 0.8, 1.1, 0.9, 1.2]), blocks([1.1, 1.1, 0.9, 1.0, 1.0, 1.1]))
    said = verdict(e)
    assert said.word == "no difference shown"
    assert "more prompts to see 5 %" in said.reasons[0]
    assert e is not None
    assert needs_blocks(e, difference=0.5).more == 0


def test_repeats_of_a_prompt_are_one_piece_of_evidence() -> None:
    twice = blocks([1.0, 2.0, 3.0]) + blocks([1.1, 2.1, 3.1])
    assert len(combine(twice)) == 3
    assert combine(twice)["1"].seconds == pytest.approx(4.1)
    e = ratio_of_throughput(twice, twice)
    assert e is not None
    assert e.units == 3


def test_the_wall_clock_is_the_ratio_and_its_distance_widens_the_interval() -> None:
    a, b = blocks([1.0, 1.1, 0.9, 1.0, 1.05, 0.95]), blocks([1.02, 1.08, 0.91, 1.0, 1.03, 0.97])
    plain, told = ratio_of_throughput(a, b), ratio_of_throughput(a, b, centre=1.1)
    assert plain is not None
    assert told is not None
    assert told.ratio == pytest.approx(1.1)
    assert not told.excludes_one
    assert told.high / told.low > plain.high / plain.low
    noisy = ratio_of_throughput(a, b, noise=0.05)
    assert noisy is not None
    assert noisy.log_error == pytest.approx((plain.log_error**2 + 0.05**2) ** 0.5)


def test_an_identical_copy_is_within_the_resolution() -> None:
    a = blocks([1.0, 2.0, 3.0, 4.0, 5.0])
    e = ratio_of_throughput(a, [replace(x, seconds=x.seconds * 1.001) for x in a])
    assert verdict(e).word == "no difference shown"


def test_the_noise_floor_is_what_prompts_do_not_explain() -> None:
    quiet = ratio_of_throughput(blocks([1.0] * 6), blocks([1.0] * 6))
    assert quiet is not None
    loud = [replace(quiet, ratio=r) for r in (1.03, 0.97, 1.02, 0.99)]
    floor = noise_floor(loud)
    assert floor is not None
    assert floor.sd == pytest.approx((sum(log(e.ratio) ** 2 for e in loud) / 4 - quiet.log_error**2) ** 0.5)
    assert floor.largest == pytest.approx(1 / 0.97 - 1)
    assert noise_floor(loud[:2]) is None
    assert (noise_floor([quiet] * 3) or floor).sd == 0.0


def test_a_look_too_early_shows_nothing_and_the_whole_error_is_spent_at_the_end() -> None:
    e = ratio_of_throughput(blocks([1.0] * 4), blocks([3.0] * 4))
    assert e is not None
    stop, shown, after = Sequential(planned=200).look(e)
    assert (stop, shown.excludes_one) == (False, False)
    assert after.spent < 1e-6
    assert Sequential(planned=40).released(40) == pytest.approx(0.05)
    assert Sequential(planned=40).released(10) < 0.001


values = st.lists(st.tuples(st.floats(0.1, 50), st.floats(0.1, 50)), min_size=5, max_size=20)


@given(values)
def test_turning_a_comparison_round_turns_its_interval_round(pairs: list[tuple[float, float]]) -> None:
    a, b = blocks([x for x, _ in pairs]), blocks([y for _, y in pairs])
    one, two = ratio_of_throughput(a, b), ratio_of_throughput(b, a)
    assert one is not None
    assert two is not None
    assert one.low <= one.ratio <= one.high
    assert isclose(one.ratio * two.ratio, 1, rel_tol=1e-9)
    if one.high < inf:
        assert isclose(one.low * two.high, 1, rel_tol=1e-6)
    assert one.at(0.99).low <= one.low


# From records to a comparison


def test_units_are_prompts_alone_and_blocks_in_a_crowd() -> None:
    rows = [r for r, _ in all_recorded("ngram-8")][:40]
    shared = [replace(r, block=i // 8, concurrency=8) for i, r in enumerate(rows)]
    alone, _ = units_of(rows, rows, concurrency=1, speculative={"a": True, "b": True})
    assert (len(alone), alone[0].unit) == (40, "prompts")
    assert alone[3].steps == rows[3].verify_steps
    crowd, other = units_of(shared, list(reversed(shared)), concurrency=8, speculative={"a": True, "b": True})
    assert (len(crowd), crowd[0].unit) == (5, "blocks")
    assert {x.id for x in crowd} == {x.id for x in other}
    few, _ = units_of(shared[:32], shared[:32], concurrency=8, speculative={"a": True, "b": True})
    assert few[0].unit == "prompts"
    failed = blocks_of([record(status="failed"), record(1)], speculative=False, whole_blocks=True)
    assert (failed[0].tokens, failed[0].seconds) == (81, pytest.approx(2.0))


def test_eagle_against_none_as_recorded_gets_a_verdict() -> None:
    """One request at a time on a small model EAGLE-3 with a poor head loses, and the table says why: steps take longer
    than accept length makes up for."""
    rows = []
    for name, setting in (("A", "eagle3-3-1-4"), ("B", "none")):
        t = 100.0
        for i, m in enumerate(recorded()[setting]["workloads"]["short"] + recorded()[setting]["workloads"]["edit"]):
            rows.append(row_of(of_meta(m, i, arm=name, start_s=t)))
            t = rows[-1]["end_s"]
    eagle = arm_head("A", "EAGLE3", settings_in_force={"num_draft_tokens": 4})
    result = fold([head(eagle, arm_head("B", "none")), *rows])
    a, b = side_of(result, ("A", 1, "warm")), side_of(result, ("B", 1, "warm"))
    said = compare(a, b)
    assert said.verdict.word in ("slower", "no difference shown")
    assert said.throughput is not None
    assert said.throughput.low <= said.throughput.ratio <= said.throughput.high
    speeds = [s.result.output_tokens_per_s or 0 for s in (a, b)]
    assert said.throughput.ratio == pytest.approx(speeds[0] / speeds[1])
    assert said.accept_length is not None
    assert said.accept_length.ratio == pytest.approx(a.result.accept_length)
    assert said.break_even[0] == pytest.approx((a.result.step_time_ms or 0) / (b.result.step_time_ms or 1))
    assert (said.break_even[0] or 0) > (a.result.accept_length or 0)
    row = json.loads(json.dumps(compare_json([said], [{"name": "A"}, {"name": "B"}])))
    assert row["verdict"] == row["by_concurrency"][0]["verdict"] == said.verdict.word
    assert row["by_concurrency"][0]["interval"][0] <= row["by_concurrency"][0]["ratio"]


def test_several_loads_have_a_crossing_and_no_single_winner() -> None:
    rows = []
    for level, seconds in ((1, 0.5), (8, 2.0)):
        for i, r in enumerate(generated(8, 200, [3.0 + 0.01 * i for i in range(8)], concurrency=level)):
            for arm, span in (("A", seconds), ("B", 1.0)):
                span *= 1 + 0.02 * (i % 3)
                start = 1000.0 * level + span * i
                times = {"start_s": start, "first_s": start + 0.1, "last_s": start + span, "end_s": start + span}
                rows.append(replace(r, arm=arm, verify_steps=r.verify_steps if arm == "A" else None, **times))
    result = fold([head(arm_head("A", "EAGLE3"), arm_head("B", "none")), *map(row_of, rows)])
    sides = [(side_of(result, ("A", c, "warm")), side_of(result, ("B", c, "warm"))) for c in (1, 8)]
    said = compare_json([compare(a, b) for a, b in sides], [])
    assert [r["concurrency"] for r in said["by_concurrency"]] == [1, 8]
    assert said["verdict"] == said["by_concurrency"][0]["verdict"]
    assert [r["verdict"] for r in said["by_concurrency"]] == ["faster", "slower"]
    assert said["crossing"] == "between 1 and 8"
    with pytest.raises(ValueError, match="nothing was compared"):
        compare_json([], [])


def test_cold_and_warm_do_not_compare_their_first_tokens() -> None:
    mine = generated(8, 200, [3.0] * 8)
    other = [replace(r, arm="B", pass_name="cold", verify_steps=None) for r in mine]
    result = fold([head(arm_head("A", "EAGLE3"), arm_head("B", "none")), *map(row_of, [*mine, *other])])
    said = compare(side_of(result, ("A", 1, "warm")), side_of(result, ("B", 1, "cold")))
    assert said.ttft is None
    assert said.verdict.reasons == ("not like for like: pass warm / cold: ask both sides alike",)


def test_break_even_is_the_ratio_of_step_times() -> None:
    assert break_even(25.0, 10.0, 1.0) == 2.5
    assert break_even(25.0, 10.0, None) is None
    assert ratio_of(blocks([1.0] * 5), blocks([1.0] * 5), "decode_tokens", "steps") is None
