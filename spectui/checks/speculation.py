"""Is speculation really on? The flag may be lost, and drafts may be proposed and never accepted."""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

NEVER = 1.05
"""Accept length at or below which drafts count as never accepted."""
CAUSES = (
    "the algorithm may not be the one that the draft was trained for, the draft may belong to another target, "
    "or prompts go without the chat template"
)


def run(subject: Subject) -> Finding:
    info = subject.info
    assert info is not None
    asked = subject.asked_algorithm
    expected = asked or "as the server says"
    if not info.speculates:
        if asked not in (None, "none"):
            name = subject.profile.name if subject.profile is not None else "NAME"
            step = f"Start it with the profile's command: spectui export {name} --format command; or its log says why"
            detail = f"{asked} was asked for and the server runs without it: speculation is OFF"
            return Finding(False, "speculation is OFF", expected, detail, step)
        return Finding(True, "none", expected, "the server runs without speculation, as asked" if asked else "off")
    name = info.algorithm
    if asked == "none":
        return Finding(False, name, "none", f"no speculation was asked for and the server runs {name}", "Relaunch it")
    measured = subject.measured
    if measured is None:
        return not_checked(subject.measured_why, value=f"{name}, says the server", expected=expected)
    steps, length = measured.verify_steps, measured.accept_length
    if steps is None or length is None:
        reason = "this version and route tell no verify steps"
        return not_checked(reason, value=f"{name}, says the server", expected=f"accept length above {NEVER}")
    value = f"{name}: {steps} verify steps, accept length {length:.2f}"
    wanted = f"verify steps, accept length above {NEVER}"
    if steps == 0:
        return Finding(False, value, wanted, "no request took part in a verify step", "Read the server's log")
    if length > NEVER:
        return Finding(True, value, wanted, "drafts are verified and accepted")
    if subject.stateful and not subject.fed:
        reason = "hardly a draft was accepted, which an n-gram store that has learned nothing may do"
        return not_checked(reason, value=value, expected=wanted, step="Feed it first: spectui check … --feed")
    detail = f"drafts are never accepted: {CAUSES}"
    return Finding(False, value, wanted, detail, "Check draft and algorithm; without speculation it would be faster")


PROBE = Probe(
    "speculation",
    "Is speculation really on, and are drafts accepted?",
    "A lost flag, or a draft that never hits, costs the speed for which it was set up, and nothing complains.",
    run,
    order=40,
    needs=("serves", "info"),
)
