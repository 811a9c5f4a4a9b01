"""The demonstration on a terminal: flip, run, compare, save; and nothing of it is left behind."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen_terminal import Terminal


def records(home: Path) -> list[dict[str, object]]:
    return [json.loads(path.read_text()) for path in (home / "state" / "servers").glob("*.json")]


@pytest.fixture
def demo(tmp_path: Path) -> Iterator[Terminal]:
    terminal = Terminal(["demo", "--sim-speed", "20"], tmp_path, size=(80, 24))
    yield terminal
    terminal.close()


def test_it_is_driven_from_a_flip_to_a_saved_profile(demo: Terminal, tmp_path: Path) -> None:
    demo.wait(lambda text: "being" in text or "last run" in text, 60)
    assert "simulated" in demo.text
    demo.wait(lambda text: "complete" in text, 90)
    demo.keys("]")
    demo.wait("draft tokens 8 → 12 staged")
    demo.wait(lambda text: "predicted accept length" in text or "no prediction" in text, 60)
    demo.keys("\r")
    demo.wait("A is ready: NGRAM, draft tokens 8 → 12", 60)
    assert any("12" in record["argv"] for record in records(tmp_path))  # type: ignore[operator]
    demo.keys("c")
    demo.wait(lambda text: "complete" not in text, 30)
    demo.wait(lambda text: "complete" in text and ("A is" in text or "no difference" in text or "fair" in text), 90)
    demo.wait("×  [")
    demo.keys("s")
    demo.wait("demo-a-ngram")
    demo.keys("\x15")
    demo.wait(lambda text: "demo-a-ngram" not in text)
    demo.keys("mine")
    demo.wait("mine")
    demo.keys("\r")
    demo.wait("saved as")
    saved = (tmp_path / "config" / "profiles" / "mine.toml").read_text()
    assert "num_draft_tokens = 12" in saved
    pids = [int(str(record["pid"])) for record in records(tmp_path)]
    assert len(pids) == 2
    demo.keys("q")
    assert demo.ended(30) == 0
    assert demo.left_on() == set()
    assert records(tmp_path) == []
    assert not any(Path(f"/proc/{pid}").exists() for pid in pids)


def test_its_servers_end_even_when_it_is_killed(demo: Terminal, tmp_path: Path) -> None:
    import signal
    import time

    demo.wait(lambda text: text.count("simulated") >= 2, 60)
    pids = [int(str(record["pid"])) for record in records(tmp_path)]
    assert len(pids) == 2
    demo.kill(signal.SIGKILL)
    end = time.monotonic() + 30
    while any(Path(f"/proc/{pid}").exists() for pid in pids):
        assert time.monotonic() < end, "a simulated server outlived the demonstration"
        demo.read(0.1)
