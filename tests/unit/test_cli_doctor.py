"""doctor and completion: nothing ends in a traceback, and completion names only what is there."""

from __future__ import annotations

import importlib
import json
import shutil
import subprocess
from pathlib import Path

import pytest

from spectui.cli import COMMANDS, completion, doctor, run_command_line


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def test_doctor_tells_everything_once(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["doctor", "--json"]) in (0, 1)
    said = json.loads(capsys.readouterr().out)
    names = [row["name"] for row in said["rows"]]
    assert names == [
        "version",
        "terminal",
        "colours",
        "locale",
        "gpus",
        "proxies",
        "ports",
        "disk",
        "clock",
        "login",
        "config",
        "folders",
    ]
    assert said["ok"] is all(row["ok"] is not False for row in said["rows"])
    assert next(row for row in said["rows"] if row["name"] == "login")["detail"]


def test_a_part_that_fails_is_a_row(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    def broken() -> doctor.Row:
        raise RuntimeError("driver and library differ")

    monkeypatch.setattr(doctor, "gpus", broken)
    assert run_command_line(["doctor"]) in (0, 1)
    assert "driver and library differ" in capsys.readouterr().out


def test_a_proxy_is_shown_without_its_password() -> None:
    row = doctor.proxies({"https_proxy": "http://me:plantedpassword@proxy:3128"})
    assert row.ok is None
    assert "proxy:3128" in row.value
    assert "plantedpassword" not in row.value
    assert doctor.proxies({}).ok is True


@pytest.mark.parametrize(
    ("text", "good", "said"),
    [
        (None, None, "is not there: all as it comes"),
        ('theme = "spectui-light"\n[keys]\nrun = "f5"\n', True, ""),
        ('theme = "light"\n', False, "theme 'light' is none of ansi-dark, "),
        ('[keys]\nrum = "f5"\n', False, "keys.rum names no command"),
        ("keys = 5\ncolour = 1\n", False, "colour is no setting"),
        ("theme = \n", False, "cannot be read: "),
    ],
)
def test_what_the_config_says_in_vain_is_told(text: str | None, good: bool | None, said: str) -> None:
    from spectui.store import locations

    if text is not None:
        locations.config_file().write_text(text)
    row = doctor.config()
    assert row.ok is good
    assert said in row.value + row.detail


def test_terminals(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.sys.stdout, "isatty", lambda: True, raising=False)
    monkeypatch.setattr(doctor.shutil, "get_terminal_size", lambda *_: (120, 40))
    assert doctor.terminal({"TERM": "xterm-256color"}).ok is True
    assert doctor.terminal({"TERM": "dumb"}).ok is False
    monkeypatch.setattr(doctor.shutil, "get_terminal_size", lambda *_: (60, 20))
    assert "80×24" in doctor.terminal({"TERM": "xterm"}).detail


COLOURS = [
    ({"NO_COLOR": "1"}, "NO_COLOR is set"),
    ({"COLORTERM": "truecolor"}, "16 million"),
    ({"TERM": "xterm-256color"}, "256"),
    ({}, "16 or fewer"),
]


@pytest.mark.parametrize(("environ", "value"), COLOURS)
def test_colours(environ: dict[str, str], value: str) -> None:
    assert doctor.colours(environ).value == value


def test_a_full_disk_is_in_the_way(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(doctor.shutil, "disk_usage", lambda _path: shutil._ntuple_diskusage(10, 9, 1))  # type: ignore[attr-defined]
    row = doctor.disk()
    assert row.ok is False
    assert "prune" in row.next


def test_completion_knows_every_command_and_its_options() -> None:
    tree = completion.tree()
    assert set(tree[""].parts) == set(COMMANDS)
    assert "--concurrency" in tree["run"].options
    assert "edit" in tree["run"].choices["--workload"]
    assert "--any-setting" in tree["profiles save"].options
    assert tree["export"].choices["--format"][0] == "command"
    assert "--file" in tree["check"].files


def test_bash_takes_it_and_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bash = shutil.which("bash")
    if bash is None:
        pytest.skip("there is no bash here")
    assert run_command_line(["completion", "bash"]) == 0
    script = tmp_path / "spectui.bash"
    script.write_text(capsys.readouterr().out)

    def complete(*words: str) -> list[str]:
        listed = " ".join(f"'{word}'" for word in words)
        set_up = f"source {script}; COMP_WORDS=({listed}); COMP_CWORD={len(words) - 1}; _spectui"
        code = f"{set_up}; printf '%s\\n' \"${{COMPREPLY[@]}}\""
        return subprocess.run([bash, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    assert complete("spectui", "che") == ["check"]
    assert complete("spectui", "check", "--fe") == ["--feed"]
    assert complete("spectui", "export", "x", "--format", "kub") == ["kubernetes"]
    assert complete("spectui", "profiles", "save", "--repl") == ["--replace"]
    assert complete("spectui", "run", "--workload", "ed") == ["edit"]


def test_fish_takes_it_and_completes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["completion", "fish"]) == 0
    out = capsys.readouterr().out
    assert "-l 'format' -d 'what to write (command)' -x -a 'command docker" in out
    assert r"\'default\' to send none" in out
    fish = shutil.which("fish")
    if fish is None:
        return
    script = tmp_path / "spectui.fish"
    script.write_text(out)
    for typed, said in (
        ("che", "check"),
        ("runs com", "compare"),
        ("run --workload ed", "edit"),
        ("--slow doc", "doctor"),
    ):
        code = f"source {script}; complete -C 'spectui {typed}'"
        done = subprocess.run([fish, "--no-config", "-c", code], capture_output=True, text=True, check=True)
        assert said in [line.split("\t")[0] for line in done.stdout.splitlines()]


def test_the_help_of_every_command_and_part_teaches_by_examples() -> None:
    from spectui.cli.examples import of_part

    for name in set(COMMANDS) - {"sim"}:
        given = importlib.import_module(f"spectui.cli.{name}").EXAMPLES
        for words in [name, *(f"{name} {part}" for part in completion.tree()[name].parts)]:
            assert of_part(given, words), f"spectui {words} --help has no example"


def test_a_part_shows_its_own_examples_only(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        run_command_line(["runs", "prune", "--help"])
    out = capsys.readouterr().out
    assert "remove by rule" in out
    assert "spectui runs prune --keep 200 --dry-run" in out
    assert "runs tag" not in out


def test_zsh_gets_its_own(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["completion", "zsh"]) == 0
    out = capsys.readouterr().out
    assert out.startswith("#compdef spectui")
    assert "'runs prune'" in out
    zsh = shutil.which("zsh")
    if zsh:
        subprocess.run([zsh, "-n"], input=out, text=True, check=True)
