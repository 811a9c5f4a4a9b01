"""Curves drawn into characters."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.braille import DOTS, FORMS, Canvas, Curve, Run, buckets, points_of, runs, sparkline


def drawn(canvas: Canvas) -> list[str]:
    return ["".join(run.text for run in row) for row in canvas.lines()]


def test_a_rising_line_in_each_form() -> None:
    shown = {}
    for form in FORMS:
        canvas = Canvas(4, 2, form)
        across = DOTS[form][0]
        values = tuple(float(i) for i in range(4 * across))
        canvas.curve(Curve(values, "a"), 0.0, values[-1])
        shown[form] = drawn(canvas)
    assert shown == {
        "braille": ["  ⡠⠊", "⡠⠊  "],
        "block": ["  ▄▀", "▄▀  "],
        "ascii": ["  **", "**  "],
    }


def test_gaps_stay_gaps() -> None:
    canvas = Canvas(3, 1)
    canvas.curve(Curve((0.0, 0.0, None, None, 0.0, 0.0), "a"), 0.0, 1.0)
    assert drawn(canvas) == ["⣀ ⣀"]


def test_a_jump_is_joined_upright() -> None:
    canvas = Canvas(1, 2)
    canvas.curve(Curve((0.0, 1.0), "a"), 0.0, 1.0)
    assert drawn(canvas) == ["⢸", "⡸"]


def test_dashes_travel_with_the_curve() -> None:
    def line(first: int) -> str:
        canvas = Canvas(9, 1)
        canvas.curve(Curve((0.0,) * 18, "b", dashed=True, first=first), 0.0, 1.0)
        return drawn(canvas)[0]

    assert line(0) == "⣀⣀ ⣀⣀ ⣀⣀ "
    assert line(2)[:-1] == line(0)[1:]


def test_the_last_curve_gives_the_colour_and_no_dot_is_lost() -> None:
    canvas = Canvas(1, 1)
    canvas.curve(Curve((0.0, 0.0), "b"), 0.0, 1.0)
    canvas.curve(Curve((1.0, 1.0), "a"), 0.0, 1.0)
    assert canvas.lines() == ((Run("⣉", "a"),),)


def test_blanks_join_the_run_before_them() -> None:
    assert runs([(" ", ""), ("x", "a"), (" ", ""), ("y", "a"), ("z", "b")]) == (Run(" x y", "a"), Run("z", "b"))


def test_buckets_are_means_over_absolute_time() -> None:
    points = [(100.1, 1.0), (100.3, 3.0), (100.9, 5.0), (101.2, 7.0)]
    assert buckets(points, 200, 3, 0.5, 0.4) == (2.0, 5.0, 7.0)
    assert buckets(points, 201, 3, 0.5, 0.4) == (5.0, 7.0, None)


def test_near_points_are_joined_and_far_ones_are_not() -> None:
    points = [(0.0, 0.0), (4.0, 4.0), (20.0, 1.0)]
    assert buckets(points, 0, 6, 1.0, 5.0) == (0.0, 1.0, 2.0, 3.0, 4.0, None)
    broken = [(0.0, 0.0), (2.0, None), (4.0, 4.0)]
    assert buckets(broken, 0, 5, 1.0, 5.0) == (0.0, None, None, None, 4.0)
    assert buckets(points, 2, 3, 1.0, 5.0)[0] == 2.0, "joined to a point left of the edge"


def test_points_of_a_series_fall_back_into_their_buckets() -> None:
    assert buckets(points_of([1.0, None, 3.0], 12.7, 1.0), 10, 3, 1.0, 0.5) == (1.0, None, 3.0)


@pytest.mark.parametrize(("form", "bars"), [("braille", "▁▅ █"), ("ascii", "_= #")])
def test_sparkline(form: str, bars: str) -> None:
    assert sparkline([0.0, 50.0, None, 100.0], 0.0, 100.0, form) == bars
    assert sparkline([math.nan], 0.0, 0.0, form) == " "


@settings(max_examples=100, deadline=None)
@given(
    st.lists(st.none() | st.floats(), max_size=12),
    st.integers(0, 4),
    st.integers(0, 4),
    st.sampled_from(FORMS),
    st.floats(-10, 10),
    st.floats(-10, 10),
)
def test_no_input_breaks_it(
    values: list[float | None], columns: int, rows: int, form: str, low: float, high: float
) -> None:
    canvas = Canvas(columns, rows, form)
    canvas.curve(Curve(tuple(values), "a"), low, high)
    canvas.line(0, "-", "ref")
    canvas.upright(0, "|", "ref")
    canvas.text(-1, 0, "abc", "mark")
    assert [len(line) for line in drawn(canvas)] == [columns] * rows
