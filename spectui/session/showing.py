"""The live session as one value for the screen: what is seen first is what is wrong, then what is going on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from spectui.core.metric import significant
from spectui.session import stored_curve, table
from spectui.session.following import Following
from spectui.session.live_arm import LiveArm
from spectui.session.showing_arm import arm_view
from spectui.session.showing_gpu import arms_of, mean_words, node_of
from spectui.session.status import status_of
from spectui.session.view import ArmView, RunView, Snapshot, TableRow

if TYPE_CHECKING:
    from spectui.session.live import Live


def snapshot(live: Live, now: float) -> Snapshot:
    measuring = live.measuring
    run = measuring.run
    figures = measuring.figures
    view = run.view(now) if run is not None else None
    verdict, tone = verdict_of(live)
    curves = {letter: found for letter in live.arms if (found := measuring.with_arm(letter)) is not None}
    active = view is not None and view.active
    still = None if active or run is None or not curves else last_moment(curves)
    now_or_then = now if still is None else still
    tok_s = {letter: found.points(letter, "tok_s", now_or_then) for letter, found in curves.items()}
    accept = {letter: found.points(letter, "accept", now_or_then) for letter, found in curves.items()}
    begun = next((since for a, one in curves.items() if (since := measuring_since(one, a)) is not None), None)
    for letter, arm in live.arms.items():
        if arm.stored is not None:
            place = arm.stored.folder, arm.stored.arm
            tok_s[letter] = stored_curve.points(*place, "tok_s", now_or_then, begun or arm.stored_at)
            accept[letter] = stored_curve.points(*place, "accept", now_or_then, begun or arm.stored_at)
    break_even = {}
    if figures.comparison is not None:
        pairs = zip("AB", figures.comparison.break_even, strict=True)
        break_even = {letter: value for letter, value in pairs if value is not None and value >= 1}
    arms = tuple(arm_view(live, arm, now) for arm in live.arms.values())
    tok_s_now = {a: current(live, a, "tok_s", active) for a in live.arms}
    accept_now = {a: current(live, a, "accept", active) for a in live.arms}
    return Snapshot(
        now=now,
        node=node_of(live),
        arms=arms,
        focus=live.focus,
        run=view,
        tok_s=tok_s,
        accept=accept,
        tok_s_now=tok_s_now,
        accept_now=accept_now,
        marks=marks_of(live, now_or_then),
        break_even=break_even,
        gpus=live.gpu_panel.readings,
        gpu_note=live.gpu_panel.state,
        gpu_history={uuid: tuple(values) for uuid, values in live.gpu_history.items()},
        gpu_owner=arms_of(live),
        gpu_mean=mean_words(live),
        gpu_holders=live.gpu_holders,
        table=table_of(live, tok_s_now, accept_now),
        wait=wait_of(arms),
        chart_now=still,
        answer=run.answer if run is not None else None,
        logs={letter: arm.log for letter, arm in live.arms.items()},
        log_titles={a: log_title(arm) for a, arm in live.arms.items()},
        verdict=verdict,
        status=status_of(live, verdict, tone, now),
        summary=summary_of(live, active),
    )


def table_of(live: Live, tok_s: Mapping[str, str], accept: Mapping[str, str]) -> tuple[TableRow, ...]:
    """What was measured; before that, what is measured now; before that, what the servers say of themselves."""
    figures = live.measuring.figures
    rows = table.table(figures.passes.get("A"), figures.passes.get("B"), figures.comparison, figures.answers)
    if rows:
        return tuple(table.with_predictions(rows, live.predicted, figures.passes))
    idle = {letter: arm.idle for letter, arm in live.arms.items() if arm.live and arm.error is None}
    return tuple(table.until_measured(tok_s, accept) or table.when_idle(idle))


def last_moment(curves: Mapping[str, Following]) -> float | None:
    """The end of the last run that is shown: there the charts stand still, so that they can be looked at."""
    ends = [found.fold.t for found in curves.values() if found.fold.t is not None]
    return max(ends) if ends else None


def marks_of(live: Live, now: float) -> tuple[tuple[float, str], ...]:
    of_runs = (mark for one in live.measuring.runs for mark in one.marks(now))
    return tuple(sorted([*live.marks(now), *of_runs]))


def wait_of(arms: tuple[ArmView, ...]) -> RunView | None:
    """The start that is waited for, as the line at the top shows it."""
    arm = next((arm for arm in arms if arm.start is not None), None)
    if arm is None or arm.start is None:
        return None
    task = f"{arm.name} starts ▸ {arm.start.now}"
    return RunView("", "", (arm.name,), True, task, "", arm.start.share, arm.start.left_s)


def measuring_since(run: Following, letter: str) -> float | None:
    found = run.arm(letter)
    return found.measuring_since if found is not None else None


def current(live: Live, letter: str, what: str, active: bool) -> str:
    """The present value beside a curve: of the last bucket while it is measured, else nothing."""
    run = live.measuring.with_arm(letter)
    arm = run.arm(letter) if run is not None else None
    if arm is None:
        return ""
    value = (arm.tok_s if what == "tok_s" else arm.accept).latest()
    if value is None:
        return ""
    return f"{value:.0f}" if what == "tok_s" and value >= 10 else f"{value:.1f}"


def log_title(arm: LiveArm) -> str:
    path = arm.record.log_path if arm.record is not None else ""
    return f"{arm.letter}: log {path}" if path else f"{arm.letter}: log"


def verdict_of(live: Live) -> tuple[str, str]:
    figures = live.measuring.figures
    if figures.note:
        return figures.note, "warn"
    if figures.comparison is None or not figures.final:
        return "", ""
    return table.verdict_words(figures.comparison)


def summary_of(live: Live, active: bool) -> str:
    """``A NGRAM 372 tok/s 4.9   B EAGLE3 241 tok/s 2.3``"""
    parts = []
    for letter, arm in live.arms.items():
        state, _ = arm.standing()
        speed, length = current(live, letter, "tok_s", active), current(live, letter, "accept", active)
        passed = live.measuring.figures.passes.get(letter)
        if not active and passed is not None:
            speed = significant(passed.output_tokens_per_s) if passed.output_tokens_per_s else ""
            length = f"{passed.accept_length:.2f}" if passed.accept_length else ""
        figures = f"{speed} tok/s {length}".strip() if speed else state
        parts.append(f"{letter} {arm.algorithm or '–'} {figures}")
    return "   ".join(parts)
