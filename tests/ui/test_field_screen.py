"""Field cases about the screen: what it sends when nothing changes, or when much does."""

from __future__ import annotations

from typing import Any

import pytest
from test_home import Still, loaded, make_app, settle, shown, with_arm

from spectui.core.gpu import GpuReading
from spectui.engines.sglang.log import read_log
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.serving import SUSPECT
from spectui.session.live import Live
from spectui.ui.app import SpectuiApp

LOW = (
    "[2026-01-01 00:00:00 TP0] Decode batch, #running-req: 1, #token: 9, token usage: 0.01, accept len: 1.00, "
    "accept rate: 0.00, cuda graph: False, gen throughput (token/s): 50.00, #queue-req: 0\n"
)


class Watched:
    """What a watch of a managed server knows, without a server."""

    def __init__(self, text: str) -> None:
        self.log = read_log(text)


@pytest.fixture
def live(ground: object) -> Live:
    return with_arm(Still(gpus=False), num_draft_tokens=8)


def sent(app: SpectuiApp, monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Every update of the terminal from here on."""
    found: list[object] = []
    monkeypatch.setattr(app, "_display", lambda _screen, update: found.append(update))
    return found


async def test_fc66_nothing_is_sent_while_nothing_changes(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.pause()
        found = sent(app, monkeypatch)
        for _ in range(20):
            app.paint_now()
            await pilot.pause()
        assert found == []
        live.say("something else")
        app.paint_now()
        await pilot.pause()
        assert found, "a change is sent"


async def test_fc66_a_burst_of_log_lines_is_one_update(live: Live, monkeypatch: pytest.MonkeyPatch) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("l")
        app.paint_now()
        await pilot.pause()
        found = sent(app, monkeypatch)
        for i in range(500):
            live.arms["A"].log = (*live.arms["A"].log, f"noise [{i} [bold]x[/]")[-60:]
            app.paint_soon()
        await settle(app, pilot, lambda: "noise [499" in shown(app))
        assert 0 < len(found) <= 10


async def test_fc01_and_fc19_of_a_managed_server_are_seen_at_once(live: Live) -> None:
    arm: Any = live.arms["A"]
    arm.info = arm.info.__class__(**{**_fields(arm.info), "algorithm": "EAGLE3", "model_path": "m/model"})
    assert arm.standing() == ("ready", "")
    arm._watch = Watched(LOW * 3)
    state, trouble = arm.standing()
    assert state == "suspect"
    assert trouble.startswith("drafts are never accepted")
    card = live.snapshot(0.0).arms[0]
    assert "100 % of decode windows without graphs (from 1 running)" in card.model
    arm.info = arm.info.__class__(**{**_fields(arm.info), "algorithm": "NGRAM"})
    assert arm.standing() == ("ready", ""), "an empty store begins like that"


async def test_fc60_a_stuck_server_is_told_with_its_gpu(live: Live) -> None:
    arm: Any = live.arms["A"]
    arm._serves, arm.pids = SUSPECT, (7,)
    arm.idle = arm.idle.__class__(running=3)
    busy = GpuReading(uuid="0", index=0, name="H", utilization=100, power_w=118, power_limit_w=700, pids=(7,))
    live.gpu_panel = GpuPanel((busy,), "ok")
    assert live.snapshot(0.0).arms[0].trouble.startswith("GPU 0: busy but no output, maybe stuck; suspect")


async def test_fc67_the_command_is_kept_for_after_the_end(live: Live) -> None:
    app = make_app(live)
    async with app.run_test(size=(120, 40)) as pilot:
        await loaded(app, pilot)
        await pilot.press("y")
        await settle(app, pilot, lambda: live.notice is not None)
        assert live.notice is not None
        assert "copied" not in live.notice.text
        assert "--speculative-num-draft-tokens 8" in app.parting


def _fields(value: Any) -> dict[str, Any]:
    return {name: getattr(value, name) for name in value.__dataclass_fields__}
