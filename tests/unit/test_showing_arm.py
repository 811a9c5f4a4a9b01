"""What is shown of an arm's settings follows what they rest on, and is not worked out anew without need."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from spectui.session import showing_arm
from spectui.session.live_arm import LiveArm
from spectui.session.view import SettingView


@pytest.mark.parametrize("changed", ["profile", "info", "staged", "stored", "version"])
def test_settings_are_worked_out_once_for_the_same_grounds(monkeypatch: pytest.MonkeyPatch, changed: str) -> None:
    asked: list[str] = []

    def worked_out(arm: LiveArm) -> tuple[SettingView, ...]:
        asked.append(arm.letter)
        return (SettingView("key", "title", str(len(asked))),)

    monkeypatch.setattr(showing_arm, "worked_out", worked_out)
    monkeypatch.setattr(showing_arm, "_WORKED_OUT", {})
    grounds: dict[str, Any] = {name: object() for name in ("profile", "info", "staged", "stored", "version")}
    arm = SimpleNamespace(letter="A", **grounds)
    values = [showing_arm.settings_of(cast("LiveArm", arm))[0].value for _ in range(2)]
    setattr(arm, changed, object())
    values.append(showing_arm.settings_of(cast("LiveArm", arm))[0].value)
    assert values == ["1", "1", "2"]
