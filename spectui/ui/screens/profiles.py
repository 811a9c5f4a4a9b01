"""Profiles with the evidence they carry: shown as asked and in force, launched, checked, put on an arm, deleted."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, ClassVar

from spectui.core.braille import Row, Run
from spectui.core.metric import significant
from spectui.core.plan import Plan
from spectui.session import serving
from spectui.session.staging import value_words
from spectui.store import profiles
from spectui.store.profiles import Listed
from spectui.ui.screens import page, serving_jobs
from spectui.ui.screens.jobs import JOBS
from spectui.ui.screens.sentences import many, sentence
from spectui.ui.screens.servers_view import job_rows
from spectui.ui.widgets.form import Question
from spectui.ui.widgets.rows import Item, RowList
from spectui.ui.widgets.text_table import Cell, Column, pairs, table, titled, wrapped

COLUMNS = (
    Column("name", least=14),
    Column("algorithm"),
    Column("model", drop=1, least=12),
    Column("evidence", least=16),
    Column("", drop=2),
)


class ProfilesScreen(page.Page):
    NAME = "profiles"
    BINDINGS: ClassVar[list[Any]] = page.bindings("profiles")

    def __init__(self, live: Any = None) -> None:
        super().__init__(live)
        self._plans: dict[str, Plan | str] = {}

    def read(self) -> tuple[Listed, ...]:
        return profiles.list_all()

    def title_words(self) -> str:
        mine = sum(1 for entry in self.data if not entry.starter)
        return f"{mine} of your own, {many(len(self.data) - mine, 'starter')}"

    def status(self) -> tuple[str, str]:
        broken = [entry for entry in self.data if entry.profile is None]
        if broken:
            return f"{broken[0].name} cannot be read: {broken[0].faults[0].spell()}", "bad"
        return "n starts a server from a profile; s on the home screen saves what an arm runs", ""

    def draw(self) -> None:
        entries: Sequence[Listed] = self.data
        self._plans.clear()
        self.rows.show(COLUMNS, [Item(e.path, _cells(e), e.profile.notes or "" if e.profile else "") for e in entries])
        self._details()

    @property
    def here(self) -> Listed | None:
        item = self.rows.item
        return next((e for e in self.data or () if item is not None and e.path == item.key), None)

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details(fresh=True)
        self._frame()

    def tick(self) -> None:
        super().tick()
        if self.is_current and self.data is not None and any(not job.over for job in JOBS.of("start")):
            self._details()

    def _details(self, *, fresh: bool = False) -> None:
        entry = self.here
        if entry is None:
            self.details.show(lambda width: ())
            return
        plan = self._plan(entry)
        jobs = [job for job in JOBS.of("start") if job.title == entry.name and job.worth_showing]

        def rows(width: int) -> Sequence[Row]:
            head = [row for job in jobs[-1:] for row in job_rows(job, width)]
            return [*head, *details(entry, plan, width)]

        self.details.show(rows, keep_place=not fresh)

    def _plan(self, entry: Listed) -> Plan | str:
        if entry.path not in self._plans and entry.profile is not None:
            try:
                self._plans[entry.path] = serving.plan_for(entry.profile)
            except Exception as fault:  # a profile that no plan can be made of is still shown
                self._plans[entry.path] = sentence(fault)
        return self._plans.get(entry.path, "")

    # -- keys

    def allowed(self, command: str) -> bool:
        entry = self.here
        if command == "profile_delete":
            return entry is not None and not entry.starter
        if command in ("open", "put_a", "put_b", "profile_check"):
            return entry is not None and entry.profile is not None
        return True

    def action_open(self) -> None:
        if self.here is not None and self.here.profile is not None:
            self.ask_arm(self.here.name)

    def action_put_a(self) -> None:
        if self.here is not None:
            self.put_on_arm("A", self.here.name)

    def action_put_b(self) -> None:
        if self.here is not None:
            self.put_on_arm("B", self.here.name)

    def action_server_start(self) -> None:
        entry = self.here
        if entry is None or entry.profile is None:
            self.say("this profile cannot be read, so nothing can be started from it", "warn")
            return
        plan = self._plan(entry)
        if isinstance(plan, Plan) and plan.refusals:
            self.say(f"it would not start: {plan.refusals[0].text}", "bad")
            return
        if isinstance(plan, Plan) and plan.dangers:
            text = f"{plan.dangers[0].text} Start it all the same? y or n"
            self.ask(Question(text, lambda key: self._launch(entry) if key == "y" else None, letters="yn"))
            return
        self._launch(entry)

    def _launch(self, entry: Listed) -> None:
        serving_jobs.launch(entry.path)
        self.say(f"starting {entry.name}: it goes on when this screen is left; 2 shows it among the servers", "good")
        self._details()

    def action_profile_check(self) -> None:
        from spectui.ui.screens.check import CheckScreen

        if self.here is not None and self.here.profile is not None:
            self.app.push_screen(CheckScreen(self.live, target=self.here.name))

    def action_profile_delete(self) -> None:
        entry = self.here
        if entry is None:
            return
        if entry.starter:
            self.say("a starter comes with spectui and is not deleted", "warn")
            return
        text = f"delete {entry.path}, with its evidence? Type {entry.name} to do it"
        self.ask(Question(text, lambda _typed: self._delete(entry), expected=entry.name))

    def _delete(self, entry: Listed) -> None:
        def delete() -> str:
            Path(entry.path).unlink()
            return f"{entry.name} is deleted"

        self.later(delete)


def _cells(entry: Listed) -> tuple[Cell, ...]:
    mark = "starter" if entry.starter else ""
    if entry.profile is None:
        return (entry.name, "?", "", Run("cannot be read", "bad"), mark)
    model = (entry.profile.server.model_path or "").rstrip("/").rpartition("/")[2]
    return (entry.name, entry.profile.speculative.algorithm, model, evidence_words(entry.profile.evidence), mark)


def evidence_words(evidence: Sequence[Mapping[str, Any]]) -> str:
    """Of the newest: ``json 372 tok/s, 4.90 accept length``; and how many more there are."""
    if not evidence:
        return "none yet"
    newest = max(evidence, key=dated)
    rows = results_of(newest)
    words = [workload_of(newest)]
    for key, label in (("output_tokens_per_s", "tok/s"), ("accept_length", "accept length")):
        value = figure(rows[0].get(key))
        words.append(f"{value} {label}" if value else "")
    more = f" and {len(evidence) - 1} more" if len(evidence) > 1 else ""
    return ", ".join(word for word in words if word) + more


def dated(entry: Mapping[str, Any]) -> str:
    return str(entry.get("date") or entry.get("when") or "")


def workload_of(entry: Mapping[str, Any]) -> str:
    """What it was measured with; of a figure that somebody else published, that it was."""
    if entry.get("kind") == "public":
        return "published"
    workload = entry.get("workload")
    return str(workload.get("name") if isinstance(workload, Mapping) else workload or "?")


def results_of(entry: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """One a pass and load; an entry without a list of results is its own."""
    rows = entry.get("result")
    if isinstance(rows, list) and rows:
        return [row for row in rows if isinstance(row, Mapping)]
    return [{**entry, "output_tokens_per_s": entry.get("tokens_per_s")}]


def figure(value: object) -> str:
    """A stored figure: a number, [value, low, high], or a range of two."""
    numbers = [v for v in value if isinstance(v, (int, float))] if isinstance(value, (list, tuple)) else [value]
    shown = [significant(float(v)) for v in numbers if isinstance(v, (int, float)) and not isinstance(v, bool)]
    if len(shown) == 2:
        return f"{shown[0]}–{shown[1]}"
    return shown[0] if shown else ""


def details(entry: Listed, plan: Plan | str, width: int) -> list[Row]:
    rows: list[Row] = [titled(entry.name, width)]
    profile = entry.profile
    if profile is None:
        rows += wrapped(entry.path, width, "dim")
        for fault in entry.faults:
            rows += wrapped(fault.spell(), width, "bad", first="✗ ", rest="  ")
        return rows
    if profile.notes:
        rows += wrapped(profile.notes, width)
    facts: list[tuple[str, Cell]] = [
        ("file", "a starter: comes with spectui, and is never written to" if entry.starter else entry.path),
        ("model", profile.server.model_path or "unset"),
    ]
    if profile.server.gpus is not None:
        facts.append(("GPUs", ", ".join(map(str, profile.server.gpus))))
    facts.append(("address", profile.url))
    rows += pairs(facts, width)
    for remark in profile.remarks:
        rows += wrapped(remark.spell(), width, "warn")
    if isinstance(plan, str):
        rows += wrapped(plan, width, "bad") if plan else []
    else:
        rows += plan_rows(plan, width)
    if profile.evidence:
        rows.append(titled("evidence, the newest first", width))
        rows += evidence_rows(profile.evidence, width)
    return rows


def plan_rows(plan: Plan, width: int) -> list[Row]:
    """Asked, in force, set by whom; then what speaks against it."""
    rows: list[Row] = [titled(f"{plan.shown}: asked and in force", width)]
    columns = (
        Column("setting", least=12),
        Column("asked", least=10),
        Column("in force", least=10),
        Column("by", drop=1, least=12),
    )
    cells: list[Sequence[Cell]] = []
    for row in plan.rows:
        if row.asked is None and row.in_force is None:
            continue
        tone = "warn" if row.changed else ""
        force = "?" if row.by == "unknown" else value_words(row.in_force)
        cells.append((row.title, value_words(row.asked), Run(force, tone), Run(row.by_text, tone or "dim")))
    rows += table(columns, cells, width)
    for finding in plan.findings:
        tag = {"refuse": "bad", "danger": "bad", "warn": "warn"}.get(finding.level, "dim")
        rows += wrapped(finding.text, width, tag, first="✗ " if tag == "bad" else "· ", rest="  ")
    return rows


def evidence_rows(evidence: Sequence[Mapping[str, Any]], width: int) -> list[Row]:
    columns = (
        Column("date", drop=2),
        Column("workload", least=6),
        Column("pass"),
        Column("at a time", right=True),
        Column("tok/s", right=True),
        Column("accept length", right=True),
        Column("run", drop=1, least=10),
    )
    cells: list[Sequence[Cell]] = []
    rows: list[Row] = []
    for entry in sorted(evidence, key=dated, reverse=True):
        for row in results_of(entry):
            words = (
                dated(entry)[:10],
                workload_of(entry),
                str(row.get("pass") or "–"),
                str(row.get("concurrency") or "–"),
            )
            speeds = (figure(row.get("output_tokens_per_s")) or "n/a", figure(row.get("accept_length")) or "n/a")
            cells.append((*words, *speeds, str(entry.get("run") or "")))
        if entry.get("source"):
            told = f"{entry['source']}: {entry.get('setting') or ''}".rstrip(": ")
            rows += wrapped(told, width, "dim", first="· ", rest="  ")
    return [*table(columns, cells, width), *rows]
