"""Keys that come in one burst: each does what it would have done alone."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from pages import settle as drawn
from test_home import Still, loaded, make_app, settle, with_arm
from textual import events
from textual.widgets import Input, OptionList

from spectui.session.finding import Choice
from spectui.session.live import Live
from spectui.ui.app import SpectuiApp
from spectui.ui.screens.choose import ChooseScreen
from spectui.ui.screens.form import FieldInput, FormScreen

CHARACTERS = {"comma": ",", "right_square_bracket": "]"}


@pytest.fixture
def live(ground: object) -> Live:
    return with_arm(Still(gpus=False), num_draft_tokens=8)


def burst(app: SpectuiApp, *keys: str) -> None:
    """All in the queue before the first one is looked at."""
    for key in keys:
        app.post_message(events.Key(key, CHARACTERS.get(key, key if len(key) == 1 else None)))


async def quiet(app: SpectuiApp, pilot: Any) -> None:
    await pilot.pause()  # the keys have come in
    await settle(
        app, pilot, lambda: app._message_queue.empty() and not app.keys_wait and not app._in_hand and not app._busy
    )


async def test_a_form_takes_letters_and_tabs_each_in_its_field(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        burst(app, "w", *("tab",) * 2, "backspace", *"16", "comma", *"4", "tab", *"12", "tab", *"64")
        await quiet(app, pilot)
        assert isinstance(app.screen, FormScreen)
        found = {entry.field.key: entry.value for entry in app.screen.query(FieldInput)}
        assert found["concurrency"].endswith("16,4")
        assert (found["requests"][-2:], found["max_tokens"][-2:]) == ("12", "64")
        burst(app, "shift+tab", "ctrl+u", *"7", "enter", "tab")
        await quiet(app, pilot)
        assert live.measuring.options.requests == 7
        assert live.focus == "B"  # what came behind enter belongs to the home screen


async def test_enter_behind_garbage_does_not_end_a_form(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        before = live.measuring.options
        burst(app, "w", "tab", "tab", "x", "enter")
        await quiet(app, pilot)
        assert isinstance(app.screen, FormScreen)
        assert live.measuring.options == before


async def test_each_step_of_a_held_key_counts_and_the_next_key_builds_on_it(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        burst(app, *("right_square_bracket",) * 3, "tab")
        await quiet(app, pilot)
        staged = live.arms["A"].staged
        assert staged is not None
        assert staged.profile.speculative.knobs["num_draft_tokens"] == 24
        assert live.arms["B"].staged is None
        assert live.focus == "B"


async def test_letters_then_down_choose_from_what_was_found(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        burst(app, "n", *"eagle", "down")
        await quiet(app, pilot)
        assert isinstance(app.screen, ChooseScreen)
        chosen = [i.value for i in app.screen._shown][1]
        burst(app, "enter")
        await quiet(app, pilot)
        assert live.arms["A"].staged is not None
        assert live.arms["A"].staged.plan.algorithm == chosen


async def test_keys_wait_for_the_session_except_the_one_that_leaves(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        burst(app, "w", "tab", "tab", "ctrl+u", "9")
        await loaded(app, pilot)
        await quiet(app, pilot)
        assert isinstance(app.screen, FormScreen)
        assert app.screen.values()["concurrency"] == "9"
        await drawn(pilot)


@pytest.mark.parametrize(("size", "key"), [((80, 24), "e"), ((40, 12), "e"), ((20, 5), "e"), ((80, 20), "ctrl+p")])
async def test_a_dialog_shows_what_its_cursor_is_on_in_any_terminal(
    live: Live, size: tuple[int, int], key: str
) -> None:
    app = make_app(live)
    async with app.run_test(size=size) as pilot:
        await loaded(app, pilot)
        burst(app, key, *("up",) if key == "e" else ("pagedown",) * 9)
        await quiet(app, pilot)
        await drawn(pilot)
        if key == "e":
            assert app.focused is not None
            assert 0 < app.focused.region.y < size[1] - 1
            assert app.focused.parent.region in app.screen.query_one("#fields").region  # type: ignore[union-attr]
        else:
            found = app.screen.query_one(OptionList)
            assert found.highlighted == len(found.options) - 1
            assert found.region.bottom < size[1]


async def test_a_letter_waiting_behind_tab_belongs_to_the_next_field() -> None:
    """The form by itself, in an app that does not put keys in order."""
    from pages import Pages

    from spectui.ui.screens.form import Field

    app = Pages()
    async with app.run_test(size=(80, 24)) as pilot:
        form = FormScreen("two", [Field("a", "a"), Field("b", "b")])
        await app.push_screen(form)
        await drawn(pilot)
        for key in ("1", "tab", "2"):
            app.post_message(events.Key(key, key if len(key) == 1 else None))
        await drawn(pilot)
        assert form.values() == {"a": "1", "b": "2"}


async def test_what_is_typed_while_servers_are_looked_for_belongs_to_the_list(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = threading.Event()

    def choices() -> list[Choice]:
        found.wait(20)
        return [Choice("http://127.0.0.1:9", "server", "nothing")]

    monkeypatch.setattr(live, "choices", choices)
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        burst(app, "o", *"http", "r", "tab")
        await settle(app, pilot, lambda: "find" in app._busy)
        await drawn(pilot)
        assert live.focus == "A"
        found.set()
        await quiet(app, pilot)
        assert isinstance(app.screen, ChooseScreen)
        assert app.screen.query_one("#search", Input).value == "httpr"
