"""Servers of this node in one list, found and managed: start, watch, stop, take over, put on an arm."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from spectui.core.braille import Row, Run
from spectui.hosts.discover import FoundServer
from spectui.hosts.records import ServerRecord
from spectui.hosts.watch import ServerState
from spectui.ui.screens import page, serving_jobs
from spectui.ui.screens.jobs import JOBS, Job
from spectui.ui.screens.sentences import age, lasts, many
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.progress_bar import Progress, progress_row
from spectui.ui.widgets.rows import Item, RowList
from spectui.ui.widgets.text_table import Cell, Column, pairs, table, titled, wrapped

COLUMNS = (
    Column("arm"),
    Column("name", least=16),
    Column("address", drop=7),
    Column("algorithm"),
    Column("model", drop=2, least=10),
    Column("GPUs", drop=3),
    Column("user", drop=6),
    Column("load", drop=1),
    Column("state", least=26),
)


@dataclass(frozen=True, slots=True)
class ServerRow:
    """One server as this screen knows it."""

    name: str
    url: str
    found: FoundServer | None = None
    record: ServerRecord | None = None
    state: ServerState | None = None
    algorithm: str = ""
    model: str = ""
    load: str = ""
    """Requests running now."""
    said: str = ""
    """State in words, where there is no record to tell it."""
    tone: str = ""
    simulated: bool = False

    @property
    def key(self) -> str:
        if self.record is not None:
            return f"record:{self.record.id}"
        return f"found:{self.found.pid if self.found else self.url}"

    @property
    def target(self) -> str:
        """What an arm is pointed at."""
        return self.record.name if self.record is not None else self.url

    @property
    def leftover(self) -> bool:
        return self.found is not None and self.found.leftover


class ServersScreen(page.Page):
    NAME = "servers"
    EVERY_S = 5.0
    BINDINGS: ClassVar[list[Any]] = page.bindings("servers")

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._adoption: Any = None
        self._launched: Job | None = None
        """Its server comes under the cursor as soon as it is in the list."""

    def read(self) -> tuple[ServerRow, ...]:
        from spectui.ui.screens.servers_data import read_servers

        return read_servers(quiet=self._measured())

    def _measured(self) -> frozenset[str]:
        """Addresses that a run is measuring now: nothing is asked of them."""
        measuring = getattr(self.live, "measuring", None)
        letters = measuring.measured_letters() if measuring is not None else ()
        return frozenset(str(self.live.arms[letter].url) for letter in letters if letter in self.live.arms)

    def title_words(self) -> str:
        rows: Sequence[ServerRow] = self.data
        mine = sum(1 for row in rows if row.record is not None)
        return f"{many(len(rows), 'server')} on this node, {mine} of them started by spectui · {self.read_age()}"

    def status(self) -> tuple[str, str]:
        for row in self.data:
            if row.state is not None and row.state.failure is not None:
                return f"{row.name} failed: {row.state.failure.cause}; l shows the log, x clears it away", "bad"
        if any(row.leftover for row in self.data):
            return "a server that is gone left processes behind: e ends them", "warn"
        return "enter puts a server on an arm; n starts one from a profile", ""

    def draw(self) -> None:
        rows: Sequence[ServerRow] = self.data
        empty = "no server on this node: n starts one from a profile, or name a URL on the home screen"
        self.rows.show(COLUMNS, [Item(row.key, self._cells(row)) for row in rows], empty=empty)
        began = self._launched.began if self._launched is not None else None
        fresh = next((row for row in rows if began and row.record is not None and row.record.when >= began), None)
        if fresh is not None:
            self._launched = None
            self.rows.go_to(fresh.key)
        self._details()

    def _cells(self, row: ServerRow) -> tuple[Cell, ...]:
        text, tone = state_words(row)
        text += ", simulated" if row.simulated else ""
        gpus = ",".join(str(g) for g in (row.found.gpus if row.found else ())) or ",".join(
            row.record.gpus if row.record else ()
        )
        user = (row.found.user if row.found else "") or (row.record.user if row.record else "")
        arm = self._arm_of(row)
        return (
            Run(arm, arm.lower()),
            row.name,
            row.url.removeprefix("http://"),
            row.algorithm or "?",
            row.model or "?",
            gpus or "–",
            user,
            row.load or "–",
            Run(text, tone),
        )

    def _arm_of(self, row: ServerRow) -> str:
        arms = getattr(self.live, "arms", {})
        return "".join(letter for letter, arm in arms.items() if getattr(arm, "url", None) == row.url)

    @property
    def here(self) -> ServerRow | None:
        item = self.rows.item
        return next((row for row in self.data or () if item is not None and row.key == item.key), None)

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details()
        self._frame()

    def tick(self) -> None:
        super().tick()
        if self.is_current and self.data is not None:
            self._details()

    def _details(self) -> None:
        row = self.here
        jobs = [*JOBS.of("start"), *JOBS.of("stop"), *JOBS.of("leftovers")]
        shown = [job for job in jobs if job.worth_showing][-3:]
        proposed = tuple(self._adoption.lines) if self._adoption is not None else ()
        self.details.show(lambda width: [*adoption_rows(proposed, width), *details(row, shown, width)])

    # -- keys

    def allowed(self, command: str) -> bool:
        row = self.here
        if command in ("open", "put_a", "put_b", "server_log"):
            return row is not None and not row.leftover
        if command == "server_stop":
            return row is not None and row.record is not None
        if command == "server_adopt":
            return row is not None and row.record is None and not row.leftover
        if command == "server_leftovers":
            return row is not None and (row.leftover or bool(row.record and row.state and not row.state.running))
        return True

    def action_open(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.ask_arm(self.here.target)

    def action_put_a(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.put_on_arm("A", self.here.target)

    def action_put_b(self) -> None:
        if self.here is not None and not self.here.leftover:
            self.put_on_arm("B", self.here.target)

    def action_server_start(self) -> None:
        def launched(job: Job) -> None:
            self._launched = job

        serving_jobs.pick_and_launch(self, launched)

    def action_server_stop(self) -> None:
        row = self.here
        if row is None or row.record is None:
            self.say("spectui ends only servers that it started; others are ended where they were started", "warn")
            return
        name = row.record.name
        text = f"stop {name}? At most about 20 s for requests in flight, then it is ended. y or n"
        self.ask(Question(text, lambda key: self._stop(name) if key == "y" else None, letters="yn"))

    def _stop(self, name: str) -> None:
        serving_jobs.stop(name)
        self._details()
        self._follow("stop", name)

    def _follow(self, kind: str, name: str) -> None:
        """Says how the job ended, when it has."""
        job = JOBS.find(kind, name)

        def look() -> None:
            if job is not None and job.over:
                timer.stop()
                self.say(job.fault or str(job.result or f"{name}: done"), "bad" if job.fault else "good")
                self.reread()

        timer = self.set_interval(0.5, look)

    def action_server_leftovers(self) -> None:
        row = self.here
        if row is None or not self.allowed("server_leftovers"):
            self.say("there are no left-overs under the cursor", "dim")
            return
        record = row.record
        if record is None:
            pids = ", ".join(str(pid) for pid in (row.found.pids if row.found else ()))
            self.say(
                f"spectui has no record of these (pids {pids}), so it cannot prove whose they are: end them yourself",
                "warn",
            )
            return
        text = f"end what {record.name} left behind? y or n"
        self.ask(Question(text, lambda key: self._end_leftovers(record.name) if key == "y" else None, letters="yn"))

    def _end_leftovers(self, name: str) -> None:
        serving_jobs.stop(name, leftovers=True)
        self._follow("stop", name)

    def action_server_adopt(self) -> None:
        row = self.here
        if row is None or row.found is None or row.record is not None or row.leftover:
            self.say("only a found server that spectui did not start can be taken over", "dim")
            return
        url = row.found.url
        job = serving_jobs.propose(
            url, key=getattr(self.live, "key", None), admin_key=getattr(self.live, "admin_key", None)
        )
        self.say(f"looking at what taking over {url} would change …", "dim")

        def look() -> None:
            if job.over:
                timer.stop()
                self._proposed(job)

        timer = self.set_interval(0.2, look)

    def _proposed(self, job: Job) -> None:
        if job.fault:
            self.say(job.fault, "bad", 30)
            return
        self._adoption = job.result
        self._details()
        text = f"taking over ends it and starts it again, as shown above: type {job.result.url} to do it"
        self.ask(Question(text, self._adopt, expected=job.result.url, left=self._adoption_left))

    def _adoption_left(self) -> None:
        self._adoption = None
        self._details()

    def _adopt(self, typed: str) -> None:
        adoption, self._adoption = self._adoption, None
        serving_jobs.adopt(adoption, typed)
        self._details()
        self._follow("start", adoption.url)

    def action_server_log(self) -> None:
        from spectui.ui.screens.log import LogScreen

        row = self.here
        if row is None or row.record is None:
            self.say("only logs of servers that spectui started can be read", "warn")
            return
        self.app.push_screen(LogScreen(self.live, path=row.record.log_path, name=row.record.name))


def state_words(row: ServerRow) -> tuple[str, str]:
    """(state in words, tone) for the list."""
    state = row.state
    if row.leftover:
        return "left-over, serves nothing", "warn"
    if state is None:
        return row.said or "unknown", row.tone
    if state.failure is not None:
        return f"✗ failed: {state.failure.cause}", "bad"
    if not state.running:
        return f"✗ {state.phase}", "bad"
    if state.stuck:
        return f"○ {state.phase}, no sign of life", "warn"
    if state.ready:
        return "● ready", "good"
    progress = f" {state.progress[0]} of {state.progress[1]}" if state.progress else ""
    left = f", {lasts(state.left_s)} left" if state.left_s is not None else ""
    return f"○ {state.phase}{progress}{left}", ""


def start_rows(state: ServerState, width: int) -> list[Row]:
    """A start: how far, how long, each phase beside its last time."""
    total = state.elapsed_s + state.left_s if state.left_s is not None else None
    share = min(0.99, state.elapsed_s / total) if total else None
    part = f" {state.progress[0]} of {state.progress[1]}" if state.progress else ""
    rows: list[Row] = []
    if not state.ready and state.running:
        rows.append(progress_row(Progress(f"{state.phase}{part}", share, state.left_s), width))
        sign = (
            f"last line of its log {age(state.last_sign_of_life_s)} ago"
            if state.last_sign_of_life_s is not None
            else "its log is empty"
        )
        why = "" if state.left_s is not None else "; time left: not known, no start of it was timed on this node yet"
        rows += wrapped(f"{age(state.elapsed_s)} since the launch, {sign}{why}", width, "dim")
    if state.stuck:
        rows += wrapped(state.stuck, width, "warn")
    phases = [
        (
            p.name,
            age(p.seconds) if p.seconds is not None else "…",
            age(p.last_time_s) if p.last_time_s is not None else "–",
        )
        for p in state.phases
        if p.name != "ready"
    ]
    if phases:
        columns = (Column("phase", least=12), Column("took", right=True), Column("last time", right=True))
        rows += table(columns, phases, width)
    return rows


def details(row: ServerRow | None, jobs: Sequence[Job], width: int) -> list[Row]:
    """Beside or below the list."""
    rows: list[Row] = []
    for job in jobs:
        rows += job_rows(job, width)
    if row is None:
        return rows
    rows.append(titled(row.name, width))
    state = row.state
    if state is not None and state.failure is not None:
        rows += wrapped(f"failed: {state.failure.cause}. {state.failure.hint or ''}".strip(), width, "bad")
        for line in state.failure.lines[-3:]:
            rows += wrapped(line, width, "dim", first="  ")
    elif state is not None and (not state.ready or state.stuck):
        rows += start_rows(state, width)
    facts: list[tuple[str, Cell]] = [("address", row.url)]
    if row.found is not None:
        found = row.found
        processes = "1 process" if len(found.pids) == 1 else f"{len(found.pids)} processes"
        facts.append(("process", f"pid {found.pid}, {processes}"))
        if found.listening is not None:
            facts.append(("port", "listens" if found.listening else "does not listen yet"))
        if found.supervised is not None:
            facts.append(("supervised", Run(found.supervised.sentence, "warn")))
        if found.visible is not None and row.record is None:
            facts.append(("GPUs seen", str(getattr(found.visible, "text", found.visible))))
    if row.record is not None:
        facts.append(("started", "by spectui" + (f" from {row.record.profile}" if row.record.profile else "")))
        facts.append(("log", row.record.log_path))
        if state is not None and state.log_trouble:
            facts.append(("log trouble", Run(state.log_trouble, "warn")))
    elif row.found is not None and not row.leftover:
        facts.append(("started", "not by spectui: it can be measured, and changed only after t takes it over"))
    argv = row.record.argv if row.record is not None else row.found.argv if row.found is not None else ()
    if argv:
        facts.append(("command", " ".join(argv)))
    return rows + pairs(facts, width)


def adoption_rows(lines: Sequence[str], width: int) -> list[Row]:
    """What taking over would do, before it is asked for."""
    if not lines:
        return []
    rows: list[Row] = [titled("taking over", width)]
    for text in lines:
        tag = "bad" if text.startswith("OTHERS") else "warn" if text[:1] in "+-~" else ""
        rows += wrapped(text, width, tag, first="  ")
    return rows


def job_rows(job: Job, width: int) -> list[Row]:
    """A start, a stop or an adoption that was asked for here."""
    words = {"start": "starting", "stop": "stopping", "leftovers": "ending left-overs of"}
    head = f"{words.get(job.kind, job.kind)} {job.title}, {age(job.elapsed_s)}"
    if job.over:
        head = f"{words.get(job.kind, job.kind)} {job.title}: {'failed' if job.fault else 'done'}"
    rows = [titled(head, width)]
    if isinstance(job.state, ServerState) and not job.over:
        rows += start_rows(job.state, width)
    for text in job.said[-6:]:
        rows += wrapped(text, width, "dim", first="  ")
    if job.fault:
        rows += wrapped(job.fault, width, "bad")
    return rows
