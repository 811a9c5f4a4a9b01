"""What the keys of the screens do: choose, filter, ask, confirm, put on an arm, go back."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import pytest
import screen_data as data
import screen_makers as makers
from pages import Live, Pages, lines_of, settle
from screen_makers import Ground

from spectui.core.rows import Row
from spectui.session import SessionError, checking, serving, sweep_saving, sweeping
from spectui.session.running import RunOptions
from spectui.store import journal, locations, runs
from spectui.ui.run_options import faults_of
from spectui.ui.screens import serving_jobs
from spectui.ui.screens.check import CheckScreen
from spectui.ui.screens.compare import CompareScreen
from spectui.ui.screens.jobs import JOBS, Job, Jobs
from spectui.ui.screens.log import LogScreen
from spectui.ui.screens.page import Page
from spectui.ui.screens.profiles import ProfilesScreen
from spectui.ui.screens.runs import RunsScreen
from spectui.ui.screens.servers import ServersScreen
from spectui.ui.screens.sweep import Shown, SweepScreen
from spectui.ui.screens.workloads import WorkloadsScreen
from spectui.ui.widgets.form import Form
from spectui.ui.widgets.rows import RowList, TextPage


@asynccontextmanager
async def on(screen: Page, size: tuple[int, int] = (110, 30)) -> AsyncIterator[Any]:
    app = Pages()
    async with app.run_test(size=size) as pilot:
        await app.push_screen(screen)
        await settle(pilot)
        yield pilot


async def press(pilot: Any, *keys: str) -> str:
    """The screen after the keys."""
    for key in keys:
        await pilot.press(key)
        await settle(pilot)
    return "\n".join(lines_of(pilot.app))


async def until(pilot: Any, word: str) -> str:
    """The screen once it shows the word."""
    end = time.monotonic() + 20
    while True:
        await settle(pilot)
        text = "\n".join(lines_of(pilot.app))
        if word in text or time.monotonic() > end:
            assert word in text
            return text
        await pilot.pause(0.05)


def clean(kind: str) -> None:
    for job in JOBS.of(kind):
        JOBS.forget(job)


# -- servers


async def test_a_server_is_put_on_the_arm_that_is_asked_for(ground: Ground) -> None:
    screen = makers.make_servers(ground)
    async with on(screen) as pilot:
        assert "on which arm" in await press(pilot, "enter")
        assert "ngram-a is on arm B" in await press(pilot, "b")
        assert screen.live.chosen == [("B", "ngram-a")]
        await press(pilot, "end", "up", "a")  # a found one goes by its address
    assert screen.live.chosen[-1] == ("A", "http://127.0.0.1:30010")


async def test_a_failed_start_tells_its_cause_and_hint(ground: Ground) -> None:
    async with on(makers.make_servers(ground)) as pilot:
        text = await press(pilot, "down", "down")
    assert "Lower mem_fraction_static" in text


async def test_a_start_tells_phase_progress_time_left_and_sign_of_life(ground: Ground) -> None:
    async with on(makers.make_servers(ground)) as pilot:
        text = await press(pilot, "down")
    assert "graph capture 14 of 20" in text
    assert "0:22 left" in text
    assert "last line of its log 1 s ago" in text
    assert "60 %" in text


async def test_stopping_is_asked_for_and_its_steps_are_shown(ground: Ground) -> None:
    stopped: list[str] = []

    def stop(name: str, say: Any, *, leftovers: bool) -> Any:
        stopped.append(name)
        say("SIGTERM to 30100, waiting at most 20 s")
        return SimpleNamespace(ended=True, text=f"{name} ended")

    ground.monkeypatch.setattr(serving, "stop", stop)
    clean("stop")
    async with on(makers.make_servers(ground)) as pilot:
        assert "stop ngram-a?" in await press(pilot, "x")
        await press(pilot, "n")
        assert not stopped
        await press(pilot, "x", "y")
        text = await until(pilot, "ngram-a ended")
        assert "waiting at most 20 s" in text
    assert stopped == ["ngram-a"]
    clean("stop")


async def test_taking_over_shows_the_difference_and_needs_the_typed_address(ground: Ground) -> None:
    from spectui.session import adopting

    url = "http://127.0.0.1:30010"
    adoption = SimpleNamespace(url=url, lines=("OTHERS ARE USING IT: 12 running", "+ --enable-metrics"))
    ground.monkeypatch.setattr(adopting, "propose", lambda *_, **__: adoption)
    taken: list[str] = []
    ground.monkeypatch.setattr(serving_jobs, "adopt", lambda _adoption, typed: taken.append(typed))
    async with on(makers.make_servers(ground)) as pilot:
        await press(pilot, "down", "down", "down", "t")
        text = await until(pilot, f"type {url}")
        assert "OTHERS ARE USING IT" in text
        text = await press(pilot, "y", "enter")
        assert f"that is not {url}" in text
        assert not taken
        assert "OTHERS ARE USING IT" not in await press(pilot, "escape")
        await press(pilot, "t")
        await until(pilot, f"type {url}")
        await press(
            pilot, *("colon" if c == ":" else "slash" if c == "/" else "full_stop" if c == "." else c for c in url)
        )
        await press(pilot, "enter")
    assert taken == [url]
    clean("propose")


async def test_left_overs_without_a_record_are_not_ended(ground: Ground) -> None:
    async with on(makers.make_servers(ground)) as pilot:
        assert "end them yourself" in await press(pilot, "end", "e")


# -- workloads


async def test_a_workload_and_its_options_are_taken_for_the_next_run(ground: Ground) -> None:
    screen = WorkloadsScreen(Live())
    screen.live.measuring = SimpleNamespace(options=RunOptions(workload="mixed"))
    async with on(screen) as pilot:
        await press(pilot, "down")
        name = screen.rows.item.key
        await press(pilot, "tab", "right", "down", "backspace", "1", "comma", "4", "down", "8", "enter")
    options = screen.live.measuring.options
    assert (options.workload, options.passes, options.concurrency, options.requests) == (name, ("cold",), (1, 4), 8)


async def test_more_requests_than_prompts_are_refused_with_the_reason(ground: Ground) -> None:
    screen = makers.make_workloads(ground)
    async with on(screen) as pilot:
        text = await press(pilot, "tab", "down", "down", "9", "9", "enter")
        assert "contamination" in text
    assert screen._options.requests is None  # type: ignore[attr-defined]


async def test_a_file_that_is_not_there_is_said(ground: Ground) -> None:
    screen = makers.make_workloads(ground)
    async with on(screen) as pilot:
        text = await press(pilot, "tab", "down", "down", "down", "down", "x", "enter")
    assert "now measure" not in text
    assert screen._options.file is None  # type: ignore[attr-defined]


def test_each_fault_names_its_field() -> None:
    values = {"passes": "warm", "concurrency": "0,x", "requests": "-1", "max_tokens": "1.5", "file": ""}
    assert set(faults_of(values, 10)) == {"concurrency", "requests", "max_tokens"}


async def test_the_fit_names_both_algorithms(ground: Ground) -> None:
    screen = makers.make_workloads(ground)
    screen.live.arms = {
        "A": SimpleNamespace(algorithm="NGRAM", info=None),
        "B": SimpleNamespace(algorithm="none", info=None),
    }
    async with on(screen, (160, 60)) as pilot:
        text = await press(pilot, "down")
    assert "A NGRAM: fits" in text
    assert "B none: drafts nothing" in text
    assert "climb with each repetition" in " ".join(text.split())


# -- runs and compare


def stored(name: str, rows: list[Row]) -> None:
    folder = locations.runs_dir() / name
    folder.mkdir()
    with journal.Writer(folder / "journal.jsonl") as file:
        for row in rows:
            file.write(row)


@pytest.fixture
def history(ground: Ground) -> Ground:
    stored("20261130-101500-json-aaaa", data.rows_of_run((("A", "NGRAM", 4.6, 0.0253),)))
    stored("20261130-111500-json-bbbb", data.rows_of_run((("A", "EAGLE3", 2.3, 0.0186),)))
    return ground


async def test_two_marked_runs_are_compared(history: Ground) -> None:
    screen = RunsScreen(Live())
    async with on(screen, (140, 40)) as pilot:
        assert "c compares" in await press(pilot, "space", "down", "space")
        text = await press(pilot, "c")
        assert isinstance(pilot.app.screen, CompareScreen)
        assert "warm pass, A against B" in text
        assert "faster" in text or "slower" in text
        assert "2 runs" in await press(pilot, "escape")


async def test_pin_note_and_tags_are_kept_with_the_run(history: Ground) -> None:
    async with on(RunsScreen(Live())) as pilot:
        await press(pilot, "p", "o", "h", "i", "enter", "t", "x", "space", "y", "enter")
    kept = [run for run in runs.list_runs() if run.pinned]
    assert len(kept) == 1
    assert (kept[0].note, kept[0].tags) == ("hi", ("x", "y"))


async def test_the_filter_narrows_the_list_and_escape_shows_all_again(history: Ground) -> None:
    screen = RunsScreen(Live())
    async with on(screen) as pilot:
        assert "/eagle_  1 of 2" in await press(pilot, "slash", *"eagle")
        assert len(screen.rows.items) == 1
        await press(pilot, "enter", "escape")
        assert len(screen.rows.items) == 2
        assert pilot.app.screen is screen


async def test_an_open_run_tells_every_metric_or_why_not(history: Ground) -> None:
    async with on(RunsScreen(Live()), (110, 90)) as pilot:
        text = await press(pilot, "enter")
    assert "n/a (the GPUs of this server are not known)" in text
    assert "verify steps by drafts accepted" in text
    assert "histogram sum: ok" in text


async def test_a_stored_run_goes_on_arm_b(history: Ground) -> None:
    screen = RunsScreen(Live())
    async with on(screen) as pilot:
        await press(pilot, "b")
        assert screen.live.chosen == [("B", screen.rows.item.key)]


async def test_a_comparison_that_cannot_be_made_says_why(ground: Ground) -> None:
    async with on(CompareScreen(Live(), runs=("nowhere", "neither"))) as pilot:
        text = "\n".join(lines_of(pilot.app))
    assert "no run in" in text


async def test_two_runs_are_picked_for_a_comparison(history: Ground) -> None:
    async with on(CompareScreen(Live()), (140, 40)) as pilot:
        assert "nothing has been compared yet" in "\n".join(lines_of(pilot.app))
        await press(pilot, "p")
        await press(pilot, "enter", "down", "enter")
        text = await until(pilot, "A against B, intervals")
    assert "stored runs" in text


# -- profiles


async def test_a_profile_is_deleted_only_after_its_name_was_typed(ground: Ground) -> None:
    path = locations.profiles_dir() / "mine.toml"
    path.write_text(data.PROFILE, "utf-8")
    async with on(ProfilesScreen(Live())) as pilot:
        assert "Type mine to do it" in await press(pilot, "d")
        assert "that is not mine" in await press(pilot, "y", "enter")
        assert path.exists()
        assert "mine is deleted" in await press(pilot, *"mine", "enter")
    assert not path.exists()


async def test_a_starter_is_never_deleted(ground: Ground) -> None:
    async with on(makers.make_profiles(ground)) as pilot:
        assert "a starter comes with spectui" in await press(pilot, "end", "d")


async def test_a_profile_is_launched_and_its_phases_are_shown(ground: Ground) -> None:
    path = locations.profiles_dir() / "mine.toml"
    path.write_text(data.PROFILE, "utf-8")
    state = data.servers()[1].state
    ground.monkeypatch.setattr(
        serving,
        "prepare",
        lambda profile, **_: SimpleNamespace(plan=SimpleNamespace(dangers=(), warnings=()), notes=()),
    )
    ground.monkeypatch.setattr(serving, "launch", lambda prepared: data.record("mine", 30000))

    def ready(record: Any, say: Any, **_: Any) -> Any:
        say(state)
        raise SessionError("mine failed: out of memory")

    ground.monkeypatch.setattr(serving, "wait_ready", ready)
    clean("start")
    async with on(ProfilesScreen(Live())) as pilot:
        await press(pilot, "n")
        while not JOBS.of("start")[-1].over:
            await pilot.pause(0.02)
        screen = pilot.app.screen
        screen._details()
        text = await press(pilot)
    assert "starting mine: failed" in text
    assert "mine failed: out of memory" in text
    clean("start")


# -- check, sweep, log


async def test_a_check_shows_probes_as_they_come_and_keeps_the_outcome(ground: Ground) -> None:
    probe = SimpleNamespace(name="serving", title="Does it generate?", why="proof")
    finding = SimpleNamespace(ok=True, value="health 200", expected="", detail="", next="", rows=())
    kept: dict[str, Any] = {}

    def check(target: Any, options: Any, *, say: Any, on_probe: Any) -> None:
        say("measuring")
        on_probe(probe, finding)
        kept["mine"] = {**data.CHECKED, "ok": True, "probes": [{**data.CHECKED["probes"][0]}]}

    ground.monkeypatch.setattr(checking, "check", check)
    ground.monkeypatch.setattr(checking, "target_of", lambda text, options: text)
    ground.monkeypatch.setattr(checking, "last_checks", lambda: kept)
    clean("check")
    async with on(CheckScreen(Live(), target="mine")) as pilot:
        text = await until(pilot, "all that was checked is good")
    assert "health 200" in text
    clean("check")


async def test_what_is_not_good_stands_first_with_what_to_do(ground: Ground) -> None:
    async with on(makers.make_check(ground)) as pilot:
        text = "\n".join(lines_of(pilot.app))
    assert "Set eagle_topk to 1" in text


async def test_a_sweep_is_planned_from_the_form_and_begun(ground: Ground) -> None:
    path = locations.profiles_dir() / "mine.toml"
    path.write_text(data.PROFILE, "utf-8")
    begun: list[Any] = []

    def start(spec: Any) -> Any:
        begun.append(spec)
        return SimpleNamespace(folder=ground.folder)

    ground.monkeypatch.setattr(sweeping, "plan_only", lambda spec, **_: data.sweep())
    ground.monkeypatch.setattr(sweeping, "start", start)
    async with on(SweepScreen(Live())) as pilot:
        await until(pilot, "3 settings, 3 restarts")
        await press(pilot, "down", "down", "backspace", "x", "enter")
        assert not begun
        await until(pilot, "draft tokens: whole numbers")
        await press(pilot, "backspace", "8")
        await until(pilot, "3 settings, 3 restarts")
        text = await press(pilot, "enter")
        assert not begun
        assert "it launches 3 servers of mine, one after another" in text.replace("\n", " ")
        assert not await begun_after(pilot, begun, "enter", "n")
        await press(pilot, "enter", "y")
    assert begun[0].algorithms == ("none", "NGRAM")
    assert begun[0].knobs == {"num_draft_tokens": [4, 8, 18]}


async def begun_after(pilot: Any, begun: list[Any], *keys: str) -> bool:
    await press(pilot, *keys)
    return bool(begun)


async def test_an_interrupted_sweep_goes_on_only_when_that_is_confirmed(ground: Ground) -> None:
    resumed: list[Any] = []
    ground.monkeypatch.setattr(
        sweeping, "resume", lambda folder: resumed.append(folder) or SimpleNamespace(folder=folder)
    )
    screen = SweepScreen(Live())
    state = data.sweep()
    state.status = "stopped"
    screen.read = lambda: Shown(("mine",), ground.folder, state, False)  # type: ignore[method-assign]
    async with on(screen) as pilot:
        assert "go on with this sweep?" in await press(pilot, "enter")
        assert not await begun_after(pilot, resumed, "enter", "n")
        assert await begun_after(pilot, resumed, "enter", "y")


async def test_a_running_sweep_shows_what_is_left_by_the_clock(ground: Ground) -> None:
    from spectui.ui.screens.sweep_rows import progress_of

    progress = progress_of(data.sweep(done=True), data.WHEN + 105)
    assert progress.share == pytest.approx(0.25)
    assert progress.left_s == pytest.approx(315)
    assert "measuring NGRAM 16 draft tokens at 1 at a time" in progress.text
    screen = SweepScreen(Live())
    screen.read = lambda: Shown(("mine",), ground.folder, data.sweep(done=True), True)  # type: ignore[method-assign]
    async with on(screen) as pilot:
        assert "NGRAM 4 draft tokens: dropped" in await press(pilot, "down")


async def test_the_best_of_a_sweep_is_saved_under_a_typed_name(ground: Ground) -> None:
    saved: list[str] = []

    def save(folder: Any, name: str) -> list[Any]:
        saved.append(name)
        return [SimpleNamespace(name=name)]

    ground.monkeypatch.setattr(sweep_saving, "save_best", save)
    async with on(makers.make_sweep(ground)) as pilot:
        assert "saved: mine-best" in await press(pilot, "ctrl+s", "enter")
    assert saved == ["mine-best"]


async def test_a_log_is_held_followed_and_searched(ground: Ground) -> None:
    screen = makers.make_log(ground)
    assert isinstance(screen, LogScreen)
    async with on(screen, (100, 20)) as pilot:
        assert "Load weight begin" not in "\n".join(lines_of(pilot.app))
        assert "held at line 1" in await press(pilot, "home")
        text = await press(pilot, "slash", *"accept", "enter", "p")
        assert "2.838" in text
        with (ground.folder / "server.log").open("a") as file:
            file.write("the last line\nhalf a li")
        screen.reread()
        text = await press(pilot, "end")
        assert "the last line" in text
        assert "half a li" not in text
        (ground.folder / "server.log").write_text("anew\n")
        screen.reread()
        assert "begun anew" in await press(pilot, "end")


# -- what all have in common


async def test_a_reading_that_fails_is_a_sentence(ground: Ground) -> None:
    screen = ServersScreen(Live())

    def fail() -> Any:
        raise PermissionError(13, "Permission denied", "/state/servers")

    screen.read = fail  # type: ignore[method-assign]
    async with on(screen) as pilot:
        text = "\n".join(lines_of(pilot.app))
    assert "/state/servers: Permission denied" in text


async def test_nothing_is_drawn_again_while_nothing_changes(ground: Ground) -> None:
    screen = makers.make_runs(ground)
    async with on(screen) as pilot:
        lists = (screen.query_one(RowList), screen.query_one(TextPage))
        before = [one.spans_asked for one in lists]
        screen.redraw()
        screen.tick()
        await settle(pilot)
        assert [one.spans_asked for one in lists] == before


async def test_one_step_of_the_cursor_draws_two_rows(ground: Ground) -> None:
    screen = makers.make_sweep(ground)
    async with on(screen) as pilot:
        rows = screen.query_one(RowList)
        before = rows.spans_asked
        await press(pilot, "down")
        assert rows.spans_asked - before == 2


async def test_keys_can_be_bound_anew(ground: Ground) -> None:
    screen = makers.make_servers(ground)
    app = Pages()
    app.keys = {"put_a": "f5"}
    app.set_keymap(app.keys)
    async with app.run_test(size=(160, 30)) as pilot:
        await app.push_screen(screen)
        await settle(pilot)
        assert "f5 on A" in "\n".join(lines_of(app))
        await pilot.press("f5")
        await settle(pilot)
    assert screen.live.chosen == [("A", "ngram-a")]


async def test_sentences_of_a_screen_name_the_keys_that_the_config_gave(ground: Ground) -> None:
    screen = RunsScreen(Live())
    screen.read = list  # type: ignore[method-assign]
    async with on(screen) as pilot:
        pilot.app.keys = {"run_mark": "m", "put_b": "f3", "run": "f5", "reread": "f6"}
        screen.redraw()
        text = await press(pilot, "f9")
        assert "m marks two runs to compare; f3 puts one on arm B" in text
        assert "no run yet: f5 on the home screen measures the arm in focus" in text


async def test_a_form_steps_choices_and_takes_letters() -> None:
    from test_screen_widgets import FIELDS, Alone

    form = Form()
    async with Alone(form).run_test(size=(60, 8)) as pilot:
        form.show(FIELDS)
        form.focus()
        for key in ("left", "down", "4", "2", "backspace"):
            await pilot.press(key)
        assert form.values == {"pass": "cold", "count": "4"}


def test_one_job_of_a_name_at_a_time() -> None:
    import threading

    jobs, go = Jobs(), threading.Event()

    def work(job: Job) -> str:
        assert go.wait(10)
        return "done"

    first = jobs.start("start", "x", work)
    assert jobs.start("start", "x", work) is first
    go.set()
    end = time.monotonic() + 10
    while not first.over and time.monotonic() < end:
        pass
    assert (first.over, first.result) == (True, "done")


async def test_both_arms_of_one_run_are_compared(ground: Ground) -> None:
    stored("20261130-121500-json-cccc", data.rows_of_run(data.TWO_ARMS))
    async with on(RunsScreen(Live()), (140, 40)) as pilot:
        assert "c compares both arms" in await press(pilot, "space")
        text = await press(pilot, "c")
        assert "A NGRAM" in text
        assert "B EAGLE3" in text


async def test_of_a_run_with_two_arms_the_one_meant_is_asked_for(history: Ground) -> None:
    stored("20261130-121500-json-cccc", data.rows_of_run(data.TWO_ARMS, seed=3))
    async with on(RunsScreen(Live()), (140, 40)) as pilot:
        await press(pilot, "space", "end", "space")
        assert "a (NGRAM) or b (EAGLE3)" in await press(pilot, "c")
        text = await press(pilot, "b")
        assert "A NGRAM" in text
        assert "B EAGLE3" in text
