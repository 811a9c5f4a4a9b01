"""The chart: what is drawn, and how little is drawn again."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult

from spectui.ui.widgets.chart import Chart, ChartData, Line, Mark, Reference, View
from spectui.ui.widgets.chart_layout import Kept, draw

NOW = 1_700_000_000.0


def steady(value: float, label: str = "A", *, dashed: bool = False, until: float = NOW) -> Line:
    points = tuple((until - 120 + i * 0.5, value) for i in range(240))
    return Line(label, points, f"{value:.0f}", label.lower(), dashed)


DATA = ChartData("output", "tok/s", (steady(372), steady(241, "B", dashed=True)), NOW)


def text_of(data: ChartData, width: int = 77, height: int = 7, view: View | None = None, form: str = "braille") -> str:
    drawn = draw(data, view or View(), width, height, form=form)
    return "\n".join("".join(run.text for run in row).rstrip() for row in drawn.rows)


def test_both_curves_are_labelled_at_their_right_end_and_one_is_dashed() -> None:
    rows = text_of(DATA).split("\n")
    a, b = (next(row for row in rows if row.endswith(text)) for text in ("A 372", "B 241"))
    assert rows.index(a) < rows.index(b)
    assert " " not in a[4:].split("  A")[0].strip(), "A is drawn through"
    assert b[4:].split("  B")[0].strip().count(" ") > 5, "B is dashed"


def test_axes_have_nice_steps_and_times() -> None:
    text = text_of(DATA)
    assert [row.split("┤")[0].strip() for row in text.split("\n") if "┤" in row] == ["400", "200"]
    assert "0┼" in text
    assert text.split("\n")[-1].split() == ["−1:30", "−1:00", "−0:30", "now"]


def test_marks_and_the_break_even_line_stand_where_they_belong() -> None:
    data = DATA._replace(marks=(Mark(NOW - 60, "flush"),), references=(Reference(300, "A breaks even 300"),))
    rows = text_of(data, 100).split("\n")
    at = next(row.index("▼flush") for row in rows if "▼flush" in row)
    assert abs(at - 4 - (100 - 4 - 19) / 2) <= 2
    assert any("╌╌╌" in row and row.endswith("A breaks even 300") for row in rows)
    assert "A breaks even" in text_of(data, 40), "inside the picture where the margin is too narrow"


def test_a_gap_is_a_gap_and_no_data_says_why() -> None:
    points = tuple((NOW - 120 + i, None if 40 <= i < 80 else 10.0) for i in range(120))
    rows = text_of(ChartData("x", lines=(Line("A", points, "10"),), now=NOW)).split("\n")
    assert "    " in rows[0][4:].split("  A")[0].strip()
    assert "waiting for the first token" in text_of(ChartData("x", now=NOW, empty="waiting for the first token"))


def test_values_under_the_cursor() -> None:
    text = text_of(DATA, view=View(cursor=NOW - 30))
    assert "−0:30  A 372  B 241" in text
    assert "│" in text.split("\n")[3][10:]


def test_zoom_shows_that_stretch_only() -> None:
    points = tuple((NOW - 120 + i, 100.0 if i < 60 else 5.0) for i in range(120))
    data = ChartData("x", lines=(Line("A", points, "5"),), now=NOW, origin=NOW - 120)
    text = text_of(data, view=View(zoom=(NOW - 50, NOW - 10)))
    assert "100" not in text
    assert "1:20" in text.split("\n")[-1]


def test_ascii_is_ascii_and_tells_the_curves_apart_without_colour() -> None:
    text = text_of(DATA, form="ascii")
    assert "***" in text
    assert "ooo" in text


@settings(max_examples=80, deadline=None)
@given(
    st.integers(0, 60),
    st.integers(0, 14),
    st.sampled_from(["braille", "block", "ascii"]),
    st.lists(st.tuples(st.floats(NOW - 200, NOW + 10), st.none() | st.floats()), max_size=20),
    st.floats(allow_nan=False, allow_infinity=False),
    st.none() | st.floats(NOW - 300, NOW + 300),
    st.booleans(),
)
def test_no_size_and_no_value_breaks_it(
    width: int,
    height: int,
    form: str,
    points: list[tuple[float, float | None]],
    reference: float,
    cursor: float | None,
    zoomed: bool,
) -> None:
    line = Line("A", tuple(sorted(points, key=lambda p: p[0])), "12")
    data = ChartData("t", "u", (line, steady(3, "B")), NOW, references=(Reference(reference, "even"),))
    data = data._replace(marks=(Mark(NOW - 20, "flush"), Mark(NOW - 19, "restart")))
    view = View((NOW - 40, NOW - 39.5) if zoomed else None, cursor)
    drawn = draw(data, view, width, height, form=form)
    assert len(drawn.rows) <= height
    assert all(sum(len(run.text) for run in row) <= max(width, 0) for row in drawn.rows)


@pytest.mark.parametrize("height", range(1, 9))
def test_every_height_shows_both_values(height: int) -> None:
    text = text_of(DATA, 77, height)
    assert "372" in text
    assert "241" in text
    assert len(text.split("\n")) <= height


def test_the_bounds_do_not_waver() -> None:
    first = draw(DATA, View(), 77, 12)
    lower = DATA._replace(lines=(steady(250),))
    assert draw(lower, View(), 77, 12, kept=first.kept).kept.scale == first.kept.scale
    assert draw(lower, View(), 77, 12, kept=Kept()).kept.scale != first.kept.scale


class ChartApp(App[None]):
    CSS = "Chart { border: round $border; height: 9; }"

    def compose(self) -> ComposeResult:
        yield Chart(id="chart")


async def test_equal_data_draws_nothing_again_and_a_new_value_only_its_cells() -> None:
    async with ChartApp().run_test(size=(80, 12)) as pilot:
        chart = pilot.app.query_one(Chart)
        chart.show(DATA)
        await pilot.pause()
        before = chart.spans_asked
        chart.show(DATA._replace())
        assert chart.spans_asked == before
        chart.show(DATA._replace(lines=(DATA.lines[0]._replace(current="373"), DATA.lines[1])))
        assert chart.spans_asked == before + 1
        await pilot.pause()
        assert any(line.endswith("A 373") for line in chart.text_lines())


async def test_the_picture_moves_by_whole_cells() -> None:
    async with ChartApp().run_test(size=(80, 12)) as pilot:
        chart = pilot.app.query_one(Chart)
        wave = tuple((NOW - 200 + i * 0.25, 200 + 100 * math.sin(i / 40)) for i in range(1000))
        chart.show(ChartData("x", lines=(Line("A", wave, "1"),), now=NOW))
        await pilot.pause()
        changed = 0
        for tick in range(1, 9):
            before = chart.text_lines()
            chart.show(ChartData("x", lines=(Line("A", wave, "1"),), now=NOW + tick * 0.25))
            changed += before[:-2] != chart.text_lines()[:-2]
        assert 1 <= changed <= 2, "a cell shows 1.7 s: in two seconds the picture moves once or twice, not eight times"


async def test_cursor_and_zoom_move_within_what_is_shown() -> None:
    async with ChartApp().run_test(size=(80, 12)) as pilot:
        chart = pilot.app.query_one(Chart)
        chart.move_cursor(-1)
        chart.show(DATA)
        await pilot.pause()
        chart.move_cursor(-1)
        chart.move_cursor(-10)
        assert chart.view.cursor is not None
        assert chart.view.cursor < NOW - 10
        chart.move_cursor(-1000)
        chart.zoom_by(0.25)
        assert chart.view.zoom is not None
        assert chart.view.zoom[1] - chart.view.zoom[0] == pytest.approx(30)
        chart.zoom_by(100)
        assert chart.view.zoom is None
        chart.live()
        assert chart.view == View()


async def test_sizes_follow_the_terminal() -> None:
    async with ChartApp().run_test(size=(80, 12)) as pilot:
        chart = pilot.app.query_one(Chart)
        chart.show(DATA)
        for size in ((20, 3), (3, 3), (1, 1), (160, 48)):
            await pilot.resize_terminal(*size)
            await pilot.pause()
        assert any(line.endswith("A 372") for line in chart.text_lines())
        assert "output tok/s" in "\n".join(strip.text for strip in pilot.app.screen._compositor.render_strips())
