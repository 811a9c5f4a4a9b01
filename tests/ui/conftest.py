"""For all tests of the screens: an empty home of their own, and one time zone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from screen_makers import Ground


@pytest.fixture
def ground(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Ground]:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    monkeypatch.setenv("TZ", "UTC")
    time.tzset()
    yield Ground(tmp_path, monkeypatch)
    monkeypatch.delenv("TZ")
    time.tzset()
