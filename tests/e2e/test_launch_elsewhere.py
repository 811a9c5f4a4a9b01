"""Servers behind docker, srun and ssh as real processes: what is ended is proved, and what cannot be is said."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from own_ports import own_port

from spectui.hosts import children, discover, servers
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.leftovers import leftovers
from spectui.hosts.servers import LaunchPlan, ServerRecord, ServerState, ServerWatch, StopOutcome

DATA = Path(__file__).parent.parent / "data" / "hosts"
NO_GPUS = GpuPanel((), "NVML library not found")
DOCKER = ("docker", "run", "--rm", "--name", "a", "image")


def until(true: Callable[[], Any], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        children.reap()
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def state(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The stand-ins are found first; whatever they started is ended."""
    place, bin_ = tmp_path / "state", tmp_path / "bin"
    place.mkdir()
    bin_.mkdir()
    for name in ("docker", "srun", "ssh"):
        (bin_ / name).write_text(f"#!{sys.executable} -SE\n" + (DATA / "clients.py").read_text())
        (bin_ / name).chmod(0o755)
    monkeypatch.setenv("PATH", f"{bin_}:{os.environ['PATH']}")
    monkeypatch.setenv("CLIENTS_STATE", str(place))
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    yield place
    for record in servers.records():
        with contextlib.suppress(ProcessLookupError):
            os.killpg(record.pgid, signal.SIGKILL)
    for about in place.glob("*/about"):
        with contextlib.suppress(ProcessLookupError):
            os.killpg(json.loads(about.read_text())["pid"], signal.SIGKILL)
        until((about.parent / "code").exists)
    until(lambda: not any(servers.alive(record) for record in servers.records()))


def go(tmp_path: Path, *words: str, more: tuple[str, ...] = ()) -> ServerRecord:
    port = own_port()
    argv = (*words, sys.executable, str(DATA / "fake_server.py"), "--port", str(port), *more)
    made = LaunchPlan("a", argv, "127.0.0.1", port, str(tmp_path / "logs" / "a.log"))
    record = servers.launch(made, panel=NO_GPUS)
    watch = ServerWatch(record)
    until(lambda: watch.poll().ready)
    return record


def there(state: Path) -> int:
    """The pid of what the client started."""
    return int(json.loads(next(state.glob("*/about")).read_text())["pid"])


def runs(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def stop(record: ServerRecord, **more: Any) -> StopOutcome:
    """Its clock runs fast, so that long waits are short ones."""
    more = {"clock": lambda: 15 * time.monotonic(), "sleep": lambda s: time.sleep(s / 15), **more}
    return servers.stop(record, read_gpus=lambda: NO_GPUS, **more)


def after_the_end(record: ServerRecord) -> ServerState:
    """What a watch says once the client is gone."""
    watch = ServerWatch(record)
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not watch.poll().running)
    return watch.poll()


def test_a_container_ends_with_its_client(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, *DOCKER)
    assert (record.kind, record.container) == ("docker", "a")
    assert there(state) not in {p.pid for p in psutil.Process(record.pid).children(recursive=True)}
    outcome = stop(record)
    assert (outcome.ended, outcome.clear, outcome.text) == (True, True, "a ended")
    assert not runs(there(state))
    assert not any("container " in step and "has ended" not in step for step in outcome.steps)
    assert servers.records() == []


@pytest.mark.parametrize(
    ("words", "more"),
    [
        (DOCKER, ("--deaf",)),  # its server ignores the signal
        (("docker", "run", "-t", "image"), ()),  # its client hands none on; no --name
    ],
    ids=["deaf", "terminal"],
)
def test_a_container_that_outlives_the_signal_is_stopped_by_its_label_and_no_other(
    tmp_path: Path, state: Path, words: tuple[str, ...], more: tuple[str, ...]
) -> None:
    with subprocess.Popen(["docker", "run", "image", "sleep", "300"]) as other:
        until(lambda: list(state.glob("*/about")))
        foreign = there(state)
        record = go(tmp_path, *words, more=more)
        mine = next(p for p in (json.loads(a.read_text())["pid"] for a in state.glob("*/about")) if p != foreign)
        outcome = stop(record, grace_s=1.0)
        assert (outcome.ended, outcome.clear) == (True, True)
        assert any(step.startswith("stopping the container ") for step in outcome.steps)
        assert not runs(mine)
        assert runs(foreign)
        other.terminate()


