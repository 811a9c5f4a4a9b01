"""From a launch to a check: a run writes its results into the profile of the server, and the next check finds them."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import own_port

from spectui.cli import run_command_line
from spectui.session import serving
from spectui.store import profiles

MEASURE = ("--workload", "json", "--requests", "4", "--max-tokens", "24", "--json")


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    monkeypatch.chdir(tmp_path)
    return tmp_path


def written(folder: Path, name: str = "mine", draft_tokens: int = 8) -> Path:
    path = folder / f"{name}.toml"
    path.write_text(
        f'schema = 1\nname = "{name}"  # a remark\n[server]\ncommand = "{{python}} -m spectui sim {{args}}"\n'
        f'port = {own_port()}\nmodel_path = "sim"\n[server.args]\nenable_metrics = true\nsim_startup = 0.05\n'
        f'sim_speed = 20\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = {draft_tokens}\n'
    )
    return path


@contextlib.contextmanager
def launched(name: str, profile: str) -> Iterator[None]:
    assert run_command_line(["launch", profile, "--name", name]) == 0
    try:
        yield
    finally:
        serving.stop(name)


def told(capsys: pytest.CaptureFixture[str], code: int, *argv: str) -> Any:
    assert run_command_line(list(argv)) == code
    return json.loads(capsys.readouterr().out.splitlines()[-1])


def test_launch_run_restart_check(
    folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path = written(folder)
    with launched("it", "./mine.toml"):
        capsys.readouterr()
        (folder / "elsewhere").mkdir()
        monkeypatch.chdir(folder / "elsewhere")
        assert run_command_line(["run", "it", *MEASURE[:-1], "--pass", "cold"]) == 0
        out = capsys.readouterr().out
        assert f"spectui profiles save {path} --from " in out, "where nothing was asked for, it says how"
        assert not profiles.load(path).evidence
        said = told(capsys, 0, "run", "it", "--pass", "cold", "--save-evidence", *MEASURE)
        assert said["evidence"] == [{"arm": "A", "profile": "mine", "path": str(path), "runs": 1, "error": None}]
    assert path.read_text().startswith('schema = 1\nname = "mine"  # a remark\n[server]\n')
    assert "host" not in path.read_text().partition("[[evidence")[0], "what nobody wrote is not written"
    with launched("it", str(path)):
        capsys.readouterr()
        checked = told(capsys, 0, "check", "it", "--requests", "4", "--json")
    assert checked["profile"] == "mine"
    length = next(row for row in checked["probes"] if row["name"] == "accept_length")
    assert "cold" in length["expected"]


def test_what_cannot_be_kept_is_said_before_anything_is_measured(
    folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path, other = written(folder), written(folder, "other", draft_tokens=4)
    with launched("it", str(path)):
        capsys.readouterr()
        for asked, why in (("none-of-that-name", "there is no profile"), (str(other), "asks for num_draft_tokens 4")):
            said = told(capsys, 2, "run", "it", "--save-evidence", asked, *MEASURE)
            assert why in said["error"]
        url = f"http://127.0.0.1:{own_port()}"
        said = told(capsys, 2, "run", url, "--save-evidence", *MEASURE)
        assert "was not started from a profile" in said["error"]
        assert not (folder / "home" / "data" / "runs").exists() or not list(
            (folder / "home" / "data" / "runs").iterdir()
        )
        broken = path.read_text()
        path.write_text(broken.replace("[speculative]", "[speculative"))
        said = told(capsys, 2, "run", "it", "--save-evidence", *MEASURE)
        assert "mine.toml:" in said["error"]
        assert "is not TOML" in said["error"]


def test_a_comparison_writes_into_the_profiles_of_both_sides(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    a, b = written(folder, "a"), written(folder, "b", draft_tokens=4)
    said = told(capsys, 0, "compare", str(a), str(b), "--save-evidence", "--pass", "cold", *MEASURE)
    assert [(one["profile"], one["runs"], one["error"]) for one in said["evidence"]] == [("a", 1, None), ("b", 1, None)]
    kept = [profiles.load(path).evidence[0]["settings_in_force"]["num_draft_tokens"] for path in (a, b)]
    assert kept == [8, 4]
