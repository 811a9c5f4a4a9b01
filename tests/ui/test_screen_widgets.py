"""Lists, tables, plots and forms of lines: what they lay out at which width, and how they scroll."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from rich.cells import cell_len
from textual.app import App, ComposeResult

from spectui.core.braille import Run
from spectui.ui.widgets.form import Field
from spectui.ui.widgets.lines import width_of
from spectui.ui.widgets.plot import PlotData, Series, plot_rows
from spectui.ui.widgets.progress_bar import Progress, ProgressLine, bar, progress_row
from spectui.ui.widgets.rows import Item, RowList, TextPage
from spectui.ui.widgets.text_table import Column, fitted, pairs, table, titled, wrapped

COLUMNS = (Column("name", least=6), Column("size", right=True, drop=1), Column("state"))
FIELDS = (Field("pass", "pass", "warm", ("warm", "cold")), Field("count", "count", "", help="a number"))


class Alone(App[None]):
    def __init__(self, widget: Any) -> None:
        super().__init__()
        self.widget = widget

    def compose(self) -> ComposeResult:
        yield self.widget


def text(rows: Any) -> list[str]:
    return ["".join(run.text for run in row).rstrip() for row in rows]


def test_columns_are_cut_then_dropped_and_figures_stand_right() -> None:
    cells = [("a long name", "12", "ready"), ("b", "1,234", Run("failed", "bad"))]
    assert text(table(COLUMNS, cells, 40)) == [
        "name          size  state",
        "a long name     12  ready",
        "b            1,234  failed",
    ]
    assert text(table(COLUMNS, cells, 21))[1] == "a lon…     12  ready"
    assert text(table(COLUMNS, cells, 16))[1] == "a long …  ready"


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.text(max_size=12), st.text(max_size=12), st.text(max_size=12)), max_size=4),
    st.integers(0, 60),
)
def test_no_row_is_wider_than_asked(cells: list[tuple[str, str, str]], width: int) -> None:
    for row in table(COLUMNS, cells, width):
        assert width_of(row) <= max(width, 0)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=30), st.integers(0, 20), st.booleans())
def test_fitted_is_exactly_as_wide(value: str, width: int, right: bool) -> None:
    assert cell_len(fitted(value, width, right=right)) == width


def test_sentences_wrap_under_their_beginning() -> None:
    assert text(wrapped("one two three four", 11, first="- ", rest="  ")) == ["- one two", "  three", "  four"]
    assert text(pairs([("name", "one two three"), ("x", "y")], 14)) == ["name  one two", "      three", "x     y"]
    assert text([titled("a heading", 20)]) == ["── a heading ───────"]


def test_progress_tells_share_time_left_and_what() -> None:
    assert bar(0.5, 8) == "████░░░░"
    assert text([progress_row(Progress("graphs 14 of 20", 0.62, 48.0), 80)])[0].endswith(
        "  62 %  0:48 left  graphs 14 of 20"
    )
    assert text([progress_row(Progress("waiting"), 80)]) == ["waiting"]


async def test_a_progress_line_takes_no_row_while_there_is_none() -> None:
    line = ProgressLine()
    async with Alone(line).run_test(size=(60, 5)) as pilot:
        assert not line.display
        line.show(Progress("x", 0.5))
        await pilot.pause()
        assert line.display
        assert line.text_lines()[0].startswith("████")


async def test_the_cursor_stays_on_its_item_and_in_sight() -> None:
    rows = RowList()
    async with Alone(rows).run_test(size=(30, 6)) as pilot:
        rows.show((Column("n"),), [Item(str(i), (f"item {i}",)) for i in range(50)])
        rows.focus()
        for key in ("pagedown", "pagedown", "down"):
            await pilot.press(key)
        assert rows.item is not None
        here = rows.item.key
        assert any(here in line for line in rows.text_lines())
        rows.show((Column("n"),), [Item(str(i), (f"item {i}",)) for i in range(-5, 50)])
        assert rows.item.key == here
        await pilot.press("end")
        assert rows.item.key == "49"
        rows.show((Column("n"),), [])
        assert rows.item is None
        await pilot.press("down")


async def test_a_text_page_scrolls_and_says_what_is_below() -> None:
    page = TextPage()
    async with Alone(page).run_test(size=(30, 5)) as pilot:
        page.show(lambda width: [(Run(f"line {i}"),) for i in range(20)])
        page.focus()
        await pilot.pause()
        assert page.text_lines()[-1] == "… 16 more lines"
        await pilot.press("end")
        assert page.text_lines()[-1] == "line 19"
        await pilot.press("home", "down")
        assert page.text_lines()[0] == "line 1"


PLOT = PlotData(
    "draft tokens",
    (
        Series("NGRAM measured", ((4.0, 2.0), (8.0, 3.0), (16.0, 3.4)), signed=True),
        Series("NGRAM predicted", ((4.0, 2.2), (16.0, 3.9)), joined=False, sign="○"),
    ),
    floor=1.0,
)


def test_measured_and_predicted_are_told_apart_without_colour() -> None:
    lines = text(plot_rows(PLOT, 70, 14))
    assert "● NGRAM measured  ○ NGRAM predicted" in lines[0]
    assert "over draft tokens" in lines[0]
    body = "".join(lines[1:])
    assert body.count("●") == 3
    assert body.count("○") == 2
    assert lines[-1].split() == ["0", "5", "10", "15"]


@pytest.mark.parametrize("size", [(1, 1), (10, 3), (24, 5), (200, 60), (0, 0)])
@pytest.mark.parametrize("form", ["braille", "block", "ascii"])
def test_plots_of_any_size_fit(size: tuple[int, int], form: str) -> None:
    one = PlotData("x", (Series("one", ((3.0, 1.0),)), Series("none", ())))
    for data in (PLOT, one, PlotData("x")):
        rows = plot_rows(data, *size, form)
        assert len(rows) <= max(1, size[1])