def test_a_container_whose_client_was_killed_is_named_and_ended_on_request_only(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, *DOCKER)
    told = after_the_end(record)
    assert not told.ready
    assert "its docker client has ended, but its container " in told.elsewhere
    outcome = stop(record)
    assert outcome.ended is False
    assert "runs on. It is ended on request only: spectui stop a --leftovers" in outcome.text
    assert runs(there(state))
    assert servers.records() == [record]
    assert stop(record, with_leftovers=True).ended is True
    assert not runs(there(state))
    assert servers.records() == []


def test_what_docker_does_not_tell_is_not_said_to_have_ended(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, *DOCKER)
    (tmp_path / "bin" / "docker").unlink()
    outcome = stop(record)
    assert outcome.ended is None
    assert outcome.text == "a: its docker client has ended, and docker does not say whether its container has"


def test_a_step_on_this_node_is_followed_by_its_mark(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, "srun", "--overlap")
    assert there(state) in {row.pid for row in leftovers(record)}
    outcome = stop(record)
    assert (outcome.ended, outcome.clear, outcome.text) == (True, True, "a ended")
    assert not runs(there(state))


def test_a_step_whose_client_was_killed_is_left_until_it_is_asked_for(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, "srun", "--overlap")
    assert "still answers" in after_the_end(record).elsewhere
    outcome = stop(record)
    assert outcome.ended is False
    assert "left behind" in outcome.text
    assert runs(there(state))
    assert stop(record, with_leftovers=True).ended is True
    assert not runs(there(state))


def test_behind_ssh_an_end_is_not_claimed(tmp_path: Path, state: Path) -> None:
    record = go(tmp_path, "ssh", "-tt", "node7")
    assert leftovers(record) == []  # nothing of it can be proved
    outcome = stop(record)
    assert (outcome.ended, outcome.clear) == (None, True)
    assert f"127.0.0.1:{record.port} no longer answers; whether all its processes there have ended" in outcome.text
    assert outcome.text.endswith("cannot be seen from here")
    assert not any("all its processes have ended" in step for step in outcome.steps)
    until(lambda: not runs(there(state)))  # hung up
    assert servers.records() == []


def test_without_a_terminal_the_server_behind_ssh_stays_and_it_is_said(
    tmp_path: Path, state: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from spectui.cli import run_command_line

    record = go(tmp_path, "ssh", "node7")
    outcome = stop(record)
    assert (outcome.ended, outcome.clear) == (False, False)
    assert f"its ssh client has ended, but 127.0.0.1:{record.port} still answers: end the server there" in outcome.text
    assert runs(there(state))
    # Found again later, it is still not said to be gone.
    assert run_command_line(["servers", "a", "--json"]) == 0
    row = json.loads(capfd.readouterr().out)["servers"][0]
    assert (row["managed"], row["pid"]) == (True, None)
    assert "still answers" in row["elsewhere"]
    assert run_command_line(["stop", "a", "--json"]) == 1
    assert json.loads(capfd.readouterr().out)["ended"] is False
    os.killpg(there(state), signal.SIGKILL)
    until(lambda: not runs(there(state)))
    assert run_command_line(["stop", "a", "--json"]) == 0
    said = json.loads(capfd.readouterr().out)
    assert said["ended"] is None
    assert "cannot be seen from here" in said["text"]
    assert servers.records() == []


def test_a_managed_server_behind_a_client_is_listed_while_it_runs(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from spectui.cli import run_command_line

    record = go(tmp_path, "ssh", "-tt", "node7")
    assert run_command_line(["servers", "a", "--json"]) == 0
    row = json.loads(capfd.readouterr().out)["servers"][0]
    assert (row["pid"], row["managed"], row["listening"]) == (record.pid, True, True)
    assert run_command_line(["servers"]) == 0
    assert "started by spectui, through ssh" in capfd.readouterr().out


@pytest.mark.parametrize(
    "before", [("srun", "--overlap"), ("sh", "-c", '"$@"; exit $?', "start.sh")], ids=["srun", "script"]
)
def test_a_server_below_a_script_or_in_a_step_is_known_as_ours(tmp_path: Path, before: tuple[str, ...]) -> None:
    port = own_port()
    argv = (*before, sys.executable, "-m", "spectui.engines.sim", "--model-path", "sim", "--port", str(port))
    record = servers.launch(LaunchPlan("a", argv, "127.0.0.1", port, str(tmp_path / "a.log")), panel=NO_GPUS)
    until(lambda: [found for found in discover.find() if found.port == port])
    found = next(found for found in discover.find() if found.port == port)
    assert found.pid != record.pid
    assert found.record == record
    assert stop(record).ended is True
