"""A run as a report: Markdown with text charts, CSV, JSON. Redacted before it is returned: it is made to leave."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from spectui.core import metric
from spectui.core.passes import PassResult
from spectui.core.redact import redact
from spectui.core.result import RunResult, run_json
from spectui.core.safe import safe_text

KINDS = ("markdown", "csv", "json")
_BAR = 32


def cell(value: object) -> str:
    """Foreign text in a table's cell: one line, no bar, nothing that a terminal would obey."""
    return safe_text(str(value), 300).replace("|", "\\|")


def table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> str:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    lines += [f"| {' | '.join(cell(value) for value in row)} |" for row in rows]
    return "\n".join(lines)


def bars(rows: Sequence[tuple[str, float | None]], unit: str = "") -> str:
    """A bar chart of text, in a code block; what is not known has no bar."""
    top = max((value for _, value in rows if value is not None), default=0.0)
    width = max((len(label) for label, _ in rows), default=0)
    lines = []
    for label, value in rows:
        if value is None or top <= 0:
            lines.append(f"{safe_text(label, 60).ljust(width)}  n/a")
            continue
        full = "█" * max(1, round(_BAR * value / top))
        lines.append(f"{safe_text(label, 60).ljust(width)}  {full} {metric.significant(value)}{unit}")
    return "\n".join(["```", *lines, "```"])


# -- a run


def run_markdown(
    result: RunResult,
    name: str,
    marks: Mapping[str, Any] | None = None,
    compared: Mapping[str, Any] | None = None,
) -> str:
    """``compared``: of a run of two arms, what ``compare --json`` says of them."""
    head = result.head
    workload = head.get("workload") or {}
    lines = [f"# Run {cell(name)}", ""]
    if any(arm.get("simulated") for arm in _arms(result)):
        lines += ["**Simulated server: its numbers are made up.**", ""]
    lines.append(
        f"Workload {cell(workload.get('name') or 'unknown')} ({cell(workload.get('hash') or 'no hash')}), "
        f"output limit {head.get('max_tokens')}, temperature {_said(head.get('temperature'), 'server default')}, "
        f"spectui {cell(head.get('spectui') or 'unknown')}. Ended: {cell(result.status)}"
        f"{': ' + cell(result.reason) if result.reason else ''}."
    )
    if marks and marks.get("note"):
        lines += ["", f"Note: {cell(marks['note'])}"]
    lines += ["", "## Arms", ""]
    node = head.get("node") or {}
    gpus = sorted({str(gpu.get("name")) for gpu in node.get("gpus") or ()})
    rows = [
        (
            arm.get("name"),
            arm.get("algorithm"),
            arm.get("model"),
            arm.get("version"),
            arm.get("route"),
        )
        for arm in _arms(result)
    ]
    lines.append(table(("arm", "algorithm", "model", "SGLang", "route"), rows))
    for arm in _arms(result):
        settings = _settings(arm.get("settings_in_force"))
        if settings:
            lines += ["", f"In force, {cell(arm.get('name'))}: {settings}."]
    if gpus:
        lines += ["", f"GPUs: {cell(', '.join(gpus))}, driver {cell(node.get('driver') or 'unknown')}."]
    if compared is not None:
        lines += ["", "## A against B", "", *_compared(compared)]
    lines += ["", "## Results", "", *_results(list(result.passes.values()))]
    lines += _marks(result)
    return redact("\n".join(lines) + "\n")


def _compared(said: Mapping[str, Any]) -> list[str]:
    """The verdict at each concurrency, what decides it, and what must be read beside it."""
    rows = said["by_concurrency"]
    head = ("at a time", "tok/s A", "tok/s B", "A over B, 95 %", "accept length", "step time", "verdict")
    shown = [
        (
            row["concurrency"],
            *(_tok_s(row, arm) for arm in "AB"),
            _ratio(row),
            _ratio(row["details"].get("accept_length")),
            _ratio(row["details"].get("step_time")),
            f"**{row['verdict']}**",
        )
        for row in rows
    ]
    lines = [f"{cell(str(said['pass']).capitalize())} pass.", "", table(head, shown), ""]
    lines += [f"- ×{row['concurrency']}: {cell(reason)}" for row in rows for reason in row["reasons"]]
    lines += [f"- {key}: {cell(said[key])}" for key in ("crossing", "answers") if said.get(key)]
    lines += [f"- {cell(note)}" for note in said.get("notes") or ()]
    return lines


