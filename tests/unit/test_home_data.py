"""What the home screen makes of a snapshot before any widget is told."""

from __future__ import annotations

import pytest

from spectui.session.view import ArmView, RunView, Snapshot
from spectui.ui.screens import home_data

END = 1_796_000_060.0
DONE = RunView("r", "json", ("A",), False, "json ▸ warm pass ▸ 1 at a time", status="complete")


def shot(took: float, *, ended: bool = True, marks: tuple[tuple[float, str], ...] = ()) -> Snapshot:
    """A run of ``took`` seconds that ended at END."""
    curve = tuple((END - 120 + t, 300.0 if t >= 120 - took else None) for t in range(121))
    return Snapshot(
        END + 40.0 if ended else END, "node", (ArmView("A", "ready"), ArmView("B")), "A", DONE,
        tok_s={"A": curve, "B": ((END - 119, None),)}, marks=marks, chart_now=END if ended else None,
    )  # fmt: skip


@pytest.mark.parametrize(
    ("took", "span"), [(3, 30), (29, 30), (30, 60), (57, 60), (59, 120), (119, 120), (0, 30)]
)  # fmt: skip
def test_a_run_that_ended_fills_the_charts(took: float, span: float) -> None:
    assert {chart.span_s for chart in home_data.charts(shot(took))} == {span}


def test_the_flush_before_a_run_is_seen_with_it_and_what_was_long_before_is_not() -> None:
    (speed, _) = home_data.charts(shot(27, marks=((END - 33, "flush"),)))
    assert speed.span_s == 60
    (speed, _) = home_data.charts(shot(20, marks=((END - 90, "restart"),)))
    assert speed.span_s == 30
    assert len(speed.marks) == 1


def test_while_a_run_goes_on_the_charts_show_the_same_stretch() -> None:
    assert {chart.span_s for chart in home_data.charts(shot(5, ended=False))} == {120}


def test_a_run_that_measured_nothing_shows_the_whole_stretch() -> None:
    nothing = Snapshot(END, "node", (ArmView("A"), ArmView("B")), "A", DONE, chart_now=END)
    assert {chart.span_s for chart in home_data.charts(nothing)} == {120}
