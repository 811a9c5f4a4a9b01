"""The commands on runs and profiles, as a person types them."""

from __future__ import annotations

import json
import os
from dataclasses import fields, replace
from pathlib import Path
from typing import Any

import pytest
from test_evidence import stored

from spectui.cli import run_command_line
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.session import profile_from
from spectui.store import runs


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def said(capsys: pytest.CaptureFixture[str], *argv: str, code: int = 0) -> Any:
    assert run_command_line([*argv, "--json"]) == code
    return json.loads(capsys.readouterr().out)


def test_an_empty_history_says_how_to_begin(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["runs"]) == 0
    assert "spectui run URL" in capsys.readouterr().out
    assert said(capsys, "runs") == {"runs": [], "total": 0}


def test_list_filter_mark_and_show(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "20270101-one")
    stored(home, "20270102-two", algorithm="EAGLE3")
    assert said(capsys, "runs")["total"] == 2
    assert [row["id"] for row in said(capsys, "runs", "--algorithm", "eagle")["runs"]] == ["20270102-two"]
    assert [row["id"] for row in said(capsys, "runs", "list", "two", "h200")["runs"]] == ["20270102-two"]
    assert said(capsys, "runs", "--workload", "chat")["total"] == 0
    assert said(capsys, "runs", "tag", "20270101", "best")["tags"] == ["best"]
    assert said(capsys, "runs", "pin", "20270101")["pinned"] is True
    assert said(capsys, "runs", "note", "20270101", "a note")["note"] == "a note"
    assert said(capsys, "runs", "untag", "20270101", "best")["tags"] == []
    assert said(capsys, "runs", "--pinned")["total"] == 1
    assert run_command_line(["runs"]) == 0
    out = capsys.readouterr().out
    assert "★" in out
    assert "a note" in out
    assert run_command_line(["runs", "show", "20270101"]) == 0
    assert "| accept length |" in capsys.readouterr().out
    assert run_command_line(["runs", "show", "never"]) == 2
    assert "spectui runs lists them" in capsys.readouterr().err


def test_compare_says_what_differs(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "one")
    stored(home, "two", version="0.5.23")
    found = said(capsys, "runs", "compare", "one", "two")
    assert {"key": "version", "a": "0.5.15", "b": "0.5.23", "kind": "tested"} in found["differences"]
    assert found["by_concurrency"][0]["concurrency"] == 1
    assert run_command_line(["runs", "compare", "one", "two"]) == 0
    assert "0.5.23" in capsys.readouterr().out
    assert run_command_line(["runs", "compare", "one", "http://127.0.0.1:1"]) == 2


