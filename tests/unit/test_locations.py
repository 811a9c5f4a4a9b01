from __future__ import annotations

import os
from pathlib import Path

import pytest

from spectui.store import locations

FOLDERS = [
    locations.config_dir,
    locations.data_dir,
    locations.state_dir,
    locations.profiles_dir,
    locations.runs_dir,
    locations.servers_dir,
    locations.logs_dir,
    locations.exports_dir,
    locations.known_dir,
]


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda folder: folder.__name__)
def test_one_folder_holds_all_and_only_its_owner_may_look(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, folder):
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    old = os.umask(0o000)
    try:
        place = folder()
    finally:
        os.umask(old)
    assert place.is_relative_to(tmp_path / "home")
    assert place.is_dir()
    assert place.stat().st_mode & 0o777 == 0o700
    assert folder() == place


def test_the_xdg_folders_are_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.delenv("SPECTUI_HOME", raising=False)
    for kind in ("CONFIG", "DATA", "STATE"):
        monkeypatch.setenv(f"XDG_{kind}_HOME", str(tmp_path / kind))
    assert locations.config_file() == tmp_path / "CONFIG" / "spectui" / "config.toml"
    assert locations.runs_dir() == tmp_path / "DATA" / "spectui" / "runs"
    assert locations.logs_dir() == tmp_path / "STATE" / "spectui" / "logs"


def test_a_relative_home_is_made_absolute(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SPECTUI_HOME", "here")
    assert locations.runs_dir() == tmp_path / "here" / "data" / "runs"
