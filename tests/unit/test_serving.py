"""What is known of a launch before anything starts: refusals, draft, limits, ports, GPUs, version and flags."""

from __future__ import annotations

import json
import os
import re
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from own_ports import own_port

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.hosts import interpreter, records, servers
from spectui.hosts.records import ServerRecord
from spectui.session import SessionError, arms, preflight, serving, starting
from spectui.session.arms import Target


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def profile(algorithm: str = "none", knobs: dict[str, Any] | None = None, name: str = "p", **server: Any) -> Profile:
    server.setdefault("port", own_port())
    server.setdefault("model_path", "org/target")
    return Profile(name, server=ServerPart(**server), speculative=SpeculativePart(algorithm, knobs or {}))


EAGLE3 = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}


@pytest.mark.parametrize(
    ("algorithm", "knobs", "args", "version", "says"),
    [
        ("EAGLE3", EAGLE3, {}, "0.5.15", "draft_model_path"),  # FC-04
        ("STANDALONE", EAGLE3, {}, "0.5.15", "draft_model_path"),
        (
            "DFLASH",
            {"draft_model_path": "/d", "dflash.block_size": 16, "num_draft_tokens": 8},
            {},
            "0.5.15",
            "16",
        ),  # FC-09
        ("DFLASH", {"draft_model_path": "/d"}, {}, "0.5.10", "not in this release"),
        ("NGRAM", {}, {"page_size": 16, "attention_backend": "fa3"}, "0.5.15", "page"),  # FC-11
        ("NGRAM", {}, {}, "0.4.9", "not in this release"),
    ],
)
def test_what_the_server_would_refuse_is_refused_before_it_starts(
    algorithm: str, knobs: dict[str, Any], args: dict[str, Any], version: str, says: str
) -> None:
    with pytest.raises(SessionError, match="would not start") as caught:
        serving.prepare(profile(algorithm, knobs, args=args), version=version)
    assert says in str(caught.value)
    assert servers.records() == []


def model(folder: Path, *, vocabulary: str = "a", **config: Any) -> str:
    folder.mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"vocab_size": 1000, "hidden_size": 64, **config}))
    (folder / "tokenizer.json").write_text(json.dumps({"model": {"vocab": {vocabulary: 0}}}))
    (folder / "model.safetensors").write_bytes(b"0" * 2048)
    return str(folder)


# FC-03
def test_draft_and_target_are_held_against_each_other_before_the_launch(tmp_path: Path) -> None:
    target, good = model(tmp_path / "t"), model(tmp_path / "good")
    other = model(tmp_path / "other", vocabulary="b")
    knobs = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}

    def with_draft(path: str, algorithm: str = "STANDALONE") -> Profile:
        return profile(algorithm, {**knobs, "draft_model_path": path}, model_path=target)

    with pytest.raises(SessionError, match=r"different tokenizers \(target 1000, draft 1000"):
        serving.prepare(with_draft(other), version="0.5.15")
    notes = serving.prepare(with_draft(good), version="0.5.15").notes
    assert not any("not checked" in note for note in notes)
    assert any(note.startswith("weights: target 0.0 GiB, draft 0.0 GiB") for note in notes)
    unread = serving.prepare(with_draft("org/draft"), version="0.5.15").notes
    assert any("not checked" in note and "draft could not be read" in note for note in unread)
    small = model(tmp_path / "small", hidden_size=32)
    with pytest.raises(SessionError, match="hidden size 64 and 32"):
        serving.prepare(with_draft(small, "EAGLE3"), version="0.5.15")


# FC-18
def test_forced_acceptance_is_named_before_the_launch(monkeypatch: pytest.MonkeyPatch) -> None:
    own = profile(env={"SGLANG_SIMULATE_ACC_LEN": "3.5"})
    assert any("SIMULATED acceptance" in note for note in serving.prepare(own, version="0.5.15").notes)
    off = profile(env={"SGLANG_SIMULATE_ACC_LEN": "0"})
    assert not any("SIMULATED" in note for note in serving.prepare(off, version="0.5.15").notes)
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "2")  # left over in the operator's own shell
    assert any("SIMULATED acceptance" in note for note in serving.prepare(profile(), version="0.5.15").notes)


