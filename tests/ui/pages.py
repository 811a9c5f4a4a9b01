"""An app that shows one screen, and what a terminal shows of it."""

from __future__ import annotations

import contextlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from textual.app import App
from textual.screen import Screen
from textual.worker import WorkerCancelled

from spectui.ui import themes

SIZES = ((160, 48), (100, 30), (80, 24))
SCREENS = Path(__file__).parent / "screens"


class Pages(App[None]):
    """The looks of the real app, without its session."""

    CSS_PATH = str(Path(themes.__file__).parent / "spectui.tcss")

    def __init__(self, form: str = "braille") -> None:
        super().__init__()
        self.chart_form = form
        self.keys: dict[str, str] = {}

    def on_mount(self) -> None:
        for theme in themes.THEMES:
            self.register_theme(theme)
        self.theme = themes.DEFAULT


class Live(SimpleNamespace):
    """As much of a session as the screens ask for."""

    def __init__(self, **other: Any) -> None:
        super().__init__(arms={}, focused=None, measuring=None, key=None, admin_key=None, **other)
        self.chosen: list[tuple[str, str]] = []

    def choose(self, letter: str, name: str) -> None:
        self.chosen.append((letter, name))


def lines_of(app: App[Any]) -> list[str]:
    """The screen as text."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


async def settle(pilot: Any) -> None:
    """Until threads have answered and all was drawn."""
    for _ in range(3):
        with contextlib.suppress(WorkerCancelled):  # a newer reading has taken its place
            await pilot.app.workers.wait_for_complete()
        await pilot.pause()


async def shown(screen: Screen[Any], size: tuple[int, int] = (80, 24), *keys: str, form: str = "braille") -> list[str]:
    app = Pages(form)
    async with app.run_test(size=size) as pilot:
        await app.push_screen(screen)
        await settle(pilot)
        for key in keys:
            await pilot.press(key)
            await settle(pilot)
        return lines_of(app)
