"""Did an earlier server leave processes behind?"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    if subject.server is None:
        return not_checked("its process is not on this node, so neither are left-overs of it", expected="none")
    mine, port = set(subject.server.gpus), subject.server.port
    near = [s for s in subject.leftovers if mine & set(s.gpus) or (s.record is not None and s.record.port == port)]
    if not near:
        away = sum(len(s.pids) for s in subject.leftovers)
        elsewhere = f"; {away} processes of other dead servers are on this node" if away else ""
        return Finding(True, "none", "none", f"none on its GPUs or of its port{elsewhere}")
    text = "; ".join(f"{len(s.pids)} processes of {s.user or 'someone'}, first {s.pid}" for s in near)
    named = [s.record.name for s in near if s.record is not None]
    step = f"spectui stop {named[0]} --leftovers" if named else "Ask their owner to end them"
    return Finding(
        False, f"{sum(len(s.pids) for s in near)} processes", "none", f"workers of a dead server: {text}", step
    )


PROBE = Probe(
    "leftovers",
    "Are there no left-over processes?",
    "Workers of a server that died hold memory and compete for the GPU.",
    run,
    order=82,
    needs=(),
)