# FC-10
def test_a_baseline_gets_the_limits_of_the_speculative_side() -> None:
    fast = profile("NGRAM", name="fast", args={"mem_fraction_static": 0.8, "cuda_graph_max_bs": 32})
    made = serving.prepare(profile(), version="0.5.15", like=fast)
    words = " ".join(made.launch.argv)
    assert "--max-running-requests 48 --mem-fraction-static 0.8 --cuda-graph-max-bs-decode 32" in words
    assert words.count("--cuda-graph-max-bs-decode") == 1
    assert any("given the limits of fast: max_running_requests 48" in note for note in made.notes)
    own = serving.prepare(profile(args={"max_running_requests": 2048}), version="0.5.15", like=fast)
    assert "--max-running-requests 2048" in " ".join(own.launch.argv)
    assert any("max_running_requests is 2048 here and 48 on fast" in note for note in own.notes)
    plain = serving.prepare(profile(name="plain"), version="0.5.15", like=profile(name="x"))
    assert "--max-running-requests" not in plain.launch.argv


def test_limits_of_a_running_server_leave_lists_and_other_arguments_out() -> None:
    told = {"max_running_requests": 16, "cuda_graph_bs": [1, 2], "dtype": "auto", "cuda_graph_max_bs": 8}
    told["cuda_graph_max_bs_decode"] = 8
    assert preflight.limits_of(profile(), told, "B").args == {"max_running_requests": 16, "cuda_graph_max_bs": 8}


# FC-80
def test_all_ports_of_two_servers_are_planned_before_the_first_starts() -> None:
    args = {"enable_dp_attention": True, "dp_size": 4}
    first = own_port()
    asks = [starting._Ask(Target(n), profile(name=n, args=args, port=first + i), n) for i, n in enumerate(("a", "b"))]
    with pytest.raises(SessionError, match=r"overlap.*Free instead: a: port \d+, block"):
        starting._place(asks)
    same = [starting._Ask(Target(n), profile(name=n, port=first), n) for n in ("a", "b")]
    one, two = starting._place(same)
    assert one != two


def test_ports_that_will_be_free_by_then_are_no_obstacle(monkeypatch: pytest.MonkeyPatch) -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        with pytest.raises(SessionError, match=f"port {port} is taken"):
            serving.prepare(profile(port=port), version="0.5.15")
        assert serving.prepare(profile(port=port), version="0.5.15", freed=(port,)).launch.port == port


def test_ports_behind_ssh_are_not_looked_up_here() -> None:
    import socket

    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        there = profile(port=port, command="ssh -tt {host} {python} -m sglang.launch_server", host="node7")
        made = serving.prepare(there, version="0.5.15")
    assert made.launch.argv[:3] == ("ssh", "-tt", "node7")
    assert made.launch.port == port


def test_servers_of_two_nodes_have_ports_and_gpus_of_their_own() -> None:
    ssh: dict[str, Any] = {"command": "ssh -tt {host} {python} -m sglang.launch_server", "gpus": (0,), "port": 31999}
    here: dict[str, Any] = {"gpus": (0,), "port": 31999}
    for a, b, apart in (
        (ssh | {"host": "node7"}, ssh | {"host": "node8"}, True),
        (ssh | {"host": "node7"}, here, True),
        (ssh | {"host": "node7"}, ssh | {"host": "node7"}, False),
    ):
        asks = [starting._Ask(Target(n), profile(name=n, **own), n) for n, own in (("a", a), ("b", b))]
        one, two = starting._place(asks)
        assert (one == two) is apart
        if apart:
            assert starting._together(asks)
        else:
            with pytest.raises(SessionError, match="both use GPU 0"):
                starting._together(asks)


@pytest.mark.parametrize(
    ("a", "b", "says"),
    [
        ({"gpus": (0,)}, {"gpus": (1,)}, None),
        ({"gpus": (0, 1)}, {"gpus": (1, 2)}, "both use GPU 1"),
        ({}, {}, "both use GPU 0"),
        ({"args": {"tp_size": 2}}, {"args": {"base_gpu_id": 2}}, None),
        ({"args": {"tp_size": 4}}, {"gpus": (3,)}, "both use GPU 3"),
        ({"args": {"mem_fraction_static": 0.3}}, {"args": {"mem_fraction_static": 0.3}}, None),
        ({"args": {"mem_fraction_static": 0.6}}, {"args": {"mem_fraction_static": 0.6}}, "add up to 1.20"),
    ],
)
def test_two_servers_share_a_gpu_only_where_both_fit(a: dict[str, Any], b: dict[str, Any], says: str | None) -> None:
    why = preflight.share_gpus(profile(**a), profile(**b))
    assert (why is None) if says is None else (why is not None and says in why)


