"""A against B by concurrency: ratios with intervals, the verdict or why there is none, and how the stores warmed up."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from textual.containers import Container

from spectui.core.braille import Row, Run
from spectui.core.curves import over_tokens
from spectui.core.estimate import Estimate
from spectui.core.metric import significant
from spectui.core.passes import PassResult
from spectui.core.proposer import warm_up_curve
from spectui.session import SessionError, comparing
from spectui.session.compared import ArmSource, Compared
from spectui.store import locations
from spectui.store import runs as history
from spectui.ui.screens import page
from spectui.ui.screens.pick import Pick
from spectui.ui.screens.sentences import many, when
from spectui.ui.widgets.plot import Plot, PlotData, Series
from spectui.ui.widgets.rows import Item, TextPage
from spectui.ui.widgets.text_table import Cell, Column, table, titled, wrapped

COLUMNS = (
    Column("at a time", right=True),
    Column("tok/s A"),
    Column("B"),
    Column("A against B"),
    Column("accept", drop=2),
    Column("step time", drop=3),
    Column("verdict"),
)
TONES = {"faster": "good", "slower": "bad", "no difference shown": "dim", "not a fair trial": "warn"}


class CompareScreen(page.Page):
    """``runs``: two stored runs (``RUN`` or ``RUN:ARM``); without them, the last comparison of the home screen."""

    NAME = "compare"
    BINDINGS: ClassVar[list[Any]] = page.bindings("compare")
    DEFAULT_CSS = """
    CompareScreen {
        & #body, &.-wide #body { layout: vertical; }
        & #text, &.-wide #body > #text { height: 1fr; width: 100%; }
        & #course, &.-wide #body > #course { height: 45%; width: 100%; margin-left: 0; }
    }
    """

    def __init__(self, live: Any = None, *, runs: tuple[str, str] | None = None) -> None:
        super().__init__(live)
        self._runs = runs
        self._curve = 0

    def parts(self) -> Iterator[Any]:
        yield TextPage(id="text")
        with Container(id="course", classes="side"):
            yield Plot(id="plot")

    def read(self) -> Compared | str:
        """A comparison, or why there is none."""
        if self._runs is not None:
            a, b = (source(name) for name in self._runs)
            return comparing.compare_sources(a, b)
        sources: Mapping[str, ArmSource] = getattr(getattr(self.live, "measuring", None), "sources", {})
        if not {"A", "B"} <= sources.keys():
            return "nothing has been compared yet: c on the home screen compares the arms, p here picks two stored runs"
        try:
            return comparing.compare_sources(sources["A"], sources["B"])
        except SessionError as error:
            return str(error)

    def title_words(self) -> str:
        if isinstance(self.data, str):
            return "no comparison"
        kind = "stored runs" if self._runs is not None else "the last comparison"
        a, b = self.data.a.folder.name, self.data.b.folder.name
        where = f"A and B of {a}" if a == b else f"A {a} · B {b}"
        return f"{kind} · {self.data.pass_name} pass · {where}"

    def status(self) -> tuple[str, str]:
        if isinstance(self.data, str):
            return "", ""
        words = list(dict.fromkeys(row.verdict.word for row in self.data.rows))
        if len(words) == 1:
            return verdict_sentence(self.data), TONES.get(words[0], "")
        crossing = self.data.as_json().get("crossing")
        told = f": {crossing}" if crossing else ""
        return f"no single winner over the loads{told}", ""

    def draw(self) -> None:
        data = self.data
        if isinstance(data, str):
            why = self.spoken(data)
            self.query_one("#text", TextPage).show(lambda width: wrapped(why, width, "warn"))
            self.query_one("#plot", Plot).show(PlotData("", empty=""))
            return
        self.query_one("#text", TextPage).show(lambda width: rows_of(data, width))
        choices = curves_of(data)
        self._curve %= max(1, len(choices))
        shown = choices[self._curve] if choices else PlotData("", empty="no accept lengths over time in this pass")
        self.query_one("#plot", Plot).show(shown)

    # -- keys

    def allowed(self, command: str) -> bool:
        if command == "next_pass":
            return isinstance(self.data, Compared) and len(curves_of(self.data)) > 1
        if command == "last_compared":
            return self._runs is not None
        return True

    def action_next_pass(self) -> None:
        self._curve += 1
        self.redraw()

    def action_last_compared(self) -> None:
        self._runs = None
        self.reread()

    def action_pick_runs(self) -> None:
        self._listed: list[Item] = []

        def read() -> str:
            self._listed = run_items()
            self.app.call_later(self._pick_first)
            return "choose the run for A, then the one for B"

        self.later(read, then_read=False)

    def _pick_first(self) -> None:
        self._pick("A is", lambda a: self._pick("B is", lambda b: self._picked(a, b)))

    def _pick(self, title: str, then: Any) -> None:
        columns = (Column("when"), Column("run", least=16), Column("algorithm"), Column("passes", drop=1, least=10))

        def chosen(key: str | None) -> None:
            if key is not None:
                then(key)

        self.app.push_screen(Pick(title, columns, self._listed, empty="there are no stored runs yet"), chosen)

    def _picked(self, a: str, b: str) -> None:
        self._runs = (a, b)
        self.say(f"comparing {a} with {b} …", "dim", 4)
        self.reread()


def source(name: str) -> ArmSource:
    """``RUN`` or ``RUN:ARM`` as one side."""
    folder, colon, arm = name.rpartition(":")
    if colon and arm in ("A", "B"):
        return comparing.source_of(locations.runs_dir() / folder, arm)
    return comparing.source_of(locations.runs_dir() / name)


def run_items() -> list[Item]:
    """One for each arm of each run that measured anything."""
    found = []
    for run in history.list_runs():
        arms = tuple(dict.fromkeys(str(row.get("arm")) for row in run.results))
        for arm in arms:
            mine = [row for row in run.results if str(row.get("arm")) == arm]
            key = run.id if len(arms) == 1 else f"{run.id}:{arm}"
            passes = ", ".join(dict.fromkeys(f"{row.get('pass')} ×{row.get('concurrency')}" for row in mine))
            cells = (when(run.when), key, str(mine[-1].get("algorithm") or "?"), passes)
            found.append(Item(key, cells, " ".join((*run.tags, run.note, *run.labels))))
    return found


def ratio(estimate: Estimate | None, *, short: bool = False) -> str:
    """``1.54×  [1.49, 1.60]``; short: ``1.54×``."""
    if estimate is None:
        return "n/a"
    if short:
        return f"{estimate.ratio:.2f}×"
    if not 0 < estimate.high < 1e6:
        return f"{estimate.ratio:.2f}×  [too few to say]"
    return f"{estimate.ratio:.2f}×  [{estimate.low:.2f}, {estimate.high:.2f}]"


def verdict_sentence(data: Compared) -> str:
    row = data.rows[0]
    alike = len(data.rows) > 1 and len({r.verdict.word for r in data.rows}) == 1
    at = "at every load that was measured" if alike else f"at {row.concurrency} at a time"
    if row.verdict.word in ("faster", "slower"):
        return f"A is {row.verdict.word} than B {at}: {ratio(row.throughput)}"
    if row.verdict.reasons:
        left = len(row.verdict.reasons) - 1
        more = f" (and {many(left, 'more reason')})" if left else ""
        return f"{row.verdict.word}: {row.verdict.reasons[0]}{more}"
    return f"{row.verdict.word} {at}"


def _pass(side: ArmSource, concurrency: int, name: str) -> PassResult | None:
    return side.result.passes.get((side.arm, concurrency, name))


def rows_of(data: Compared, width: int) -> list[Row]:
    rows: list[Row] = []
    for letter, side in (("A", data.a), ("B", data.b)):
        head = side.head()
        simulated = " · simulated" if head.get("simulated") else ""
        text = f"{head.get('algorithm') or '?'}  {head.get('model') or '?'}  SGLang {head.get('version') or '?'}"
        rows += wrapped(f"{text}{simulated}", width, first=f"{letter} ")
    cells: list[Sequence[Cell]] = []
    for row in data.rows:
        one, two = _pass(data.a, row.concurrency, data.pass_name), _pass(data.b, row.concurrency, data.pass_name)
        speeds = [
            significant(p.output_tokens_per_s) if p is not None and p.output_tokens_per_s is not None else "n/a"
            for p in (one, two)
        ]
        word = row.verdict.word
        cells.append(
            (
                str(row.concurrency),
                Run(speeds[0], "a"),
                Run(speeds[1], "b"),
                ratio(row.throughput),
                ratio(row.accept_length, short=width < 110),
                ratio(row.step_time, short=width < 110),
                Run(word, TONES.get(word, "")),
            )
        )
    rows.append(titled(f"{data.pass_name} pass, A against B, intervals of 95 %", width))
    rows += table(COLUMNS, cells, width)
    crossing = data.as_json().get("crossing")
    if crossing:
        rows += wrapped(str(crossing), width, "strong", first="leads change: ")
    for row in data.rows:
        for reason in row.verdict.reasons:
            rows += wrapped(reason, width, "warn", first=f"×{row.concurrency} ", rest="   ")
        floor = data.floors.get(row.concurrency)
        if floor is not None:
            rows += wrapped(str(getattr(floor, "text", "")), width, "dim", first=f"×{row.concurrency} ", rest="   ")
    rows += _break_even(data, width)
    if data.answers:
        rows += wrapped(data.answers, width, first="answers: ", rest="  ")
    for note in data.notes:
        rows += wrapped(note, width, "dim")
    return rows


def _break_even(data: Compared, width: int) -> list[Row]:
    cells = []
    for row in data.rows:
        words = [str(row.concurrency)]
        for side, value in zip((data.a, data.b), row.break_even, strict=True):
            one = _pass(side, row.concurrency, data.pass_name)
            have = significant(one.accept_length) if one is not None and one.accept_length is not None else "n/a"
            words.append(f"{have} of {significant(value)}" if value else "n/a")
        cells.append(words)
    columns = (Column("at a time", right=True), Column("A accepts, of break-even"), Column("B accepts, of break-even"))
    return table(columns, cells, width) if any(word != "n/a" for row in cells for word in row[1:]) else []


def curves_of(data: Compared) -> list[PlotData]:
    """Accept length over tokens since the flush, a picture a pass that both or either has."""
    keys = dict.fromkeys((c, p) for side in (data.a, data.b) for arm, c, p in side.result.passes if arm == side.arm)
    found = []
    for concurrency, name in keys:
        series: list[Series] = []
        for letter, side in (("A", data.a), ("B", data.b)):
            one = _pass(side, concurrency, name)
            if one is None or not one.speculative or not one.evidence.positions:
                continue
            tag = letter.lower()
            evidence = one.evidence
            bins = over_tokens(evidence.positions, evidence.lengths, evidence.steps)
            points = tuple(((b.start + b.to) / 2, b.accept_length) for b in bins)
            fitted = warm_up_curve(evidence)
            told = f"{letter} (half of the rise every {significant(fitted.half_life)} tokens)" if fitted else letter
            series.append(Series(told, points, tag, dashed=letter == "B", sign=letter, signed=True))
        if series:
            label = f"tokens since the flush: {name} pass, {concurrency} at a time"
            found.append(PlotData(label, tuple(series), floor=1.0))
    return found


__all__ = ["CompareScreen", "curves_of", "ratio", "rows_of"]
