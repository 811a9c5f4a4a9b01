"""The session's part of the check: what is reachable, how much is measured, what is remembered."""

from __future__ import annotations

import json
import socket
from pathlib import Path
from typing import Any

import pytest
from answering_server import AnsweringServer

from spectui.checks import Finding, Probe, Subject
from spectui.core.spec import ArmSpec, Prompt, RunSpec, WorkloadRef
from spectui.session import SessionError, check_run, checking
from spectui.session.check_run import CheckOptions, Target


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def spec(max_tokens: int = 200) -> RunSpec:
    prompts = tuple(Prompt(f"p{i}", "g", text="t") for i in range(40))
    return RunSpec("r", "/r", (ArmSpec("A", "u"),), WorkloadRef("mixed", "h"), (), prompts, max_tokens=max_tokens)


def entry(speed: float) -> dict[str, Any]:
    return {"result": [{"pass": "warm", "concurrency": 2, "output_tokens_per_s": [speed, speed, speed]}]}


@pytest.mark.parametrize(("speed", "size"), [(1000.0, (8, 200)), (40.0, (5, 200)), (20.0, (4, 125)), (2.0, (4, 48))])
def test_as_much_is_measured_as_time_allows(speed: float, size: tuple[int, int]) -> None:
    assert check_run._size(CheckOptions(), entry(speed), spec()) == size


@pytest.mark.parametrize(
    ("speed", "stored", "count"), [(1000.0, 16, 16), (1000.0, 40, 8), (100.0, 16, 8), (1000.0, 6, 8)]
)
def test_a_quick_server_is_asked_all_that_its_evidence_was_asked(speed: float, stored: int, count: int) -> None:
    kept = entry(speed)
    kept["result"][0]["requests"] = stored
    assert check_run._size(CheckOptions(), kept, spec())[0] == count


def test_without_a_known_speed_answers_are_kept_short() -> None:
    assert check_run._size(CheckOptions(), None, spec(900)) == (8, 160)
    assert check_run._size(CheckOptions(requests=3), entry(2.0), spec()) == (3, 200)


def test_it_is_held_against_the_lowest_concurrency_that_is_stored() -> None:
    assert check_run._concurrency(entry(1.0)) == 2
    assert check_run._concurrency(None) == 1


@pytest.mark.parametrize("run", [None, 3, "", "../else", "gone"])
def test_a_stored_run_that_is_not_there(run: object) -> None:
    assert check_run._stored_run({"run": run}) is None


def test_nothing_listens() -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: the port cannot be another's meanwhile
        checked = checking.check(Target("it", f"http://127.0.0.1:{held.getsockname()[1]}"))
    assert (checked.exit_code, checked.ok, checked.reachable) == (3, False, False)
    assert checking.last_checks()["it"]["reachable"] is False


def test_a_stranger_and_a_server_that_starts_are_not_reachable() -> None:
    with AnsweringServer({"/": (200, "hello")}) as stranger:
        assert checking.check(Target("it", stranger.url)).exit_code == 3
    starting = {"/health": (503, ""), "/generate": (503, "")}
    with AnsweringServer(starting) as server:
        checked = checking.check(Target("it", server.url))
    assert checked.exit_code == 3
    assert "still starting" in checked.notes[0]


def test_waiting_ends_at_its_limit() -> None:
    with AnsweringServer({"/generate": (503, "")}) as server:
        assert checking.wait_until_ready(Target("it", server.url), 0.0) is False
    made = {"text": "x", "meta_info": {"completion_tokens": 1}}
    with AnsweringServer({"/generate": [(503, ""), (200, made)]}) as server:
        said: list[str] = []
        assert checking.wait_until_ready(Target("it", server.url), 30.0, said.append) is True
        assert len(said) == 1


def test_what_can_be_checked() -> None:
    assert checking.target_of("ngram").profile is not None
    assert checking.target_of("http://127.0.0.1:1").profile is None
    with pytest.raises(SessionError, match="neither a URL"):
        checking.target_of("nothing-of-that-name")
    run = check_run.locations.runs_dir() / "r"
    run.mkdir()
    (run / "journal.jsonl").write_text("")
    with pytest.raises(SessionError, match="is a stored run"):
        checking.target_of("r")


@pytest.mark.parametrize(("oks", "ok", "code"), [([True, None], True, 0), ([True, False], False, 1), ([None], True, 0)])
def test_only_what_is_not_good_fails(oks: list[bool | None], ok: bool, code: int) -> None:
    probe = Probe("x", "Is it?", "Why.", lambda _subject: Finding(True))
    checked = checking.Checked("t", "u", None, tuple((probe, Finding(one)) for one in oks))
    assert (checked.ok, checked.exit_code) == (ok, code)
    assert [row["ok"] for row in checked.as_json()["probes"]] == oks


def test_the_last_checks_survive_a_torn_file() -> None:
    checking.last_path().parent.mkdir(parents=True)
    checking.last_path().write_text('{"a": ')
    assert checking.last_checks() == {}
    checking.remember(checking.Checked("b", "u", None, ()))
    assert json.loads(checking.last_path().read_text())["b"]["ok"] is True


def test_old_measured_runs_of_checks_are_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(check_run, "KEPT", 2)
    for i in range(5):
        (tmp_path / f"2026010{i}-check-aa").mkdir()
    (tmp_path / "other").mkdir()
    check_run._forget_old(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if "check" in path.name) == [
        "20260103-check-aa",
        "20260104-check-aa",
    ]


def test_evidence_of_the_workload_asked_for() -> None:
    stored = ({"workload": {"name": "edit"}}, {"workload": {"name": "chat"}}, {"kind": "public"})
    subject = Subject("u", stored=stored)
    assert check_run._entry(subject, CheckOptions()) == stored[0]
    assert check_run._entry(subject, CheckOptions(workload="chat")) == stored[1]
    assert check_run._entry(subject, CheckOptions(workload="json")) is None
    assert check_run._entry(subject, CheckOptions(file=Path("x"))) is None
