"""Requests for long answers: guides, reports, stories."""

from __future__ import annotations

from spectui.workloads._workload import Workload, plain

WORKLOAD = Workload(
    name="long",
    title="long answers",
    help="Guides, reports and stories of many paragraphs. Shows how speed and accept length hold over a long answer, "
    "where NGRAM can draw on what the same answer said before.",
    kinds=("long",),
    max_tokens=2048,
    build=plain("long"),
)
