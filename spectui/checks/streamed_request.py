"""Did answers come as streams, whole and with their end marks? Judged on the measured run, which streams."""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject
from spectui.core.answers import fault


def run(subject: Subject) -> Finding:
    measured = subject.measured
    assert measured is not None
    records = measured.records
    events = sum(len(r.event_s) or len(r.increments) for r in records)
    value = f"{len(records)} streams, {events} events"
    expected = "whole streams of sane text"
    bad = [r for r in records if r.status in ("failed", "cut off")]
    if bad:
        detail = f"{len(bad)} of {len(records)} streams: {bad[0].status}: {bad[0].error or 'no reason given'}"
        return Finding(False, value, expected, detail, "Read the server's log; look for a proxy that cuts streams")
    if not measured.good:
        return not_checked("no stream was measured", value=value, expected=expected)
    own = [r for r in subject.answers if r.get("phase") in (None, "measure")]
    broken = [w for r in own if (w := fault(str(r.get("text") or ""), str(r.get("thoughts") or ""))) is not None]
    hard = [w for w in broken if w not in ("repetition", "no answer text")]
    if hard or len(broken) - sum(w == "no answer text" for w in broken) > len(own) / 2:
        detail = f"{len(broken)} of {len(own)} answers are broken: {', '.join(sorted(set(broken)))}"
        return Finding(False, value, expected, detail, "Ask the same without speculation, and compare")
    one = [r for r in measured.good if len(r.event_s) == 1 and (r.completion_tokens or 0) > 16]
    if len(one) == len(measured.good):
        return Finding(
            False,
            value,
            expected,
            "every answer came in one piece: something on the way gathers streams",
            "Ask the server directly, without the proxy, and look at --stream-interval",
        )
    return Finding(True, value, expected, "all streams ended with their end mark")


PROBE = Probe(
    "streamed_request",
    "Do streams arrive whole?",
    "Users read streams; a proxy or a crash in the middle shows only there.",
    run,
    order=72,
    needs=("serves", "measured"),
)
