"""A flip that goes wrong: refused beforehand it leaves the old server running, failed it can be gone back from."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_ports import own_port

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.hosts import children, servers
from spectui.session import SessionError, serving
from spectui.session.changing import Changing
from spectui.session.live_arm import LiveArm

ARMS: list[LiveArm] = []


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    yield
    while ARMS:
        ARMS.pop().close()
    for record in servers.records():
        try:
            os.killpg(record.pgid, signal.SIGKILL)
        except ProcessLookupError:
            continue
    end = time.monotonic() + 20
    while any(servers.alive(record) for record in servers.records()):
        children.reap()
        assert time.monotonic() < end
        time.sleep(0.02)


def profile(algorithm: str = "NGRAM", **args: Any) -> Profile:
    port = own_port()
    args = {"sim_speed": 1000, "sim_startup": 0.05, **args}
    knobs: dict[str, Any] = {}
    if algorithm == "EAGLE3":
        knobs = {"draft_model_path": "/no/draft", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
    server = ServerPart(command="{python} -m spectui sim {args}", port=port, model_path="sim", args=args)
    return Profile("s", None, server, SpeculativePart(algorithm, knobs))


def running(changing: Changing) -> LiveArm:
    arm = LiveArm("A")
    assert changing.relaunch(arm, profile()) == "A is ready: NGRAM"
    ARMS.append(arm)
    return arm


def test_refused_beforehand_leaves_the_old_one_and_its_profile_as_they_are() -> None:
    changing = Changing(lambda: False)
    arm = running(changing)
    record = servers.records()[0]
    for wrong, says in (
        (replace(profile("none"), server=replace(profile().server, cwd="/no/such/folder")), "does not exist"),
        (replace(profile("none"), server=replace(profile().server, command="/no/python -m x")), "no such program"),
        (replace(profile("DFLASH"), speculative=SpeculativePart("DFLASH", {})), "would not start"),
    ):
        with pytest.raises(SessionError, match=says):
            changing.relaunch(arm, wrong)
        assert (arm.record, arm.failure, arm.busy, arm.ready_before) == (record, "", "", ())
        assert servers.records() == [record]
        assert servers.alive(record)
        kept = serving.profile_of(record)
        assert kept is not None
        assert kept.speculative.algorithm == "NGRAM"


def test_the_first_launch_says_what_the_node_ends_with_the_login(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SLURM_JOB_ID", "5")
    monkeypatch.setenv("SLURM_STEP_ID", "0")
    arm = LiveArm("A")
    ARMS.append(arm)
    said = Changing(lambda: False).relaunch(arm, profile())
    assert said.startswith("A is ready: NGRAM — Slurm ends all processes of step 5.0 when it ends")


def test_one_key_goes_back_after_a_failed_start() -> None:
    changing = Changing(lambda: False)
    arm = running(changing)
    with pytest.raises(SessionError, match="s failed, draft path"):
        changing.relaunch(arm, profile("EAGLE3", sim_fail="draft"))
    assert "draft path" in arm.failure
    assert [kept.speculative.algorithm for kept in arm.ready_before] == ["NGRAM"]
    assert changing.back(arm) == "A is ready: NGRAM"
    assert (arm.failure, arm.ready_before) == ("", ())


def test_one_key_goes_back_where_the_old_one_ended_and_nothing_could_be_started(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    changing = Changing(lambda: False)
    arm = running(changing)

    def full(_plan: object) -> None:
        raise servers.LaunchError("the disk of its log is full", "server s", "Free some space.")

    with monkeypatch.context() as patched:
        patched.setattr(servers, "launch", full)
        with pytest.raises(SessionError, match="disk of its log is full"):
            changing.relaunch(arm, profile("none"))
        assert "disk of its log is full" in arm.failure
        with pytest.raises(SessionError, match="disk of its log is full"):
            changing.back(arm)  # still full: the settings to go back to stay
    assert changing.back(arm) == "A is ready: NGRAM"
    assert servers.alive(servers.records()[0])
