"""Axes: steps, bounds that do not jump, labels."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.axis import Scale, clock, fit, nice_step, tick_label, time_step


@pytest.mark.parametrize(
    ("span", "most", "step"),
    [(400, 2, 200), (372, 4, 100), (10, 4, 2.5), (9, 2, 5), (0.7, 4, 0.2), (6, 3, 2), (1, 1, 1), (0, 3, 1), (-1, 3, 1)],
)
def test_steps_are_1_2_25_5(span: float, most: int, step: float) -> None:
    assert nice_step(span, most) == pytest.approx(step)


def test_bounds_grow_at_once_and_shrink_below_half() -> None:
    first = fit(None, [10, 90], 4)
    assert first == Scale(0.0, 100.0, 25.0)
    grown = fit(first, [10, 110], 4)
    assert grown.high > 110
    assert fit(grown, [10, 0.51 * grown.high], 4) is grown
    assert fit(grown, [10, 0.49 * grown.high], 4).high < grown.high


def test_without_values_the_bounds_stay() -> None:
    assert fit(None, [], 4) == Scale(0.0, 1.0, 1.0)
    assert fit(Scale(0, 400, 100), [math.nan], 4) == Scale(0, 400, 100)


def test_a_floor_of_one_stays_one() -> None:
    assert fit(None, [1.0, 4.9], 3, floor=1.0).low == 1.0
    assert fit(None, [1.0, 1.0], 3, floor=1.0).high > 1.0
    assert fit(None, [-5.0, 5.0], 4, floor=0.0).low <= -5.0


@settings(max_examples=200, deadline=None)
@given(st.lists(st.floats(), max_size=5), st.integers(1, 6), st.sampled_from([0.0, 1.0, None]))
def test_any_values_give_usable_bounds(values: list[float], most: int, floor: float | None) -> None:
    scale = fit(None, values, most, floor)
    assert scale.high > scale.low
    assert 2 <= len(scale.ticks()) <= 51
    assert all(len(tick_label(tick, scale.step)) <= 12 for tick in scale.ticks())


@pytest.mark.parametrize(
    ("value", "step", "label"),
    [
        (0, 100, "0"),
        (400, 100, "400"),
        (2.5, 2.5, "2.5"),
        (0.75, 0.25, "0.75"),
        (12500, 2500, "12.5k"),
        (2e6, 1e6, "2M"),
    ],
)
def test_labels_have_the_digits_that_the_step_needs(value: float, step: float, label: str) -> None:
    assert tick_label(value, step) == label


def test_times() -> None:
    assert [clock(s) for s in (0, -0.2, 48, -120, 3723)] == ["0:00", "0:00", "0:48", "−2:00", "1:02:03"]
    assert time_step(120, 4) == 30
    assert time_step(7, 3) == 5