# -- the interpreter

FAKE = """#!{python}
import sys
if "-c" in sys.argv:
    print("0.5.12.post1")
elif "--help" in sys.argv:
    open({seen!r}, "a").write("x")
    print("usage: x [--model-path M] [--port P] [--host H] [--nccl-port N] [--speculative-algorithm A]")
    print("  --enable-metrics  one")
"""


@pytest.fixture
def fake(tmp_path: Path) -> Path:
    place = tmp_path / "bin" / "python3"
    place.parent.mkdir()
    place.write_text(FAKE.format(python=sys.executable, seen=str(tmp_path / "seen")))
    place.chmod(0o755)
    return place


def test_the_interpreter_is_asked_for_its_version(fake: Path) -> None:
    here = profile("DSPARK", {"draft_model_path": "/d"}, command=(str(fake), "-m", "sglang.launch_server"))
    assert serving.version_of(here) == "0.5.12.post1"
    with pytest.raises(SessionError, match=r"not in this release, SGLang 0\.5\.12"):
        serving.prepare(here)
    assert serving.version_of(profile(command="ssh node python3 -m x")) is None
    assert serving.version_of(profile(command="/no/such/python3 -m x")) is None
    assert serving.version_of(profile(command="{python} -m spectui sim", args={"sglang_version": "0.5.5"})) == "0.5.5"


def test_help_is_asked_once_and_what_it_does_not_list_is_not_passed(fake: Path, tmp_path: Path) -> None:
    there = profile(command=(str(fake), "-m", "sglang.launch_server"), args={"enable_metrics": True, "page_size": 1})
    first = serving.prepare(there)
    assert first.left_out == ()
    thread = interpreter.ask_in_background(first.head, first.version, dict(os.environ))
    thread.join(20)
    serving.ask_help(first)  # known by now: nothing is started
    assert (tmp_path / "seen").read_text() == "x"
    second = serving.prepare(there)
    assert "--enable-metrics" in second.launch.argv
    assert "--page-size" not in second.launch.argv
    assert ("page_size", "--page-size is not listed by this server's --help") in second.left_out
    assert "--page-size" in serving.prepare(there, all_flags=True).launch.argv
    assert interpreter.listed(first.head, "0.5.23") is None, "another version is asked anew"


def test_what_is_no_help_of_sglang_is_not_believed(fake: Path) -> None:
    head = [str(fake), "-m", "sglang.launch_server"]
    assert interpreter.ask(head, None, dict(os.environ)) is not None
    fake.write_text(f"#!{sys.executable}\nprint('--help')\n")
    assert interpreter.ask(head, None, dict(os.environ)) is None
    fake.write_text(f"#!{sys.executable}\nimport time; time.sleep(60)\n")
    assert interpreter.ask(head, None, dict(os.environ), timeout_s=0.2) is None


@pytest.mark.parametrize(
    ("head", "asked"),
    [
        ("python3 -m sglang.launch_server", True),
        ("numactl -N 0 python3 -m sglang.launch_server", True),
        ("sglang serve", True),
        ("./start.sh", False),
        ("bash start.sh", False),
        ("python3 wrapper.py", False),
        ("ssh node python3 -m sglang.launch_server", False),
        ("docker run image python3 -m sglang.launch_server", False),
    ],
)
def test_only_sglang_itself_is_asked_for_its_help(head: str, asked: bool) -> None:
    assert interpreter.runs_sglang(head.split()) is asked
    assert interpreter.runs_sglang(["bash", "-c", f"exec {head}"]) is False


def test_the_python_of_a_script_is_found_by_its_first_line(tmp_path: Path) -> None:
    script = tmp_path / "sglang"
    script.write_text("#!/venv/bin/python3\n")
    script.chmod(0o755)
    env = {"PATH": str(tmp_path)}
    assert interpreter.interpreter_of(["sglang", "serve"], env) == "/venv/bin/python3"
    script.write_text("#!/usr/bin/env python3\n")
    assert interpreter.interpreter_of(["sglang", "serve"], env) is None
    assert interpreter.interpreter_of(["docker", "run", "python3"], env) is None


