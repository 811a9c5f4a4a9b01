"""A profile with its evidence as a report: Markdown with text charts, CSV, JSON; redacted before it is returned."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import Any

from spectui.core import metric
from spectui.core.changes import differences
from spectui.core.profile import Profile
from spectui.core.redact import redact
from spectui.store.report import bars, cell, csv_safe, table


def profile_markdown(profile: Profile) -> str:
    lines = [f"# Profile {cell(profile.name)}", ""]
    if profile.notes:
        lines += [cell(redact(profile.notes)), ""]
    server, speculative = profile.server, profile.speculative
    knobs = [(key, value) for key, value in speculative.knobs.items()]
    args = [(key, value) for key, value in redact(server.arguments()).items()]
    lines.append(table(("setting", "asked"), [("algorithm", speculative.algorithm), *knobs, *args]))
    public = [entry for entry in profile.evidence if is_public(entry)]
    entries = sorted(own(profile.evidence), key=lambda entry: str(entry.get("date") or ""), reverse=True)
    lines += ["", "## Evidence", ""]
    if not entries:
        lines.append("None yet: measure it, then `spectui profiles save NAME --from RUN`.")
    for entry in entries:
        lines += [*_evidence(entry), ""]
    if public:
        lines += ["", "## Published by others", ""]
        lines += [f"- {_published(entry)}" for entry in public] + [""]
    trend = trend_rows(entries)
    if len(trend) > 1:
        lines += ["## Over time", "", table(TREND, trend), ""]
    return redact("\n".join(lines).rstrip() + "\n")


def is_public(entry: Mapping[str, Any]) -> bool:
    """A range that somebody published, not a run of this user."""
    return entry.get("kind") == "public"


def own(evidence: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [entry for entry in evidence if not is_public(entry)]


def _published(entry: Mapping[str, Any]) -> str:
    kept = entry.get("accept_length")
    ends = [metric.significant(float(x)) for x in kept] if isinstance(kept, list) and len(kept) == 2 else []
    both = " to ".join(dict.fromkeys(ends))
    span = f"accept length {both}" if ends else "accept length not given"
    return f"{span}; {cell(entry.get('setting') or 'setting not given')}. Source: {cell(entry.get('source') or 'none')}"


def _evidence(entry: Mapping[str, Any]) -> list[str]:
    workload = entry.get("workload") if isinstance(entry.get("workload"), Mapping) else {}
    assert isinstance(workload, Mapping)
    place = ", ".join(str(x) for x in entry.get("gpus") or ()) or "GPUs not known"
    if entry.get("simulated"):
        place = "simulated server"
    lines = [
        f"### {cell(entry.get('date') or 'no date')}: SGLang {cell(entry.get('sglang') or 'unknown')}, {cell(place)}",
        "",
        f"Run {cell(entry.get('run') or 'unknown')}, workload {cell(workload.get('name') or 'unknown')} "
        f"({cell(workload.get('hash') or 'no hash')}).",
        "",
    ]
    results = [row for row in entry.get("result") or () if isinstance(row, Mapping)]
    rows = [
        (
            f"{row.get('pass')} ×{row.get('concurrency')}",
            _interval(row.get("output_tokens_per_s")),
            _interval(row.get("accept_length")),
            _interval(row.get("step_time_ms")),
            row.get("proposer_state") or "",
        )
        for row in results
    ]
    lines.append(table(("pass", "output tok/s", "accept length", "step time (ms)", "proposer"), rows))
    charted = [
        (str(row[0]), _value(result.get("output_tokens_per_s"))) for row, result in zip(rows, results, strict=True)
    ]
    if len(charted) > 1:
        lines += ["", bars(charted, " tok/s")]
    return lines


def _value(kept: object) -> float | None:
    first = kept[0] if isinstance(kept, (list, tuple)) and kept else None
    return float(first) if isinstance(first, (int, float)) and not isinstance(first, bool) else None


def _interval(kept: object) -> str:
    value = _value(kept)
    if value is None:
        return "n/a"
    ends = (
        [metric.significant(float(x)) for x in kept[1:3]] if isinstance(kept, (list, tuple)) and len(kept) == 3 else []
    )
    return metric.significant(value) + (f" ({ends[0]} to {ends[1]})" if ends else "")


TREND = ("date", "SGLang", "workload", "pass", "output tok/s", "accept length", "step time (ms)", "what changed")


def trend_rows(entries: Sequence[Mapping[str, Any]]) -> list[tuple[object, ...]]:
    """One profile over time, the oldest first: a line for each evidence's last result, and what differs from before."""
    rows: list[tuple[object, ...]] = []
    before: Mapping[str, Any] | None = None
    for entry in sorted(own(entries), key=lambda e: str(e.get("date") or "")):
        results = [row for row in entry.get("result") or () if isinstance(row, Mapping)]
        workload = entry.get("workload")
        one = results[-1] if results else {}
        rows.append(
            (
                entry.get("date") or "",
                entry.get("sglang") or "",
                workload.get("name") if isinstance(workload, Mapping) else "",
                f"{one.get('pass', '')} ×{one.get('concurrency', '')}",
                _interval(one.get("output_tokens_per_s")),
                _interval(one.get("accept_length")),
                _interval(one.get("step_time_ms")),
                "" if before is None else changed(before, entry),
            )
        )
        before = entry
    return rows


def changed(before: Mapping[str, Any], after: Mapping[str, Any]) -> str:
    """What differs between two pieces of evidence, in words."""
    found = differences(_facts(before), _facts(after))
    return "; ".join(f"{one.key}: {one.a} → {one.b}" for one in found)[:300] or "nothing that is known"


def _facts(entry: Mapping[str, Any]) -> dict[str, Any]:
    facts: dict[str, Any] = {"sglang": entry.get("sglang"), "driver": entry.get("driver")}
    facts["gpus"] = ", ".join(str(g) for g in entry.get("gpus") or ()) or None
    for part in ("settings_in_force", "server"):
        table_ = entry.get(part)
        if isinstance(table_, Mapping):
            facts.update({str(k): v for k, v in table_.items() if not isinstance(v, (list, dict))})
    for part in ("model", "draft"):
        table_ = entry.get(part)
        if isinstance(table_, Mapping):
            facts.update({f"{part}.{k}": v for k, v in table_.items()})
    return facts


def profile_csv(profile: Profile) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    names = ("output_tokens_per_s", "accept_length", "step_time_ms")
    head = ["profile", "date", "run", "sglang", "workload", "pass", "concurrency", "requests"]
    writer.writerow([*head, *(f"{name}{end}" for name in names for end in ("", "_low", "_high"))])
    for entry in own(profile.evidence):
        workload = entry.get("workload")
        name = workload.get("name") if isinstance(workload, Mapping) else None
        for row in entry.get("result") or ():
            if not isinstance(row, Mapping):
                continue
            values: list[object] = [profile.name, entry.get("date"), entry.get("run"), entry.get("sglang"), name]
            values += [row.get("pass"), row.get("concurrency"), row.get("requests")]
            for key in names:
                kept = row.get(key)
                values += list(kept) if isinstance(kept, list) and len(kept) == 3 else ["", "", ""]
            writer.writerow([csv_safe(value) for value in values])
    return redact(out.getvalue())


def profile_json(profile: Profile) -> str:
    return json.dumps(redact(profile.as_table()), ensure_ascii=False, indent=1, default=str) + "\n"
