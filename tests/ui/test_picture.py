"""A picture of the screen: what is seen, and no key that is seen by mistake."""

from __future__ import annotations

import html
import stat
import time
from pathlib import Path

import pytest

from spectui.session.finding import Choice
from spectui.session.live import Live
from spectui.ui.app import SpectuiApp
from spectui.ui.picture import without_keys

KEY = "PLANTED7x9Qz"


class Still(Live):
    """A session that looks at nothing by itself."""

    def start(self) -> None:
        return

    def servers(self) -> list[Choice]:
        return []


async def test_any_screen_is_saved_without_keys(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    live = Still()
    app = SpectuiApp(lambda: live, opening=lambda _live: None)
    async with app.run_test(size=(120, 40)) as pilot:
        end = time.monotonic() + 20
        while app.live_or_none is None and time.monotonic() < end:
            await pilot.pause()
        for screen, word in (("1", "spectui"), ("6", "profiles")):
            await pilot.press(screen)
            await pilot.pause()
            live.say(f"refused: --api-key {KEY} http://u:{KEY}@h", "bad")
            app.paint_now()
            await pilot.pause()
            await pilot.press("ctrl+e")
            await pilot.pause()
            saved = sorted((tmp_path / "data" / "pictures").glob("*.svg"))[-1]
            text = html.unescape(saved.read_text("utf-8")).replace("\xa0", " ")
            assert text.startswith("<svg")
            assert word in text
            assert KEY not in text
            assert stat.S_IMODE(saved.stat().st_mode) == 0o600
            assert "saved as" in str(app.export_screenshot()).replace("&#160;", " ")


def test_a_key_is_hidden_though_its_flag_is_drawn_apart() -> None:
    def drawn(*texts: str, row: int = 1) -> str:
        return "".join(
            f'<text class="r" clip-path="url(#t-line-{row})">{html.escape(t).replace(" ", "&#160;")}</text>'
            for t in texts
        )

    clean = without_keys(
        "<svg>" + drawn("run --api-key ", KEY, " &amp; more") + drawn("tokens: 5 <b>", row=2) + "</svg>"
    )
    assert KEY not in clean
    assert "run&#160;--api-key&#160;" in clean
    assert "&lt;hidden&gt;" in clean
    assert drawn("tokens: 5 <b>", row=2) in clean
