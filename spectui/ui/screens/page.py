"""What all screens but home have in common: title, list, details beside or below, a line that asks, the keys."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.app import ComposeResult
from textual.binding import Binding
from textual.containers import Container
from textual.message import Message
from textual.screen import Screen
from textual.worker import get_current_worker

from spectui.core.braille import Row, Run
from spectui.core.safe import safe_text
from spectui.ui import commands
from spectui.ui.screens.sentences import age, sentence
from spectui.ui.widgets.form import AskLine, Question
from spectui.ui.widgets.lines import Part
from spectui.ui.widgets.rows import RowList, TextPage
from spectui.ui.widgets.status_line import keys_row
from spectui.ui.widgets.text_table import wrapped

WIDE = 120
SAID_ROWS = 3


def bindings(name: str) -> list[Binding]:
    """The keys of a screen's own, from the table of commands; each can be bound anew by its id."""
    return [
        Binding(c.key, c.id, c.label, show=False, id=c.id, tooltip=c.help) for c in commands.COMMANDS if name in c.where
    ]


class Page(Screen[None]):
    """Data is read in a thread and shown when it is there; a screen never waits for a disk or a server."""

    NAME: ClassVar[str] = ""
    EVERY_S: ClassVar[float | None] = None
    """Read anew so often while it is seen."""
    HORIZONTAL_BREAKPOINTS = [(0, "-narrow"), (WIDE, "-wide")]  # noqa: RUF012 - as Textual declares it

    DEFAULT_CSS = """
    Page {
        layout: vertical;
        & Part#title { height: 1; width: 100%; }
        & #body { height: 1fr; width: 100%; layout: vertical; }
        & #body > * { width: 100%; }
        & Part#says { height: 1; width: 100%; }
        & Part#keys { height: 1; width: 100%; }
        & AskLine { width: 100%; }
        & .side { height: 1fr; }
        &.-wide #body { layout: horizontal; }
        &.-wide #body > * { width: 5fr; height: 100%; }
        &.-wide #body > .side { width: 4fr; margin-left: 2; }
    }
    """

    @dataclass
    class Taken(Message):
        """What was read."""

        data: Any
        seconds: float

    @dataclass
    class Failed(Message):
        text: str

    @dataclass
    class Said(Message):
        """Something that a thread has to say."""

        text: str
        tone: str = ""

    def __init__(self, live: Any = None) -> None:
        super().__init__()
        self.live = live
        self.data: Any = None
        self.fault = ""
        self._said: tuple[str, str, float] | None = None
        self._read_at: float | None = None
        self._reading = False
        self._said_rows = 1

    # -- parts

    def compose(self) -> ComposeResult:
        yield Part(id="title")
        with Container(id="body"):
            yield from self.parts()
        yield AskLine(id="ask")
        yield Part(id="says")
        yield Part(id="keys")

    def parts(self) -> Iterator[Any]:
        yield RowList(id="rows")
        yield TextPage(id="details", classes="side")

    @property
    def rows(self) -> RowList:
        return self.query_one("#rows", RowList)

    @property
    def details(self) -> TextPage:
        return self.query_one("#details", TextPage)

    # -- data

    def read(self) -> Any:
        """Blocks; in a thread."""
        return None

    def draw(self) -> None:
        """Shows ``self.data``, which is there."""

    def title_words(self) -> str:
        """What stands beside the name of the screen."""
        return ""

    def status(self) -> tuple[str, str]:
        """(sentence, tone) while nothing else is to be said."""
        return "", ""

    def on_mount(self) -> None:
        self.set_interval(1.0, self.tick)
        if self.EVERY_S is not None:
            self.set_interval(self.EVERY_S, self._turn)
        first = next(iter(self.query("#body > *").results()), None)
        if first is not None and first.can_focus:
            first.focus()
        self.reread()
        self.redraw()

    def on_screen_resume(self) -> None:
        if self._read_at is not None:
            self.reread()

    def _turn(self) -> None:
        if self.is_current and not self._reading:
            self.reread()

    def on_resize(self) -> None:
        self._frame()  # its lines are cut to the width: at once, not at the next tick

    def tick(self) -> None:
        """Once a second while it is seen: what runs by the clock."""
        if self.is_current:
            self._frame()

    @work(thread=True, exclusive=True, group="read", exit_on_error=False)
    def reread(self) -> None:
        worker = get_current_worker()
        begun = time.monotonic()
        self._reading = True
        try:
            data = self.read()
        except Exception as fault:  # said on the screen, whatever it is
            answer: Message = self.Failed(sentence(fault))
        else:
            answer = self.Taken(data, time.monotonic() - begun)
        finally:
            self._reading = False
        if not worker.is_cancelled:
            self.post_message(answer)

    def on_page_taken(self, message: Page.Taken) -> None:
        self.take(message.data)

    def take(self, data: Any) -> None:
        """As if it had been read."""
        self.data, self.fault, self._read_at = data, "", time.monotonic()
        self.redraw()

    def on_page_failed(self, message: Page.Failed) -> None:
        self.fault, self._read_at = message.text, time.monotonic()
        self.redraw()

    def on_page_said(self, message: Page.Said) -> None:
        self.say(message.text, message.tone)

    def say(self, text: str, tone: str = "", seconds: float = 12.0) -> None:
        """On the status line for a while. From a thread, post :class:`Said`."""
        self._said = (text, tone, time.monotonic() + seconds) if text else None
        self._frame()

    def redraw(self) -> None:
        if not self.is_attached:
            return
        if self.data is not None:
            with self.app.batch_update():
                self.draw()
        self._frame()

    # -- the frame

    def _frame(self) -> None:
        if not self.is_attached:
            return
        left = f" {self.NAME}"
        words = self.title_words() if self.data is not None else "reading …" if not self.fault else ""
        row: Row = (Run(left, "strong"), Run(f"  {safe_text(words, 160)}", "dim"))
        self.query_one("#title", Part).show([row])
        width = self.app.size.width
        text, tone = self._sentence()
        text = self.spoken(text)
        said = wrapped(text, width, tone)[:SAID_ROWS] if text else [()]
        says = self.query_one("#says", Part)
        if len(said) != self._said_rows:
            self._said_rows = len(said)
            says.styles.height = len(said)
        says.show(said)
        self.query_one("#keys", Part).show([keys_row(self.keys(), width)])

    def spoken(self, text: str) -> str:
        """With the operator's own keys where a sentence names one."""
        bound = getattr(self.app, "keys", None)
        if not isinstance(bound, dict) or not bound:
            return text
        from spectui.ui.spoken_keys import spoken

        return spoken(text, bound, self.NAME)

    def _sentence(self) -> tuple[str, str]:
        if self._said is not None and time.monotonic() < self._said[2]:
            return self._said[:2]
        self._said = None
        if self.fault:
            return self.fault, "bad"
        return self.status() if self.data is not None else ("", "")

    def keys(self) -> tuple[tuple[str, str], ...]:
        """Those of this screen first, as they are bound now."""
        bound = getattr(self.app, "keys", None)
        bound = bound if isinstance(bound, dict) else None
        mine = [c for c in commands.COMMANDS if self.NAME in c.where and c.id != "leave" and self.allowed(c.id)]
        shown = [commands.BY_ID["leave"], *sorted(mine, key=lambda c: c.key != "enter"), commands.BY_ID["help"]]
        return tuple((commands.key_word(c, bound), c.label) for c in shown)

    def allowed(self, command: str) -> bool:
        """Whether a key does anything now; others are left out."""
        return True

    # -- what every screen does

    def ask(self, question: Question) -> None:
        self.query_one("#ask", AskLine).ask(question)

    def action_leave(self) -> None:
        for rows in self.query(RowList):
            if rows.clear_filter():
                return
        if len(self.app.screen_stack) > 1:
            self.app.pop_screen()

    def action_reread(self) -> None:
        self.say("reading …", "dim", 2.0)
        self.reread()

    def action_filter(self) -> None:
        self.rows.begin_filter()

    def action_other_part(self) -> None:
        self.focus_next()

    def put_on_arm(self, letter: str, name: str) -> None:
        """Points an arm at a server, profile or stored run, in a thread."""
        if self.live is None:
            self.say("there is no home screen to put it on", "warn")
            return

        def put() -> str:
            self.live.choose(letter, name)
            return f"{name} is on arm {letter}: 1 shows it"

        self.later(put)

    def ask_arm(self, name: str) -> None:
        self.ask(
            Question(
                f"put {name} on which arm? a or b, esc leaves it",
                lambda key: self.put_on_arm(key.upper(), name),
                letters="ab",
            )
        )

    @work(thread=True, group="act", exit_on_error=False)
    def later(self, act: Callable[[], str], *, then_read: bool = True) -> None:
        """Does something that may block; says what came of it."""
        worker = get_current_worker()
        try:
            said = self.Said(act(), "good")
        except Exception as fault:
            said = self.Said(sentence(fault), "bad")
        if worker.is_cancelled:
            return
        self.post_message(said)
        if then_read:
            self.app.call_later(self.reread)

    def read_age(self) -> str:
        return "" if self._read_at is None else f"read {age(time.monotonic() - self._read_at)} ago"
