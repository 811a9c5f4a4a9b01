"""``spectui launch`` and its kin on real simulated servers: ready, failed in every way, left running, taken over."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path
from typing import Any

import pexpect
import psutil
import pytest
from own_ports import own_port

from spectui.cli import run_command_line
from spectui.hosts import children, servers
from spectui.hosts.ports import is_free
from spectui.hosts.servers import ServerWatch
from spectui.session import SessionError, adopting, running, serving

SPECTUI = [sys.executable, "-m", "spectui"]


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A home of its own; whatever was started in it is ended."""
    place = tmp_path / "home"
    monkeypatch.setenv("SPECTUI_HOME", str(place))
    yield place
    groups = [record.pgid for record in servers.records()] + [handle.pid for handle in running.running()]
    for group in groups:
        try:
            os.killpg(group, signal.SIGKILL)
        except ProcessLookupError:
            continue
    until(lambda: not any(servers.alive(record) for record in servers.records()))


def until(true: Callable[[], Any], limit_s: float = 20.0) -> None:
    end = time.monotonic() + limit_s
    while not true():
        children.reap()
        assert time.monotonic() < end, "did not happen in time"
        time.sleep(0.02)


@cache
def port_of(tmp_path: Path) -> int:
    """One port for all profiles of a test, as somebody would have who only copies profiles."""
    return own_port()


def write(tmp_path: Path, name: str = "s", speculative: str = 'algorithm = "NGRAM"', **args: object) -> str:
    port = port_of(tmp_path)
    table = {"sim_speed": 1000, "sim_startup": 0.05, **args}
    lines = [f"{key} = {json.dumps(value)}" for key, value in table.items()]
    path = tmp_path / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\n[server]\ncommand = "{{python}} -m spectui sim {{args}}"\nport = {port}\n'
        f'model_path = "sim"\n[server.args]\n' + "\n".join(lines) + f"\n[speculative]\n{speculative}\n"
    )
    return str(path)


def run(capfd: pytest.CaptureFixture[str], *words: str) -> tuple[int, str, str]:
    code = run_command_line(words)
    said = capfd.readouterr()
    return code, said.out, said.err


def test_launch_list_log_and_stop(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path)
    code, out, err = run(capfd, "launch", path, "--json")
    said = json.loads(out)
    assert (code, said["ready"], said["name"]) == (0, True, "s")
    assert "ready" in err
    code, out, _ = run(capfd, "servers", "s", "--json")
    row = json.loads(out)["servers"][0]
    assert (row["managed"], row["algorithm"], row["busy"], row["requests"]) == (True, "NGRAM", False, "idle")
    assert row["in_force"]["num_draft_tokens"] == 12
    (tmp_path / "home" / "state" / "servers" / "bad.json").write_text('{"pid": "x"}')
    assert "bad.json: pid is 'x', which no record has" in run(capfd, "servers", "--quick")[2]
    code, out, _ = run(capfd, "plan", path, "--json")
    assert json.loads(out)["plans"][0]["last_start_s"] is not None
    # Its log is foreign text.
    with open(said["log"], "a") as log:
        log.write("evil \x1b]0;title\x07 [red]text[/red]\n")
    code, out, _ = run(capfd, "servers", "s", "--log", "--lines", "1")
    assert code == 0
    assert "\x1b" not in out
    assert "[red]text[/red]" in out
    code, out, err = run(capfd, "launch", path)
    assert code == 1
    assert f"port {said['url'].rsplit(':', 1)[1]} is taken" in err
    code, out, _ = run(capfd, "stop", "s", "--json")
    assert (code, json.loads(out)["clear"]) == (0, True)
    assert run(capfd, "stop", "s")[0] == 2


FAILS = [
    ("oom", "out of memory: graph capture", r"Lower --mem-fraction-static \(0.85 in force\)"),
    ("port", "port taken", "choose another"),
    ("draft", "draft path", "check --speculative-draft-model-path"),
    ("assert", "assertion", "AssertionError: shared logits buffer"),
]
EAGLE3 = (
    'algorithm = "EAGLE3"\ndraft_model_path = "/models/no-such-draft"\n'
    "num_steps = 3\neagle_topk = 1\nnum_draft_tokens = 4"
)


