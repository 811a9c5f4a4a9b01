"""Field cases on the real program: GPUs that are not there, endings, proxies, servers that end with the screen."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import own_port
from screen_terminal import Terminal

from spectui.cli import screen
from spectui.hosts import children, servers
from spectui.session import serving
from spectui.store import profiles

DATA = Path(__file__).parents[1] / "data" / "field"
NVML = {
    "package": 'raise ModuleNotFoundError("No module named pynvml", name="pynvml")',
    "library": "class NVMLError_LibraryNotFound(Exception): ...\ndef nvmlInit(): raise NVMLError_LibraryNotFound()\n",
    "permission": "class NVMLError_NoPermission(Exception): ...\ndef nvmlInit(): raise NVMLError_NoPermission()\n",
    "zero": "def nvmlInit(): ...\ndef nvmlShutdown(): ...\ndef nvmlDeviceGetCount(): return 0\n",
    "broken": 'raise RuntimeError("half a package")',
}
SAID = {
    "package": "Python NVML package not installed",
    "library": "NVML library not found",
    "permission": "no permission for NVML",
    "zero": "NVML works, 0 GPUs",
    "broken": "Python NVML package does not load: RuntimeError",
}


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Callable[..., Terminal]]:
    made: list[Terminal] = []

    def open_(*words: str, **options: Any) -> Terminal:
        made.append(Terminal(words, tmp_path, **options))
        return made[-1]

    yield open_
    for terminal in made:
        terminal.close()


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    yield tmp_path
    for record in servers.records():
        if servers.alive(record):
            os.killpg(record.pgid, signal.SIGKILL)
    children.reap()


def launched(folder: Path, name: str, port: int) -> servers.ServerRecord:
    path = folder / f"{name}.toml"
    path.write_text(
        f'name = "{name}"\n[server]\ncommand = "{{python}} -m spectui sim {{args}}"\nport = {port}\n'
        'model_path = "sim"\n[server.args]\nsim_speed = 1000\nsim_startup = 0.05\n'
        '[speculative]\nalgorithm = "NGRAM"\n'
    )
    record = serving.launch(serving.prepare(profiles.load(path)))
    serving.wait_ready(record, poll_s=0.05)
    return record


@pytest.mark.parametrize("condition", list(NVML))
def test_fc51_the_screen_says_why_it_shows_no_gpu(
    opened: Callable[..., Terminal], tmp_path: Path, condition: str
) -> None:
    stand_in = tmp_path / "stand-in"
    stand_in.mkdir()
    (stand_in / "pynvml.py").write_text(NVML[condition])
    terminal = opened("http://127.0.0.1:9", env={"PYTHONPATH": str(stand_in)})
    terminal.wait(SAID[condition])
    terminal.wait("q quit")
    terminal.keys("q")
    assert terminal.ended() == 0
    assert b"Traceback" not in terminal.raw
    assert terminal.left_on() == set()


def test_fc58_a_driver_that_never_answers_does_not_keep_the_program(
    opened: Callable[..., Terminal], tmp_path: Path
) -> None:
    stand_in = tmp_path / "stand-in"
    stand_in.mkdir()
    (stand_in / "pynvml.py").write_text("import threading\ndef nvmlInit(): threading.Event().wait()\n")
    terminal = opened("http://127.0.0.1:9", env={"PYTHONPATH": str(stand_in)})
    terminal.wait("NVML not answering")
    terminal.keys("?")
    terminal.wait("esc leaves")
    terminal.keys("\x1b")
    terminal.wait(lambda text: "esc leaves" not in text)
    terminal.keys("q")
    assert terminal.ended() == 0


def test_fc63_without_the_mouse_and_with_two_interrupts(opened: Callable[..., Terminal]) -> None:
    terminal = opened("--no-mouse", "http://127.0.0.1:9")
    terminal.wait("q quit")
    assert terminal.left_on() == {"1049", "2004", "1004", "hidden"}
    terminal.kill(signal.SIGINT)
    terminal.kill(signal.SIGINT)
    assert terminal.ended(5.0) == 130
    assert terminal.left_on() == set()


@pytest.mark.parametrize(
    "proxies",
    [
        json.loads((DATA / "FC-76.json").read_text())["env"],
        {"http_proxy": "http://127.0.0.1:1", "HTTP_PROXY": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1"},
    ],
    ids=["malformed", "dead"],
)
def test_fc76_a_run_goes_straight_to_its_server(home: Path, proxies: dict[str, str]) -> None:
    record = launched(home, "s", own_port())
    words = ("run", f"http://0.0.0.0:{record.port}", "--workload", "short", "--requests", "2", "--max-tokens", "8")
    done = subprocess.run(
        [sys.executable, "-m", "spectui", *words, "--flush", "--json"],
        env={**os.environ, **proxies},
        cwd=Path(__file__).parents[2],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    said = json.loads(done.stdout)
    assert (done.returncode, said["requests"], said["failed"]) == (0, 2, 0)
    assert serving.stop("s").clear


def test_fc84_what_was_begun_on_the_screen_ends_with_it_where_that_was_asked(home: Path) -> None:
    before = launched(home, "before", own_port())
    began = time.time()
    meanwhile = launched(home, "meanwhile", own_port())
    assert screen.end_since(began) == ["meanwhile"]
    assert not servers.alive(meanwhile)
    assert servers.alive(before)
    assert serving.stop("before").clear
