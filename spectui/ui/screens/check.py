"""The check after a restart, probe by probe: what was found, what was expected, why it matters, what to do."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from spectui import checks
from spectui.core.braille import Row, Run
from spectui.session import checking
from spectui.ui.screens import page
from spectui.ui.screens.jobs import JOBS, Job
from spectui.ui.screens.sentences import age, lasts, many, when
from spectui.ui.widgets.rows import Item, RowList
from spectui.ui.widgets.text_table import Cell, Column, pairs, table, titled, wrapped

COLUMNS = (Column(""), Column("question", least=36), Column("found", least=16), Column("expected", drop=1, least=10))
SIGNS = {True: ("✓", "good"), False: ("✗", "bad"), None: ("–", "dim")}


class CheckScreen(page.Page):
    """``target``: a profile, server or URL; without one, the arm in focus."""

    NAME = "check"
    BINDINGS: ClassVar[list[Any]] = page.bindings("check")

    def __init__(self, live: Any = None, *, target: str | None = None) -> None:
        super().__init__(live)
        self._target = target
        self._probes: list[tuple[Any, Any]] = []
        self._seen_over = True
        self._titles: dict[str, str] = {}

    @property
    def target(self) -> str | None:
        """What is checked: its name or its address."""
        if self._target is not None:
            return self._target
        arm = getattr(self.live, "focused", None)
        named = getattr(arm, "target", None)
        return (named.server or named.url or named.name) if named is not None and named.run is None else None

    @property
    def job(self) -> Job | None:
        return JOBS.find("check", self.target or "")

    def read(self) -> Mapping[str, Any]:
        """The last outcome, as it was kept."""
        every = checking.last_checks()
        target = self.target
        arm = getattr(self.live, "focused", None)
        self._titles = {probe.name: probe.title for probe in checks.catalogue()}
        for name in (target, getattr(arm, "url", None)):
            if name in every:
                return dict(every[name])
        return {}

    def on_mount(self) -> None:
        super().on_mount()
        if self._target is not None and self.job is None:
            self.action_check_again()

    def tick(self) -> None:
        super().tick()
        job = self.job
        if job is not None and not job.over:
            self._seen_over = False
            self.redraw()
        elif job is not None and not self._seen_over:
            self._seen_over = True
            if job.fault:
                self.say(job.fault, "bad", 60)
            self.reread()

    def title_words(self) -> str:
        job = self.job
        target = self.target or "no server"
        if job is not None and not job.over:
            return (
                f"{target} · {job.said[-1] if job.said else 'asking'} · {lasts(job.elapsed_s)}, at most about a minute"
            )
        if not self.data:
            return target
        simulated = " · simulated" if self.data.get("simulated") else ""
        return f"{target} · {when(self.data.get('when'))}, took {age(self.data.get('seconds'))}{simulated}"

    def status(self) -> tuple[str, str]:
        job = self.job
        if job is not None and not job.over:
            return "checking: a little is measured, with prompts that were not sent before; nothing is flushed", ""
        if self.target is None:
            return "the arm in focus is no server: put one on it first (2 lists them)", "warn"
        if not self.data:
            return f"{self.target} has not been checked yet: r checks it, in less than a minute", ""
        return verdict({**self.data, "probes": self._found()})

    def draw(self) -> None:
        probes = self._found()
        items = [Item(str(p.get("name")), _cells(p)) for p in probes]
        self.rows.show(COLUMNS, items, empty=self.spoken("no check yet: r runs it"))
        self._details()

    def _found(self) -> Sequence[Mapping[str, Any]]:
        job = self.job
        if job is not None and not job.over:
            return tuple(job.state or ())
        kept = [p for p in self.data.get("probes") or () if isinstance(p, Mapping)]
        told = [{"title": self._titles.get(str(p.get("name"))), **p} for p in kept]
        return sorted(told, key=lambda p: p.get("ok") is not False)  # what is not good comes first

    def on_row_list_moved(self, message: RowList.Moved) -> None:
        self._details()

    def _details(self) -> None:
        item = self.rows.item
        probe = next((p for p in self._found() if item is not None and p.get("name") == item.key), None)
        notes = tuple(str(note) for note in (self.data or {}).get("notes") or ())
        self.details.show(lambda width: details(probe, notes, width), keep_place=False)

    # -- keys

    def allowed(self, command: str) -> bool:
        if command == "server_log":
            return getattr(getattr(self.live, "focused", None), "record", None) is not None
        return self.target is not None

    def action_check_again(self) -> None:
        self._check(feed=False)

    def action_check_feed(self) -> None:
        self._check(feed=True)

    def _check(self, *, feed: bool) -> None:
        target = self.target
        if target is None:
            self.say("the arm in focus is no server: put one on it first (2 lists them)", "warn")
            return
        key, admin = getattr(self.live, "key", None), getattr(self.live, "admin_key", None)

        def work(job: Job) -> Any:
            options = checking.CheckOptions(feed=feed, key=key, admin_key=admin)

            def probe(one: Any, finding: Any) -> None:
                job.state = (*(job.state or ()), probe_json(one, finding))

            return checking.check(checking.target_of(target, options), options, say=job.say, on_probe=probe)

        old = self.job
        if old is not None and old.over:
            JOBS.forget(old)
        JOBS.start("check", target, work)
        self._seen_over = False
        self.say("")
        self.redraw()

    def action_server_log(self) -> None:
        from spectui.ui.screens.log import LogScreen

        if self.allowed("server_log"):
            self.app.push_screen(LogScreen(self.live))
        else:
            self.say("only logs of servers that spectui started can be read", "warn")


def probe_json(probe: Any, finding: Any) -> dict[str, Any]:
    """As the kept outcome has it."""
    return {
        "name": probe.name,
        "title": probe.title,
        "why": probe.why,
        "ok": finding.ok,
        "value": finding.value,
        "expected": finding.expected,
        "detail": finding.detail,
        "next": finding.next,
        "rows": [dict(row) for row in finding.rows],
    }


def _cells(probe: Mapping[str, Any]) -> tuple[Cell, ...]:
    ok = probe.get("ok")
    sign, tone = SIGNS.get(ok if isinstance(ok, bool) else None, ("–", "dim"))
    title = str(probe.get("title") or probe.get("name"))
    found = str(probe.get("value") or ("not checked" if ok is None else ""))
    return (Run(sign, tone), title, Run(found, "bad" if ok is False else ""), str(probe.get("expected") or ""))


def verdict(outcome: Mapping[str, Any]) -> tuple[str, str]:
    """The whole check as a sentence."""
    if outcome.get("reachable") is False:
        return f"not reachable: {'; '.join(map(str, outcome.get('notes') or ())) or 'no answer'}", "bad"
    probes = [p for p in outcome.get("probes") or () if isinstance(p, Mapping)]
    bad = [p for p in probes if p.get("ok") is False]
    unknown = sum(1 for p in probes if p.get("ok") is None)
    left = f"; {unknown} could not be checked" if unknown else ""
    if bad:
        return (
            f"{many(len(bad), 'probe')} of {len(probes)} not good: {bad[0].get('title') or bad[0].get('name')}{left}",
            "bad",
        )
    return f"all that was checked is good: {len(probes) - unknown} of {len(probes)} probes{left}", "good"


def details(probe: Mapping[str, Any] | None, notes: Sequence[str], width: int) -> list[Row]:
    if probe is None:
        return [row for note in notes for row in wrapped(note, width, "dim")]
    ok = probe.get("ok")
    word, tone = ("good", "good") if ok is True else ("not good", "bad") if ok is False else ("not checked", "dim")
    facts: list[tuple[str, Cell]] = [("outcome", Run(word, tone))]
    for key, label in (("value", "found"), ("expected", "expected"), ("detail", "detail"), ("why", "why it matters")):
        if probe.get(key):
            facts.append((label, str(probe[key])))
    if probe.get("next"):
        facts.append(("what to do", Run(str(probe["next"]), "strong")))
    rows = [titled(str(probe.get("title") or probe.get("name")), width), *pairs(facts, width)]
    listed = [row for row in probe.get("rows") or () if isinstance(row, Mapping)]
    if listed:
        names = list(dict.fromkeys(str(key) for row in listed for key in row))
        columns = [Column(name.replace("_", " "), least=8, drop=number) for number, name in enumerate(names)]
        rows.append(())
        rows += table(columns, [[_word(row.get(name)) for name in names] for row in listed], width)
    if notes:
        rows.append(())
        for note in notes:
            rows += wrapped(note, width, "dim")
    return rows


def _word(value: object) -> str:
    if value is None:
        return "–"
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.4g}" if isinstance(value, float) else str(value)
