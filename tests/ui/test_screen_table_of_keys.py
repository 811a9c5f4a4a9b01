"""The table of commands: its page in the docs, and that no screen has a key twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui.ui.commands import COMMANDS, PAGES, for_screen
from spectui.ui.keys_page import markdown
from spectui.ui.screens import page


def test_the_page_on_keys_is_current() -> None:
    path = Path(__file__).parents[2] / "docs" / "keys.md"
    assert path.read_text("utf-8") == markdown(), "run: python -m spectui.ui.keys_page > docs/keys.md"


@pytest.mark.parametrize("name", ["home", *PAGES])
def test_no_key_does_two_things_on_a_screen(name: str) -> None:
    keys = [c.key for c in for_screen(name)]
    assert len(keys) == len(set(keys))


@pytest.mark.parametrize("name", PAGES)
def test_every_command_of_a_screen_is_an_action_of_it(name: str) -> None:
    import importlib

    screen = getattr(importlib.import_module(f"spectui.ui.screens.{name}"), f"{name.capitalize()}Screen")
    for command in COMMANDS:
        if name in command.where:
            assert callable(getattr(screen, f"action_{command.id}", None)), command.id
    assert {b.id for b in page.bindings(name)} == {c.id for c in COMMANDS if name in c.where}
