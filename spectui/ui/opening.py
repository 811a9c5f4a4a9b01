"""From the command line to the screen and back: what the terminal can do, the config, and the last words."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from spectui.ui.app import SpectuiApp
from spectui.ui.commands import BY_ID
from spectui.ui.terminal import speaks_unicode, terminal_driver, with_stderr_on_terminal

if TYPE_CHECKING:
    from spectui.session.live import Live


def open_app(
    targets: tuple[str, ...] = (),
    *,
    slow: bool = False,
    ascii_only: bool = False,
    mouse: bool | None = None,
    key: str | None = None,
    admin_key: str | None = None,
    live: Live | None = None,
    opening: Callable[[Live], object] | None = None,
) -> int:
    """Opens the screen and returns the exit code. ``opening`` takes the place of looking for servers."""
    if not sys.stderr.isatty():
        return with_stderr_on_terminal(lambda: open_app(targets, slow=slow, ascii_only=ascii_only, mouse=mouse, key=key,
                                                        admin_key=admin_key, live=live, opening=opening))  # fmt: skip
    config = read_config()
    form = "block" if os.environ.get("TERM") == "linux" else "braille"  # the console's fonts have no braille
    form = "ascii" if ascii_only or not speaks_unicode() else form

    def make() -> Live:
        from spectui.session.live import Live

        return live or Live(key=key, admin_key=admin_key)

    app = SpectuiApp(
        make,
        opening=opening or (lambda made: made.open(targets)),
        slow=slow,
        chart_form=form,
        theme=config.get("theme") if isinstance(config.get("theme"), str) else None,
        keys=known_keys(config.get("keys")),
        driver_class=terminal_driver(ascii_only=form == "ascii"),
    )
    # Over SSH the mouse floods the line with every movement, and takes the terminal's own selection away.
    take_mouse = mouse if mouse is not None else not (slow or os.environ.get("SSH_CONNECTION"))
    code = 1
    try:
        app.run(mouse=take_mouse)
        code = app.return_code or 0
    finally:
        app.left()
        if app.live_or_none is not None:
            app.live_or_none.close()
    if app.parting:
        with contextlib.suppress(OSError):  # the line may be gone
            sys.stdout.write(app.parting)
            sys.stdout.flush()
    if app.last_words:
        sys.stderr.write(app.last_words + "\n")
    return code


def read_config() -> dict[str, Any]:
    """The program's own settings; a file that cannot be read counts as empty, and is told of by ``doctor``."""
    from spectui.store import locations

    try:
        text = locations.config_file().read_text("utf-8")
        from spectui.store.toml_file import tomllib  # only where there is something to read: it costs the first frame

        return dict(tomllib.loads(text))
    except (OSError, ValueError):
        return {}


def known_keys(table: object) -> dict[str, str]:
    if not isinstance(table, Mapping):
        return {}
    return {str(name): key for name, key in table.items() if name in BY_ID and isinstance(key, str) and key}
