"""How commands fail: one JSON object where one was asked for, harmless text, and no output lost to an encoding."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from spectui import cli
from spectui.cli.failure import Failure, explain


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.mark.parametrize(
    ("argv", "command", "said"),
    [
        (["run", "--json"], "spectui run", "the following arguments are required: URL"),
        (["runs", "show", "--json"], "spectui runs show", "the following arguments are required: RUN"),
        (["run", "http://127.0.0.1:1", "--concurrency", "0", "--workload", "short", "--json"], "spectui run", "'0'"),
        (["--json"], "spectui", "unrecognized arguments: --json"),
    ],
)
def test_a_wrong_command_line_is_one_json_object(
    argv: list[str], command: str, said: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert cli.run_command_line(argv) == 2
    told = capsys.readouterr()
    found = json.loads(told.out)
    assert found["exit_code"] == 2
    assert said in found["error"]
    assert told.err.startswith(f"{command}: ")
    assert told.err.endswith(f"Try: {command} --help\n")


def raising(error: BaseException) -> Any:
    def dispatch(argv: list[str]) -> int:
        raise error

    return dispatch


def test_an_interrupt_is_one_json_object_but_not_among_the_lines_of_a_watch(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_dispatch", raising(KeyboardInterrupt()))
    assert cli.run_command_line(["run", "x", "--json"]) == 130
    assert json.loads(capsys.readouterr().out) == {"error": "interrupted", "exit_code": 130}
    assert cli.run_command_line(["check", "x", "--watch", "9", "--json"]) == 130
    assert capsys.readouterr().out == ""


def test_text_of_a_server_reaches_no_terminal_as_codes(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(cli, "_dispatch", raising(Failure("the server said \x1b[31mboom\x07\nsecond line")))
    assert cli.run_command_line(["run", "x"]) == 1
    told = capsys.readouterr().err
    assert "\x1b" not in told
    assert "\x07" not in told
    assert told.splitlines()[1] == "second line"


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="no /dev/full here")
@pytest.mark.parametrize("unbuffered", ["", "1"])
@pytest.mark.parametrize("options", [["--json"], []])
def test_a_full_disk_behind_standard_output_is_a_sentence(home: Path, unbuffered: str, options: list[str]) -> None:
    with Path("/dev/full").open("w") as full:
        done = subprocess.run(
            [sys.executable, "-m", "spectui", "runs", *options],
            stdout=full, stderr=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": unbuffered},
        )  # fmt: skip
    assert done.returncode == 1
    assert done.stderr.startswith("spectui: No space left on device")
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_a_full_disk_says_how_to_make_room() -> None:
    assert "spectui runs prune" in str(explain(OSError(28, "No space left on device")))


@pytest.mark.parametrize("errors", ["strict", "surrogateescape"])
def test_a_sign_that_the_encoding_lacks_costs_one_sign(errors: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kept = io.BytesIO()
    stream = io.TextIOWrapper(kept, encoding="ascii", errors=errors)
    monkeypatch.setattr(sys, "stdout", stream)
    assert cli.run_command_line(["plan", "none"]) == 0
    stream.flush()
    assert b"none" in kept.getvalue()
    assert b"?" in kept.getvalue()


def test_an_export_to_a_poor_terminal_loses_no_sign(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    profile = tmp_path / "p.toml"
    profile.write_text('schema = 1\nname = "p"\n[server]\nmodel_path = "/m/é"\n', encoding="utf-8")
    monkeypatch.setattr(sys, "stdout", io.TextIOWrapper(io.BytesIO(), encoding="ascii"))
    assert cli.run_command_line(["export", str(profile)]) == 2
    assert "--output FILE writes UTF-8" in capsys.readouterr().err


def test_a_home_that_cannot_be_is_told_with_a_way_out(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", os.devnull)
    assert cli.run_command_line(["runs"]) == 1
    assert "Set SPECTUI_HOME to a folder of yours" in capsys.readouterr().err
    assert cli.run_command_line(["doctor", "--json"]) == 1
    rows = {row["name"]: row for row in json.loads(capsys.readouterr().out)["rows"]}
    assert rows["folders"]["ok"] is False


def test_sigterm_interrupts_a_command_as_ctrl_c_does(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def dispatch(argv: list[str]) -> int:
        if signal.getsignal(signal.SIGTERM) is signal.SIG_DFL:
            return 7  # the signal would end this process: the test itself
        os.kill(os.getpid(), signal.SIGTERM)
        return 8

    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    monkeypatch.setattr(cli, "_dispatch", dispatch)
    assert cli.run_command_line(["compare", "a", "b", "--json"]) == 130
    assert json.loads(capsys.readouterr().out)["exit_code"] == 130
    assert signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    assert cli.run_command_line(["sim"]) == 7


def test_a_closed_output_is_no_fault(tmp_path: Path) -> None:
    environment = {**os.environ, "SPECTUI_HOME": str(tmp_path)}
    words = [sys.executable, "-m", "spectui", "runs", "list"]
    done = subprocess.run(
        ["sh", "-c", 'exec "$@" >&- 2>&- <&-', "sh", *words], env=environment, capture_output=True, check=False
    )
    assert done.returncode == 0
    assert not list(tmp_path.rglob("crash-*"))
