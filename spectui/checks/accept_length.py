"""Is accept length what it was? It moves with draft, template, quantization and the text, not with the hardware."""

from __future__ import annotations

from spectui.checks import _drift, _stored
from spectui.checks._probe import Finding, Probe
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    seen = _stored.compare(subject, "accept_length", "")
    if isinstance(seen, Finding):
        return seen
    result, value, expected, how = seen.agreement, seen.value, seen.expected, seen.how
    new, found = seen.new, seen.held
    if found.top is not None:
        if result.shifted < 0:
            return Finding(False, value, expected, f"below what an empty store gives: {how}", _LOWER)
        if new.low > found.top.high:
            return Finding(True, value, expected, "above what a warm store gave: this one has seen more such text")
        return Finding(True, value, expected, "the store holds text of others; within cold and warm")
    trend = _drift.over(subject, new.value)
    if trend is not None and trend.falling:
        return Finding(False, value, expected, f"accept length drifts: {trend.text}; now {how}", _LOWER)
    if result.shifted == 0:
        return Finding(True, value, expected, how + _past(subject))
    if result.shifted < 0:
        return Finding(False, value, expected, f"accept length moved: {how}" + _past(subject), _LOWER)
    if subject.stateful and not subject.store_empty:
        return Finding(True, value, expected, f"more than stored, as a store that had learned before may give: {how}")
    step = (
        "Higher than ever measured: did others send these prompts, or are drafts not verified as before? Measure anew"
    )
    return Finding(False, value, expected, f"accept length moved: {how}" + _past(subject), step)


_LOWER = (
    "Compare draft (path, revision), chat template, quantization and sampling defaults with the profile; for NGRAM, "
    "feed it with text of your workload"
)


def _past(subject: Subject) -> str:
    """How accept length went over earlier checks with fresh prompts, where there are enough."""
    past = _drift.alike(subject)
    if len(past) < 2:
        return ""
    first, last = past[0], past[-1]
    span = (float(last["t"]) - float(first["t"])) / 86400
    lengths = [float(h["accept_length"]) for h in past[-5:]]
    return f"; {len(past)} earlier checks over {span:.1f} days: {', '.join(f'{x:.2f}' for x in lengths)}"


PROBE = Probe(
    "accept_length",
    "Is accept length inside the stored interval?",
    "It is what speculation lives from; a shift means another draft, template or text.",
    run,
    order=50,
    needs=("serves", "info", "measured"),
)
