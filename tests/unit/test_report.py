"""Reports and exports: what they hold, and that no planted key is in any of them."""

from __future__ import annotations

import csv
import io
import json
import stat
from pathlib import Path
from typing import Any

import pytest

from spectui.cli import export as cli_export
from spectui.cli import run_command_line
from spectui.core.result import fold
from spectui.store import profile_report, profiles, report
from spectui.store.prometheus import prometheus

KEYS = ("sk-planted0123456789abcdef", "hf_plantedplantedplanted12", "plantedpassword", "planted-bearer-99")


def rows() -> list[dict[str, Any]]:
    head = {
        "t": 1.0, "kind": "head", "schema": 1, "run_id": "run", "spectui": "0.1.0", "max_tokens": 64,
        "temperature": 0.0,
        "workload": {"name": "edit|odd\x1b[31m", "hash": "abc"},
        "arms": [{
            "name": "A", "url": f"http://user:{KEYS[2]}@s:1", "label": "s", "algorithm": "EAGLE3", "version": "0.5.15",
            "model": "=cmd()", "route": "x", "settings_in_force": {"num_draft_tokens": 4, "api_key": KEYS[0]},
            "server": {"admin_api_key": KEYS[0], "launch": f"--api-key {KEYS[0]} --x"}}],
        "node": {"driver": "570", "gpus": [{"uuid": "u", "name": "NVIDIA H200"}]},
    }  # fmt: skip
    found = [head, {"t": 1.5, "kind": "mark", "arm": "A", "name": "odd", "detail": f"Authorization: Bearer {KEYS[3]}"}]
    for level in (1, 4):
        for i in range(4):
            found.append({
                "t": 3.0, "kind": "request", "index": i, "prompt_id": f"p{i}", "group": "g", "arm": "A",
                "pass_name": "warm", "phase": "measure", "concurrency": level, "block": 0, "rid": f"{level}{i}",
                "start_s": 1.0 * i, "first_s": 0.1 + i, "last_s": 0.5 + i, "end_s": 0.5 + i, "status": "ok",
                "completion_tokens": 41, "verify_steps": 20, "histogram": [5, 10, 5]})  # fmt: skip
    end = {"t": 9.0, "kind": "end", "status": "complete", "reason": f"token={KEYS[1]}"}
    return [*found, end]


PROFILE = """schema = 1
name = "mine"
notes = "two lines"
[server]
command = "{python} -m sglang.launch_server {args}"
port = 30000
model_path = "/models/with space"
api_key = "env:MY_KEY"
[server.env]
HF_TOKEN = "env:HF_TOKEN"
[server.args]
max_running_requests = 64
json_model_override_args = '{"a": 1}'
[speculative]
algorithm = "NGRAM"
num_draft_tokens = 8
[[evidence]]
kind = "public"
source = "a model card"
setting = "7 steps"
accept_length = [2.5, 3.5]
[[evidence]]
date = "2026-01-02"
run = "r2"
sglang = "0.5.23"
gpus = ["H200"]
workload = { name = "edit", hash = "abc" }
result = [{ pass = "cold", concurrency = 1, requests = 8, output_tokens_per_s = [90.0, 80.0, 100.0] }, { pass = "warm", concurrency = 1, requests = 8, output_tokens_per_s = [120.0, 110.0, 130.0], accept_length = [2.0, 1.9, 2.1] }]
[[evidence]]
date = "2026-01-01"
run = "r1"
sglang = "0.5.15"
gpus = ["H100"]
result = [{ pass = "warm", concurrency = 1, requests = 8, output_tokens_per_s = [100.0, 90.0, 110.0] }]
"""  # noqa: E501


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    folder = tmp_path / "data" / "runs" / "run"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows()))
    own = tmp_path / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text(PROFILE)
    last = {
        "mine": {
            "ok": False, "reachable": True, "profile": f"http://u:{KEYS[2]}@h", "when": 5.0, "seconds": 2.0,
            "accept_length": 2.5, "step_time_ms": 12.0,
            "probes": [{"name": "serving", "ok": True}, {"name": "gpus", "ok": None}, {"name": "version", "ok": False}],
        },
        "odd": {"probes": "none", "accept_length": "x"},
    }  # fmt: skip
    state = tmp_path / "state" / "checks" / "last.json"
    state.parent.mkdir(parents=True)
    state.write_text(json.dumps(last))
    return tmp_path


@pytest.mark.parametrize("kind", ["markdown", "csv", "json"])
def test_planted_keys_leave_with_no_report(home: Path, kind: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["export", "run", "--format", kind]) == 0
    out = capsys.readouterr().out
    assert "EAGLE3" in out
    for key in KEYS:
        assert key not in out


