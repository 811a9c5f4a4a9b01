"""What a sweep's state looks like: the plan as text, results as a list, the map of accept length over draft tokens."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from spectui.core.braille import Row, Run
from spectui.core.metric import significant
from spectui.core.stats import NO_DIFFERENCE
from spectui.session.sweep_state import SweepState
from spectui.ui.screens.sentences import lasts, many, when
from spectui.ui.widgets.plot import PlotData, Series
from spectui.ui.widgets.progress_bar import Progress
from spectui.ui.widgets.rows import Item
from spectui.ui.widgets.text_table import Cell, Column, table, titled, wrapped

STATES = {
    "measured": ("● measured", "good"),
    "stopped early": ("● stopped early", "dim"),
    "failed": ("✗ failed", "bad"),
    "refused": ("✗ refused", "bad"),
    "dropped": ("– predicted to lose", "dim"),
    "merged": ("– same as another", "dim"),
    "starting": ("○ starting", "warn"),
    "running": ("○ being measured", "warn"),
    "open": ("  waits", ""),
}
_TAGS = ("a", "b", "c", "d")


def plan_rows(state: SweepState, width: int) -> list[Row]:
    """Before it begins: launches in their order, what is left out and why."""
    clock: Mapping[str, Any] = state.plan.get("clock") or {}
    rows: list[Row] = [titled("plan", width), *wrapped(str(clock.get("text") or ""), width, "strong")]
    cells: list[Sequence[Cell]] = []
    for number, launch in enumerate(state.plan.get("launches") or (), 1):
        names = list(dict.fromkeys(str(name) for name, _ in launch.get("cells") or ()))
        levels = list(dict.fromkeys(str(level) for _, level in launch.get("cells") or ()))
        told = ", ".join(_predicted(state, name, int(level)) for name in names for level in levels[:1])
        cells.append((str(number), ", ".join(names), ",".join(levels), told, lasts(launch.get("seconds"))))
    columns = (
        Column("start", right=True),
        Column("settings", least=16),
        Column("at a time"),
        Column("predicted tok/s", drop=1, least=8),
        Column("takes", right=True),
    )
    rows += table(columns, cells, width)
    for (name, level), why in state.skipped.items():
        rows += wrapped(f"{name} ×{level}: {why}", width, "dim", first="– ", rest="  ")
    for name, setting in state.settings.items():
        if setting.get("refused"):
            rows += wrapped(f"{name}: {setting['refused']}", width, "bad", first="✗ ", rest="  ")
    warned: dict[str, list[str]] = {}
    for name, setting in state.settings.items():
        for text in setting.get("warnings") or ():
            warned.setdefault(str(text), []).append(name)
    for text, holders in warned.items():
        who = "" if len(holders) > 1 else f"{holders[0]}: "
        rows += wrapped(f"{who}{text}", width, "warn", first="· ", rest="  ")
    for text in state.head.get("texts") or ():
        rows += wrapped(str(text), width, "dim", first="· ", rest="  ")
    return rows


def _predicted(state: SweepState, name: str, level: int) -> str:
    entry = state.predicted.get((name, level))
    value = entry.get("tokens_per_s") if entry else None
    return f"{value:,.0f}" if isinstance(value, (int, float)) else "not known"


def result_items(state: SweepState) -> list[Item]:
    """One a setting and load, in the order of the grid."""
    best = {(entry.get("setting"), entry.get("concurrency")) for entry in state.best if entry.get("setting")}
    found = []
    for name in state.settings:
        word, _ = state.state_of(name)
        nowhere = word in ("merged", "refused", "failed") and not any(
            (name, c) in state.cells for c in state.concurrency
        )
        for level in state.concurrency[:1] if nowhere else state.concurrency:
            cell = (name, level)
            end = state.cells.get(cell, {})
            measured: Mapping[str, Any] = end.get("measured") or {}
            shown = str(end.get("status") or ("dropped" if cell in state.skipped else word))
            text, tone = STATES.get(shown, (shown, ""))
            if cell in best:
                text, tone = "★ best at this load", "good"
            found.append(
                Item(
                    f"{name}@{level}",
                    (
                        name,
                        "" if nowhere else str(level),
                        "" if nowhere else _predicted(state, name, level),
                        Run(_figure(measured.get("tokens_per_s")), "strong"),
                        _figure(measured.get("accept_length")),
                        Run(text, tone),
                    ),
                )
            )
    return found


def _figure(value: object) -> str:
    return significant(float(value)) if isinstance(value, (int, float)) else "–"


def details(state: SweepState, name: str, width: int) -> list[Row]:
    """Of the setting under the cursor; then what was found to be best."""
    rows: list[Row] = []
    setting = state.settings.get(name)
    if setting is not None:
        word, reason = state.state_of(name)
        text, tone = STATES.get(word, (word, ""))
        rows += [titled(name, width), *wrapped(f"{text.strip()}{f': {reason}' if reason else ''}", width, tone)]
        force = ", ".join(f"{key} {value}" for key, value in (setting.get("in_force") or {}).items())
        if force:
            rows += wrapped(f"in force: {force}", width, "dim")
        for level in state.concurrency:
            rows += _against(state, name, level, width)
    for entry in state.best:
        rows += best_rows(entry, width)
    return rows


def _against(state: SweepState, name: str, level: int, width: int) -> list[Row]:
    """Predicted and measured, told apart, with how far the one was from the other."""
    guess, end = state.predicted.get((name, level)), state.cells.get((name, level), {})
    measured = end.get("measured") or {}
    parts = []
    if guess and guess.get("accept_length"):
        parts.append(f"predicted accept length {guess['accept_length']:.2f} by {guess.get('kind')}")
    elif (name, level) in state.missing:
        parts.append(f"not predicted: {state.missing[name, level]}")
    if measured.get("accept_length"):
        parts.append(f"measured {measured['accept_length']:.2f}")
        if guess and guess.get("accept_length"):
            parts.append(f"{100 * (guess['accept_length'] / measured['accept_length'] - 1):+.0f} % off")
    over = measured.get("over_none") or {}
    if over.get("ratio") is not None:
        parts.append(f"{over['ratio']:.2f}× of none{_span(over.get('interval'))}")
        if over.get("verdict") == NO_DIFFERENCE:
            parts += [str(reason) for reason in over.get("reasons") or ()]
    return wrapped(", ".join(parts), width, first=f"×{level} ", rest="   ") if parts else []


def _span(interval: Any) -> str:
    return f" [{interval[0]:.2f}, {interval[1]:.2f}]" if interval and None not in interval else ""


def best_rows(entry: Mapping[str, Any], width: int) -> list[Row]:
    rows: list[Row] = [titled(f"best at {entry.get('concurrency')} at a time", width)]
    if entry.get("setting"):
        low, high = entry.get("interval") or (None, None)
        inside = (
            f" [{low:,.0f}, {high:,.0f}]" if isinstance(low, (int, float)) and isinstance(high, (int, float)) else ""
        )
        rows += wrapped(f"{entry['setting']}: {_figure(entry.get('tokens_per_s'))} tok/s{inside}", width, "good")
        ties = entry.get("tied_with") or ()
        if ties:
            rows += wrapped(f"not shown to be faster than {', '.join(map(str, ties))}", width)
            rows += wrapped("compare tells two servers apart sooner: it measures them by turns", width, "dim")
    else:
        rows += wrapped("no setting was shown to be the best in a fair trial", width, "warn")
    for held in entry.get("withheld") or ():
        why = "; ".join(map(str, held.get("reasons") or ()))
        rows += wrapped(f"{held.get('setting')}: not ranked, {why}", width, "warn", first="· ", rest="  ")
    return rows


def map_of(state: SweepState) -> PlotData:
    """Accept length over draft tokens: measured points are joined by a line, predicted ones stand as rings."""
    series: list[Series] = []
    groups: dict[tuple[str, int], list[Mapping[str, Any]]] = {}
    for row in state.map():
        if row["algorithm"] != "none":
            groups.setdefault((row["algorithm"], row["concurrency"]), []).append(row)
    several = len({level for _, level in groups}) > 1
    for number, ((algorithm, level), rows) in enumerate(groups.items()):
        tag = _TAGS[number % len(_TAGS)]
        name = f"{algorithm}{f' ×{level}' if several else ''}"
        measured, predicted = _points(rows, "measured"), _points(rows, "predicted")
        if measured:
            series.append(Series(f"{name} measured", measured, tag, dashed=number % 2 == 1, sign="●", signed=True))
        if predicted:
            series.append(Series(f"{name} predicted", predicted, tag, joined=False, sign="○"))
    left = sum(1 for name in state.settings if state.state_of(name)[0] in ("open", "starting", "running"))
    empty = f"accept length over draft tokens: nothing measured yet, {many(left, 'setting')} to go"
    return PlotData("draft tokens (accept length above)", tuple(series), floor=1.0, empty=empty)


def _points(rows: Sequence[Mapping[str, Any]], key: str) -> tuple[tuple[float, float], ...]:
    found: dict[float, float] = {}
    for row in rows:
        value = (row.get(key) or {}).get("accept_length")
        if isinstance(value, (int, float)) and isinstance(row.get("draft_tokens"), (int, float)):
            found[float(row["draft_tokens"])] = max(found.get(float(row["draft_tokens"]), 0.0), float(value))
    return tuple(sorted(found.items()))


def progress_of(state: SweepState, now: float) -> Progress:
    """By the clock of the newest plan: what is spent against what is left."""
    clock: Mapping[str, Any] = state.plan.get("clock") or {}
    ends = clock.get("ends")
    left = max(0.0, float(ends) - now) if isinstance(ends, (int, float)) else None
    spent = now - state.started if state.started is not None else state.spent_s
    share = spent / (spent + left) if left is not None and spent + left > 0 else None
    current = state.current
    what = str(current.get("setting") or "")
    phase = str(current.get("phase") or "")
    if current.get("kind") == "server":
        doing = f"starting {what}{f', {phase}' if phase else ''}"
    elif what:
        doing = f"measuring {what} at {current.get('concurrency')} at a time"
    else:
        doing = "between two settings"
    guess = " (a guess)" if clock.get("guessed") else ""
    return Progress(f"{doing} · {lasts(spent)} so far, ends {when(ends)[-5:]}{guess}", share, left)
