"""Is it the SGLang version that the profile was measured with?"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject


def run(subject: Subject) -> Finding:
    assert subject.info is not None
    now = subject.info.version or "unknown"
    simulated = " (simulated)" if subject.info.simulated else ""
    stored = next((str(e["sglang"]) for e in subject.stored if e.get("sglang")), None)
    if subject.profile is None:
        return not_checked("no profile to compare with", value=now + simulated)
    if stored is None:
        return not_checked("the profile holds no evidence with a version", value=now + simulated)
    if stored == now:
        return Finding(True, now + simulated, stored, "the version that the profile was measured with")
    return Finding(
        False,
        now + simulated,
        stored,
        f"the profile was measured with SGLang {stored}",
        "Measure again with this version and save it: spectui run … then spectui profiles save",
    )


PROBE = Probe(
    "version",
    "Is it the version that the profile was measured with?",
    "Defaults, rules and speeds differ between releases; a container tag that moved is a common cause of a change.",
    run,
    order=20,
    needs=("info",),
)
