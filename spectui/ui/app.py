"""The screen: Textual on the session. It binds keys, runs in threads what blocks, and leaves the terminal clean."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import importlib
import os
import select
import signal
import sys
import threading
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from textual import events
from textual.binding import Binding, BindingType
from textual.driver import Driver
from textual.screen import Screen

from spectui.core.safe import safe_text, to_ascii
from spectui.session.view import ArmView, Snapshot, Status
from spectui.ui import themes
from spectui.ui.backlog import backlog
from spectui.ui.commands import BY_ID, bindings
from spectui.ui.key_order import InOrder
from spectui.ui.messages import Done
from spectui.ui.screens.home import HomeScreen
from spectui.ui.terminal import end_anyway, safe_lines, sentence_of

if TYPE_CHECKING:
    from textual.timer import Timer

    from spectui.session.live import Live
    from spectui.ui.actions import Actions
    from spectui.ui.patient_output import PatientOutput

PAINT_S, SLOW_PAINT_S = 0.5, 1.0
"""In which the whole screen is painted anew, stroke by stroke."""
STROKES = 4
TICKS = ((0, 3), (1,), (2,))
"""The strokes of each frame. A frame costs as much processor time as a chart, so that small ones go together."""
REST_S = 0.05
"""The answer to a key comes first; what else is new follows it, so that on a slow line nothing is in its way."""
BACKLOG_LIMIT = 3
PATIENCE = 6_000
"""Bytes, as Textual writes them, that may wait for a free line."""
_END_WITHIN_S = 2.0
_SCREENS = ("servers", "workloads", "compare", "runs", "profiles", "check", "sweep")


class SpectuiApp(InOrder):
    """``make`` gives the session. It is called in a thread once the first frame is out, since what the session needs
    takes longer to import than Textual itself. ``opening`` then points its arms at servers."""

    CSS_PATH = "spectui.tcss"
    ENABLE_COMMAND_PALETTE = False
    TITLE = "spectui"
    BINDINGS: ClassVar[list[BindingType]] = [
        *bindings(""),
        Binding("ctrl+c,ctrl+q", "app.leave_all", show=False, priority=True),
    ]

    def __init__(
        self,
        make: Callable[[], Live],
        *,
        opening: Callable[[Live], object],
        slow: bool = False,
        chart_form: str = "braille",
        theme: str | None = None,
        keys: Mapping[str, str] | None = None,
        driver_class: type[Driver] | None = None,
    ) -> None:
        super().__init__(driver_class=driver_class)
        self.live_or_none: Live | None = None
        self.chart_form = chart_form
        """braille, block or ascii: read by every widget."""
        self.keys = dict(keys or {})
        self.slow = slow
        self.last_words = ""
        """Printed on the normal screen after the end."""
        self.parting = ""
        """The launch command that was asked for last, printed after the end, where a terminal can select it."""
        self._make, self._opening = make, opening
        self._sweeps_late = not gc.isenabled()
        self._actions: Actions | None = None
        self._early: list[str] = []
        """Commands that were asked for before the session was there."""
        self._busy: set[str] = set()
        self.set_class(chart_form == "ascii", "-plain")
        for known in themes.THEMES:
            self.register_theme(known)
        self.theme = themes.chosen(theme, slow=slow)  # before the style sheet is read, so that it is read once
        self._paint_asked = False
        self._tick_number = 0
        self._shot: Snapshot | None = None
        self._rest: Timer | None = None
        self._hangup: select.poll | None = None
        self._last_resort: threading.Timer | None = None
        if keys:
            self.set_keymap(dict(keys))

    @property
    def live(self) -> Live:
        """The session; only asked for once it is there."""
        assert self.live_or_none is not None, "the session is not there yet"
        return self.live_or_none

    # -- life

    def get_default_screen(self) -> Screen[None]:
        return HomeScreen(*self.size)

    def refresh_css(self, animate: bool = True) -> None:
        """Before there is a screen, a chosen theme only gives the style sheet other colours; it is read when it is
        first needed."""
        if self.screen_stack:
            super().refresh_css(animate)
        else:
            self.stylesheet.set_variables(self.get_css_variables())

    def on_mount(self) -> None:
        self._listen_to_signals()
        self.set_interval((SLOW_PAINT_S if self.slow else PAINT_S) / len(TICKS), self._tick)
        self.call_after_refresh(self._first_frame)

    def _first_frame(self) -> None:
        self.paint_now()
        if self._sync_available:  # it answers questions
            with contextlib.suppress(AttributeError):
                self._driver.ask()  # type: ignore[union-attr]
        self.in_background("load", self._load, self._loaded)

    def on_terminal_supports_synchronized_output(self) -> None:
        answered = getattr(self._driver, "answered", None)
        if answered is not None:
            answered()

    def _load(self) -> tuple[Live, Actions]:
        from spectui.ui.actions import Actions

        return self._make(), Actions(self)

    def _loaded(self, made: tuple[Live, Actions]) -> None:
        self._set_aside()
        gc.enable()
        self.stylesheet.read(Path(__file__).with_name("dialogs.tcss"))
        live, self._actions = made
        self.live_or_none = live
        live.start()
        self.in_background("open", lambda: self._opening(live), self._opened)
        for name in self._early:
            self._actions.do(name)

    def _opened(self, said: object) -> None:
        self._set_aside()
        if isinstance(said, str) and said:
            self.tell(said, "good")

    def _set_aside(self) -> None:
        """What was imported stays until the end: no later sweep for garbage, which holds up the loop, walks through."""
        if self._sweeps_late:
            gc.freeze()

    def _listen_to_signals(self) -> None:
        if self.is_headless or threading.current_thread() is not threading.main_thread():
            return
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGHUP, signal.SIGINT):
            loop.add_signal_handler(number, self.end_by_signal, number)
        self._hangup = select.poll()
        self._hangup.register(sys.__stdin__.fileno() if sys.__stdin__ else 0, 0)  # hang-ups are always told

    def end_by_signal(self, number: int) -> None:
        """Leaves as by the quit key; should anything hang, the terminal is put right and the process ended."""
        self._last_resort = end_anyway(self._driver, 128 + number, _END_WITHIN_S)
        self.exit(return_code=128 + number)

    def left(self) -> None:
        """The terminal is its own again: what is still to be done may take its time."""
        if self._last_resort is not None:
            self._last_resort.cancel()

    def _tick(self) -> None:
        if self._hangup is not None and any(
            event & (select.POLLHUP | select.POLLERR) for _, event in self._hangup.poll(0)
        ):
            self._hangup = None
            self.end_by_signal(signal.SIGHUP)
            return
        for stroke in TICKS[self._tick_number]:
            self.paint_now(stroke)
        self._tick_number = (self._tick_number + 1) % len(TICKS)

    def paint_soon(self) -> None:
        """Once what is being handled now is done: a key is answered at once, not at the next tick; of a burst, the
        last one."""
        if not self._paint_asked and not self.keys_wait:
            self._paint_asked = True
            self.call_later(self._answer)

    def _answer(self) -> None:
        self._paint_asked = False
        self.paint_now(0)
        if getattr(self.screen, "STROKES", 1) > 1 and self._rest is None:
            self._rest = self.set_timer(REST_S, self._paint_rest)

    def _paint_rest(self) -> None:
        self._rest = None
        for stroke in range(1, STROKES):
            self.paint_now(stroke)

    def paint_now(self, stroke: int | None = None) -> None:
        """One frame, unless the line has not taken the last ones yet. A ``stroke`` is a part of the screen: small
        frames one after another hold up neither the event loop nor, on a slow line, the answer to a key. All strokes
        show the moment of the first."""
        now = time.time()
        first = stroke is None or stroke == 0
        if first and self.live_or_none is not None:
            self.live_or_none.pump(now)
        if self._waits(stroke):
            return
        if not self.is_running or backlog(self) >= BACKLOG_LIMIT or not self.screen_stack:
            return  # it is being taken down, or the line lags
        paint = getattr(self.screen, "paint", None)
        if paint is None or not self.screen.is_mounted:
            return
        if first or self._shot is None:
            self._shot = self.snapshot(now)
        with self.batch_update():
            if stroke is not None and getattr(self.screen, "STROKES", 1) > 1:
                paint(self._shot, stroke)
            elif first:
                paint(self._shot)

    def _waits(self, stroke: int | None) -> bool:
        """What a key does not ask for stays undrawn while much of its like waits for a free line."""
        patient: PatientOutput | None = getattr(self._driver, "patient", None)
        if patient is None or not self.is_running or not self.screen_stack:
            return False
        rows = getattr(self.screen, "patient_rows", None)
        patient.rows = rows() if rows is not None and self.screen.is_mounted else ()
        return bool(stroke) and patient.waiting > PATIENCE

    def snapshot(self, now: float | None = None) -> Snapshot:
        now = time.time() if now is None else now
        if self.live_or_none is None:
            return nothing_yet(now)
        shot = self.live_or_none.snapshot(now)
        if self.keys:
            from spectui.ui.spoken_keys import respoken

            shot = respoken(shot, self.keys)
        return shot

    # -- what blocks

    def in_background(self, group: str, work: Callable[[], Any], then: Callable[[Any], None] | None = None) -> None:
        """Runs ``work`` in a thread, one of a group at a time. A thread that hangs does not keep the program alive."""
        if group in self._busy:
            self.tell(f"{group}: still at work", "warn")
            return
        self._busy.add(group)

        def run() -> None:
            result, error = None, None
            try:
                result = work()
            except Exception as fault:
                error = fault
            with contextlib.suppress(Exception):  # the screen may be gone by now
                self.post_message(Done(group, result, error, then))

        threading.Thread(target=run, name=f"work-{group}", daemon=True).start()

    async def on_done(self, message: Done) -> None:
        self._busy.discard(message.group)
        if message.error is not None and message.group == "load":  # without a session there is nothing to show
            self.last_words = f"spectui: {sentence_of(message.error)}"
            self.exit(return_code=1)
        elif message.error is not None:
            self.show_error(message.error)
        elif message.then is not None:
            message.then(message.result)
        elif isinstance(message.result, str) and message.result:
            self.tell(message.result, "good")
        await self.next_key()
        self.paint_soon()

    def tell(self, text: str, tone: str = "") -> None:
        """A sentence on the status line."""
        if self.live_or_none is not None:
            self.live.say(safe_text(text, 600), tone)
        self.paint_soon()

    def show_error(self, error: Exception) -> None:
        """An error as a sentence on the status line, and as a toast where that is not seen or too short. What nobody
        foresaw goes to a file."""
        text = sentence_of(error)
        first = text.splitlines()[0]
        if self.live_or_none is not None:
            self.live.say(safe_text(first, 600), "bad", seconds=20)
        if self.live_or_none is not None and self.where == "home" and not self.screen.is_modal and first == text:
            return  # the status line says it all
        shown = to_ascii(text) if self.chart_form == "ascii" else text
        self.notify(safe_lines(shown), severity="error", timeout=8, markup=False)

    # -- keys

    def holds(self, event: events.Event) -> bool:
        """Until the session is there, while a change is being staged, which the next key builds upon, and while a
        dialog is on its way, to which the next keys belong. Leaving never waits."""
        leaving = ["ctrl+c", "ctrl+q"]
        if self.live_or_none is not None and not {"stage", "find"} & self._busy:
            return False
        if self.live_or_none is None:
            leaving.append(self.keys.get("quit", BY_ID["quit"].key))
        return not (isinstance(event, events.Key) and event.key in leaving)

    def action_do(self, name: str) -> None:
        if name == "quit":
            self.exit(return_code=0)
        elif self._actions is not None:
            self._actions.do(name)
        else:
            self._early.append(name)
        self.paint_soon()

    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """No command works from inside a dialog: its keys are letters of a text there."""
        return not (action == "do" and self.screen.is_modal)

    def action_leave_all(self) -> None:
        self.exit(return_code=0)

    @property
    def where(self) -> str:
        """Name of the screen that is seen, as the table of commands knows it."""
        screen = next((s for s in reversed(self.screen_stack) if not s.is_modal), None)
        return "home" if isinstance(screen, HomeScreen) else str(getattr(screen, "NAME", ""))

    def open_screen(self, name: str, **more: Any) -> None:
        """A screen of its own module, imported when it is first asked for; ``more`` goes to its class."""
        if name == "home":
            while len(self.screen_stack) > 1:
                self.pop_screen()
            return
        screen = load_screen(name, self.live, **more)
        if screen is None:
            self.tell(f"the screen {name} is not there yet", "warn")
            return
        while len(self.screen_stack) > 1:
            self.pop_screen()
        self.push_screen(screen)

    def _fatal_error(self) -> None:
        """A fault inside spectui: one sentence on the normal screen, the details in a file."""
        error = sys.exc_info()[1]
        if self.is_headless or error is None:
            super()._fatal_error()
            return
        self.last_words = f"spectui: {sentence_of(error)}"
        self._return_code = 1
        self._close_messages_no_wait()


def nothing_yet(now: float) -> Snapshot:
    """What the very first frame shows."""
    a = ArmView("A", "connecting", trouble="looking for servers …")
    b = ArmView("B", "none", trouble="nothing here yet")
    status = Status("starting …", keys=("quit",))
    return Snapshot(now, os.uname().nodename, (a, b), "A", None, gpu_note="not looked at yet", status=status)


def load_screen(name: str, live: Live, **more: Any) -> Screen[Any] | None:
    """``spectui.ui.screens.NAME.NameScreen(live)``; None where there is no such module."""
    module_name = f"spectui.ui.screens.{name}"
    try:
        module = importlib.import_module(module_name)
    except ModuleNotFoundError as error:
        if error.name != module_name:
            raise
        return None
    screen: Screen[Any] = getattr(module, f"{name.capitalize()}Screen")(live, **more)
    return screen