# FC-78, FC-79


def dead(tmp_path: Path, **changes: Any) -> ServerRecord:
    log = tmp_path / "old.log"
    log.write_text("x")
    made = ServerRecord("p", "mark", 1 << 22, 1.0, "127.0.0.1", 1, ("x",), str(log), memory_before={"GPU-1": 0})
    made = replace(made, **changes)
    records.save(made)
    return made


def test_a_relaunch_waits_for_the_memory_of_the_one_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spectui.hosts import memory

    said: list[str] = []
    held = memory.MemoryWait(False, "GPU memory is still held after 60 s", ("GPU 0: train (pid 7, 30.0 GiB)",), 60.0)
    monkeypatch.setattr(memory, "wait", lambda *_a, **_k: held)
    dead(tmp_path)
    made = serving.prepare(profile(), version="0.5.15")
    with pytest.raises(SessionError, match=r"still held after 60 s\. GPU 0: train \(pid 7"):
        serving.launch(made, said.append)
    os.utime(tmp_path / "old.log", (1, 1))  # ended long ago: nothing to wait for
    with pytest.raises(SessionError, match="no such program"):
        serving.launch(replace(made, launch=replace(made.launch, argv=("/no/such/python",))))


def test_what_the_last_one_left_behind_must_go_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from spectui.hosts.processes import ProcessRow

    row = ProcessRow(77, 1, 1, 1, os.getuid(), 2.0, "sglang::scheduler")
    monkeypatch.setattr(serving, "leftovers", lambda _record: [row])
    dead(tmp_path)
    with pytest.raises(SessionError, match=r"sglang::scheduler \(77\).*spectui stop p --leftovers"):
        serving.launch(serving.prepare(profile(), version="0.5.15"))


def test_nothing_is_stopped_for_a_launch_that_cannot_be() -> None:
    made = serving.prepare(profile(), version="0.5.15")
    for wrong, says in (
        ({"argv": ("/no/such/python",)}, "no such program"),
        ({"cwd": "/no/such/folder"}, "does not exist"),
        ({"argv": ("python3", "--api-key", "env:SPECTUI_TEST_ABSENT")}, "SPECTUI_TEST_ABSENT is not set"),
    ):
        with pytest.raises(SessionError, match=rf"{says}.*old was not touched"):
            serving.relaunch(replace(made, launch=replace(made.launch, **wrong)), "old")


# -- what is meant by a name


@pytest.mark.parametrize(
    ("text", "url"),
    [
        ("127.0.0.1:30000", "http://127.0.0.1:30000"),
        ("http://0.0.0.0:30000/v1/", "http://127.0.0.1:30000"),
        ("https://h/prefix/", "https://h/prefix"),
        ("http://me:hunter2@h:1/?key=s", "http://h:1"),
    ],
)
def test_an_address_is_dialled_as_everywhere_and_keeps_no_password(text: str, url: str) -> None:
    target = arms.resolve(text)
    assert target.url == url
    assert "hunter2" not in target.name


def test_what_is_no_name_of_anything() -> None:
    for text in ("http://h:99999", "ftp://h", "http://me:hunter2@:1"):
        with pytest.raises(SessionError, match="not a URL") as caught:
            arms.resolve(text)
        assert "hunter2" not in str(caught.value)
    with pytest.raises(SessionError, match="neither a URL nor"):
        arms.resolve("no-such-thing")
    with pytest.raises(SessionError, match="SPECTUI_TEST_ABSENT"):
        arms.arm_spec("A", arms.resolve("h:1"), key="env:SPECTUI_TEST_ABSENT")


# -- what a profile names of this disk


