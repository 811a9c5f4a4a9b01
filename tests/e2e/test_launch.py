"""Servers as real processes: started, watched, left alone by the end of their launcher, and stopped."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest
from own_ports import own_port

from spectui.hosts import discover, servers, templates
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.leftovers import end_leftovers, leftovers
from spectui.hosts.ports import is_free
from spectui.hosts.processes import MARKER
from spectui.hosts.records import alive, load, path_of
from spectui.hosts.servers import LaunchError, LaunchPlan, ServerRecord, ServerWatch

SCRIPT = Path(__file__).parent.parent / "data" / "hosts" / "fake_server.py"
NO_GPUS = GpuPanel((), "NVML library not found")


@pytest.fixture
def started() -> Iterator[list[int]]:
    """Groups to end whatever happens in a test."""
    groups: list[int] = []
    yield groups
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
        until(lambda g=group: not group_exists(g))  # type: ignore[misc]


def group_exists(group: int) -> bool:
    from spectui.hosts import children

    children.reap()
    try:
        os.killpg(group, 0)
    except ProcessLookupError:
        return False
    return True


def until(true: Callable[[], bool], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


def plan(tmp_path: Path, *more: str, name: str = "a", **changes: object) -> LaunchPlan:
    port = own_port()
    made = LaunchPlan(
        name=name,
        argv=(sys.executable, str(SCRIPT), "--port", str(port), *more),
        host="127.0.0.1",
        port=port,
        log_path=str(tmp_path / "logs" / f"{name}.log"),
    )
    return replace(made, **changes)  # type: ignore[arg-type]


def go(tmp_path: Path, started: list[int], made: LaunchPlan) -> ServerRecord:
    record = servers.launch(made, folder=tmp_path / "servers", panel=NO_GPUS)
    started.append(record.pgid)
    return record


def gone(pid: int) -> bool:
    try:
        return bool(psutil.Process(pid).status() == psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return True


def answers(port: int) -> bool:
    try:
        with urllib.request.build_opener(urllib.request.ProxyHandler({})).open(
            f"http://127.0.0.1:{port}/", timeout=2
        ) as r:
            return bool(r.status == 200)
    except OSError:
        return False


def worker_of(record: ServerRecord) -> int:
    found = re.search(r"worker=(\d+)", Path(record.log_path).read_text())
    assert found
    return int(found.group(1))


def stop(tmp_path: Path, record: ServerRecord, **more: object) -> servers.StopOutcome:
    return servers.stop(record, folder=tmp_path / "servers", read_gpus=lambda: NO_GPUS, **more)  # type: ignore[arg-type]


def test_launch_watch_find_stop(tmp_path: Path, started: list[int]) -> None:
    made = plan(
        tmp_path, "--api-key", "env:TEST_SPECTUI_KEY", profile="p", env={"HF_TOKEN": "hf_secretvalue", "X": "1"}
    )
    os.environ["TEST_SPECTUI_KEY"] = "verysecret"
    try:
        record = go(tmp_path, started, made)
    finally:
        del os.environ["TEST_SPECTUI_KEY"]
    watch = ServerWatch(record, folder=tmp_path / "servers")
    until(lambda: watch.poll().ready)
    state = watch.poll()
    assert (state.phase, state.running, state.failure) == ("ready", True, None)
    assert state.elapsed_s < 30
    # In a session of its own, without terminal or pipe.
    process = psutil.Process(record.pid)
    assert os.getsid(record.pid) == os.getpgid(record.pid) == record.pid
    assert os.readlink(f"/proc/{record.pid}/fd/0") == "/dev/null"
    assert os.readlink(f"/proc/{record.pid}/fd/1") == os.readlink(f"/proc/{record.pid}/fd/2") == record.log_path
    environ = process.environ()
    assert "127.0.0.1" in environ["no_proxy"]
    assert environ["X"] == "1"
    assert environ[MARKER] == record.id
    assert "verysecret" in process.cmdline()
    # The record proves it and holds no key.
    path = path_of(record, tmp_path / "servers")
    assert path.stat().st_mode & 0o777 == 0o600
    assert "secret" not in path.read_text()
    assert servers.records(tmp_path / "servers") == [record]
    # The next start of the same knows how long it takes.
    again = ServerWatch(record, folder=tmp_path / "servers", token=lambda: 1 / 0).poll()
    assert not again.ready
    assert again.left_s is not None
    assert any(p.last_time_s is not None for p in again.phases)
    # Stopped: nothing of it remains.
    said: list[str] = []
    worker = worker_of(record)
    outcome = stop(tmp_path, record, abort=lambda: said.append("aborted"), say=said.append)
    assert outcome.ended
    assert outcome.clear
    assert outcome.exit_code == -15
    assert said[0] == "aborted"
    assert not alive(record)
    assert gone(worker)
    assert is_free(record.port)
    assert servers.records(tmp_path / "servers") == []
    assert watch.poll().phase == "ended"


# FC-84
def test_server_outlives_the_process_that_launched_it(tmp_path: Path, started: list[int]) -> None:
    made = plan(tmp_path)
    code = (
        "import sys, time\nfrom pathlib import Path\nfrom spectui.hosts.servers import LaunchPlan, launch\n"
        "from spectui.hosts.gpus import GpuPanel\n"
        f"launch(LaunchPlan('a', {made.argv!r}, '127.0.0.1', {made.port}, {made.log_path!r}),"
        f" folder=Path({str(tmp_path / 'servers')!r}), panel=GpuPanel((), 'none'))\n"
        "print('launched', flush=True)\ntime.sleep(300)\n"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code], stdout=subprocess.PIPE, start_new_session=True, cwd=Path(__file__).parents[2]
    ) as launcher:
        assert launcher.stdout is not None
        assert launcher.stdout.readline() == b"launched\n"
        record = servers.records(tmp_path / "servers")[0]
        started.append(record.pgid)
        # The whole session of the launcher hangs up and ends, as when a terminal goes away.
        os.killpg(launcher.pid, signal.SIGHUP)
        launcher.kill()
    until(lambda: answers(record.port))
    assert alive(record)
    found = [f for f in servers.records(tmp_path / "servers") if alive(f)]
    assert [f.name for f in found] == ["a"]
    assert ServerWatch(record, folder=tmp_path / "servers").poll().running
    outcome = stop(tmp_path, record)
    assert outcome.clear
    assert not answers(record.port)


# FC-85
def test_a_megabyte_of_output_does_not_stop_the_server(tmp_path: Path, started: list[int]) -> None:
    record = go(tmp_path, started, plan(tmp_path, "--noise"))
    until(lambda: Path(record.log_path).exists() and Path(record.log_path).stat().st_size > 1_000_000)
    assert answers(record.port)
    watch = ServerWatch(record, folder=tmp_path / "servers")
    until(lambda: watch.poll().ready)
    assert stop(tmp_path, record).clear


def test_what_ignores_sigterm_is_killed_after_the_grace(tmp_path: Path, started: list[int]) -> None:
    record = go(tmp_path, started, plan(tmp_path, "--deaf"))
    until(lambda: answers(record.port))
    until(lambda: "worker=" in Path(record.log_path).read_text())
    worker = worker_of(record)

    def failing_abort() -> None:
        raise OSError("no answer")

    outcome = stop(tmp_path, record, grace_s=0.2, abort=failing_abort)
    assert outcome.clear
    assert outcome.exit_code == -9
    assert not alive(record)
    assert gone(worker)
    assert any("could not be aborted (no answer)" in s for s in outcome.steps)


def test_a_stale_record_never_touches_the_process_that_has_its_pid_now(tmp_path: Path, started: list[int]) -> None:
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True) as foreign:
        try:
            first = go(tmp_path, started, plan(tmp_path))
            until(lambda: answers(first.port))
            assert stop(tmp_path, first).clear
            # The same record, as if its number (and that of its group) had been given to someone else since.
            stale = replace(first, pid=foreign.pid, pgid=foreign.pid, sid=foreign.pid)
            assert not alive(stale)
            assert leftovers(stale) == []
            for with_leftovers in (False, True):
                assert stop(tmp_path, stale, with_leftovers=with_leftovers).text == "a was not running"
            by_clock = replace(stale, ticks=None, boot=None, start_time=stale.start_time - 3600)
            assert not alive(by_clock)
            stop(tmp_path, by_clock, with_leftovers=True)
            end_leftovers(by_clock)
            assert foreign.poll() is None
        finally:
            foreign.kill()


def test_leftovers_of_a_dead_leader_end_on_request_only(tmp_path: Path, started: list[int]) -> None:
    record = go(tmp_path, started, plan(tmp_path))
    until(lambda: "worker=" in Path(record.log_path).read_text())
    worker = worker_of(record)
    os.kill(record.pid, signal.SIGKILL)
    until(lambda: not alive(record))
    assert [r.pid for r in leftovers(record)] == [worker]
    outcome = stop(tmp_path, record)
    assert not outcome.ended
    assert "left behind" in outcome.text
    assert not gone(worker)
    assert servers.records(tmp_path / "servers") == [record]
    outcome = stop(tmp_path, record, with_leftovers=True)
    assert outcome.ended
    assert gone(worker)
    assert servers.records(tmp_path / "servers") == []


def test_a_failed_start_has_its_cause(tmp_path: Path, started: list[int]) -> None:
    code = "import sys; print('ModuleNotFoundError: No module named \\'sglang\\'', file=sys.stderr); sys.exit(1)"
    record = go(tmp_path, started, plan(tmp_path, argv=(sys.executable, "-c", code)))
    watch = ServerWatch(record, folder=tmp_path / "servers")
    until(lambda: not watch.poll().running)
    state = watch.poll()
    assert state.phase == "failed"
    assert state.exit_code == 1
    assert state.failure is not None
    assert "sglang" in state.failure.cause


@pytest.mark.parametrize(
    ("changes", "says"),
    [
        ({"argv": ("/no/such/python", "-m", "x")}, "/no/such/python: no such program"),
        ({"argv": ()}, "empty command"),
        ({"cwd": "/no/such/folder"}, "/no/such/folder does not exist"),
        ({"log_path": "/proc/none/a.log"}, "log cannot be written"),
        ({"env": {"K": "env:TEST_SPECTUI_ABSENT"}}, "TEST_SPECTUI_ABSENT is not set"),
    ],
)
def test_what_cannot_start_says_why(tmp_path: Path, changes: dict[str, object], says: str) -> None:
    with pytest.raises(LaunchError, match=re.escape(says)):
        servers.launch(plan(tmp_path, **changes), folder=tmp_path / "servers", panel=NO_GPUS)  # type: ignore[arg-type]
    assert servers.records(tmp_path / "servers") == []


def test_taken_port_and_taken_name_are_refused_before_anything_starts(tmp_path: Path, started: list[int]) -> None:
    made = plan(tmp_path)
    record = go(tmp_path, started, made)
    until(lambda: answers(record.port))
    with pytest.raises(LaunchError, match=f"pid {record.pid}, port {record.port}"):
        servers.launch(made, folder=tmp_path / "servers", panel=NO_GPUS)
    with pytest.raises(LaunchError, match=f"port {record.port} is taken by .*pid {record.pid}"):
        servers.launch(replace(made, name="b"), folder=tmp_path / "servers", panel=NO_GPUS)
    assert stop(tmp_path, record).clear


def test_a_record_that_cannot_be_written_leaves_no_server(tmp_path: Path) -> None:
    (tmp_path / "servers").write_text("a file, not a folder")
    made = plan(tmp_path)
    with pytest.raises(LaunchError, match="record cannot be written"):
        servers.launch(made, folder=tmp_path / "servers", panel=NO_GPUS)
    assert is_free(made.port)
    assert not [p for p in psutil.process_iter(["cmdline"]) if str(made.port) in (p.info["cmdline"] or [])]


def test_discovery_finds_a_running_server_and_its_record(tmp_path: Path, started: list[int]) -> None:
    package = tmp_path / "lib" / "sglang"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text("")
    (package / "launch_server.py").write_text(SCRIPT.read_text())
    port = own_port()
    argv = (sys.executable, "-m", "sglang.launch_server", "--port", str(port), "--api-key", "abc123", "--tp-size", "1")
    made = plan(tmp_path, argv=argv, port=port, cwd=str(tmp_path / "lib"))
    record = go(tmp_path, started, made)
    until(lambda: answers(port))
    found = [f for f in discover.find(folder=tmp_path / "servers") if f.pid == record.pid]
    assert len(found) == 1
    one = found[0]
    assert (one.port, one.listening, one.url) == (port, True, f"http://127.0.0.1:{port}")
    assert one.record == record
    assert one.settings["tp-size"] == "1"
    assert "abc123" not in json.dumps([one.argv, one.settings])
    assert worker_of(record) in one.pids
    assert one.user == psutil.Process().username()
    template = templates.template_of(one)
    assert template.cwd == str(tmp_path / "lib")
    assert template.env[MARKER] == record.id
    assert any("API key is not copied" in m for m in template.missing)
    assert load(path_of(record, tmp_path / "servers")) == record
    assert stop(tmp_path, record).clear
    assert not [f for f in discover.find(folder=tmp_path / "servers") if f.port == port]