@pytest.mark.parametrize(("kind", "named", "hint"), FAILS, ids=[fail[0] for fail in FAILS])
def test_a_failed_start_names_its_cause_its_hint_and_its_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], kind: str, named: str, hint: str
) -> None:
    import re

    path = write(tmp_path, speculative=EAGLE3, sim_fail=kind, mem_fraction_static=0.85)
    code, out, err = run(capfd, "launch", path, "--json")
    assert code == 1
    said = json.loads(out)
    assert said["exit_code"] == 1
    assert f"s failed, {named}: " in said["error"]
    assert re.search(hint, said["error"])
    log = re.search(r"whole log: (\S+)", said["error"])
    assert log is not None
    assert Path(log[1]).stat().st_size > 0
    assert "ready" not in err.replace("already", "")
    assert "Traceback (most recent" not in err
    record = servers.records()[0]
    assert not servers.alive(record)
    assert run(capfd, "servers", "--quick")[1].count("ended; spectui stop clears its record") == 1
    assert run(capfd, "stop", "s")[0] == 0
    assert servers.records() == []


def test_a_port_taken_in_the_meantime_names_its_holder(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, sim_fail="slow", sim_startup=0.1)
    assert run(capfd, "launch", path, "--no-wait")[0] == 0
    record = servers.records()[0]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", record.port))
        taken.listen()
        with pytest.raises(SessionError, match=rf"port taken.*Port {record.port} is held by .*\(pid {os.getpid()},"):
            serving.wait_ready(record, poll_s=0.02)


