"""The table of the home screen: the metrics of both arms, their ratio with its interval, and the verdict in words."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from spectui.core.compare import Comparison
from spectui.core.metric import BY_KEY, significant
from spectui.core.passes import PassResult
from spectui.core.stats import Estimate
from spectui.session.live_idle import Idle
from spectui.session.view import Prediction, TableRow

NO_DIFFERENCE = "no difference shown"
SEEN_WORDS = ("has seen these answers", "answers were known")
FEED_WORDS = ("store is cold", "store is warming", "has an unknown past")
LOAD_WORDS = ("queue on", "at less concurrency")
MORE_WORDS = ("were measured in both arms", "too little was measured")
"""What reasons say (``core.fairness``, ``core.stats``), by the key that helps."""


def table(
    a: PassResult | None, b: PassResult | None, comparison: Comparison | None, answers: str, *, final: bool = True
) -> list[TableRow]:
    """The order is that of reading: which is faster, why, and at what price. Not ``final``: a run is going on, and
    what is not shown yet may still be."""
    if a is None and b is None:
        return []
    ratios = comparison
    rows = [
        _row("output_tokens_per_s", a, b, ratios.throughput if ratios else None),
        _row("accept_length", a, b, ratios.accept_length if ratios else None),
        _row("step_time_ms", a, b, ratios.step_time if ratios else None),
        _break_even(ratios),
        _ttft(a, b, ratios.ttft if ratios else None),
        _row("tpot_p50_ms", a, b, ratios.tpot if ratios else None),
        _row("joules_per_token", a, b, None, plain=ratios.joules_per_token if ratios else None),
        TableRow("answers", note=answers) if answers else _row("requests", a, b, None),
    ]
    if not final:
        rows = [row._replace(against="…" if row.against == NO_DIFFERENCE else row.against) for row in rows]
    return rows


def with_predictions(
    rows: list[TableRow], predicted: Mapping[str, Prediction], passes: Mapping[str, PassResult]
) -> list[TableRow]:
    """Below the accept length: what was predicted for the settings that now run, and how far off it was."""
    cells = {
        letter: f"{guess.accept_length:.2f}" + (f" · {guess.tokens_per_s:.0f}" if guess.tokens_per_s else "")
        for letter, guess in predicted.items()
        if guess.accept_length is not None
    }
    if not cells:
        return rows
    misses = []
    for letter in cells:
        guess, found = predicted[letter].accept_length, passes.get(letter)
        if guess and found is not None and found.accept_length is not None:
            misses.append(f"{letter} {off_words(found.accept_length, guess)}")
    said = TableRow(
        "  predicted · tok/s",
        cells.get("A", ""),
        cells.get("B", ""),
        f"measured {', '.join(misses)}" if misses else "not run yet",
        "dim",
    )
    at = next((i + 1 for i, row in enumerate(rows) if row.name == BY_KEY["accept_length"].label), len(rows))
    return [*rows[:at], said, *rows[at:]]


def off_words(measured: float, predicted: float) -> str:
    """``+2 %``: how far off a prediction was."""
    off = round(100 * (measured / predicted - 1))
    return f"{off:+d} %" if off else "±0 %"


def when_idle(idle: Mapping[str, Idle]) -> list[TableRow]:
    """Before anything is measured: what the servers say of themselves, and which of their sources says so."""

    def row(name: str, read: Callable[[Idle], str]) -> TableRow:
        return TableRow(name, *(read(idle[letter]) if letter in idle else "" for letter in "AB"))

    rows = [
        row("requests running", lambda i: "" if i.running is None else f"{i.running}{_queued(i)}"),
        row("tok/s, its gauge", lambda i: "" if i.tokens_per_s is None else f"{i.tokens_per_s:.0f}"),
        row("accept length", lambda i: i.accept_length if i.source or i.accept_length == "off" else ""),
    ]
    rows = [one for one in rows if one.a or one.b]
    sources = {letter: i.source for letter, i in idle.items() if i.source}
    rows += [TableRow(f"  of {letter} by", note=source) for letter, source in sources.items()]
    return rows + [TableRow(f"  {letter}", note=i.note) for letter, i in idle.items() if i.note]


def _queued(idle: Idle) -> str:
    return f", {idle.queued} queued" if idle.queued else ""


def until_measured(tok_s: Mapping[str, str], accept: Mapping[str, str]) -> list[TableRow]:
    """While a store is fed or a server warms up: the present values by letter, since nothing has been measured yet."""
    rows = (("output tok/s now", tok_s), ("accept length now", accept))
    return [TableRow(name, by.get("A", ""), by.get("B", "")) for name, by in rows if any(by.values())]


def _text(key: str, side: PassResult | None) -> str:
    return "" if side is None else BY_KEY[key].of(side).short


def _row(
    key: str, a: PassResult | None, b: PassResult | None, ratio: Estimate | None, *, plain: float | None = None
) -> TableRow:
    metric = BY_KEY[key]
    against, tone = ratio_words(ratio, metric.better)
    if ratio is None and plain is not None:
        against = f"{plain:.2f}×"
    values = [metric.of(side) for side in (a, b) if side is not None]
    if not against and values and all(value.number is None for value in values):
        against, tone = values[0].reason, "dim"  # n/a twice says nothing: why it is
    return TableRow(metric.label, _text(key, a), _text(key, b), against, tone)


def ratio_words(ratio: Estimate | None, better: str) -> tuple[str, str]:
    """``1.54×  [1.49, 1.60]`` and its tone; a ratio whose interval holds 1 is no difference shown."""
    if ratio is None:
        return "", ""
    if not ratio.excludes_one:
        return NO_DIFFERENCE, "dim"
    good = (ratio.ratio > 1) == (better == "high")
    tone = "" if better == "none" else "good" if good else "bad"
    return f"{ratio.ratio:.2f}×  [{ratio.low:.2f}, {ratio.high:.2f}]", tone


def _break_even(comparison: Comparison | None) -> TableRow:
    a, b = comparison.break_even if comparison is not None else (None, None)
    return TableRow("break-even accept length", significant(a) if a else "", significant(b) if b else "")


def _ttft(a: PassResult | None, b: PassResult | None, ratio: Estimate | None) -> TableRow:
    against, tone = ratio_words(ratio, "low")
    return TableRow("TTFT p50 · p99", _pair(a), _pair(b), against, tone)


def _pair(side: PassResult | None) -> str:
    if side is None:
        return ""
    spread = side.ttft_ms
    return f"{significant(spread['p50'])} · {significant(spread['p99'])} ms" if spread else "n/a"


def verdict_words(comparison: Comparison, feed_key: str = "f", workload_key: str = "w") -> tuple[str, str]:
    """The verdict as a sentence with the key that helps, and its tone."""
    word, reasons = comparison.verdict.word, comparison.verdict.reasons
    at = f"at {comparison.concurrency} at a time"
    ratio = comparison.throughput
    if word in ("faster", "slower") and ratio is not None:
        shown = f"{ratio.ratio:.2f}× [{ratio.low:.2f}, {ratio.high:.2f}]"
        return (
            f"A is {word} than B on this workload {at}: {shown}, fair trial over {ratio.units} {ratio.unit}",
            "good" if word == "faster" else "",
        )
    if word == NO_DIFFERENCE:
        inside = f" [{ratio.low:.2f}, {ratio.high:.2f}]" if ratio is not None else ""
        return f"no difference shown {at}{inside}: {workload_key} asks for more requests", "dim"
    first = reasons[0] if reasons else "too little was measured"
    more = f" (and {len(reasons) - 1} more)" if len(reasons) > 1 else ""
    return f"not a fair trial: {first}{more} — {_help(first, feed_key, workload_key)}", "warn"


def _help(reason: str, feed_key: str, workload_key: str) -> str:
    """The key that helps against a reason; reasons that say themselves what to do get the key that measures again."""
    if any(word in reason for word in SEEN_WORDS):
        return f"press {workload_key} to choose other prompts"
    if any(word in reason for word in FEED_WORDS):
        return f"press {feed_key} to feed it first"
    if any(word in reason for word in LOAD_WORDS):
        return f"press {workload_key} to choose another load"
    if any(word in reason for word in MORE_WORDS):
        return f"press {workload_key} to ask for more requests"
    return "press c to compare again"
