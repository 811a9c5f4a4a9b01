"""The terminal around the screen: what it can show, how it is left, and how a fault is told on it."""

from __future__ import annotations

import contextlib
import locale
import os
import threading
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from textual.driver import Driver

from spectui.core.safe import safe_text, to_ascii
from spectui.ui.lean_output import lean
from spectui.ui.patient_output import PatientOutput

if TYPE_CHECKING:
    from pathlib import Path

    from textual.app import App
    from textual.message import Message

QUESTION = "\x1b[?2026$p"
"""Whether frames can be shown at once (DECRQM); any answer will do."""
QUICK_S = 0.2
"""A frame of 10 KB that is answered sooner came over a line on which nothing needs to wait."""


def sentence_of(error: BaseException) -> str:
    """What spectui's own errors say; anything else is written to a file, which the sentence names."""
    kinds = [kind for kind in type(error).__mro__ if kind.__module__.startswith("spectui.")]
    if kinds:
        return str(error)
    if isinstance(error, OSError) and error.strerror:
        return f"{f'{error.filename}: ' if error.filename else ''}{error.strerror}"
    return f"something went wrong inside spectui ({type(error).__name__}). The details are in {write_report(error)}"


def write_report(error: BaseException) -> str:
    import traceback

    from spectui.store import locations

    try:
        path: Path = locations.state_dir() / f"crash-{os.getpid()}.txt"
        path.write_text("".join(traceback.format_exception(error)))
        path.chmod(0o600)
    except OSError:
        return "no file, since none can be written"
    return str(path)


def safe_lines(text: str, most: int = 6) -> str:
    return "\n".join(safe_text(line, 300) for line in text.splitlines()[:most])


def end_anyway(driver: Driver | None, code: int, after_s: float) -> threading.Timer:
    """Ends the process after a while even if the screen hangs: a dead line or a stuck call must not keep it."""

    def end() -> None:
        restore = "\x1b[?1000l\x1b[?1002l\x1b[?1003l\x1b[?1006l\x1b[?2004l\x1b[?1004l\x1b[<u\x1b[?1049l\x1b[?25h\x1b[0m"
        with contextlib.suppress(Exception):
            os.set_blocking(2, False)
            os.write(2, restore.encode())
        attributes = getattr(driver, "attrs_before", None)
        if attributes is not None:
            import termios

            with contextlib.suppress(Exception):
                termios.tcsetattr(0, termios.TCSANOW, attributes)
        os._exit(code)

    timer = threading.Timer(after_s, end)
    timer.daemon = True
    timer.start()
    return timer


def with_stderr_on_terminal(work: Callable[[], int]) -> int:
    """Textual draws on standard error; where that was sent elsewhere, standard output's terminal takes its place."""
    saved = os.dup(2)
    os.dup2(1, 2)
    try:
        return work()
    finally:
        os.dup2(saved, 2)
        os.close(saved)


def speaks_unicode() -> bool:
    encoding = (locale.getpreferredencoding(False) or "").replace("-", "").lower()
    names = [os.environ.get(name, "") for name in ("LC_ALL", "LC_CTYPE", "LANG")]
    first = next((name for name in names if name), "")
    return encoding == "utf8" and first.upper() not in ("C", "POSIX")


def terminal_driver(*, ascii_only: bool = False) -> type[Driver]:
    """Says what is drawn in few bytes, and what can wait a little at a time (``patient``); with ``ascii_only`` nothing
    but ASCII reaches the terminal, whatever a widget draws."""
    from textual.drivers.linux_driver import LinuxDriver
    from textual.events import Key

    class LeanDriver(LinuxDriver):
        asked_at = 0.0

        def __init__(self, app: App[Any], **more: Any) -> None:
            super().__init__(app, **more)
            self.patient = PatientOutput(self._send, self._loop.call_later)

        def write(self, data: str) -> None:
            self.patient.write(data, self._app.size.height)

        def process_message(self, message: Message) -> None:
            if isinstance(message, Key):
                self.patient.hold()
            super().process_message(message)

        def _send(self, data: str) -> int:
            if self._writer_thread is None:
                return 0
            text = lean(to_ascii(data) if ascii_only and not data.isascii() else data)
            super().write(text)
            return len(text)

        def ask(self) -> None:
            """Behind a whole frame: how soon the terminal answers tells how quick its line is. Textual has asked the
            same at the start, so only a terminal that answered then is asked."""
            self.asked_at = time.monotonic()
            self.write(QUESTION)

        def answered(self) -> None:
            if self.asked_at:
                self.patient.quick = time.monotonic() - self.asked_at < QUICK_S
                self.asked_at = 0.0

        def stop_application_mode(self) -> None:
            self.patient.drop()
            super().stop_application_mode()

    return LeanDriver
