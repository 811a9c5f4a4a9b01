"""Workloads: what each asks, what it feeds, how it fits the algorithms of both arms; and what the next run measures."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, ClassVar

from textual import work
from textual.message import Message
from textual.worker import get_current_worker

from spectui.core.braille import Row, Run
from spectui.core.spec import Prompt
from spectui.session.running import RunOptions
from spectui.ui.screens import page
from spectui.ui.screens.sentences import many, sentence
from spectui.ui.widgets.form import Field, Form
from spectui.ui.widgets.rows import Item, RowList, TextPage
from spectui.ui.widgets.text_table import Cell, Column, pairs, titled, wrapped
from spectui.workloads import MARKS, Entry, Workload, WorkloadError, catalogue, from_file

COLUMNS = (
    Column("workload"),
    Column("what it is", drop=3, least=12),
    Column("feeding", right=True, drop=2),
    Column("measuring", right=True),
    Column("limit", right=True, drop=1),
    Column("marks", least=8, drop=4),
)
PASSES = {"warm": ("warm",), "cold": ("cold",), "both": ("cold", "warm")}


@dataclass(frozen=True, slots=True)
class Known:
    """A workload that can be chosen, with its sizes, or why it cannot."""

    name: str
    workload: Workload | None
    error: str | None = None
    feeding: int = 0
    measuring: int = 0
    sample: Prompt | None = None


def known_of(entry: Entry) -> Known:
    one = entry.workload
    if one is None:
        return Known(entry.name, None, entry.error)
    sets = one.build(0)
    return Known(
        entry.name, one, None, len(sets.feeding), len(sets.measuring), sets.measuring[0] if sets.measuring else None
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
        self.rows.show(COLUMNS, [Item(k.name, _cells(k)) for k in self.data])
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
        about = "cold: flush, measure. warm: flush, feed until steady, measure. Only NGRAM needs it"
        self.query_one("#form", Form).show(
            (
                Field("passes", "pass", values["passes"], tuple(PASSES), about),
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


def now_words(options: RunOptions) -> str:
    what = options.file.name if options.file is not None else options.workload or "mixed"
    passes = next((name for name, value in PASSES.items() if value == options.passes), "+".join(options.passes))
    return f"{what}, {passes} pass, {','.join(map(str, options.concurrency))} at a time"


def texts_of(options: RunOptions) -> dict[str, str]:
    return {
        "passes": next((name for name, value in PASSES.items() if value == options.passes), "warm"),
        "concurrency": ",".join(map(str, options.concurrency)),
        "requests": str(options.requests or ""),
        "max_tokens": str(options.max_tokens or ""),
        "file": str(options.file or ""),
    }


def faults_of(values: Mapping[str, str], measuring: int | None) -> dict[str, str]:
    """Field -> what is wrong with it. ``measuring``: how many prompts there are; None: not known before it is read."""
    found: dict[str, str] = {}
    parts = [part.strip() for part in values["concurrency"].split(",") if part.strip()]
    if not parts or not all(part.isdigit() and int(part) for part in parts):
        found["concurrency"] = "at a time: whole numbers from 1, such as 1,4,16"
    for key, label in (("requests", "requests"), ("max_tokens", "output limit")):
        text = values[key].strip()
        if text and not (text.isdigit() and int(text)):
            found[key] = f"{label}: a whole number from 1, or nothing"
    count = values["requests"].strip()
    if "requests" not in found and count and measuring is not None and int(count) > measuring:
        found["requests"] = f"it has {measuring} prompts to measure with: the same one twice would be contamination"
    return found


def options_of(values: Mapping[str, str], name: str, base: RunOptions) -> RunOptions:
    file = values["file"].strip()
    return replace(
        base,
        workload=None if file else name,
        file=Path(file).expanduser() if file else None,
        passes=PASSES.get(values["passes"], ("warm",)),
        concurrency=tuple(int(part) for part in values["concurrency"].split(",") if part.strip()),
        requests=int(values["requests"]) if values["requests"].strip() else None,
        max_tokens=int(values["max_tokens"]) if values["max_tokens"].strip() else None,
    )


def _cells(one: Known) -> tuple[Cell, ...]:
    if one.workload is None:
        return (one.name, Run("cannot be read", "bad"), "", "", "", "")
    marks = ", ".join(one.workload.marks)
    return (
        one.name,
        one.workload.title,
        str(one.feeding),
        str(one.measuring),
        str(one.workload.max_tokens),
        Run(marks, "warn"),
    )


def fit_rows(one: Workload, arms: Mapping[str, str], width: int) -> list[Row]:
    """What each arm's algorithm makes of such text, by what the algorithm and the workload say of themselves."""
    from spectui import algorithms

    rows: list[Row] = []
    for letter, name in arms.items():
        algorithm = algorithms.for_name(name)
        head = f"{letter} {algorithm.name}"
        if algorithm.name == "none":
            rows += wrapped("drafts nothing: the same on every text", width, first=f"{head}: ")
            continue
        rows += wrapped(f"fits {algorithm.fits}", width, first=f"{head}: ")
        rows += wrapped(f"starves on {algorithm.starves}", width, first="   ")
        if algorithm.stateful:
            feeds = "its store learns from every answer, so the warm pass feeds it first and the cold one begins empty"
            rows += wrapped(feeds, width, "dim", first="   ")
        if algorithm.stateful and "contaminating" in one.marks:
            rows += wrapped(MARKS["contaminating"], width, "warn", first="   ")
    return rows


def details(one: Known, arms: Mapping[str, str], width: int, judged: Sequence[str] = ()) -> list[Row]:
    workload = one.workload
    if workload is None:
        return [titled(one.name, width), *wrapped(one.error or "cannot be read", width, "bad")]
    rows: list[Row] = [titled(f"{one.name}: {workload.title}", width), *wrapped(workload.help, width)]
    facts: list[tuple[str, Cell]] = [
        ("kinds", ", ".join(workload.kinds)),
        ("feeds", f"{many(one.feeding, 'prompt')} of its own, of which none is measured"),
        ("measures", f"{many(one.measuring, 'prompt')}, answers of at most {workload.max_tokens} tokens"),
    ]
    for mark in workload.marks:
        facts.append(("mark", Run(f"{mark}: {MARKS.get(mark, '')}", "warn")))
    rows += pairs(facts, width)
    for note in workload.notes:
        rows += wrapped(note, width, "dim")
    if arms:
        rows.append(titled("fit", width))
        for text in judged:
            rows += wrapped(text, width, "strong")
        rows += fit_rows(workload, arms, width)
    if one.sample is not None:
        rows += [titled("a prompt that is measured", width), *prompt_rows(one.sample, width)]
    return rows


def prompt_rows(prompt: Prompt, width: int, most: int = 1200) -> list[Row]:
    rows: list[Row] = []
    for message in prompt.messages or ():
        rows += wrapped(str(message.get("content"))[:most], width, first=f"{message.get('role')}: ", rest="  ")
    if prompt.text is not None:
        rows += wrapped(prompt.text[:most], width)
    return rows


__all__ = ["Known", "WorkloadsScreen", "details", "faults_of", "known_of", "options_of"]
