"""Workloads: what each asks, what it feeds, how it fits the algorithms of both arms; and what the next run measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from spectui.session.running import RunOptions
from spectui.ui.run_options import ABOUT_PASSES, PASSES, faults_of, now_words, options_of, texts_of
from spectui.ui.screens import page
from spectui.ui.screens.sentences import many, sentence
from spectui.ui.screens.workloads_view import Known, cells, details, known_of
from spectui.ui.widgets.form import Field, Form
from spectui.ui.widgets.rows import Item, RowList, TextPage
from spectui.ui.widgets.text_table import Column
from spectui.workloads import WorkloadError, catalogue, from_file

COLUMNS = (
    Column("workload"),
    Column("what it is", drop=3, least=12),
    Column("feeding", right=True, drop=2),
    Column("measuring", right=True),
    Column("limit", right=True, drop=1),
    Column("marks", least=8, drop=4),
)


class WorkloadsScreen(page.Page):
    NAME = "workloads"
    BINDINGS: ClassVar[list[Any]] = page.bindings("workloads")
    DEFAULT_CSS = """
    WorkloadsScreen {
        & RowList { height: 8; }
        &.-wide RowList { height: 1fr; }
        &.-wide #right { height: 100%; layout: vertical; }
        & #right { height: 1fr; layout: vertical; }
        & #right > * { width: 100%; }
        & Form { margin-bottom: 1; }
        &.-narrow Form { margin-bottom: 0; }
    }
    """

    @dataclass
    class Judged(Message):
        """How what is chosen suits the arms."""

        asked: tuple[str, ...]
        found: tuple[str, ...]

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._judged: dict[tuple[str, ...], tuple[str, ...]] = {}
        measuring = getattr(live, "measuring", None)
        self._options: RunOptions = getattr(measuring, "options", None) or RunOptions(workload="mixed")
        self._values: dict[str, str] = texts_of(self._options)

    def parts(self) -> Iterator[Any]:
        from textual.containers import Container

        yield RowList(id="rows")
        with Container(id="right", classes="side"):
            yield Form(id="form")
            yield TextPage(id="details")

    def read(self) -> tuple[Known, ...]:
        return tuple(known_of(entry) for entry in catalogue())

    def title_words(self) -> str:
        return f"{many(len(self.data), 'workload')} · now: {now_words(self._options)}"

    def status(self) -> tuple[str, str]:
        fault = self._fault()
        if fault:
            return fault, "bad"
        return "enter takes what is shown for the next run; tab moves to its options", ""

    def take(self, data: Any) -> None:
        first = self.data is None
        super().take(data)
        if first and self._options.workload:
            self.rows.go_to(self._options.workload)

    def draw(self) -> None:
        self.rows.show(COLUMNS, [Item(k.name, cells(k)) for k in self.data])
        self._fields()
        self._details()

    @property
    def here(self) -> Known | None:
        item = self.rows.item
        return next((k for k in self.data or () if item is not None and k.name == item.key), None)

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._fields()
        self._details(fresh=True)
        self._frame()

    def on_form_changed(self, message: Form.Changed) -> None:
        self._values[message.key] = message.value
        self._fields()
        self._details()
        self._frame()

    # -- the form

    def _fields(self) -> None:
        one, values = self.here, self._values
        limit = one.workload.max_tokens if one is not None and one.workload is not None else 256
        count = one.measuring if one is not None else 0
        faults = faults_of(values, None if values["file"].strip() else count)
        self.query_one("#form", Form).show(
            (
                Field("passes", "pass", values["passes"], tuple(PASSES), ABOUT_PASSES),
                Field(
                    "concurrency",
                    "at a time",
                    values["concurrency"],
                    (),
                    "requests at a time, such as 1,4,16",
                    faults.get("concurrency", ""),
                ),
                Field(
                    "requests",
                    "requests",
                    values["requests"],
                    (),
                    "the first so many of the measuring prompts",
                    faults.get("requests", ""),
                    f"all {count}" if count else "all",
                ),
                Field(
                    "max_tokens",
                    "output limit",
                    values["max_tokens"],
                    (),
                    "tokens of an answer at most",
                    faults.get("max_tokens", ""),
                    f"{limit}, as suits the workload",
                ),
                Field(
                    "file",
                    "file of prompts",
                    values["file"],
                    (),
                    "in place of the workload: prompts, chats or ShareGPT, one JSON a line",
                    faults.get("file", ""),
                    "none",
                ),
            )
        )

    def _fault(self) -> str:
        one = self.here
        if one is not None and one.error:
            return one.error
        count = one.measuring if one is not None and not self._values["file"].strip() else None
        return next(iter(faults_of(self._values, count).values()), "")

    def action_take(self) -> None:
        one, fault = self.here, self._fault()
        if fault or one is None:
            self.say(fault or "there is no workload under the cursor", "bad")
            return
        name, values = one.name, dict(self._values)

        def take() -> str:
            options = options_of(values, name, self._options)
            if options.file is not None:
                workload = from_file(options.file)
                measuring = len(workload.measuring(0))
                if options.requests is not None and options.requests > measuring:
                    raise WorkloadError(f"{options.file} has {measuring} prompts to measure with, fewer than asked for")
            self._options = options
            measuring_part = getattr(self.live, "measuring", None)
            if measuring_part is not None:
                measuring_part.options = options
            return f"r and c on the home screen now measure {now_words(options)}"

        self.later(take, then_read=False)

    # -- details

    def _details(self, *, fresh: bool = False) -> None:
        one = self.here
        arms = algorithms_of(self.live)
        judged = self._judged.get(self._asked_now(one)) or ()
        self.query_one("#details", TextPage).show(
            lambda width: details(one, arms, width, judged) if one is not None else (), keep_place=not fresh
        )
        if one is not None and one.workload is not None and not judged:
            self._judge(self._asked_now(one))

    def _asked_now(self, one: Known | None) -> tuple[str, ...]:
        """What a judgement of fit depends on."""
        return (one.name if one is not None else "", *self._values.values(), *algorithms_of(self.live).values())

    @work(thread=True, exclusive=True, group="fit", exit_on_error=False)
    def _judge(self, asked: tuple[str, ...]) -> None:
        """Does what is chosen suit the servers on both arms? Their settings are known already: nothing is asked."""
        worker = get_current_worker()
        values = dict(zip(self._values, asked[1:], strict=False))
        if faults_of(values, None):
            return
        try:
            found = judge(self.live, options_of(values, asked[0], self._options))
        except Exception as fault:
            found = (sentence(fault),)
        if not worker.is_cancelled:
            self.post_message(self.Judged(asked, found))

    def on_workloads_screen_judged(self, message: WorkloadsScreen.Judged) -> None:
        self._judged[message.asked] = message.found or ("",)
        if message.asked == self._asked_now(self.here):
            self._details()

    @property
    def details(self) -> TextPage:
        return self.query_one("#details", TextPage)


def algorithms_of(live: Any) -> dict[str, str]:
    """Letter -> algorithm of what is on that arm."""
    arms: Mapping[str, Any] = getattr(live, "arms", {})
    return {letter: str(arm.algorithm) for letter, arm in arms.items() if getattr(arm, "algorithm", "")}


def judge(live: Any, options: RunOptions) -> tuple[str, ...]:
    """A sentence an arm that holds a server whose settings are known. Blocks for some tens of milliseconds."""
    from spectui.session import fitting, running

    infos = {letter: arm.info for letter, arm in getattr(live, "arms", {}).items() if arm.info is not None}
    if not infos:
        return ()
    spec = running.build_spec([], options)
    asked, fits = fitting.before(spec, infos)
    return (asked.text, *(one.text for one in fits))
