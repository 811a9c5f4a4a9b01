"""Is a step as fast as it was? It moves with GPUs, clocks, kernels, graphs and load, not with the draft's quality."""

from __future__ import annotations

from spectui.checks import _stored
from spectui.checks._intervals import figure
from spectui.checks._probe import Finding, Probe
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    measured = subject.measured
    assert measured is not None
    said, result, found = _stored.compare(subject, "step_time_ms", " ms")
    if said is not None:
        return said
    assert result is not None
    assert found is not None
    new = figure(measured.good, "step_time_ms", speculative=measured.speculative)
    assert new is not None
    value = f"{new.value:.2f} ms ({new.low:.2f} to {new.high:.2f})"
    expected = _stored.spoken(found, " ms")
    how = (
        f"{100 * (result.ratio - 1):+.0f} % {result.how}; a shift below {100 * result.resolution:.0f} % cannot be seen"
    )
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