def test_a_start_that_hangs_is_told_from_a_slow_one_and_left_running(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write(tmp_path, sim_fail="hang")
    told: list[str] = []

    class Later(ServerWatch):
        """Its clock runs ahead once the start hangs."""

        def poll(self) -> servers.ServerState:
            state = super().poll()
            if state.phase.startswith("graph"):
                self._clock = lambda: time.time() + 400
                state = super().poll()
                told.append(state.stuck or "")
                if state.stuck:
                    monkeypatch.setattr(time, "sleep", interrupt)
            return state

    def interrupt(_seconds: float) -> None:
        monkeypatch.undo()
        monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
        raise KeyboardInterrupt

    monkeypatch.setattr(serving, "ServerWatch", Later)
    code, _, err = run(capfd, "launch", path)
    assert code == 130
    assert "no sign of life for 4" in told[-1]
    assert told[-1] in err
    assert "It is left running; stop it with: spectui stop s" in err
    assert "s goes on starting (pid" in err
    record = servers.records()[0]
    assert servers.alive(record)
    assert run(capfd, "stop", "s")[0] == 0
    assert not servers.alive(record)


def test_a_slow_start_is_waited_for(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    code, _, err = run(capfd, "launch", write(tmp_path, sim_fail="slow", sim_startup=0.1))
    assert code == 0
    assert "no sign of life" not in err


def test_one_server_takes_the_place_of_another(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    old, new = write(tmp_path, "old"), write(tmp_path, "new", 'algorithm = "none"')
    assert run(capfd, "launch", old)[0] == 0
    first = servers.records()[0]
    _, out, _ = run(capfd, "launch", new, "--like", "old", "--replace", "old", "--dry-run", "--json")
    assert "--max-running-requests" in json.loads(out)["command"]
    code, out, _ = run(capfd, "launch", new, "--replace", "old", "--json")
    assert (code, json.loads(out)["url"]) == (0, first.url)
    assert [record.name for record in servers.records()] == ["new"]
    assert not servers.alive(first)
    assert run(capfd, "launch", new, "--replace", "nobody")[0] == 2


# -- FC-84


def terminal(*words: str) -> pexpect.spawn:
    return pexpect.spawn(
        SPECTUI[0], [*SPECTUI[1:], *words], timeout=30, encoding="utf-8", cwd=Path(__file__).parents[2]
    )


def hang_up(shell: pexpect.spawn) -> None:
    """The terminal goes away; what ran in it ends."""
    shell.ptyproc.fileobj.close()
    os.waitpid(shell.pid, 0)
    shell.ptyproc.closed = shell.closed = True
    shell.ptyproc.terminated = shell.terminated = True


def test_a_launch_and_a_run_outlive_the_terminal(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    path = write(tmp_path, sim_startup=2.0, sim_speed=5)
    shell = terminal("launch", path)
    shell.expect(r"\d s  \w+")
    hang_up(shell)
    code, out, _ = run(capfd, "servers", "s", "--json")
    record = servers.records()[0]
    assert (code, json.loads(out)["servers"][0]["pid"]) == (0, record.pid)
    serving.wait_ready(record, poll_s=0.05)
    shell = terminal("run", "s", "--workload", "short", "--ignore-eos", "--max-tokens", "900")
    until(running.running)
    handle = running.running()[0]
    until(lambda: handle.journal.is_file() and b'"sample"' in handle.journal.read_bytes())
    hang_up(shell)
    assert [live.folder for live in running.running()] == [handle.folder]
    code, out, _ = run(capfd, "attach", "--list", "--json")
    assert code == 0
    assert handle.folder.name in out
    code, out, _ = run(capfd, "servers", "s", "--json")
    assert json.loads(out)["servers"][0]["managed"] is True
    running.stop(handle)
    assert running.result_of(handle.folder).status == "interrupted"
    assert run(capfd, "stop", "s")[0] == 0


def test_ctrl_c_leaves_the_server_and_says_how_to_end_it(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    shell = terminal("launch", write(tmp_path, sim_fail="hang"))
    try:
        shell.expect(r"\d s  graph capture")
        shell.sendintr()
        shell.expect("goes on starting .*spectui stop s")
        shell.expect(pexpect.EOF)
        shell.wait()
    finally:
        shell.close()
    assert shell.exitstatus == 130
    code, out, _ = run(capfd, "servers", "s", "--json")
    assert (code, json.loads(out)["servers"][0]["phase"]) == (0, "starting: graph capture")
    assert run(capfd, "stop", "s")[0] == 0
    assert servers.records() == []


def test_a_stale_record_never_touches_whoever_has_its_number_now(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    from dataclasses import replace

    from spectui.hosts import records

    assert run(capfd, "launch", write(tmp_path))[0] == 0
    record = servers.records()[0]
    assert run(capfd, "stop", "s")[0] == 0
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(300)"], start_new_session=True) as foreign:
        try:
            records.save(replace(record, pid=foreign.pid, pgid=foreign.pid, sid=foreign.pid))
            _, out, _ = run(capfd, "stop", "s", "--leftovers", "--json")
            assert json.loads(out)["text"] == "s was not running"
            assert foreign.poll() is None
        finally:
            foreign.kill()


# -- taking over


@pytest.fixture
def foreign(tmp_path: Path) -> Iterator[tuple[subprocess.Popen[bytes], str]]:
    """A server that somebody else's script started."""
    port = own_port()
    words = ["--model-path", "sim", "--port", str(port), "--sim-speed", "1000", "--sim-startup", "0.05"]
    words += ["--max-running-requests", "16", "--api-key", "s3cretkey"]
    env = {**os.environ, "MINE": "kept", "HF_TOKEN": "hf_abcdefghijklmnopqrstuvwxyz"}
    (tmp_path / "their folder").mkdir()
    command = [sys.executable, "-m", "spectui.engines.sim", *words]
    with subprocess.Popen(
        command, env=env, cwd=tmp_path / "their folder", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as process:
        try:
            until(lambda: not is_free(port))
            yield process, f"http://127.0.0.1:{port}"
        finally:
            for child in psutil.Process(process.pid).children() if process.poll() is None else []:
                child.kill()
            process.kill()


def test_a_foreign_server_is_relaunched_only_on_its_typed_url(
    tmp_path: Path,
    foreign: tuple[subprocess.Popen[bytes], str],
    capfd: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    process, url = foreign
    monkeypatch.setenv("THEIR_KEY", "s3cretkey")
    keyed = ("--key", "env:THEIR_KEY")
    ngram = write(tmp_path, "n", 'algorithm = "NGRAM"\nnum_draft_tokens = 8')
    code, _, err = run(capfd, "launch", ngram, "--adopt", url, "--json")
    assert code == 2
    assert "keys are not copied: give it again with --key env:NAME" in err
    code, out, err = run(capfd, "launch", ngram, "--adopt", url, *keyed, "--json")
    said = json.loads(out)
    assert (code, said["relaunched"]) == (0, False)
    changed = {row["flag"]: (row["before"], row["after"]) for row in said["changes"]}
    assert changed["--speculative-algorithm"] == (None, "NGRAM")
    assert "--max-running-requests" not in changed
    assert any("HF_TOKEN" in text for text in said["missing"])
    code, _, err = run(capfd, "launch", ngram, "--adopt", url, *keyed, "--yes-relaunch", "http://127.0.0.1:1")
    assert code == 2
    assert f"type {url} to confirm" in err
    assert process.poll() is None
    code, out, err = run(capfd, "launch", ngram, "--adopt", url, *keyed, "--yes-relaunch", url, "--json")
    assert (code, json.loads(out)["ready"], json.loads(out)["url"]) == (0, True, url)
    assert process.wait(20) != 0
    record = servers.records()[0]
    there = psutil.Process(record.pid)
    assert there.cwd() == str(tmp_path / "their folder")
    assert there.environ()["MINE"] == "kept"
    assert "HF_TOKEN" not in there.environ()
    words = there.cmdline()
    assert words[words.index("--max-running-requests") + 1] == "16"
    assert words[words.index("--api-key") + 1] == "s3cretkey"
    kept = "".join(path.read_text() for path in (tmp_path / "home").rglob("*") if path.suffix in (".toml", ".json"))
    assert "s3cretkey" not in kept
    assert "hf_abcdef" not in kept
    # From now on it is one of ours.
    assert serving.profile_of(record) is not None
    with pytest.raises(SessionError, match="was started by spectui as adopted-"):
        adopting.propose(url, key="env:THEIR_KEY")
    assert run(capfd, "stop", record.name)[0] == 0


def test_what_restarts_itself_is_not_relaunched(tmp_path: Path) -> None:
    port = own_port()
    words = f"--model-path sim --port {port} --sim-startup 0.05 --sim-speed 1000"
    loop = f"while true; do {sys.executable} -m spectui.engines.sim {words}; done"
    with subprocess.Popen(
        ["bash", "-c", loop], start_new_session=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    ) as shell:
        try:
            until(lambda: not is_free(port))
            with pytest.raises(SessionError, match=r"a shell loop .* may start it again"):
                adopting.propose(f"127.0.0.1:{port}")
            with pytest.raises(SessionError, match=r"no SGLang server of this node is at http://127\.0\.0\.1:1"):
                adopting.propose("127.0.0.1:1")
        finally:
            os.killpg(shell.pid, signal.SIGKILL)
    until(lambda: is_free(port))


# -- hot changes


def test_thresholds_are_read_back_and_corpora_come_and_go(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert run(capfd, "launch", write(tmp_path))[0] == 0
    code, out, err = run(capfd, "hot", "s", "--threshold-single", "0.9", "--json")
    said = json.loads(out)
    assert (code, said["applied"], said["lossy"], said["in_force"]["accept_threshold_single"]) == (0, True, True, 0.9)
    code, out, err = run(capfd, "hot", "s")
    assert "accept_threshold_single 0.9  LOSSY" in out
    assert "LOSSY" in err
    assert run(capfd, "hot", "s", "--threshold-acc", "1.5")[0] == 2
    answers = tmp_path / "home" / "data" / "runs" / "r1"
    answers.mkdir(parents=True)
    (answers / "journal.jsonl").write_text("")
    (answers / "answers.jsonl").write_text(
        "".join(json.dumps({"arm": "A", "text": f"answer {i}"}) + "\n" for i in range(9))
    )
    code, out, err = run(capfd, "hot", "s", "--add-corpus", "r1", "--last", "3", "--id", "mine")
    assert code == 0
    assert "corpus mine loaded: 3 answers" in out
    assert "SAM budget is 0, so an external corpus has no effect" in err
    code, out, _ = run(capfd, "hot", "s", "--json")
    assert list(json.loads(out)["corpora"]) == ["mine"]
    assert run(capfd, "hot", "s", "--remove-corpus", "other")[0] == 2
    assert run(capfd, "hot", "s", "--remove-corpus", "mine")[0] == 0
    assert json.loads(run(capfd, "hot", "s", "--json")[1])["corpora"] == {}
    assert run(capfd, "hot", "http://127.0.0.1:1")[0] == 3


@pytest.mark.parametrize("version", ["0.4.9", "0.5.12"])
def test_thresholds_of_releases_whose_answer_proves_nothing(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], version: str
) -> None:
    path = write(tmp_path, speculative=EAGLE3, sglang_version=version)
    assert run(capfd, "launch", path)[0] == 0
    code, out, _ = run(capfd, "hot", "s", "--threshold-acc", "0.5", "--json")
    assert (code, json.loads(out)["applied"]) == (0, True)
    if version == "0.4.9":
        assert run(capfd, "hot", "s", "--add-corpus", "r1")[0] == 2


# -- servers that one command starts for itself


def test_a_baseline_beside_a_speculative_server_gets_its_limits_and_both_end(tmp_path: Path) -> None:
    from spectui.session import starting
    from spectui.session.arms import Target

    fast = write(tmp_path, "fast", 'algorithm = "NGRAM"', max_running_requests=24)
    plain = write(tmp_path, "plain", 'algorithm = "none"')
    said: list[str] = []
    targets = [Target("plain", profile=Path(plain)), Target("fast", profile=Path(fast))]
    with starting.started(targets, said.append) as live:
        assert signal.getsignal(signal.SIGHUP) is signal.SIG_IGN  # a line that drops leaves no server behind
        assert [own for _, own in live] == [True, True]
        records = {record.name: record for record in servers.records()}
        assert set(records) == {"plain-A", "fast-B"}
        argv = records["plain-A"].argv
        assert argv[argv.index("--max-running-requests") + 1] == "24"
        assert len({records[name].port for name in records}) == 2
        assert len({records[name].nccl_port for name in records}) == 2
        assert live[0][0] is not None
        assert live[0][0].url == records["plain-A"].url
    assert servers.records() == []
    assert any("given the limits of fast: max_running_requests 24" in text for text in said)


def test_when_one_of_two_fails_the_other_is_ended_too(tmp_path: Path) -> None:
    from spectui.session import starting
    from spectui.session.arms import Target

    good = write(tmp_path, "good")
    bad = write(tmp_path, "bad", speculative=EAGLE3, sim_fail="draft")
    targets = [Target("good", profile=Path(good)), Target("bad", profile=Path(bad))]
    with pytest.raises(SessionError, match="bad-B failed, draft path"), starting.started(targets):
        raise AssertionError("it is not ready")
    assert servers.records() == []


def test_plan_of_two_profiles(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    eagle = write(tmp_path, "a", speculative=EAGLE3)
    other = write(tmp_path, "b", speculative=EAGLE3 + "\naccept_threshold_acc = 0.9", page_size=16)
    code, out, _ = run(capfd, "plan", eagle, other, "--json")
    said = json.loads(out)
    assert code == 0
    how = {change["key"]: change["how"] for change in said["changes"]}
    assert how == {"accept_threshold_acc": "hot", "page_size": "relaunch"}
    assert {d["key"]: d["kind"] for d in said["differences"]} == {"accept_threshold_acc": "tested"}
    assert said["plans"][0]["draft"]["notes"] == [
        "draft and target not checked against each other: neither config.json could be read"
    ]
    code, out, _ = run(capfd, "plan", eagle, other)
    assert "hot while it runs: " in out
    assert "0.9  hot" in out.replace("   ", "  ")
    assert "relaunch  one leaves it to the server: may be unequal" in out
