"""Servers in words: a line each in the list, and beside it phases of a start, what failed, where it came from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.core.braille import Row, Run
from spectui.hosts.discover import FoundServer
from spectui.hosts.records import ServerRecord
from spectui.hosts.watch import ServerState
from spectui.ui.screens.jobs import Job
from spectui.ui.screens.sentences import age, lasts
from spectui.ui.widgets.progress_bar import Progress, progress_row
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


def cells(row: ServerRow, arm: str) -> tuple[Cell, ...]:
    """``arm``: the letter it stands on, or nothing."""
    text, tone = state_words(row)
    text += ", simulated" if row.simulated else ""
    gpus = ",".join(str(g) for g in (row.found.gpus if row.found else ())) or ",".join(
        row.record.gpus if row.record else ()
    )
    user = (row.found.user if row.found else "") or (row.record.user if row.record else "")
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