def _tok_s(row: Mapping[str, Any], arm: str) -> str:
    value = (row["arms"].get(arm) or {}).get("output_tokens_per_s")
    return "n/a" if value is None else f"{value:,.1f}"


def _ratio(found: Mapping[str, Any] | None) -> str:
    if not found or found.get("ratio") is None:
        return "n/a"
    low, high = found.get("interval") or (None, None)
    ends = "" if low is None or high is None else f" [{low:.2f}, {high:.2f}]"
    return f"{found['ratio']:.2f}×{ends}"


def _arms(result: RunResult) -> list[Mapping[str, Any]]:
    return [arm for arm in result.head.get("arms") or () if isinstance(arm, Mapping)]


def _said(value: object, missing: str) -> str:
    return missing if value is None else str(value)


def _settings(settings: object) -> str:
    """All that are set, each short, and none cut off: which knobs there were is what a reader looks for."""
    if not isinstance(settings, Mapping):
        return ""
    return ", ".join(cell(f"{key}={value}") for key, value in redact(dict(settings)).items() if value is not None)


def _title(one: PassResult) -> str:
    return f"{one.arm} {one.pass_name} ×{one.concurrency}"


def _results(passes: list[PassResult]) -> list[str]:
    if not passes:
        return ["Nothing was measured."]
    rows = [
        (f"{m.label}{f' ({m.unit})' if m.unit else ''}", *(_number(m, one) for one in passes)) for m in metric.METRICS
    ]
    rows.append(("proposer", *(one.proposer_state.name for one in passes)))
    parts = [table(("", *(_title(one) for one in passes)), rows)]
    parts += ["", "Output tokens per second:", ""]
    parts.append(bars([(_title(one), one.output_tokens_per_s) for one in passes], " tok/s"))
    if any(one.speculative for one in passes):
        parts += ["", "Accept length (decode tokens per verify step):", ""]
        parts.append(bars([(_title(one), one.accept_length) for one in passes]))
    for one in passes:
        counts = one.histogram if one.speculative else None
        if counts and sum(counts):
            parts += ["", f"Drafts accepted in a verify step, {_title(one)}:", ""]
            parts.append(bars([(f"{k}", 100 * n / sum(counts)) for k, n in enumerate(counts)], " %"))
    return parts


def _number(m: metric.Metric, one: PassResult) -> str:
    value = m.of(one)
    if value.number is None:
        return f"n/a: {value.reason}"
    return value.text.removesuffix(f" {m.unit}")


def _marks(result: RunResult) -> list[str]:
    lines: list[str] = []
    broken = [
        (f"{_title(one)}: {identity.name}", identity.detail)
        for one in result.passes.values()
        for identity in one.identities
        if identity.state == "broken"
    ]
    marks = [(str(mark.get("name")), str(mark.get("detail") or "")) for mark in result.marks]
    if broken or marks:
        lines += ["", "## To know", ""]
        lines += [f"- {cell(name)}: {cell(detail)}" for name, detail in [*broken, *marks]]
    return lines


def run_csv(result: RunResult, name: str) -> str:
    """One line a pass; a value that is not known is empty, never 0."""
    out = io.StringIO()
    keys = [m.key for m in metric.METRICS]
    first = ("run", "arm", "algorithm", "version", "model", "workload", "pass", "concurrency", "proposer_state")
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([*first, *keys])
    workload = (result.head.get("workload") or {}).get("name")
    for one in result.passes.values():
        arm = result.arm(one.arm)
        values = metric.row(one)
        named = [name, one.arm, one.algorithm, one.version, arm.get("model"), workload, one.pass_name]
        row = [
            *named,
            one.concurrency,
            one.proposer_state.name,
            *("" if values[k] is None else values[k] for k in keys),
        ]
        writer.writerow([csv_safe(value) for value in row])
    return redact(out.getvalue())


def csv_safe(value: object) -> object:
    """Foreign text that a spreadsheet would take for a formula is marked as text."""
    if isinstance(value, str):
        text = safe_text(value, 300)
        return f"'{text}" if text.startswith(("=", "+", "-", "@")) else text
    return "" if value is None else value


def run_as_json(result: RunResult, name: str) -> str:
    said = {"run": name, "head": dict(result.head), **run_json(result)}
    return json.dumps(redact(said), ensure_ascii=False, indent=1) + "\n"
