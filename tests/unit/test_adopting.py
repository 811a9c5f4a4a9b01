"""Taking over a foreign server: what of its command stays, what is refused, and what is never carried along."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest

from spectui.core.redact import HIDDEN
from spectui.hosts import discover, templates, traffic
from spectui.hosts.discover import FoundServer
from spectui.hosts.records import ServerRecord
from spectui.hosts.sockets import Sockets
from spectui.hosts.supervision import Supervision
from spectui.hosts.templates import Template
from spectui.session import SessionError, adopting

ARGV = (
    *("python3", "-u", "-m", "sglang.launch_server", "--model-path", "org/m", "--port", "30007", "--tp-size", "2"),
    *("--speculative-algorithm", "EAGLE", "--speculative-num-steps=3", "--speculative-eagle-topk", "1"),
    *("--speculative-num-draft-tokens", "4", "--speculative-draft-model-path", "org/d", "--cuda-graph-bs", "1", "2"),
)


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))


def found(**changes: Any) -> FoundServer:
    own = psutil.Process()
    made = FoundServer(
        own.pid, "127.0.0.1", 30007, ARGV, {}, own.username(), own.create_time(), str(Path.cwd()), (own.pid,), True
    )
    return replace(made, **changes)


@pytest.fixture
def there(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """A server of this node as discovery would find it, and what its process would tell."""
    told: dict[str, Any] = {
        "found": found(),
        "template": Template(ARGV, {"PATH": os.environ["PATH"], "A": "b", "SHLVL": "1"}, str(Path.cwd())),
        "traffic": traffic.Traffic(2, 1, version="0.5.15"),
    }
    monkeypatch.setattr(discover, "find", lambda: [told["found"]])
    monkeypatch.setattr(templates, "template_of", lambda _server: told["template"])
    monkeypatch.setattr(traffic, "look", lambda _url, **_more: told["traffic"])
    return told


def test_everything_but_the_speculation_stays(there: dict[str, Any]) -> None:
    made = adopting.propose("127.0.0.1:30007", algorithm="NGRAM", knobs={"num_draft_tokens": 8})
    words = " ".join(made.launch.argv)
    assert words.startswith("python3 -u -m sglang.launch_server --model-path org/m --host 127.0.0.1 --port 30007")
    assert "--tp-size 2 --cuda-graph-bs 1 2" in words
    assert words.endswith("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8")
    assert "org/d" not in made.launch.argv
    changed = {change.flag: (change.before, change.after) for change in made.changes}
    assert changed["--speculative-algorithm"] == ("EAGLE", "NGRAM")
    assert changed["--speculative-num-steps"] == ("3", None)
    assert changed["--speculative-num-draft-tokens"] == ("4", "8")
    assert "--tp-size" not in changed
    assert any(line == "OTHERS ARE USING IT: 2 running, 1 waiting. Their requests end with it" for line in made.lines)
    assert made.launch.inherit is False
    assert made.launch.env == there["template"].env
    assert dict(made.profile.server.env) == {"A": "b"}


def test_without_an_algorithm_its_settings_are_read_from_its_command(there: dict[str, Any]) -> None:
    made = adopting.propose("http://127.0.0.1:30007")
    assert made.profile.speculative.algorithm == "EAGLE"
    assert made.profile.speculative.knobs == {
        "draft_model_path": "org/d",
        "num_steps": 3,
        "eagle_topk": 1,
        "num_draft_tokens": 4,
    }
    assert {change.flag for change in made.changes} == {"--host", "--nccl-port", "--incremental-streaming-output"}


@pytest.mark.parametrize(
    ("change", "says"),
    [
        ({"supervised": Supervision("systemd", "x.service", "systemd unit x.service may start it again")}, "x.service"),
        ({"record": ServerRecord("mine", "i", 1, 1.0, "h", 1, (), "/l")}, "was started by spectui as mine"),
    ],
    ids=["supervised", "ours"],
)
def test_what_is_refused(there: dict[str, Any], change: dict[str, Any], says: str) -> None:
    there["found"] = replace(there["found"], **change)
    with pytest.raises(SessionError, match=says):
        adopting.propose("127.0.0.1:30007")


def test_another_users_server_is_refused_by_number(there: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    from spectui.hosts import processes

    monkeypatch.setattr(processes, "uid_of", lambda _pid: os.getuid() + 1)
    there["found"] = replace(there["found"], user="ann")
    with pytest.raises(SessionError, match="belongs to user ann: only they can relaunch it"):
        adopting.propose("127.0.0.1:30007")


def test_a_server_with_a_key_is_not_relaunched_without_one(
    there: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    argv = (*ARGV, "--api-key", HIDDEN)
    there["template"] = replace(there["template"], argv=argv)
    with pytest.raises(SessionError, match="give it again with --key env:NAME"):
        adopting.propose("127.0.0.1:30007")
    monkeypatch.setenv("K", "secret")
    made = adopting.propose("127.0.0.1:30007", key="env:K")
    assert made.launch.argv[made.launch.argv.index("--api-key") + 1] == "env:K"
    assert "--api-key" not in {change.flag for change in made.changes}
    there["template"] = replace(there["template"], argv=(*ARGV, "--storage-token", HIDDEN))
    with pytest.raises(SessionError, match="holds a key that is not copied"):
        adopting.propose("127.0.0.1:30007")


def test_another_text_touches_nothing(there: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    made = adopting.propose("127.0.0.1:30007")

    def never(*_a: object, **_k: object) -> None:
        raise AssertionError("it was stopped")

    monkeypatch.setattr("spectui.hosts.stop.stop", never)
    for typed in ("", "yes", "http://127.0.0.1:30008", "y"):
        with pytest.raises(SessionError, match=r"type http://127\.0\.0\.1:30007 to confirm"):
            adopting.relaunch(made, typed)
    there["found"] = replace(there["found"], start_time=1.0)
    with pytest.raises(SessionError, match="another server is at"):
        adopting.relaunch(made, "http://127.0.0.1:30007")


def test_what_could_not_start_again_is_not_stopped(there: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> None:
    there["template"] = replace(there["template"], argv=("/no/such/python", *ARGV[1:]))
    made = adopting.propose("127.0.0.1:30007")
    monkeypatch.setattr("spectui.hosts.stop.stop", lambda *_a, **_k: pytest.fail("it was stopped"))
    with pytest.raises(SessionError, match=r"no such program.*was not touched"):
        adopting.relaunch(made, made.url)


def test_a_url_of_another_node_is_not_looked_for_here(there: dict[str, Any]) -> None:
    with pytest.raises(SessionError, match="node7 is not this node"):
        adopting.propose("http://node7:30007")


def test_only_a_socket_of_the_processes_themselves_counts_as_theirs() -> None:
    import socket

    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        port = listener.getsockname()[1]
        assert Sockets().listens([os.getpid()], port) is False
        listener.listen()
        assert Sockets().listens([os.getpid()], port) is True
        assert Sockets().listens([os.getppid()], port) is not True


def test_traffic_in_words() -> None:
    assert traffic.Traffic(0, 0).text == "idle"
    assert traffic.Traffic(2, 0).text == "2 running"
    assert traffic.Traffic(None, None, "metrics are off").text == "requests not known (metrics are off)"
    assert traffic.Traffic().busy is None
    told = traffic.look_all(["http://127.0.0.1:1"])
    assert told["http://127.0.0.1:1"].why == "it does not answer"
