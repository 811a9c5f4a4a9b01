"""Are greedy answers the stored ones, or at least sane? Other weights or another template show in the first words."""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject
from spectui.core.answers import compare_rows

EARLY = 4
"""Answers that part this early were asked, or made, by something else."""


def run(subject: Subject) -> Finding:
    expected = "the stored answers, or ones that part from them late"
    if not subject.stored_answers:
        return not_checked("the profile's evidence holds no answers", expected=expected)
    stored = {row.get("prompt_id"): row for row in subject.stored_answers}
    mine = [row for row in subject.answers if row.get("phase") in (None, "measure") and row.get("prompt_id") in stored]
    if not mine:
        return not_checked("none of the prompts sent has a stored answer", expected=expected)
    pairs = [(stored[row.get("prompt_id")], row) for row in mine]
    found = [compare_rows(_cut(base, row), _cut(row, base)) for base, row in pairs]
    same = sum(one.state == "same" for one in found)
    broken = [one for one in found if one.state == "broken"]
    early = [one for one in found if one.at is not None and one.at <= EARLY]
    value = f"{same} of {len(found)} the same"
    if broken:
        step = "Ask the same without speculation: if that answer is sane, the setting damages the output"
        return Finding(False, value, expected, f"{len(broken)} {broken[0].detail}", step)
    if len(early) == len(found) and len(found) >= 3:
        return Finding(
            False,
            value,
            expected,
            f"all {len(found)} answers part from the stored ones within the first {EARLY} words",
            "Compare weights (path, revision, quantization) and chat template with the profile's",
        )
    parted = sorted(one.at for one in found if one.at is not None)
    late = f"; {len(parted)} part, half of them after {found[0].unit} {parted[len(parted) // 2]}" if parted else ""
    return Finding(True, value, expected, f"sane{late}")


def _cut(one: dict[str, object], other: dict[str, object]) -> dict[str, object]:
    """An answer no longer than the other: a smaller output limit is no difference."""
    result: dict[str, object] = {"text": one.get("text")}
    mine, theirs = one.get("output_ids"), other.get("output_ids")
    if isinstance(mine, list) and isinstance(theirs, list) and mine and theirs:
        result["output_ids"] = mine[: min(len(mine), len(theirs))]
        return result
    a, b = str(one.get("text") or ""), str(other.get("text") or "")
    result["text"] = a[: len(b)] if len(b) < len(a) else a
    return result


PROBE = Probe(
    "greedy_answers",
    "Are greedy answers still the stored ones?",
    "Other weights, another quantization or template can keep every speed and change every answer.",
    run,
    order=75,
    needs=("serves", "measured"),
)
