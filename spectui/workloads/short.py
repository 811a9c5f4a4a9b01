"""Five short requests that have nothing to do with one another."""

from __future__ import annotations

from spectui.workloads._workload import Workload, plain

WORKLOAD = Workload(
    name="short",
    title="five short requests",
    help="Five unrelated short requests. Nothing in one answer helps with the next, so NGRAM has little to draw on: "
    "good for a first look, not for a verdict on it.",
    kinds=("short",),
    max_tokens=256,
    build=plain("short"),
)
