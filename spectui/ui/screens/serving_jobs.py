"""Starts, stops and adoptions asked for on a screen, as jobs that go on when the screen is left."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from spectui.session import SessionError, serving
from spectui.ui.screens.jobs import JOBS, Job
from spectui.ui.screens.page import Page
from spectui.ui.screens.pick import Pick
from spectui.ui.widgets.rows import Item
from spectui.ui.widgets.text_table import Column

if TYPE_CHECKING:
    from spectui.store.profiles import Listed


def pick_and_launch(page: Page, then: Callable[[Job], None]) -> None:
    """Asks for a profile and starts it."""

    def picked(name: str | None) -> None:
        if name is not None:
            job = launch(name)
            then(job)
            page.say(f"starting {job.title}: what it does is shown here; it goes on when this screen is left", "good")
            page.reread()

    columns = (
        Column("profile", least=16),
        Column("algorithm"),
        Column("model", drop=1, least=12),
        Column("port", drop=2),
        Column(""),
    )
    page.app.push_screen(Pick("start a server from", columns, [_item(entry) for entry in _profiles()]), picked)


def _profiles() -> tuple[Listed, ...]:
    from spectui.store import profiles

    return tuple(entry for entry in profiles.list_all() if entry.profile is not None)


def _item(entry: Listed) -> Item:
    profile = entry.profile
    assert profile is not None
    model = (profile.server.model_path or "").rstrip("/").rpartition("/")[2]
    port = str(profile.server.port or "free")
    cells = (entry.name, profile.speculative.algorithm, model, port, "starter" if entry.starter else "")
    return Item(entry.path, cells, profile.notes or "")


def launch(profile_name: str) -> Job:
    from spectui.store import profiles

    profile = profiles.load(profile_name)

    def work(job: Job) -> Any:
        name = _free_name(profile.name)
        prepared = serving.prepare(profile, name=name)
        for finding in (*prepared.plan.dangers, *prepared.plan.warnings):
            job.say(finding.text)
        for note in prepared.notes:
            job.say(note)
        from spectui.hosts.lasting import lasting

        keeps = lasting()
        if keeps.survives is False:
            job.say(keeps.sentence)
        record = serving.launch(prepared)
        job.say(f"{record.name} on port {record.port}, pid {record.pid}")
        state = serving.wait_ready(record, job.tell, cancelled=job.cancelled.is_set)
        return f"{record.name} is ready after {state.elapsed_s:.0f} s"

    return JOBS.start("start", profile.name, work)


def _free_name(name: str) -> str:
    from spectui.hosts import servers

    taken = {record.name for record in servers.records() if servers.alive(record)}
    return next(one for one in (name, *(f"{name}-{n}" for n in range(2, 100))) if one not in taken)


def stop(name: str, *, leftovers: bool = False) -> Job:
    def work(job: Job) -> str:
        outcome = serving.stop(name, job.say, leftovers=leftovers)
        if outcome.ended is False:
            raise SessionError(outcome.text)
        return outcome.text

    return JOBS.start("stop", name, work)


def propose(url: str, *, key: str | None, admin_key: str | None) -> Job:
    """What taking over a found server would change; nothing is touched. The result is an ``Adoption``."""
    from spectui.session import adopting

    old = JOBS.find("propose", url)
    if old is not None and old.over:
        JOBS.forget(old)
    return JOBS.start("propose", url, lambda job: adopting.propose(url, key=key, admin_key=admin_key))


def adopt(adoption: Any, typed: str) -> Job:
    """Ends the found server and starts it again as one of ours. ``typed``: its URL, as the operator typed it."""
    from spectui.session import adopting

    def work(job: Job) -> str:
        record = adopting.relaunch(adoption, typed, job.say)
        job.say(f"{record.name} on port {record.port}, pid {record.pid}")
        state = serving.wait_ready(record, job.tell, cancelled=job.cancelled.is_set)
        return f"{record.name} is ready after {state.elapsed_s:.0f} s"

    return JOBS.start("start", adoption.url, work)