def test_prune_spares_pinned_runs_and_those_that_profiles_rest_on(
    home: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for name in ("a", "a2", "b", "c", "d"):
        stored(home, name)
    assert run_command_line(["runs", "pin", "a"]) == 0
    assert run_command_line(["profiles", "save", "mine", "--from", "b"]) == 0
    elsewhere = home / "elsewhere.toml"
    elsewhere.write_text('[speculative]\nalgorithm = "NGRAM"\n')
    assert run_command_line(["profiles", "save", str(elsewhere), "--from", "a2", "--any-setting"]) == 0
    capsys.readouterr()
    assert run_command_line(["runs", "prune"]) == 2
    capsys.readouterr()
    assert said(capsys, "runs", "prune", "--keep", "1", "--dry-run")["removed"] == ["c"]
    assert (home / "data" / "runs" / "c").is_dir()
    assert said(capsys, "runs", "prune", "--keep", "1")["removed"] == ["c"]
    assert sorted(run.id for run in runs.list_runs()) == ["a", "a2", "b", "d"]
    assert run_command_line(["runs", "untag", "a2", "evidence"]) == 0
    capsys.readouterr()
    assert said(capsys, "runs", "prune", "--keep", "1")["removed"] == ["a2"]


def test_profiles_from_run_to_trend(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "one")
    stored(home, "two", version="0.5.23")
    for name in ("one", "two"):
        assert said(capsys, "profiles", "save", "mine", "--from", name)["evidence"] == (1 if name == "one" else 2)
    rows = {row["name"]: row for row in said(capsys, "profiles")["profiles"]}
    assert rows["mine"]["evidence"] == 2
    assert rows["eagle3"]["evidence"] == 0, "ranges that others published are no evidence"
    assert said(capsys, "profiles", "show", "mine")["name"] == "mine"
    assert run_command_line(["profiles", "show", "mine"]) == 0
    assert "## Evidence" in capsys.readouterr().out
    assert run_command_line(["profiles", "show", "mine", "--toml"]) == 0
    assert "[[evidence]]" in capsys.readouterr().out
    assert run_command_line(["runs", "trend", "mine"]) == 0
    assert "sglang: 0.5.15 → 0.5.23" in capsys.readouterr().out
    assert len(said(capsys, "runs", "trend", "mine")["trend"]) == 2


def test_profiles_check_names_file_line_and_key(home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bad = tmp_path / "bad.toml"
    bad.write_text('name = "x"\n[server]\nport = "x"\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = -3\n')
    assert run_command_line(["profiles", "check", str(bad)]) == 2
    err = capsys.readouterr().err
    assert "bad.toml:3: server.port" in err
    assert "speculative.num_draft_tokens" in err
    bad.write_text('schema = 1\n[server]\nmodel_path = "/no/model"\n[workload]\nfile = "/no/f"\n')
    assert run_command_line(["profiles", "check", str(bad)]) == 1
    out = capsys.readouterr().out
    assert "bad.toml:3: server.model_path: " in out
    assert "bad.toml:5: workload.file: /no/f is not there" in out
    assert run_command_line(["check", str(tmp_path / "gone.toml")]) == 2
    assert "gone.toml: there is no such file" in capsys.readouterr().err
    assert said(capsys, "profiles", "check", "ngram")["ok"] is True
    assert run_command_line(["profiles"]) == 0


def test_nothing_to_attach_to(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["attach"]) == 0
    assert "no run is in progress" in capsys.readouterr().out
    assert said(capsys, "attach") == {"runs": []}
    stored(home, "old")
    assert run_command_line(["attach", "old"]) == 2
    assert "has ended" in capsys.readouterr().err


def test_a_run_without_a_row_yet_is_starting(
    home: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    from spectui.session import running

    handle = running.RunHandle(home / "data" / "runs" / "new", 77, 1.0)
    handle.folder.mkdir(parents=True)
    monkeypatch.setattr(running, "running", lambda: [handle])
    for write in (lambda: None, handle.journal.touch):
        write()
        assert run_command_line(["attach", "--list"]) == 0
        row = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("new "))
        assert row.split() == ["new", "77", "starting", "–", "just", "now"]
        assert said(capsys, "attach")["runs"][0]["state"] == "starting"


def test_a_run_of_two_arms_shows_the_figures_of_both() -> None:
    from spectui.cli.runs import _line
    from spectui.store.runs import RunSummary

    results = tuple(
        {"arm": arm, "output_tokens_per_s": speed, "accept_length": length}
        for arm, speed, length in (("A", 10.0, 2.5), ("B", 1234.5, 1.0), ("A", 20.0, 2.75))
    )
    names = {field.name: "" for field in fields(RunSummary)}
    one = RunSummary(**{**names, "id": "x", "when": 0.0, "algorithms": ("NGRAM", "none"), "models": (), "versions": (),
                        "tags": (), "results": results})  # fmt: skip
    assert _line(one)[5:7] == ("20.0 / 1,234.5", "2.75 / 1.00")


def test_a_run_is_no_launch_command(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    stored(home, "20270101-one")
    assert run_command_line(["export", "20270101-one", "--format", "docker"]) == 2
    told = capsys.readouterr().err
    assert "is a run" in told
    assert "spectui profiles save NAME --from 20270101-one" in told


def test_a_run_whose_runner_is_gone_is_not_said_to_run(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = stored(home, "20270101-one")
    journal = folder / "journal.jsonl"
    journal.write_text("".join(line for line in journal.read_text().splitlines(True) if '"kind": "end"' not in line))
    assert said(capsys, "runs")["runs"][0]["status"] == "running"  # it was written to just now
    os.utime(journal, (1.0, 1.0))
    (row,) = said(capsys, "runs")["runs"]
    assert (row["status"], row["reason"]) == ("interrupted", "its runner is gone and wrote no last row")


@pytest.mark.parametrize("days", ["-1", "0", "nan", "inf", "soon"])
def test_no_odd_number_of_days_removes_every_run(home: Path, capsys: pytest.CaptureFixture[str], days: str) -> None:
    stored(home, "20270101-one")
    assert run_command_line(["runs", "prune", "--older-than", days]) == 2
    assert "number of days above 0" in capsys.readouterr().err
    assert said(capsys, "runs")["total"] == 1


def test_an_argument_with_two_names_is_given_once() -> None:
    args = {"cuda_graph_max_bs": 256, "cuda_graph_max_bs_decode": 256}
    whole = Profile("p", None, ServerPart(model_path="m", args=args), SpeculativePart("none", {}))
    assert profile_from._without_defaults(whole).server.args == {"cuda_graph_max_bs_decode": 256}
    assert profile_from._without_defaults(
        replace(whole, server=replace(whole.server, args={"cuda_graph_max_bs": 256}))
    ).server.args == {"cuda_graph_max_bs": 256}
