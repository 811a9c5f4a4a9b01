"""The home screen as a terminal shows it, at moments that matter and three sizes: committed text."""

from __future__ import annotations

from typing import Any

import home_shots
import pytest
from pages import SIZES, Pages, lines_of, settle
from test_screen_texts import ABSURD, _compare

from spectui.session.view import Snapshot
from spectui.ui.screens.home import HomeScreen


class Home(Pages):
    """Home on one moment, without a session."""

    def __init__(self, shot: Snapshot, form: str = "braille") -> None:
        super().__init__(form)
        self.shot = shot

    def snapshot(self, now: float | None = None) -> Snapshot:
        return self.shot

    def paint_soon(self) -> None:
        self.call_later(self.paint)

    def paint(self) -> None:
        if isinstance(self.screen, HomeScreen):
            self.screen.paint(self.shot)


@pytest.mark.parametrize("name", home_shots.SHOTS)
async def test_home_is_as_committed_and_survives_any_size(name: str, ground: Any) -> None:
    app = Home(home_shots.SHOTS[name]())
    async with app.run_test(size=SIZES[0]) as pilot:
        await app.push_screen(HomeScreen(*app.size))
        for size in (*SIZES, *(ABSURD if name == "running" else ()), (300, 100)):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            app.paint()
            await settle(pilot)
            lines = lines_of(app)
            assert len(lines) == size[1]
            if size in SIZES:
                _compare(f"home-{name}", size, lines)


async def test_a_cursor_reads_both_charts_and_escape_leads_back(ground: Any) -> None:
    app = Home(home_shots.running())
    async with app.run_test(size=SIZES[0]) as pilot:
        home = HomeScreen(*app.size)
        await app.push_screen(home)
        await settle(pilot)
        home.move_cursor(0)
        home.move_cursor(-20)
        home.zoom_by(0.5)
        await settle(pilot)
        top = lines_of(app)[7]
        assert top.count("−0:") == 2  # both charts tell what was at that moment
        assert "B 241" in top
        assert "B 2.30" in top
        assert "esc live" in "".join(lines_of(app))
        assert home.live_again()
        assert not home.live_again()
        await settle(pilot)
        assert "esc live" not in "".join(lines_of(app))


async def test_both_logs_are_shown_where_there_is_room_and_style_nothing(ground: Any) -> None:
    app = Home(home_shots.running())
    async with app.run_test(size=SIZES[0]) as pilot:
        home = HomeScreen(*app.size)
        await app.push_screen(home)
        home.toggle_log()
        app.paint()
        await settle(pilot)
        text = "\n".join(lines_of(app))
        assert "B: log /logs/b.log" in text
        assert "[bold]line[/]" in text
        assert "\x1b" not in text
        await pilot.resize_terminal(80, 24)
        await settle(pilot)
        app.paint()
        await settle(pilot)
        text = "\n".join(lines_of(app))
        assert "[bold]line[/]" in text
        assert "one line" not in text


async def test_home_in_ascii_is_ascii(ground: Any) -> None:
    app = Home(home_shots.relaunching(), form="ascii")
    app.set_class(True, "-plain")
    async with app.run_test(size=(100, 30)) as pilot:
        await app.push_screen(HomeScreen(*app.size))
        await settle(pilot)
        app.paint()
        await settle(pilot)
        assert "".join(lines_of(app)).isascii()
