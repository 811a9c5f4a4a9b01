"""The parts of launching and stopping that need no process: left-overs, memory, serving, commands, records, timings."""

from __future__ import annotations

import json
import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.core import launch_line
from spectui.core.gpu import GpuReading
from spectui.core.launch_line import kind_of
from spectui.hosts import commands, elsewhere, memory, records, serverlog, timings
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.leftovers import leftovers
from spectui.hosts.processes import ProcessRow, identify
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.servers import LaunchPlan, child_environment
from spectui.hosts.serving import Poll, probe_due, states
from spectui.hosts.stop import StopOutcome, stop
from spectui.hosts.watch import ServerWatch

DATA = Path(__file__).parent.parent / "data" / "hosts"
GIB = 1024**3


def case(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def record(**changes: Any) -> ServerRecord:
    made = ServerRecord(
        "a", "mark", 5100, 1000.0, "127.0.0.1", 30000, ("python", "-m", "sglang.launch_server"), "/x.log"
    )
    return replace(made, **changes)


# FC-78


def rows_of_case() -> tuple[ServerRecord, list[ProcessRow]]:
    data = case("FC-78")
    kept = data["record"]
    made = record(pid=kept["pid"], pgid=kept["pgid"], sid=kept["sid"], start_time=kept["start"], uid=kept["uid"])
    rows = [
        ProcessRow(r["pid"], r["ppid"], r["pgid"], r["sid"], r["uid"], r["start"], r["name"]) for r in data["table"]
    ]
    return made, rows


def test_leftovers_are_of_our_group_session_time_and_name() -> None:
    made, rows = rows_of_case()
    assert [r.pid for r in leftovers(made, rows)] == [5101, 5102, 5103]


@pytest.mark.parametrize(
    "change",
    [{"start": 999.0}, {"uid": 1002}, {"sid": 1}, {"pgid": 1}, {"name": "bash"}, {"marker": "another server's"}],
    ids=str,
)
def test_each_proof_is_needed(change: dict[str, Any]) -> None:
    made, rows = rows_of_case()
    assert leftovers(made, [replace(rows[0], **change)]) == []


def test_the_mark_proves_a_process_that_left_the_group() -> None:
    made, rows = rows_of_case()
    moved = replace(rows[0], pgid=9, sid=9, name="nvcc", marker="mark")
    assert leftovers(made, [moved]) == [moved]


def test_a_new_leader_of_the_same_number_clears_the_group() -> None:
    made = rows_of_case()[0]
    leader = ProcessRow(5100, 1, 5100, 5100, 1001, 2000.0, "python3")
    child = ProcessRow(5199, 5100, 5100, 5100, 1001, 2001.0, "python3")
    assert leftovers(made, [leader, child]) == []


# FC-79


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def panel(used: list[float], processes: tuple[tuple[int, int | None], ...] = ()) -> GpuPanel:
    readings = tuple(
        GpuReading(
            uuid=str(i),
            index=i,
            name="x",
            memory_used=int(g * GIB),
            processes=processes,
            pids=tuple(p for p, _ in processes),
        )
        for i, g in enumerate(used)
    )
    return GpuPanel(readings, "ok")


def test_relaunch_waits_until_every_gpu_is_back() -> None:
    data = case("FC-79")
    before = {str(i): int(g * GIB) for i, g in enumerate(data["before_gib"])}
    allowed = [s["t"] for s in data["samples"] if memory.is_back(memory.excess(before, panel(s["used"]).readings))]
    assert allowed[0] == 9
    time = Time()
    said: list[str] = []

    def read() -> GpuPanel:
        return panel([s for s in data["samples"] if s["t"] <= time.now][-1]["used"])

    got = memory.wait(before, read, say=said.append, clock=time, sleep=time.sleep)
    assert (got.free, got.waited_s) == (True, 9.0)
    assert "70.2 GiB above the level before, 60 s left" in said[0]


def test_memory_that_stays_names_its_holders_after_60_s() -> None:
    time = Time()
    got = memory.wait({"0": GIB}, lambda: panel([40.0], ((1 << 22, 39 * GIB),)), clock=time, sleep=time.sleep)
    assert not got.free
    assert got.waited_s == 60
    assert got.holders == ("GPU 0: a process outside this container (pid 4194304, 39.0 GiB)",)
    assert "cannot see" in memory.wait({"0": GIB}, lambda: panel([40.0]), clock=time, sleep=time.sleep).holders[0]


def test_a_neighbour_that_grew_does_not_hold_up_the_relaunch() -> None:
    time = Time()
    got = memory.wait(
        {"0": GIB}, lambda: panel([41.0], ((7, 40 * GIB),)), others_before={"0": 0}, clock=time, sleep=time.sleep
    )
    assert (got.free, got.waited_s) == (True, 0.0)
    held = memory.wait({"0": GIB}, lambda: panel([1.0], ((7, 1),)), ours=[7], limit_s=2, clock=time, sleep=time.sleep)
    assert not held.free


def test_unreadable_memory_is_waited_for_and_said() -> None:
    time = Time()
    said: list[str] = []
    blind = GpuPanel((), "no permission for NVML")
    got = memory.wait({}, lambda: blind, say=said.append, clock=time, sleep=time.sleep, has_gpus=lambda: True)
    assert (got.free, time.now) == (True, 10.0)
    assert said == ["GPU memory cannot be read (no permission for NVML): waiting 10 s instead"]
    memory.wait({}, lambda: blind, clock=time, sleep=time.sleep, has_gpus=lambda: False)
    assert time.now == 10.0


# FC-81


def test_serving_is_not_health() -> None:
    polls = [Poll(**p) for p in case("FC-81")["polls"]]
    got = states(polls)
    assert [s.serves for s in got] == ["ready", "ready", "suspect", "not serving", "not serving"]
    assert {s.health for s in got} == {"200"}
    assert got[-1].since == 40
    back = states([*polls, Poll(60, 200, 2, 1950)])
    assert back[-1].serves == "ready"


def test_an_idle_server_stays_ready_and_is_probed_once_a_minute() -> None:
    polls = [Poll(float(t), 200, 0, 500) for t in range(0, 200, 20)]
    assert {s.serves for s in states(polls)} == {"ready"}
    assert probe_due(polls, 200)
    assert not probe_due(polls, 200, allowed=False)
    probed = [*polls, Poll(200.0, 200, 0, 500, "ok")]
    assert not probe_due(probed, 259)
    assert probe_due(probed, 260)
    assert not probe_due([Poll(0, 200, 3, 1)], 100)
    assert not probe_due([Poll(0, None)], 100)
    # Requests that begin after a long idle time have 20 s of their own.
    assert states([*polls, Poll(201.0, 200, 1, 500)])[-1].serves == "ready"


def test_other_health_answers() -> None:
    assert [s.serves for s in states([Poll(0, 503), Poll(1, None), Poll(2, 500)])] == [
        "starting",
        "not reachable",
        "not serving",
    ]


# FC-76, the part of children


def test_children_keep_loopback_off_the_proxy_and_see_their_gpus() -> None:
    made = LaunchPlan("a", ("x",), "h", 1, "/l", env={"KEY": "env:MINE", "A": "b"}, gpus=("2", "3"))
    env = child_environment(made, {"no_proxy": "corp,127.0.0.1", "MINE": "v", "SPECTUI_SERVER": "another"})
    assert env["no_proxy"] == "corp,127.0.0.1,localhost,::1,0.0.0.0"
    assert env["NO_PROXY"] == "localhost,127.0.0.1,::1,0.0.0.0"
    assert (env["KEY"], env["A"]) == ("v", "b")
    assert (env["CUDA_VISIBLE_DEVICES"], env["CUDA_DEVICE_ORDER"]) == ("2,3", "PCI_BUS_ID")
    assert "SPECTUI_SERVER" not in env


# Command templates

PLACES = {"python": "/venv/bin/python", "host": "node7", "port": "30000", "name": "a b", "gpus": "0,1"}


def test_templates_become_words() -> None:
    args = ["--model-path", "/m/my model", "--port", "30000"]
    assert launch_line.expand(launch_line.PLAIN, args, PLACES) == [
        "/venv/bin/python",
        "-m",
        "sglang.launch_server",
        *args,
    ]
    assert launch_line.expand(launch_line.SERVE, args, PLACES) == ["sglang", "serve", *args]
    docker = launch_line.expand(launch_line.DOCKER, args, PLACES)
    assert docker[-4:] == args
    assert commands.container_name(docker) == "a b"
    ssh = launch_line.expand(launch_line.SSH, args, PLACES)
    assert ssh[:3] == ["ssh", "-tt", "node7"]
    assert "'/m/my model'" in ssh
    inline = launch_line.expand("bash -c 'exec {python} -m x {args}'", args, PLACES)
    assert inline[2] == "exec /venv/bin/python -m x --model-path '/m/my model' --port 30000"


@pytest.mark.parametrize(
    ("template", "says"),
    [
        ("", "empty"),
        ("python 'x {args}", "cannot be split"),
        ("{nope} {args}", "{nope} is not known; known are"),
    ],
)
def test_a_wrong_template_says_what_is_wrong(template: str, says: str) -> None:
    with pytest.raises(launch_line.TemplateError, match=says):
        launch_line.expand(template, [], PLACES)


def test_notes_before_a_launch() -> None:
    assert "-tt" in commands.notes(["ssh", "n", "python"], (), {})[0]
    assert commands.notes(["ssh", "-tt", "n", "python"], (), {}) == []
    assert len(commands.notes(["docker", "run", "image"], ("0",), {})) == 1
    assert "hands no signal on" in commands.notes(["docker", "exec", "c", "python3"], (), {})[0]
    assert "SGLANG_SIMULATE_ACC_LEN=3" in commands.notes(["python"], (), {"SGLANG_SIMULATE_ACC_LEN": "3"})[0]


def test_keys_take_the_place_of_their_references_where_a_shell_reads_them_too() -> None:
    def reveal(word: str) -> str:
        return "a b" if word == "env:K" else word

    assert commands.with_keys(["x", "--api-key", "env:K", "--admin-api-key=env:K", "--n", "env:K"], reveal) == [
        *("x", "--api-key", "a b", "--admin-api-key=a b", "--n", "env:K"),
    ]
    assert commands.with_keys(["ssh", "h", "--api-key", "env:K"], reveal)[3] == "'a b'"
    assert commands.with_keys(["bash", "-c", "x --api-key env:K --y"], reveal)[2] == "x --api-key 'a b' --y"


# Records


def test_records_survive_each_other(tmp_path: Path) -> None:
    good = record(when=2.0, memory_before={"GPU-1": 5}, gpus=("0",))
    records.save(good, tmp_path)
    records.save(record(name="../../evil name", id="other", when=1.0), tmp_path)
    (tmp_path / "torn.json").write_text('{"name": "x"')
    (tmp_path / "short.json").write_text('{"name": "x"}')
    (tmp_path / "wrong.json").write_text(json.dumps({"pid": "12"}))
    (tmp_path / "list.json").write_text("[]")
    found, faults = records.read_all(tmp_path)
    assert found[0] == good
    assert [r.name for r in found] == ["a", "../../evil name"]
    assert len(faults) == 4
    assert all(str(tmp_path) in f for f in faults)
    assert any("pid is '12'" in f for f in faults)
    records.remove(replace(good, id="a newer server of that name"), tmp_path)
    assert len(records.read_all(tmp_path)[0]) == 2
    records.remove(good, tmp_path)
    assert len(records.read_all(tmp_path)[0]) == 1


def test_alive_needs_pid_start_boot_and_node() -> None:
    me = identify(os.getpid())
    assert me is not None
    mine = record(pid=me.pid, start_time=me.start_time, ticks=me.ticks, boot=me.boot, node=os.uname().nodename)
    assert alive(mine)
    assert not alive(replace(mine, ticks=(me.ticks or 0) + 1))
    assert not alive(replace(mine, boot="another boot"))
    assert not alive(replace(mine, node="another node"))
    assert not alive(replace(mine, pid=1 << 22))
    assert not alive(replace(mine, ticks=None, start_time=me.start_time - 60))


def test_dialled_addresses() -> None:
    assert record(host="0.0.0.0").url == "http://127.0.0.1:30000"
    assert record(host="::").url == "http://[::1]:30000"


# Log and times


def test_log_is_turned_over_and_followed(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    tail = serverlog.LogTail(log)
    assert tail.read().written_s is None
    log.write_bytes("één\nha".encode()[:-1])
    assert tail.read().text == "één\nh"
    assert not serverlog.turn_over(log, limit=100)
    assert serverlog.turn_over(log, limit=3)
    assert (tmp_path / "a.log.1").read_text() == "één\nh"
    with log.open("a") as f:
        f.write("new\n")
    assert tail.read().text == "new\n"
    assert serverlog.trouble(log, least_free=0) is None
    assert "nearly full" in (serverlog.trouble(log, least_free=1 << 62) or "")
    log.unlink()
    assert "was removed" in (serverlog.trouble(log) or "")


def test_times_of_the_last_start_tell_what_is_left(tmp_path: Path) -> None:
    first = record(argv=("python", "-m", "s", "--port", "1"), profile="p")
    timings.remember(first, {"weights": 90.0, "graph capture": 60.0}, tmp_path)
    other_port = record(argv=("python", "-m", "s", "--port", "2"))
    assert timings.last_time(other_port, tmp_path) == {"weights": 90.0, "graph capture": 60.0}
    assert timings.last_time(record(argv=("else",), profile="p"), tmp_path)["weights"] == 90.0
    assert timings.last_time(record(argv=("else",)), tmp_path) == {}
    before = timings.last_time(first, tmp_path)
    assert timings.left_s(before, [], "weights", 30.0) == 120.0
    assert timings.left_s(before, ["weights"], "graph capture", 70.0) == 0.0
    assert timings.left_s({}, [], "weights", 1.0) is None


# FC-86


def test_slow_is_told_from_stuck(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    data = case("FC-86")
    now = Time()
    log = tmp_path / "a.log"
    made = record(pid=me.pid, start_time=me.start_time, ticks=me.ticks, boot=me.boot, log_path=str(log), when=0.0)

    def write(event: dict[str, Any]) -> None:
        with log.open("a") as f:
            f.write(event["line"] + "\n")
        os.utime(log, (event["t"], event["t"]))
        now.now = float(event["t"])

    watch = ServerWatch(made, token=lambda: None, folder=tmp_path, clock=now)
    seen = []
    for event in data["first"]:
        write(event)
        state = watch.poll()
        seen.append(state.phase)
        assert state.stuck is None
        assert state.failure is None
    assert state.ready
    assert state.elapsed_s == 781
    times = {p.name: p.seconds for p in state.phases}
    assert (times["weights"], times["compile"], times["graph capture"]) == (89, 605, 60)

    log.unlink()
    watch = ServerWatch(made, token=lambda: None, folder=tmp_path, clock=now)
    for event in data["second"]:
        write(event)
        watch.poll()
    now.now = 311.0
    assert watch.poll().stuck is None
    now.now = 312.0
    state = watch.poll()
    assert "no sign of life for 300 s in phase distributed set-up" in (state.stuck or "")
    assert state.last_sign_of_life_s == 300
    assert state.running


def test_ready_needs_a_token(tmp_path: Path) -> None:
    me = identify(os.getpid())
    assert me is not None
    log = tmp_path / "a.log"
    log.write_text("The server is fired up and ready to roll!\n")
    made = record(pid=me.pid, start_time=me.start_time, ticks=me.ticks, boot=me.boot, log_path=str(log))
    now = Time()
    answers = [TimeoutError("no token"), None]

    def token() -> None:
        answer = answers.pop(0)
        if answer is not None:
            raise answer

    watch = ServerWatch(made, token=token, folder=tmp_path, clock=now)
    state = watch.poll()
    assert (state.ready, state.phase) == (False, "warm-up")
    now.now += 1
    assert not watch.poll().ready
    assert len(answers) == 1
    now.now += 1.5
    assert watch.poll().ready


@pytest.mark.parametrize(
    ("command", "kind", "told"),
    [
        ("docker run --rm image python3 -m x -d", "docker", None),
        ("docker run -d image", "docker", "docker run -d returns at once"),
        ("podman --log-level info container run --name x -itd image", "docker", "podman run -itd returns at once"),
        ("sudo -n docker run --detach image", "docker", "docker run --detach returns at once"),
        ("docker run --gpus all --add-host=a:b image serve -d", "docker", None),
        ("docker exec c python3", "docker", None),
        ("ssh -tt -p 22 node python3 -f", "ssh", None),
        ("ssh -fN node", "ssh", "ssh -f returns at once"),
        ("env A=1 srun python3 -m x", "srun", None),
        ("sbatch job.sh", "plain", "sbatch returns at once"),
        ("python3 -m x docker", "plain", None),
    ],
)
def test_what_returns_at_once_is_seen_beforehand(command: str, kind: str, told: str | None) -> None:
    assert kind_of(command.split()) == kind
    assert elsewhere.returns_at_once(command.split()) == told


def test_only_a_container_of_ours_gets_a_label() -> None:
    words = ["sudo", "docker", "--context", "far", "run", "--rm", "image", "python3"]
    assert " ".join(elsewhere.labelled(words, "m")) == (
        "sudo docker --context far run --label=spectui.server=m --rm image python3"
    )
    for other in ("docker exec c run", "python3 run", "srun docker run x"):
        assert elsewhere.labelled(other.split(), "m") == other.split()


# FC-79
def test_what_has_just_died_is_out_of_the_way_only_when_its_memory_is_back(tmp_path: Path) -> None:
    log = tmp_path / "a.log"
    log.write_text("torch.OutOfMemoryError")
    made = record(pid=1 << 22, log_path=str(log), memory_before={"0": GIB}, node=os.uname().nodename)
    folder = tmp_path / "servers"
    records.save(made, folder)
    time = Time()

    def end(used: float) -> StopOutcome:
        return stop(made, folder=folder, read_gpus=lambda: panel([used]), clock=time, sleep=time.sleep)

    held = end(40.0)
    assert (held.clear, time.now) == (False, 60.0)
    assert "was not running, but GPU memory is still held after 60 s" in held.text
    assert records.read_all(folder)[0] == [made]  # a launch in its place waits, too
    assert end(1.2).clear
    assert records.read_all(folder)[0] == []
    os.utime(log, (1, 1))
    time.now = 0.0
    assert (end(40.0).clear, time.now) == (True, 0.0)  # it ended long ago: not its memory
