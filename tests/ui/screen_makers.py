"""Each screen on fixed data, by the name of its text files."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import screen_data as data
from pages import Live

from spectui import algorithms
from spectui.core.plan import Plan, resolve
from spectui.core.profile import Profile
from spectui.session import comparing, serving
from spectui.session.arms import Target
from spectui.store import profiles
from spectui.store.profiles import Listed
from spectui.ui.screens.check import CheckScreen
from spectui.ui.screens.compare import CompareScreen
from spectui.ui.screens.log import LogScreen
from spectui.ui.screens.page import Page
from spectui.ui.screens.profiles import ProfilesScreen
from spectui.ui.screens.runs import RunsScreen
from spectui.ui.screens.servers import ServersScreen
from spectui.ui.screens.sweep import Shown, SweepScreen
from spectui.ui.screens.sweep_planning import Planned
from spectui.ui.screens.workloads import WorkloadsScreen


class Ground:
    """Where screens find their things in a test."""

    def __init__(self, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder = folder
        self.monkeypatch = monkeypatch


def _fixed(screen: Page, what: Any) -> Page:
    screen.read = lambda: what  # type: ignore[method-assign]
    return screen


def make_servers(ground: Ground) -> Page:
    return _fixed(ServersScreen(Live()), data.servers())


def make_workloads(ground: Ground) -> Page:
    return _fixed(WorkloadsScreen(Live()), data.workloads())


def make_compare(ground: Ground) -> Page:
    a, b = data.sources()
    return _fixed(CompareScreen(Live()), comparing.compare_sources(a, b))


def make_runs(ground: Ground) -> Page:
    from spectui.session import running

    ground.monkeypatch.setattr(running, "result_of", lambda folder: data.result())
    runs = data.summaries()
    return _fixed(RunsScreen(Live()), tuple(sorted(runs, key=lambda r: (not r.pinned, -r.when))))


def _plan(profile: Profile, version: str | None = None) -> Plan:
    server = profile.server.arguments()
    return resolve(algorithms.for_name(profile.speculative.algorithm), profile.speculative.knobs, server, "0.5.15")


def listed() -> tuple[Listed, ...]:
    mine = replace(profiles.validate(data.PROFILE, "mine.toml"), path="/profiles/mine.toml")
    other = replace(mine, name="start", evidence=())
    return (
        Listed("mine", "/profiles/mine.toml", False, mine),
        Listed("broken", "/profiles/broken.toml", False, None, (data.fault(),)),
        Listed("start", "/starters/start.toml", True, other),
    )


def make_profiles(ground: Ground) -> Page:
    ground.monkeypatch.setattr(serving, "plan_for", _plan)
    return _fixed(ProfilesScreen(Live()), listed())


def make_check(ground: Ground) -> Page:
    live = Live()
    live.focused = Live(target=Target("ngram-a", url="http://127.0.0.1:30000", server="ngram-a"), record=None)
    return _fixed(CheckScreen(live), data.CHECKED)


def make_sweep_plan(ground: Ground) -> Page:
    screen = SweepScreen(Live())
    _fixed(screen, Shown(("mine", "start")))
    screen._values["profile"] = "mine"
    screen._planned = Planned(tuple(screen._values.values()), object(), data.sweep())
    return screen


def make_sweep(ground: Ground) -> Page:
    state = data.sweep(done=True)
    state.status = "complete"
    return _fixed(SweepScreen(Live()), Shown(("mine",), ground.folder, state))


def make_log(ground: Ground) -> Page:
    path = ground.folder / "server.log"
    path.write_text("\n".join(data.LOG) + "\n", "utf-8")
    screen = LogScreen(Live(), path=str(path), name="ngram-a")
    screen.status = lambda: ("", "")  # type: ignore[method-assign] # the path is another each time
    return screen


MAKERS: dict[str, Callable[[Ground], Page]] = {
    "servers": make_servers,
    "workloads": make_workloads,
    "compare": make_compare,
    "runs": make_runs,
    "profiles": make_profiles,
    "check": make_check,
    "sweep-plan": make_sweep_plan,
    "sweep": make_sweep,
    "log": make_log,
}
