"""The one sentence that is always there: what happens, and which keys are the next ones."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectui import algorithms
from spectui.core.settings import bracket_for
from spectui.session.live_arm import LiveArm
from spectui.session.staging import Staged, can_start, change_words, value_words
from spectui.session.view import Status

if TYPE_CHECKING:
    from spectui.session.live import Live

SILENT_AFTER_S = 15.0
_MOST = 3
_RUN_KEYS = ("run", "compare", "algorithm", "workload", "save", "choose_server", "check")


def status_of(live: Live, verdict: str, tone: str, now: float) -> Status:
    """The one sentence that is always there, and the keys that make sense now."""
    arm = live.focused
    staged = arm.staged
    common = ("help", "quit")
    in_trouble = next(
        (a for a in live.arms.values() if not a.empty and a.standing()[0] in ("failed", "gone", "GPU lost")), None
    )
    if live.notice is not None:
        first: tuple[str, ...] = ("apply", "drop") if staged is not None else ()
        if in_trouble is arm and staged is None and not live.measuring.active:
            first = _trouble_keys(arm)  # what went wrong was just said: how to get out of it must be there, too
        keys = (*first, *(key for key in _RUN_KEYS if key not in first))
        return Status(live.notice.text, live.notice.tone, (*keys, *common))
    busy = next((a for a in live.arms.values() if a.busy), None)
    if busy is not None:
        return Status(
            f"{busy.letter}: {busy.standing()[1] or busy.busy}", "warn", ("stop", "log", "focus_arm", *common)
        )
    if in_trouble is not None and (in_trouble is arm or staged is None) and not live.measuring.active:
        letter = in_trouble.letter
        shown = ("focus_arm", *_trouble_keys(in_trouble), *common)
        return Status(f"{letter}: {in_trouble.standing()[1]}", "bad", shown)
    if staged is not None:
        return Status(staged_words(arm, verdict), "warn" if staged.refused else "", _staged_keys(live))
    if live.measuring.active:
        assert live.measuring.run is not None
        view = live.measuring.run.view(now)
        doing = "stopping the run …" if live.measuring.stopping else f"{view.phase or 'the run begins'}"
        heard = live.measuring.run.fold.t
        if heard is not None and now - heard >= SILENT_AFTER_S:
            doing += f", nothing heard of it for {now - heard:.0f} s: x stops it, l shows the log"
        return Status(f"{doing} ({view.task})", "", ("stop", "chart", "log", "focus_arm", "choose_server", *common))
    if verdict:
        knob = ("knob_up",) if arm.live and arm.algorithm not in ("none", "unknown", "") else ()
        return Status(verdict, tone, (*knob, "algorithm", "run", "compare", "feed", "save", "workload", *common))
    return Status(*_waiting(live), (*_RUN_KEYS, *common))


def _trouble_keys(arm: LiveArm) -> tuple[str, ...]:
    if arm.ready_before:
        return ("back", "log", "choose_server")
    return ("log", "choose_server", "apply") if can_start(arm) else ("log", "choose_server")


def _staged_keys(live: Live) -> tuple[str, ...]:
    keys = ("apply", "drop", "knob_up", "knob_down", "settings", "algorithm")
    return (*keys, "stop") if live.measuring.active else (*keys, "run", "compare", "save", "help", "quit")


def staged_words(arm: LiveArm, verdict: str) -> str:
    staged = arm.staged
    assert staged is not None
    if staged.refused:
        return f"Staged for {arm.letter}, and it would be refused: {staged.refused}"
    if not arm.live:
        return f"{arm.letter}: profile {arm.name} is not started; enter launches it"
    cost = "takes effect at once, no relaunch"
    if not staged.hot:
        cost = f"relaunch takes about {staged.relaunch_s:.0f} s" if staged.relaunch_s else "needs a relaunch"
    prediction = staged.prediction.text if staged.prediction is not None else ""
    warned = f"; {staged.warned[0]}" if staged.warned else ""
    parts = [part for part in (prediction, cost) if part]
    return f"Staged for {arm.letter}: {change_in_short(staged)} — {'; '.join(parts)}{warned}"


def change_in_short(staged: Staged) -> str:
    """What changes, in as few words as leave room for what it brings: another algorithm with the knob that [ and ]
    move, else the first changes. The card and the form show all of it."""
    other = next((change for change in staged.changes if change.key == "algorithm"), None)
    if other is None:
        parts = staged.words.split(", ")
        return ", ".join(parts[:_MOST]) + (f" and {len(parts) - _MOST} more" if len(parts) > _MOST else "")
    algorithm = algorithms.for_name(staged.plan.algorithm)
    bracket = bracket_for(algorithm, staged.plan.in_force)
    knob = algorithm.knob(bracket.key) if bracket is not None else None
    value = staged.plan.in_force.get(knob.key) if knob is not None else None
    return change_words(other) + (
        f", {knob.title} {value_words(value)}" if knob is not None and value is not None else ""
    )


def _waiting(live: Live) -> tuple[str, str]:
    if live.opening:
        return live.opening, ""
    arm = live.focused
    other = live.other(arm)
    if arm.empty and other.empty:
        return "no server yet: o chooses a server, a profile to launch, or a stored run", ""
    state, _ = arm.standing()
    if state in ("starting", "connecting"):
        return f"{arm.letter}: {arm.standing()[1]}", ""
    if arm.ready and other.ready:
        return "both ready: c compares them, r measures the arm in focus, ] changes its knob", ""
    if arm.ready:
        return f"{arm.letter} is ready: r measures it, ] changes its knob, o chooses a server for {other.letter}", ""
    return f"{arm.letter}: {arm.standing()[1] or state}", ""
