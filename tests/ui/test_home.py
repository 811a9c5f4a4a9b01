"""The home screen on a session without servers: sizes, keys, dialogs, foreign text."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import home_shots
import pytest
from textual.driver import Driver
from textual.drivers._writer_thread import WriterThread

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.engines.sglang.info import read_info
from spectui.session import SessionError
from spectui.session.arms import Target
from spectui.session.finding import Choice
from spectui.session.following import Following
from spectui.session.live import Live
from spectui.session.running import RunHandle
from spectui.ui.app import SpectuiApp
from spectui.ui.backlog import backlog
from spectui.ui.commands import COMMANDS, bindings, for_screen
from spectui.ui.opening import known_keys
from spectui.ui.screens.choose import ChooseScreen
from spectui.ui.screens.confirm import ConfirmScreen
from spectui.ui.screens.form import FieldInput, FormScreen
from spectui.ui.screens.help import HelpScreen
from spectui.ui.spoken_keys import respoken, spoken
from spectui.ui.terminal import sentence_of
from spectui.ui.widgets.log_tail import LogTail

FOREIGN = (Path(__file__).parents[1] / "data" / "ui" / "foreign.log").read_text("utf-8").split("\n")
SIZES = [(120, 40), (80, 24), (79, 23), (60, 15), (40, 10), (20, 5), (3, 2), (1, 1), (200, 60), (120, 40)]


class Still(Live):
    """A session that looks at nothing by itself."""

    def start(self) -> None:
        return

    def servers(self) -> list[Choice]:
        return []


def with_arm(live: Live, **knobs: object) -> Live:
    url = "http://127.0.0.1:30000"
    arm = live.arms["A"]
    arm.target, arm.url = Target("mine", url=url), url
    arm.info = read_info({"version": "0.5.15", "speculative_algorithm": "NGRAM", "internal_states": []})
    arm.profile = Profile("mine", None, ServerPart(model_path="m/model"), SpeculativePart("NGRAM", knobs))
    return live


def make_app(live: Live, **options: Any) -> SpectuiApp:
    return SpectuiApp(lambda: live, opening=lambda _live: None, **options)


@pytest.fixture
def live(ground: object) -> Live:
    return with_arm(Still(gpus=False), num_draft_tokens=8)


async def settle(app: SpectuiApp, pilot: Any, until: Callable[[], bool]) -> None:
    """Lets the app work until something holds; the number of turns bounds it, not a clock."""
    for _ in range(1500):
        if until():
            app.paint_now()
            await pilot.pause()
            return
        await pilot.pause(0.005)
    raise AssertionError("it never came to hold")


async def loaded(app: SpectuiApp, pilot: Any) -> None:
    await settle(app, pilot, lambda: app.live_or_none is not None and not app._busy)


def shown(app: SpectuiApp) -> str:
    """The text of the screen, row by row."""
    width, height = app.size
    lines = [app.screen._compositor.render_strips()[y].text for y in range(min(height, 200))] if width else []
    return "\n".join(line.rstrip() for line in lines)


async def test_every_size_is_drawn_and_the_first_one_again_is_complete(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        texts = []
        for size in SIZES:
            await pilot.resize_terminal(*size)
            app.paint_now()
            await pilot.pause()
            texts.append(shown(app))
        for text in (texts[0], texts[-1]):
            assert "draft tokens 8" in text
            assert "output tok/s" in text
            assert "accept length" in text
            assert "q quit" in text
        assert "draft tokens 8" in texts[1]
        assert "? help" in texts[1]
        assert texts[4].startswith("A NGRAM")  # one line instead of panels


async def test_nothing_is_wider_than_the_screen(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(app, pilot)
        for widget in app.screen.query("*"):
            assert widget.region.right <= 80, widget


async def test_a_step_is_staged_shown_and_dropped(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(160, 48)) as pilot:
        await loaded(app, pilot)
        await pilot.press("right_square_bracket")
        await settle(app, pilot, lambda: live.arms["A"].staged is not None)
        assert "draft tokens 8 → 12 staged" in shown(app)
        assert "Staged for A: draft tokens 8 → 12" in shown(app)
        assert "enter apply" in shown(app)
        await pilot.press("escape")
        app.paint_now()
        await pilot.pause()
        assert live.arms["A"].staged is None
        assert "staged" not in shown(app)


async def test_an_algorithm_is_chosen_by_its_digit(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("n")
        await settle(app, pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen.is_mounted)
        await pilot.press("1")
        await settle(app, pilot, lambda: live.arms["A"].staged is not None)
        staged = live.arms["A"].staged
        assert staged is not None
        assert staged.plan.algorithm == "none"


async def test_the_settings_form_refuses_what_the_server_would(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("e")
        await settle(app, pilot, lambda: isinstance(app.screen, FormScreen) and app.screen.is_mounted)
        field = app.screen.query_one("#field-num_draft_tokens", FieldInput)
        field.value = "many"
        await pilot.pause()
        assert "must be an integer" in shown(app)
        await pilot.press("enter")
        assert isinstance(app.screen, FormScreen)  # not while something is wrong
        field.value = "16"
        await pilot.pause()
        await pilot.press("enter")
        await settle(app, pilot, lambda: live.arms["A"].staged is not None)
        assert "draft tokens 8 → 16" in shown(app)


async def test_the_workload_form_sets_what_is_measured(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(100, 30)) as pilot:
        await loaded(app, pilot)
        await pilot.press("w")
        await settle(app, pilot, lambda: isinstance(app.screen, FormScreen) and app.screen.is_mounted)
        app.screen.query_one("#field-workload", FieldInput).value = "json"
        app.screen.query_one("#field-concurrency", FieldInput).value = "1,4"
        app.screen.query_one("#field-requests", FieldInput).value = "100000"
        await pilot.pause()
        assert "contamination" in shown(app)
        app.screen.query_one("#field-requests", FieldInput).value = "6"
        await pilot.pause()
        await pilot.press("enter")
        await pilot.pause()
        options = live.measuring.options
        assert (options.workload, options.concurrency, options.requests) == ("json", (1, 4), 6)


async def test_help_and_palette_show_every_command_of_the_screen(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 60)) as pilot:
        await loaded(app, pilot)
        await pilot.press("question_mark")
        await settle(app, pilot, lambda: isinstance(app.screen, HelpScreen) and app.screen.is_mounted)
        text = shown(app)
        for command in for_screen("home"):
            assert command.help[:40] in text
        await pilot.press("escape")
        await pilot.press("ctrl+p")
        await settle(app, pilot, lambda: isinstance(app.screen, ChooseScreen) and app.screen.is_mounted)
        await pilot.press(*"move", "enter")
        await settle(app, pilot, lambda: live.focus == "B")


async def test_keys_are_bound_anew_by_the_config(live: Live) -> None:
    app = make_app(live, keys=known_keys({"knob_up": "f5", "nonsense": "x", "run": 3}))
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("right_square_bracket")
        await pilot.pause()
        assert live.arms["A"].staged is None
        await pilot.press("f5")
        await settle(app, pilot, lambda: live.arms["A"].staged is not None)


def test_sentences_name_the_keys_that_the_config_gave() -> None:
    said = "r measures it, ] changes its knob — press f to feed it first; a server shows nothing"
    found = spoken(said, {"run": "f5", "knob_up": "greater_than_sign", "feed": "F"})
    assert found == "f5 measures it, > changes its knob — press F to feed it first; a server shows nothing"
    shot = respoken(home_shots.lost(), {"log": "f9", "choose_server": "f2"})
    assert shot.status.text.endswith("f9 shows the log")
    assert shot.arms[1].trouble == "nothing here yet: f2 chooses a server, a profile or a stored run"
    assert spoken(said, {}) is said


async def test_an_error_is_a_sentence_on_the_status_line(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("c")
        await settle(app, pilot, lambda: live.notice is not None)
        assert "B is empty" in shown(app)
        assert app.return_code is None


async def test_a_server_of_others_is_flushed_only_when_that_is_said(
    live: Live, monkeypatch: pytest.MonkeyPatch
) -> None:
    begun: list[str | None] = []
    monkeypatch.setattr(live, "run", lambda flush=None: begun.append(flush))
    app = make_app(live)
    async with app.run_test(size=(80, 24)) as pilot:
        await loaded(app, pilot)
        await pilot.press("r")
        await settle(app, pilot, lambda: isinstance(app.screen, ConfirmScreen) and app.screen.is_mounted)
        await settle(app, pilot, lambda: "for everyone" in shown(app))
        await pilot.press("escape", "r")
        await settle(app, pilot, lambda: isinstance(app.screen, ConfirmScreen) and app.screen.is_mounted)
        assert begun == []
        await pilot.press("i")
        await settle(app, pilot, lambda: begun == ["idle"])


async def test_foreign_text_is_shown_harmless(live: Live, tmp_path: Path) -> None:
    live.arms["A"].log = tuple(FOREIGN)
    folder = tmp_path / "run [b"
    folder.mkdir()
    piece = {"arm": "A", "rid": "r", "pieces": [[2, "\x1b[2Jred [bold]x[/]"], [1, "] [/"]], "done": False}
    (folder / "live.jsonl").write_text(json.dumps(piece) + "\n")
    live.measuring.follow(Following(RunHandle(folder, os.getpid(), -1.0)))
    app = make_app(live)
    async with app.run_test(size=(160, 48)) as pilot:
        await loaded(app, pilot)
        assert "red [bold]x[/]] [/" in shown(app)
        await pilot.press("l")
        app.paint_now()
        await pilot.pause()
        assert "\x1b" not in shown(app)
        assert app.screen.query_one(LogTail).display


async def test_a_key_pressed_before_the_session_is_there_is_not_lost(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        app.action_do("focus_arm")
        await loaded(app, pilot)
        await settle(app, pilot, lambda: live.focus == "B")


async def test_a_screen_that_is_not_there_is_said_to_be_so(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.ui.app.load_screen", lambda _name, _live: None)
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("5")
        await settle(app, pilot, lambda: live.notice is not None)
        assert "the screen runs is not there yet" in shown(app)


def test_every_command_has_one_binding_and_no_key_does_two_things() -> None:
    bound = [b for name in ("home", "") for b in bindings(name)]
    keys = [b.key for b in bound]  # type: ignore[union-attr]
    assert len(keys) == len(set(keys))
    assert {b.id for b in bound} == {c.id for c in COMMANDS if not c.where or "home" in c.where}  # type: ignore[union-attr]


def test_errors_of_spectui_are_said_as_they_are_and_others_go_to_a_file(ground: object) -> None:
    assert sentence_of(SessionError("plain words")) == "plain words"
    text = sentence_of(ZeroDivisionError("inside"))
    assert text.startswith("something went wrong inside spectui (ZeroDivisionError)")
    assert Path(text.rpartition(" ")[2]).is_file()


def test_the_backlog_is_read_from_the_writer_of_textual() -> None:
    """Fails when Textual renames what :func:`backlog` looks into."""

    class Sink:
        def write(self, _text: str) -> None:
            return

        def flush(self) -> None:
            return

    writer = WriterThread(Sink())  # type: ignore[arg-type]
    for _ in range(3):
        writer.write("frame")  # the thread is not started: nothing takes them
    driver = type("Lagging", (), {"_writer_thread": writer})()
    app = type("App", (), {"_driver": driver})()
    assert backlog(app) == 3  # type: ignore[arg-type]
    assert backlog(type("App", (), {})()) == 0  # type: ignore[arg-type]
    assert "_driver" in vars(SpectuiApp(lambda: Live(gpus=False), opening=lambda _l: None))
    assert issubclass(Driver, object)


async def test_no_frame_is_painted_while_the_line_lags(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        taken: list[float] = []
        monkeypatch.setattr(live, "snapshot", lambda now: taken.append(now))
        monkeypatch.setattr("spectui.ui.app.backlog", lambda _app: 3)
        app.paint_now()
        assert taken == []


async def test_ascii_draws_nothing_else(live: Live) -> None:
    app = make_app(live, chart_form="ascii")
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        assert app.screen.query_one("#arm-a").styles.border_top[0] == "ascii"
