"""Is the developers' switch that fakes acceptance left in the server's environment?"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject
from spectui.core.marks import environment_marks


def run(subject: Subject) -> Finding:
    if subject.environment is None:
        return not_checked(subject.environment_why, expected="not set")
    marks = environment_marks(subject.environment)
    if not marks:
        return Finding(True, "not set", "not set", "acceptance is real")
    return Finding(
        False, "set", "not set", marks[0].text, "Unset the variable and restart; discard results made with it"
    )


PROBE = Probe(
    "simulated_acceptance",
    "Is acceptance real, not forced by a switch in the environment?",
    "With the switch on, every speed looks splendid and the text means nothing.",
    run,
    order=35,
    needs=(),
)
