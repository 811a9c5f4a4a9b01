"""Bare numbers: repeats, the crossing over loads, passes of a drafter that remembers, forced lengths."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.repeats import (
    compare_repeats,
    crossing,
    crossing_of_speeds,
    forced_length,
    passes_of_stateful,
)

FASTER = "faster wherever there is a difference"
A, B, C = [212.4, 205.1, 218.9], [219.8, 211.0, 224.5], [268.0, 262.2, 273.9]


def test_fc40_three_per_cent_is_noise() -> None:
    near, far = compare_repeats(A, B), compare_repeats(A, C)
    assert (near.median_a, near.median_b, far.median_b) == (212.4, 219.8, 268.0)
    assert near.change == pytest.approx(0.035, abs=5e-4)
    assert (near.overlap, near.word) == (True, "no clear difference")
    assert far.change == pytest.approx(0.262, abs=5e-4)
    assert (far.overlap, far.word) == (False, "faster")
    assert near.spread_a == pytest.approx(0.065, abs=5e-4)
    assert compare_repeats(C, A).word == "slower"
    assert compare_repeats([100.0], [150.0]).word == "one run, no verdict"
    assert compare_repeats([100.0, 100.1], [103.0, 103.1]).word == "no clear difference"
    with pytest.raises(ValueError, match="above 0"):
        compare_repeats([], [1.0])


def test_fc15_faster_alone_slower_in_a_crowd() -> None:
    said = crossing_of_speeds([1, 8, 32, 64, 128], [92, 640, 2050, 3390, 5200], [214, 1180, 2480, 3310, 4310])
    assert [round(r, 2) for r in said.speedups] == [2.33, 1.84, 1.21, 0.98, 0.83]
    assert said.words == ("faster", "faster", "faster", "no clear difference", "slower")
    assert said.text == "between 32 and 128 (64 is a tie)"


@pytest.mark.parametrize(
    ("ratios", "text"),
    [
        ([2.0, 0.5, 0.4], "between 1 and 8"),
        ([2.0, 1.5, 1.2], f"none within 1 to 32: {FASTER}"),
        (
            [2.0, 1.0, 1.01],
            "none within 1 to 32: faster wherever there is a difference; no difference shown at 8 and 32",
        ),
        ([1.0, 1.0, 1.0], "none seen: no difference shown at 1 to 32"),
        ([2.0, 0.5, 2.0], "between 1 and 8; between 8 and 32"),
    ],
)
def test_crossings_of_other_shapes(ratios: list[float], text: str) -> None:
    assert crossing([1, 8, 32], ratios).text == text


def test_crossings_take_the_words_of_intervals_and_any_order() -> None:
    said = crossing([16, 1, 4], [0.8, 1.5, 1.02], ["slower", "faster", "not a fair trial"])
    assert said.levels == (1, 4, 16)
    assert said.text == "between 1 and 16 (no fair trial at 4)"
    words = ["no difference shown", "not a fair trial", "slower"]
    said = crossing([1, 4, 16], [1.2, 1.3, 0.6], words)
    assert said.text == (
        "none within 1 to 16: slower wherever there is a difference; no difference shown at 1; no fair trial at 4"
    )
    said = crossing([1, 4], [1.2, 1.3], ["not a fair trial", "not a fair trial"])
    assert said.text == "not known: no fair trial at 1 to 4"
    said = crossing(
        [1, 4, 8, 16], [1.2, 1.0, 1.0, 0.5], ["faster", "no difference shown", "not a fair trial", "slower"]
    )
    assert said.text == "between 1 and 16 (4 is a tie, no fair trial at 8)"
    with pytest.raises(ValueError, match="as many"):
        crossing([1], [])


def test_fc35_the_first_time_and_the_warmed_up_speed_apart() -> None:
    speeds = [118.2, 196.5, 231.0, 238.7, 240.1]
    said = passes_of_stateful(speeds, 112.0)
    assert (said.cold, said.warm) == (118.2, 238.7)
    assert said.cold_ratio == pytest.approx(1.06, abs=5e-3)
    assert said.warm_ratio == pytest.approx(2.13, abs=5e-3)
    assert round(sum(speeds) / 5, 1) == 204.9
    assert 204.9 not in (said.cold, said.warm)
    flushed = passes_of_stateful([118.2, 117.9, 118.6], 112.0, [True, True, True])
    assert (flushed.cold, flushed.warm) == (118.2, None)
    failed = passes_of_stateful([118.2, 117.9, 190.0], 112.0, [True, True, False])
    assert "the flush before pass 3 failed" in failed.notes[0]
    assert failed.cold == pytest.approx(118.05)
    with pytest.raises(ValueError, match="at least one pass"):
        passes_of_stateful([])


def test_fc44_the_babbling_tail_is_told_apart() -> None:
    said = forced_length((180, 75), (828, 180))
    assert (said.natural, said.tail, round(said.pooled or 0, 2)) == (2.4, 4.6, 3.95)
    assert said.mark == "length forced: acceptance too high"
    natural = forced_length((180, 75), (828, 180), ignore_eos=False)
    assert (natural.pooled, natural.tail, natural.mark) == (2.4, None, None)


speeds = st.lists(st.floats(1, 1e4), min_size=1, max_size=6)


@given(speeds, speeds)
def test_repeats_turn_round(a: list[float], b: list[float]) -> None:
    turned = {"faster": "slower", "slower": "faster"}
    one, two = compare_repeats(a, b, floor=0.0), compare_repeats(b, a, floor=0.0)
    assert two.word == turned.get(one.word, one.word)
    assert one.word not in turned or not one.overlap
