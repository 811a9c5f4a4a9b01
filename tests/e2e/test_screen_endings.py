"""Whatever ends the screen, the terminal is left as it was, and the end comes soon."""

from __future__ import annotations

import re
import signal
import socket
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from screen_terminal import Terminal

Open = Callable[..., Terminal]
THERE = "q quit"
"""The last line of the screen, so that the whole of it has been drawn."""


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Open]:
    made: list[Terminal] = []

    def open_(*words: str, **options: object) -> Terminal:
        made.append(Terminal(words, tmp_path, **options))  # type: ignore[arg-type]
        return made[-1]

    yield open_
    for terminal in made:
        terminal.close()


@pytest.fixture
def nobody() -> Iterator[str]:
    """An address where nothing listens, and nothing else can while the test runs."""
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))
        yield f"http://127.0.0.1:{held.getsockname()[1]}"


def test_a_server_that_is_not_there_is_a_state_and_the_quit_key_leaves_a_clean_terminal(
    opened: Open, nobody: str
) -> None:
    terminal = opened(nobody)
    terminal.wait(lambda text: "not there" in text and "o chooses another server" in text)
    assert "1049" in terminal.left_on()
    terminal.keys("q")
    assert terminal.ended() == 0
    assert terminal.left_on() == set()


@pytest.mark.parametrize(
    ("number", "codes"), [(signal.SIGTERM, {143, 0}), (signal.SIGINT, {130}), (signal.SIGHUP, {129})]
)
def test_signals_end_it_cleanly(opened: Open, nobody: str, number: int, codes: set[int]) -> None:
    terminal = opened(nobody)
    terminal.wait(THERE)
    terminal.kill(number)
    assert terminal.ended(5.0) in codes
    assert terminal.left_on() == set()


def test_control_c_ends_it(opened: Open, nobody: str) -> None:
    terminal = opened(nobody)
    terminal.wait(THERE)
    terminal.keys("\x03")
    assert terminal.ended() == 0
    assert terminal.left_on() == set()


def test_a_fault_inside_is_one_sentence_and_exit_code_1(opened: Open, nobody: str, tmp_path: Path) -> None:
    (tmp_path / "config").mkdir()
    hook = tmp_path / "hook"
    hook.mkdir()
    # A start-up hook stands in for a fault that nobody foresaw: the help screen fails when it is made.
    (hook / "sitecustomize.py").write_text(
        "import sys\n"
        "class Finder:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        "        if name == 'spectui.ui.screens.runs':\n"
        "            raise RuntimeError('a fault [that] nobody foresaw')\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    terminal = opened(nobody, env={"PYTHONPATH": str(hook)})
    terminal.wait(THERE)
    terminal.keys("5")
    assert terminal.ended() == 1
    assert terminal.left_on() == set()
    after = terminal.raw.rpartition(b"\x1b[?1049l")[2].decode()
    assert "something went wrong inside spectui (RuntimeError)" in after
    assert "Traceback" not in after
    (report,) = (tmp_path / "state").glob("crash-*.txt")
    assert "nobody foresaw" in report.read_text()


def test_a_dropped_line_ends_it(opened: Open, nobody: str) -> None:
    terminal = opened(nobody)
    terminal.wait(THERE)
    terminal.drop_line()
    assert not Path(f"/proc/{terminal.child.pid}").exists()


def test_ascii_sends_nothing_else(opened: Open, nobody: str) -> None:
    terminal = opened("--ascii", nobody)
    terminal.wait(THERE)
    terminal.keys("?")
    terminal.wait("esc leaves")
    assert terminal.raw.isascii()


def test_a_c_locale_gets_ascii(opened: Open, nobody: str) -> None:
    terminal = opened(nobody, env={"LC_ALL": "C", "LANG": "C"})
    terminal.wait(THERE)
    assert terminal.raw.isascii()


def test_no_color_sends_no_colours(opened: Open, nobody: str) -> None:
    terminal = opened(nobody, env={"NO_COLOR": "1"})
    terminal.wait(THERE)
    coloured = [
        found.group()
        for found in re.finditer(rb"\x1b\[[\d;]*m", terminal.raw)
        if any(part in (b"31", b"32", b"33", b"36", b"41", b"42") for part in found.group()[2:-1].split(b";"))
    ]
    assert coloured == []


def test_over_ssh_the_mouse_is_left_to_the_terminal(opened: Open, nobody: str) -> None:
    terminal = opened(nobody, env={"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"})
    terminal.wait(THERE)
    assert b"\x1b[?1003h" not in terminal.raw
    asked = opened("--mouse", nobody, env={"SSH_CONNECTION": "10.0.0.1 1 10.0.0.2 22"})
    asked.wait(THERE)
    assert b"\x1b[?1003h" in asked.raw


def test_the_screen_is_drawn_on_the_terminal_even_where_errors_go_elsewhere(
    opened: Open, nobody: str, tmp_path: Path
) -> None:
    terminal = opened(nobody, errors_to=tmp_path / "errors")
    terminal.wait(THERE)
    terminal.keys("q")
    assert terminal.ended() == 0
    assert (tmp_path / "errors").read_text() == ""
