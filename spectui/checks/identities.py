"""Do the server's own counts agree with each other and with what was received?"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    measured = subject.measured
    assert measured is not None
    found = measured.identities
    broken = [one for one in found if one.state == "broken"]
    held = [one for one in found if one.state in ("ok", "within allowance")]
    value = f"{len(held)} hold, {len(broken)} broken, {len(found) - len(held) - len(broken)} unavailable"
    rows = tuple({"name": one.name, "state": one.state, "detail": one.detail} for one in found)
    if broken:
        text = "; ".join(f"{one.name}: {one.detail}" for one in broken)
        step = "Do not rank this server's numbers; compare its version with the profile's"
        return Finding(False, value, "none broken", text, step, rows)
    if not held:
        return not_checked("this version tells nothing to compare", value=value, expected="none broken")
    return Finding(True, value, "none broken", ", ".join(one.name for one in held), "", rows)


PROBE = Probe(
    "identities",
    "Do the counts agree with each other?",
    "Tokens, verify steps and histogram are told by different parts; where they disagree, no number can be believed.",
    run,
    order=65,
    needs=("serves", "measured"),
)
