"""Is a step as fast as it was? It moves with GPUs, clocks, kernels, graphs and load, not with the draft's quality."""

from __future__ import annotations

from spectui.checks import _stored
from spectui.checks._probe import Finding, Probe
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    measured = subject.measured
    assert measured is not None
    seen = _stored.compare(subject, "step_time_ms", " ms")
    if isinstance(seen, Finding):
        return seen
    result, value, expected, how = seen.agreement, seen.value, seen.expected, seen.how
    if result.shifted > 0:
        busy = any(mark.get("name") == "foreign_traffic" for mark in measured.marks)
        crowd = " Others used the server meanwhile: repeat it when it is idle." if busy else ""
        return Finding(False, value, expected, f"step time moved: {how}.{crowd}", _SLOWER)
    if result.shifted < 0:
        return Finding(True, value, expected, f"faster than stored: {how}")
    return Finding(True, value, expected, how)


_SLOWER = (
    "Look at clocks, throttling and other processes on its GPUs, whether batches leave the captured graphs, the "
    "attention backend and parallel sizes"
)

PROBE = Probe(
    "step_time",
    "Is step time inside the stored interval?",
    "The other half of speed: a slower step eats what drafts bring.",
    run,
    order=60,
    needs=("serves", "info", "measured"),
)