@pytest.mark.parametrize(
    ("server", "says"),
    [
        ({"model_path": "/no/such/model"}, "model_path /no/such/model is not there"),
        ({"model_path": "~/model"}, "begins with ~, which nothing expands"),
        ({"model_path": "."}, r"model_path \. holds no config\.json"),
        ({"model_path": "a/b/c"}, "model_path a/b/c is not there"),
        ({"model_path": None}, "no model is named: set model_path"),
        ({"command": "docker run -d image python3 -m sglang.launch_server"}, "docker run -d returns at once"),
        ({"command": ["bash", "-c", "python3 -m sglang.launch_server"]}, r"would lose all arguments: write \{args\}"),
    ],
)
def test_a_launch_without_its_model_or_its_arguments_is_refused(server: dict[str, Any], says: str) -> None:
    wrong = profile(**server)
    with pytest.raises(SessionError, match=says):
        serving.prepare(wrong, version="0.5.15")
    assert any(re.search(says, error) for error in serving.foresee(wrong, "0.5.15").errors)


def test_what_cannot_be_seen_from_here_is_a_note(tmp_path: Path) -> None:
    (tmp_path / "model").mkdir()
    (tmp_path / "model" / "config.json").write_text("{}")
    cases: tuple[tuple[dict[str, Any], str], ...] = (
        ({"model_path": "org/name"}, "org/name is no folder here and not in the hub's cache"),
        ({"model_path": "/far", "command": "ssh -tt n {python} -m sglang.launch_server"}, "it is read behind ssh"),
        ({"model_path": "/in", "command": "apptainer exec i python3 -m sglang.launch_server"}, "unless apptainer"),
        ({"model_path": "/in", "command": "./start.sh"}, "unless ./start.sh brings it"),
    )
    for server, says in cases:
        assert any(says in note for note in serving.prepare(profile(**server), version="0.5.15").notes)
    there = serving.prepare(profile(model_path="model", cwd=str(tmp_path)), version="0.5.15")
    assert not any("model_path" in note for note in there.notes)
    draft = profile("EAGLE3", {**EAGLE3, "draft_model_path": "/no/draft"}, model_path=str(tmp_path / "model"))
    with pytest.raises(SessionError, match="draft_model_path /no/draft is not there"):
        serving.prepare(draft, version="0.5.15")


def test_draft_and_target_of_the_hub_are_checked_where_its_cache_has_them(tmp_path: Path) -> None:
    for name, size in (("org/target", 32000), ("org/draft", 128256)):
        folder = tmp_path / "hub" / f"models--{name.replace('/', '--')}"
        (folder / "snapshots" / "0123abc").mkdir(parents=True)
        (folder / "refs").mkdir()
        (folder / "refs" / "main").write_text("0123abc")
        (folder / "snapshots" / "0123abc" / "config.json").write_text(json.dumps({"vocab_size": size}))
    knobs = {**EAGLE3, "draft_model_path": "org/draft"}
    with pytest.raises(SessionError, match=r"(?s)32000.*128256|128256.*32000"):
        serving.prepare(profile("STANDALONE", knobs, env={"HF_HOME": str(tmp_path)}), version="0.5.15")
    there = serving.prepare(profile("STANDALONE", knobs), version="0.5.15")
    assert any("not checked" in note for note in there.notes)


def test_a_check_tells_what_launch_and_run_would_refuse(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    from spectui.cli import run_command_line

    path = tmp_path / "p.toml"
    path.write_text(
        'name = "p"\n[server]\ncommand = "/no/python -m sglang.launch_server {args}"\nmodel_path = "/no/model"\n'
        'cwd = "/"\n[server.env]\nHF_TOKEN = "env:SPECTUI_TEST_ABSENT"\n[workload]\nname = "shrot"\n'
    )
    assert run_command_line(["profiles", "check", str(path), "--json"]) == 1
    errors = json.loads(capfd.readouterr().out)["errors"]
    assert [error[:30] for error in errors] == [
        "workload.name: there is no wor",
        "the environment variable SPECT",
        "model_path /no/model is not th",
    ]
    assert "did you mean short?" in errors[0]
    path.write_text(path.read_text().replace("[server.env]", "").replace("HF_TOKEN =", "#"))
    assert run_command_line(["profiles", "check", str(path)]) == 1
    assert "error: /no/python: no such program" in capfd.readouterr().out
    path.write_text('name = "p"\n[server]\ncommand = "bash -c {nothing}"\n')
    assert run_command_line(["profiles", "check", str(path)]) != 0
    path.write_text('name = "p"\n[server]\ncommand = "{python} -m spectui sim {args}"\n[workload]\nname = "short"\n')
    assert run_command_line(["profiles", "check", str(path)]) == 0
