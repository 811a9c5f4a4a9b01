"""Cards, tables, rows: what a person reads of them at several widths, in ASCII, and how little is drawn again."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from textual.app import App, ComposeResult
from textual.color import Color

from spectui.core.gpu import GpuReading
from spectui.ui import themes
from spectui.ui.widgets.answer_view import AnswerData, AnswerView, Piece, Wrapped, level
from spectui.ui.widgets.arm_card import ArmCard, ArmCardData, Setting, Start, Store
from spectui.ui.widgets.gpu_panel import GpuPanel, GpuPanelData
from spectui.ui.widgets.lines import LEAST_CONTRAST, Lines, changed_span, contrast, tag_style, to_cells
from spectui.ui.widgets.log_tail import LogTail
from spectui.ui.widgets.metric_table import MetricRow, MetricTable
from spectui.ui.widgets.status_line import HeaderData, HeaderLine, StatusData, StatusLine

FOREIGN = (Path(__file__).parents[1] / "data" / "ui" / "foreign.log").read_text("utf-8").split("\n")


class One(App[None]):
    """An app of one widget, as wide as the screen."""

    CSS = "Lines { width: 100%; }"

    def __init__(self, widget: Lines, form: str = "braille") -> None:
        super().__init__()
        self.widget = widget
        self.chart_form = form

    def compose(self) -> ComposeResult:
        yield self.widget


async def shown(widget: Lines, *values: Any, width: int = 80, height: int = 12, form: str = "braille") -> list[str]:
    """Lines of the real screen."""
    app = One(widget, form)
    async with app.run_test(size=(width, height)) as pilot:
        widget.show(*values)  # type: ignore[attr-defined]
        await pilot.pause()
        await pilot.pause()
        text = [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]
    while text and not text[-1]:
        text.pop()
    return text


def gpu(index: int, **other: Any) -> GpuReading:
    values: dict[str, Any] = {
        "utilization": 97.0,
        "memory_used": 118 * 2**30,
        "memory_total": 141 * 2**30,
        "power_w": 612.4,
        "power_limit_w": 700.0,
        "sm_clock_mhz": 1980,
        "temperature_c": 61,
    }
    return GpuReading(f"u{index}", index, "H200", **(values | other))


CARD = ArmCardData(
    "A",
    "ready",
    "127.0.0.1:30000",
    "SGLang 0.5.15",
    algorithm="NGRAM",
    settings=(Setting("draft tokens", "8", "12"), Setting("trie depth", "18")),
    model=("Llama-3.3-70B", "tp 4", "GPUs 0–3", "48 running at most (set by the server)"),
    store=Store("fed", 1.0, "41k tokens since the flush 2:13 ago"),
)
TABLE = (
    MetricRow("output tok/s", "372", "241", "1.54×  [1.49, 1.60]", "good"),
    MetricRow("TTFT p50 · p99", "61 · 88 ms", "63 · 91 ms", "no difference shown", "dim"),
    MetricRow("J per token", "n/a", "9.4"),
    MetricRow("answers", note="same as B on 22 of 24; 2 differ from word 118"),
)


async def test_a_row_a_gpu() -> None:
    data = GpuPanelData(
        (gpu(0), gpu(1, throttle=("power-capped",))),
        {"u0": [0, 25, 50, 75] + [100] * 6},
        {"u0": "A", "u1": "B"},
    )
    first, second = await shown(GpuPanel(), data)
    assert first == " 0 A ▁▃▅▆██████   97 % 118/141 GiB 612/700 W 1980 MHz  61 °C"
    assert second.endswith("61 °C power-capped")
    assert second.startswith(" 1 B")


async def test_a_missing_value_says_why_and_is_never_0() -> None:
    mig = gpu(2, utilization=None, missing={"utilization": "MIG slices report none"}, mig=True)
    lost = gpu(3, lost=True)
    first, second = await shown(GpuPanel(), GpuPanelData((mig, lost)), width=110)
    assert "n/a" in first
    assert "n/a: MIG slices report none" in first
    assert "0 %" not in first
    assert "lost" in second
    assert await shown(GpuPanel(), GpuPanelData(nothing="no driver: libnvidia-ml.so is missing")) == [
        "no driver: libnvidia-ml.so is missing"
    ]


async def test_gpus_as_one_line_an_arm() -> None:
    readings = tuple(gpu(i, utilization=90.0 + i, throttle=("thermal",) if i == 2 else ()) for i in range(8))
    data = GpuPanelData(readings, {}, {f"u{i}": "A" if i < 4 else "B" for i in range(8)})
    lines = await shown(GpuPanel(compact=True), data)
    assert lines == [
        "A GPU 0–3  90–93 %  2450 W  mean 92 %  1 thermal",
        "B GPU 4–7  94–97 %  2450 W  mean 96 %",
    ]
    assert len(await shown(GpuPanel(), data, height=4)) == 2, "also where eight rows do not fit"


async def test_the_card_in_full() -> None:
    lines = await shown(ArmCard(), CARD)
    assert lines == [
        "A ● ready  127.0.0.1:30000  SGLang 0.5.15",
        "NGRAM   draft tokens 8 → 12 staged   trie depth 18",
        "Llama-3.3-70B  tp 4  GPUs 0–3  48 running at most (set by the server)",
        "store ░░░▒▒▒▓▓▓███ fed   41k tokens since the flush 2:13 ago",
    ]


async def test_trouble_takes_the_second_line_and_a_third_where_it_is_long() -> None:
    trouble = "failed: out of memory in the KV pool, mem_fraction_static 0.88 in force — l shows the log"
    lines = await shown(ArmCard(), CARD._replace(state="failed", trouble=trouble), width=60)
    assert lines[0].startswith("A ✗ failed")
    assert lines[1].startswith("✗ failed: out of memory")
    assert lines[2].endswith("l shows the log")
    assert lines[3].startswith("store")


async def test_simulated_is_said_in_the_first_line_and_in_the_compact_one() -> None:
    data = CARD._replace(simulated=True)
    assert "simulated" in (await shown(ArmCard(), data))[0]
    compact = await shown(ArmCard(compact=True), data)
    assert len(compact) == 1
    assert compact[0].startswith(" A ● simulated NGRAM   draft tokens 8 → 12 staged")


async def test_the_card_in_a_border_has_its_title_there() -> None:
    card = ArmCard()
    app = One(card)
    app.CSS = "Lines { width: 100%; border: round white; }"
    async with app.run_test(size=(80, 8)) as pilot:
        card.styles.border = ("round", "white")
        card.show(CARD._replace(address="[b]x[/]"))
        await pilot.pause()
        text = [strip.text for strip in app.screen._compositor.render_strips()]
    assert "A ● ready  [b]x[/]  SGLang" in text[0]
    assert "NGRAM" in text[1]


async def test_the_table_is_aligned() -> None:
    lines = await shown(MetricTable(), TABLE)
    assert lines == [
        "                          A            B   A against B",
        "output tok/s            372          241   1.54×  [1.49, 1.60]",
        "TTFT p50 · p99   61 · 88 ms   63 · 91 ms   no difference shown",
        "J per token             n/a          9.4",
        "answers          same as B on 22 of 24; 2 differ from word 118",
    ]


async def test_a_narrow_table_keeps_the_figures_and_a_low_one_says_what_is_left() -> None:
    narrow = await shown(MetricTable(), TABLE, width=34)
    assert narrow[1].rstrip().endswith("1.54×")
    assert all("372" in line or "output" not in line for line in narrow)
    low = await shown(MetricTable(), TABLE, height=3)
    assert low[-1] == "… 3 more"


async def test_a_figure_that_changes_is_all_that_is_drawn_again() -> None:
    table = MetricTable()
    async with One(table).run_test(size=(80, 10)) as pilot:
        table.show(TABLE)
        await pilot.pause()
        await pilot.pause()
        before = table.spans_asked
        table.show(TABLE)
        assert table.spans_asked == before
        table.show((TABLE[0]._replace(a="373"), *TABLE[1:]))
        assert table.spans_asked == before + 1


async def test_the_answer_is_legible_without_colour() -> None:
    pieces = (Piece('{"id": 1, ', 4), Piece("na", 1), Piece('me": "Ada"}\n', 12), Piece("next", 2))
    lines = await shown(AnswerView(ruler=True), AnswerData("r1", pieces))
    assert lines == [
        '{"id": 1, name": "Ada"}',
        "4·········1·+··········",
        "next",
        "2···",
    ]
    assert [level(n) for n in (1, 2, 4, 7, 8)] == ["run1", "run2", "run3", "run4", "run5"]


async def test_the_answer_scrolls_and_a_new_one_begins_afresh() -> None:
    view = AnswerView()
    async with One(view).run_test(size=(20, 3)) as pilot:
        view.show(AnswerData("r1", tuple(Piece(f"{i:09d} ", 3) for i in range(20))))
        await pilot.pause()
        assert view.text_lines()[-1] == "000000018 000000019"
        view.show(AnswerData("r2", (Piece("other", 1),)))
        await pilot.pause()
        assert view.text_lines() == ["other", "", ""]


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.text(max_size=12), st.integers(1, 9)), max_size=8), st.integers(2, 15), st.integers(0, 8))
def test_an_answer_that_grows_breaks_as_one_that_is_whole(raw: list[tuple[str, int]], width: int, cut: int) -> None:
    pieces = tuple(Piece(text, tokens) for text, tokens in raw)
    whole, grown = Wrapped(width), Wrapped(width)
    whole.add(AnswerData("r", pieces))
    grown.add(AnswerData("r", pieces[:cut]))
    assert grown.extends(AnswerData("r", pieces), width)
    grown.add(AnswerData("r", pieces))
    assert grown.tail(100) == whole.tail(100)


async def test_foreign_log_lines_are_shown_as_they_are() -> None:  # FC-61
    lines = await shown(LogTail(), FOREIGN, width=80, height=20)
    assert lines[:6] == FOREIGN[:6]
    assert "␛[31mred" in "\n".join(lines)
    assert any(line.endswith("x…") and len(line) == 80 for line in lines)
    assert "\x1b" not in "".join(lines)


async def test_foreign_text_in_every_widget_is_harmless() -> None:
    card, status = ArmCard(), StatusLine()

    class Two(One):
        def compose(self) -> ComposeResult:
            yield card
            yield status

    async with Two(card).run_test(size=(80, 12)) as pilot:
        for text in FOREIGN:
            card.show(CARD._replace(address=text, version=text, model=(text, text), trouble=text, algorithm=text))
            status.show(StatusData(text, keys=(("q", "quit"),)))
            await pilot.pause()
            assert "\x1b" not in "".join(card.text_lines() + status.text_lines())
        assert status.text_lines()[1] == "q quit"
    pieces = tuple(Piece(text + "\n", 2) for text in FOREIGN)
    joined = "\n".join(await shown(AnswerView(), AnswerData("r", pieces), height=300))
    assert "[bold red]not bold[/bold red]" in joined
    assert "[/] nothing to close" in joined


async def test_status_shows_the_text_and_the_keys_that_fit() -> None:
    data = StatusData("A is faster on this workload", "good", (("enter", "apply"), ("esc", "drop"), ("r", "run")))
    assert await shown(StatusLine(), data) == ["A is faster on this workload", "enter apply  esc drop  r run"]
    assert (await shown(StatusLine(), data, width=22))[1] == "enter apply  esc drop"
    long = StatusData("not a fair trial: A's store is cold (2,500 tokens since the flush) — press f")
    assert len(await shown(StatusLine(), long, width=50)) == 2


async def test_the_header_shows_progress() -> None:
    data = HeaderData("spectui  gpu-node-7", "json ▸ warm pass", 0.62, 48)
    line = (await shown(HeaderLine(), data, width=120))[0]
    assert line.startswith("spectui  gpu-node-7")
    assert line.endswith("█" * 15 + "░" * 9 + "  62 %  0:48 left")
    assert len(line) == 120
    assert "json" in (await shown(HeaderLine(), data, width=30))[0]


CASES: list[tuple[Callable[[], Lines], Any]] = [
    (GpuPanel, GpuPanelData((gpu(0), gpu(1, lost=True)), {"u0": [1, 99]}, {"u0": "A"})),
    (lambda: GpuPanel(compact=True), GpuPanelData((gpu(0), gpu(1)))),
    (ArmCard, CARD),
    (lambda: ArmCard(compact=True), CARD),
    (MetricTable, TABLE),
    (AnswerView, AnswerData("r", (Piece("你好 é [x", 3), Piece("\x1b[2J", 1)))),
    (LogTail, FOREIGN),
    (StatusLine, StatusData("ready", keys=(("q", "quit"),))),
    (HeaderLine, HeaderData("spectui", "json ▸ warm", 0.5, 3)),
]


@pytest.mark.parametrize(("make", "data"), CASES)
async def test_ascii_form_is_ascii(make: Callable[[], Lines], data: Any) -> None:
    lines = await shown(make(), data, form="ascii", width=120)
    assert lines
    assert "".join(lines).isascii()


@pytest.mark.parametrize(("make", "data"), CASES)
async def test_absurd_sizes_do_not_break_it(make: Callable[[], Lines], data: Any) -> None:
    widget = make()
    async with One(widget).run_test(size=(1, 1)) as pilot:
        for width, height in ((1, 1), (2, 3), (7, 2), (200, 60)):
            await pilot.resize_terminal(width, height)
            widget.show(data)  # type: ignore[attr-defined]
            await pilot.pause()
            assert len(widget.text_lines()) <= height
            assert all(len(line) <= width for line in widget.text_lines())


def test_a_span_is_one_a_row_and_keeps_wide_signs_whole() -> None:
    old, new = to_cells((("abc" + "." * 20 + "x", ""),), 30), to_cells((("abd" + "." * 20 + "y", ""),), 30)  # type: ignore[arg-type]
    assert changed_span(old, new) == (2, 24)
    wide, other = to_cells((("a你b", ""),), 5), to_cells((("axyb", ""),), 5)  # type: ignore[arg-type]
    assert changed_span(wide, other) == (1, 3)
    assert changed_span(wide, wide) == (0, 0)


@settings(max_examples=80, deadline=None)
@given(st.text(max_size=20), st.integers(0, 12), st.booleans())
def test_cells_are_exactly_as_many_as_asked(text: str, width: int, ascii_only: bool) -> None:
    cells = to_cells(((text, ""),), width, ascii_only=ascii_only)  # type: ignore[arg-type]
    assert len(cells) == width


async def test_another_theme_is_seen_at_once_and_blanks_cost_no_segment() -> None:
    table = MetricTable()
    app = One(table)
    async with app.run_test(size=(80, 10)) as pilot:
        table.show(TABLE)
        await pilot.pause()
        await pilot.pause()
        dark = table.render_line(0)._segments
        assert len(dark) == 3, "one for A, B and the difference each"
        app.theme = "textual-light"
        await pilot.pause()
        assert [s.style for s in table.render_line(0)._segments] != [s.style for s in dark]


async def test_a_start_shows_its_phases_with_what_is_over_now_and_to_come() -> None:
    phases = (("weights", 21.4, 20.9), ("graph capture", None, 31.0), ("warm-up", None, 4.0))
    start = Start(0.58, 22.0, phases, "graph capture 14 of 20")
    data = CARD._replace(state="starting", trouble="starting: graph capture 14 of 20, about 0:22 left", start=start)
    lines = await shown(ArmCard(), data)
    assert lines[1:] == [
        "○ starting: graph capture 14 of 20, about 0:22 left",
        "NGRAM   draft tokens 8 → 12 staged   trie depth 18",
        "58 %  weights 21 s · ▸ graph capture of 31 s · warm-up 4.0 s",
    ]


async def test_a_holder_that_cannot_be_seen_is_told_below_the_gpus() -> None:
    readings = (gpu(0, utilization=97.0), gpu(1, utilization=0.0))
    data = GpuPanelData(readings, {}, {"u0": "A"}, mean="48 % now", holders={"u1": "38 GiB used by others"})
    lines = await shown(GpuPanel(), data)
    assert lines[-2].startswith("mean 48 % now")
    assert lines[-1] == "GPU 1: 38 GiB used by others"
    assert (await shown(GpuPanel(compact=True), data))[-1].endswith("38 GiB used by others")


@pytest.mark.parametrize("theme", ["spectui-dark", "spectui-light", "textual-light", "textual-dark"])
async def test_every_tag_can_be_read_in_every_theme(theme: str) -> None:
    app = App[None]()
    for known in themes.THEMES:
        app.register_theme(known)
    app.theme = theme
    ground = Color.parse(app.theme_variables["background"])
    for tag in ("a", "b", "good", "warn", "bad", "mark", "run3", "run4", "run5"):
        colour = tag_style(tag, app.theme_variables, ansi=False).color
        assert colour is not None
        assert contrast(Color.from_rich_color(colour), ground) >= LEAST_CONTRAST, tag
    a, b = (tag_style(tag, app.theme_variables, ansi=False).color for tag in "ab")
    assert a != b


async def test_an_underline_ends_with_its_text() -> None:
    view = AnswerView(ruler=False)
    app = One(view)
    async with app.run_test(size=(20, 4)) as pilot:
        view.show(AnswerData("r", (Piece(" ab\n", 9), Piece("c", 1))))
        await pilot.pause()
        lined = [seg.text for seg in view.render_line(0) if seg.style is not None and seg.style.underline]
        assert lined == [" ab"]
