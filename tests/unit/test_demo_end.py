"""How the demonstration ends: its run first, then both servers at once."""

from __future__ import annotations

import argparse
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import SimpleNamespace
from typing import Any

import pytest

from spectui.cli import demo as command
from spectui.cli import screen
from spectui.session import demo, live, serving


def test_the_run_ends_before_its_servers_do(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    @contextmanager
    def started(*_: Any, **__: Any) -> Iterator[Any]:
        yield SimpleNamespace(names=["a", "b"])
        ended.append("servers")

    measuring = SimpleNamespace(active=True, stop=lambda: ended.append("run"))
    monkeypatch.setattr(demo, "started", started)
    monkeypatch.setattr(live, "Live", lambda **_: SimpleNamespace(measuring=measuring))
    monkeypatch.setattr(screen, "open_screen", lambda *_, **__: 0)
    assert command.run(argparse.Namespace(sim_speed=None, headless=False, json=False)) == 0
    assert ended == ["run", "servers"]


def test_servers_are_stopped_at_once_and_one_that_is_gone_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    together = threading.Barrier(2, timeout=20)
    stopped: list[str] = []

    def stop(name: str) -> None:
        together.wait()  # breaks unless both are in here
        if name == "gone":
            raise demo.SessionError("no server named so")
        stopped.append(name)

    monkeypatch.setattr(serving, "stop", stop)
    demo.stop_all(["gone", "there"])
    assert stopped == ["there"]
