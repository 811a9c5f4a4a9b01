"""The screens as a terminal shows them, at three sizes: committed text, so that a change is read in its diff.

``SPECTUI_WRITE_SCREENS=1 pytest tests/ui/test_screen_texts.py`` writes them anew.
"""

from __future__ import annotations

import os
from types import SimpleNamespace
from typing import Any

import pytest
from pages import SCREENS, SIZES, Pages, lines_of, settle, shown
from rich.cells import cell_len
from screen_makers import MAKERS

from spectui.ui.screens import page

ABSURD = ((1, 1), (3, 2), (20, 5), (240, 4), (12, 70))


@pytest.fixture(autouse=True)
def _no_time_passes(monkeypatch: pytest.MonkeyPatch) -> None:
    """However long this takes, what is shown has just been read."""
    monkeypatch.setattr(page, "time", SimpleNamespace(monotonic=lambda: 1000.0))


@pytest.mark.parametrize("name", MAKERS)
async def test_the_screen_is_as_committed_and_survives_any_size(name: str, ground: Any) -> None:
    app = Pages()
    async with app.run_test(size=SIZES[0]) as pilot:
        await app.push_screen(MAKERS[name](ground))
        for size in (*SIZES, *ABSURD):
            await pilot.resize_terminal(*size)
            await settle(pilot)
            lines = lines_of(app)
            assert len(lines) == size[1]
            if size in SIZES:
                _compare(name, size, lines)


def _compare(name: str, size: tuple[int, int], lines: list[str]) -> None:
    assert max(cell_len(line) for line in lines) <= size[0]
    text = "\n".join(lines) + "\n"
    assert not any(ord(sign) < 32 or 0x7F <= ord(sign) < 0xA0 or sign == "\u202e" for sign in text if sign != "\n")
    path = SCREENS / f"{name}-{size[0]}x{size[1]}.txt"
    if os.environ.get("SPECTUI_WRITE_SCREENS"):
        path.parent.mkdir(exist_ok=True)
        path.write_text(text, "utf-8")
    assert text == path.read_text("utf-8")


@pytest.mark.parametrize("name", MAKERS)
async def test_the_ascii_form_is_ascii(name: str, ground: Any) -> None:
    assert "".join(await shown(MAKERS[name](ground), (100, 30), form="ascii")).isascii()


@pytest.mark.parametrize("name", ["runs", "log", "workloads"])
async def test_foreign_text_is_shown_as_it_is_and_styles_nothing(name: str, ground: Any) -> None:
    text = " ".join(" ".join(await shown(MAKERS[name](ground), (160, 48), "home")).split())
    assert "[bold red]not" in text
    assert "␛" in text
