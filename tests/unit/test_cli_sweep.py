"""``spectui sweep``: what it refuses, each with one clear line and its exit code."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectui.cli import run_command_line


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    (tmp_path / "p.toml").write_text('schema = 1\nname = "p"\n[server]\nmodel_path = "m"\n')
    monkeypatch.chdir(tmp_path)
    return tmp_path


GOOD = ["p.toml", "--workload", "json", "--algorithm", "none,NGRAM", "--draft-tokens", "4,8"]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([], "name the profile"),
        (["p.toml"], "--algorithm"),
        (["p.toml", "--algorithm", "none"], "--workload"),
        (["q.toml", "--algorithm", "none", "--workload", "json"], "no such file"),
        (["p.toml", "--algorithm", "NGRAN", "--workload", "json"], "Did you mean NGRAM"),
        (["p.toml", "--algorithm", ",", "--workload", "json"], "at least one algorithm"),
        (["p.toml", "--algorithm", "none", "--workload", "jsn"], "no workload 'jsn'"),
        (["p.toml", "--algorithm", "none", "--workload", "json", "--requests", "9999"], "fewer than the 9999"),
        ([*GOOD, "--draft-tokens", "4,x"], "not a list of whole numbers"),
        ([*GOOD, "--draft-tokens", "0"], "at least 1"),
        ([*GOOD, "--set", "max_trie_depth"], "write KNOB=V"),
        ([*GOOD, "--set", "depth=3"], "no algorithm has a knob 'depth'"),
        ([*GOOD, "--set", "ngram.max_trie_depth=1"], "ngram.max_trie_depth"),
        ([*GOOD, "--set", "ngram.max_trie_depth=deep"], "ngram.max_trie_depth"),
        ([*GOOD, "--set", "num_draft_tokens=3"], "has values already"),
        ([*GOOD, "--num-steps", "3"], "none of none, NGRAM has a knob 'num_steps'"),
        ([*GOOD, "--no-flush"], "cannot run with --no-flush"),
        ([*GOOD, "--flush", "--no-flush"], "exclude each other"),
        (["--resume", "nothing"], "there is no sweep 'nothing'"),
        ([*GOOD, "--resume", "x"], "give neither a profile nor settings"),
    ],
)
def test_bad_input(words: list[str], said: str, capsys: pytest.CaptureFixture[str]) -> None:
    try:
        code = run_command_line(["sweep", *words])
    except SystemExit as end:
        code = int(end.code or 0)
    err = capsys.readouterr().err
    assert code == 2, err
    assert said in err
    assert "Traceback" not in err


def test_what_the_server_would_refuse_altogether(capsys: pytest.CaptureFixture[str]) -> None:
    code = run_command_line(["sweep", "p.toml", "--workload", "json", "--algorithm", "DFLASH", "--json"])
    out, err = capsys.readouterr()
    assert code == 1
    assert "draft model" in err
    assert json.loads(out)["exit_code"] == 1


def test_the_plan_in_words_and_as_json(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    words = ["sweep", *GOOD, "--set", "ngram.max_trie_depth=8,18", "--concurrency", "1,4", "--plan-only"]
    assert run_command_line(words) == 0
    text = capsys.readouterr().out
    assert "5 settings, 5 restarts" in text
    assert "NGRAM 8 draft tokens, max trie depth 18" in text
    assert run_command_line([*words, "--json"]) == 0
    said = json.loads(capsys.readouterr().out)
    assert set(said) >= {"plan", "settings", "best", "time", "map", "status"}
    assert said["plan"]["order"][0] == ["none", 1]
    assert [s["status"] for s in said["settings"]] == ["open"] * 5
    assert said["settings"][1]["knobs"] == {"num_draft_tokens": 4, "ngram.max_trie_depth": 8}


def test_nothing_of_a_plan_is_kept(home: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run_command_line(["sweep", *GOOD, "--plan-only"])
    assert list((home / "data").glob("sweeps/*")) == []
    assert list((home / "data").glob("runs/*")) == []