@pytest.mark.parametrize("kind", cli_export.FORMATS)
def test_planted_keys_leave_with_no_export_of_a_profile(
    home: Path, kind: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MY_KEY", KEYS[0])
    monkeypatch.setenv("HF_TOKEN", KEYS[1])
    assert run_command_line(["export", "mine", "--format", kind]) == 0
    out = capsys.readouterr().out
    assert out.strip()
    for key in KEYS:
        assert key not in out
    if kind == "command":  # FC-67: the exact command, by an option, without any screen
        assert "'/models/with space'" in out
        assert """'{"a": 1}'""" in out
        assert '--api-key "$MY_KEY"' in out


def test_markdown_has_tables_charts_and_nothing_that_a_terminal_obeys() -> None:
    text = report.run_markdown(fold(rows()), "run", {"note": "a note"})
    assert "| output tok/s |" in text
    assert "█" in text
    assert "\x1b" not in text
    assert "Note: a note" in text
    assert "A warm ×4" in text
    head = next(line for line in text.splitlines() if line.startswith("|  |"))
    body = next(line for line in text.splitlines() if line.startswith("| accept length |"))
    assert head.count("|") == body.count("|")


def test_markdown_names_all_settings_in_force_however_many() -> None:
    many = {f"ngram.knob_{n}": n for n in range(60)}
    [head, *others] = rows()
    arms = [{**head["arms"][0], "settings_in_force": many}]
    text = report.run_markdown(fold([{**head, "arms": arms}, *others]), "run")
    assert "ngram.knob_0=0" in text
    assert "ngram.knob_59=59" in text


def test_bars_are_in_proportion_and_absent_where_nothing_is_known() -> None:
    lines = report.bars([("a", 10.0), ("b", 5.0), ("c", None)]).splitlines()[1:-1]
    assert lines[0].count("█") == 2 * lines[1].count("█")
    assert lines[2].endswith("n/a")
    assert "n/a" in report.bars([("a", None)])


def test_csv_has_a_line_a_pass_and_no_formula() -> None:
    found = list(csv.DictReader(io.StringIO(report.run_csv(fold(rows()), "run"))))
    assert [row["concurrency"] for row in found] == ["1", "4"]
    assert found[0]["accept_length"] == "2.0"
    assert found[0]["joules_per_token"] == "", "unknown is empty, never 0"
    assert found[0]["model"] == "'=cmd()"


def test_an_empty_run_has_a_report() -> None:
    result = fold([])
    assert "Nothing was measured" in report.run_markdown(result, "x")
    assert json.loads(report.run_as_json(result, "x"))["run"] == "x"
    assert len(report.run_csv(result, "x").splitlines()) == 1


def test_a_profile_over_time_and_ranges_of_others_apart(home: Path) -> None:
    profile = profiles.load("mine")
    text = profile_report.profile_markdown(profile)
    assert "Published by others" in text
    assert "accept length 2.50 to 3.50; 7 steps. Source: a model card" in text
    trend = profile_report.trend_rows(profile.evidence)
    assert [row[1] for row in trend] == ["0.5.15", "0.5.23"]
    assert "sglang: 0.5.15 → 0.5.23" in str(trend[1][-1])
    assert "gpus: H100 → H200" in str(trend[1][-1])
    assert len(profile_report.profile_csv(profile).splitlines()) == 4
    assert "| cold ×1 | 90.0 (80.0 to 100) | n/a | n/a |" in text


def test_prometheus_tells_what_was_checked_only(home: Path) -> None:
    checks = json.loads((home / "state" / "checks" / "last.json").read_text())
    text = prometheus(checks)
    lines = [line for line in text.splitlines() if line.startswith("spectui_check_probe_ok{")]
    assert sorted(line.rpartition(" ")[2] for line in lines) == ["0.0", "1.0"]
    assert "spectui_check_step_seconds" in text
    assert " 0.012" in text
    assert KEYS[2] not in text


def test_a_full_disk_leaves_the_file_that_was_there(
    home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    out = tmp_path / "out.csv"
    out.write_text("old")
    monkeypatch.setattr("os.replace", full)
    assert run_command_line(["export", "mine", "--format", "csv", "--output", str(out), "--replace"]) == 1
    assert "out.csv cannot be written: No space left" in capsys.readouterr().err
    assert out.read_text() == "old"
    assert list(tmp_path.glob(".out*")) == []


def test_files_are_whole_private_and_not_written_over(
    home: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "out.md"
    assert run_command_line(["export", "run", "--format", "markdown", "--output", str(out)]) == 0
    assert stat.S_IMODE(out.stat().st_mode) == 0o600
    before = out.read_bytes()
    assert run_command_line(["export", "mine", "--format", "csv", "--output", str(out)]) == 2
    assert out.read_bytes() == before
    assert run_command_line(["export", "mine", "--format", "csv", "--output", str(out), "--replace"]) == 0
    assert run_command_line(["export", "mine", "--output", str(tmp_path / "no" / "x")]) == 2
    prom = tmp_path / "x.prom"
    for _ in range(2):
        assert run_command_line(["export", "--format", "prometheus", "--output", str(prom)]) == 0
    assert stat.S_IMODE(prom.stat().st_mode) == 0o644
    assert run_command_line(["export", "--format", "csv"]) == 2
    assert run_command_line(["export", "never", "--format", "prometheus"]) == 2
    assert "not been checked" in capsys.readouterr().err
