"""The live session as one value for the screen: what is seen first is what is wrong, then what is going on."""

from __future__ import annotations

import os
from functools import cache
from typing import TYPE_CHECKING

from spectui import algorithms
from spectui.core.evidence import is_stateful
from spectui.core.metric import significant
from spectui.hosts.gpu_facts import busy_hint, gpus_of
from spectui.session import SessionError, staging, stored_curve, table
from spectui.session.following import Following
from spectui.session.live_arm import LiveArm
from spectui.session.status import status_of
from spectui.session.view import ArmView, SettingView, Snapshot, StoreView

if TYPE_CHECKING:
    from spectui.session.live import Live


def snapshot(live: Live, now: float) -> Snapshot:
    measuring = live.measuring
    run = measuring.run
    figures = measuring.figures
    view = run.view(now) if run is not None else None
    verdict, tone = verdict_of(live)
    curves = {letter: found for letter in live.arms if (found := measuring.with_arm(letter)) is not None}
    tok_s = {letter: found.points(letter, "tok_s", now) for letter, found in curves.items()}
    accept = {letter: found.points(letter, "accept", now) for letter, found in curves.items()}
    begun = next((since for a, one in curves.items() if (since := measuring_since(one, a)) is not None), None)
    for letter, arm in live.arms.items():
        if arm.stored is not None:
            place = arm.stored.folder, arm.stored.arm
            tok_s[letter] = stored_curve.points(*place, "tok_s", now, begun or arm.stored_at)
            accept[letter] = stored_curve.points(*place, "accept", now, begun or arm.stored_at)
    active = view is not None and view.active
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
        marks=tuple(sorted([*live.marks(now), *(mark for one in measuring.runs for mark in one.marks(now))])),
        break_even=break_even,
        gpus=live.gpu_panel.readings,
        gpu_note=live.gpu_panel.state,
        gpu_history={uuid: tuple(values) for uuid, values in live.gpu_history.items()},
        gpu_owner=owners(live),
        table=tuple(
            table.table(figures.passes.get("A"), figures.passes.get("B"), figures.comparison, figures.answers)
            or table.until_measured(tok_s_now, accept_now)
        ),
        answer=run.answer if run is not None else None,
        logs={letter: arm.log for letter, arm in live.arms.items()},
        log_titles={a: log_title(arm) for a, arm in live.arms.items()},
        verdict=verdict,
        status=status_of(live, verdict, tone, now),
        summary=summary_of(live, active),
    )


@cache
def _host() -> str:
    return os.uname().nodename


def measuring_since(run: Following, letter: str) -> float | None:
    found = run.arm(letter)
    return found.measuring_since if found is not None else None


def node_of(live: Live) -> str:
    panel = live.gpu_panel
    names: dict[str, int] = {}
    for reading in panel.readings:
        short = reading.name.removeprefix("NVIDIA ").split(" ")[0] or reading.name
        names[short] = names.get(short, 0) + 1
    gpus = " + ".join(f"{count}×{name}" for name, count in names.items())
    parts = [_host(), gpus or "no GPU", f"driver {panel.driver}" if panel.driver else ""]
    return " · ".join(part for part in parts if part)


def owners(live: Live) -> dict[str, str]:
    """UUID of a GPU -> letter of the arm whose processes hold it."""
    found: dict[str, str] = {}
    readings = live.gpu_panel.readings
    heads = live.measuring.run.fold.head.get("arms") if live.measuring.run is not None else None
    for head in heads or ():
        for uuid in head.get("gpus") or ():
            found[str(uuid)] = str(head.get("name"))
    by_index = {reading.index: reading.uuid for reading in readings}
    for letter, arm in live.arms.items():
        for index in gpus_of(arm.pids, readings) if arm.pids else ():
            found[by_index[index]] = letter
    return found


def arm_view(live: Live, arm: LiveArm, now: float) -> ArmView:
    state, trouble = arm.standing()
    if state == "suspect" and (hint := gpu_words(live, arm, now)):
        trouble = f"{hint}; {trouble}"
    if live.opening and arm.empty:
        state, trouble = "connecting", live.opening
    algorithm = arm.algorithm
    staged = arm.staged
    return ArmView(
        name=arm.letter,
        state=state,
        trouble=trouble,
        address=address_of(arm),
        version=f"SGLang {arm.version}" if arm.version else "",
        simulated=arm.simulated,
        managed=arm.managed,
        algorithm=algorithm_words(arm, algorithm),
        staged_algorithm=staged.plan.algorithm
        if staged is not None and arm.live and staged.plan.algorithm != algorithm
        else None,
        settings=settings_of(arm),
        model=model_words(arm),
        store=store_of(live, arm, now) if arm.live and is_stateful(algorithm) else None,
        stateless=stateless_words(arm, algorithm),
        idle=arm.idle.accept_length,
        staged=staged is not None,
        can_go_back=bool(arm.ready_before),
    )


def gpu_words(live: Live, arm: LiveArm, now: float) -> str:
    """``GPU 0: busy but no output, maybe stuck``: of a server whose requests run and bring no token."""
    if arm.quiet_tokens_per_s is None:
        return ""
    found = []
    for reading in live.gpu_panel.readings:
        if arm.pids and set(reading.pids or ()).intersection(arm.pids):
            hint = busy_hint(
                reading.utilization,
                reading.power_w,
                reading.power_limit_w,
                arm.quiet_tokens_per_s,
                arm.idle.running,
                arm.prefill_age(now),
            )
            found += [f"GPU {reading.index}: {hint}"] if hint else []
    return ", ".join(found)


def store_of(live: Live, arm: LiveArm, now: float) -> StoreView:
    return live.measuring.store_of(arm.letter, now, arm.record.when if arm.record is not None else None)


def algorithm_words(arm: LiveArm, algorithm: str) -> str:
    if algorithm == "none":
        return "no speculation"
    return algorithm


def address_of(arm: LiveArm) -> str:
    if arm.stored is not None:
        return arm.stored.folder.name
    address = (arm.url or "").removeprefix("http://")
    return f"{arm.record.name}  {address}" if arm.record is not None and arm.record.name not in address else address


def settings_of(arm: LiveArm) -> tuple[SettingView, ...]:
    if arm.stored is not None:
        head = arm.stored.head()
        in_force = head.get("settings_in_force") or {}
        was = algorithms.resolve(str(head.get("algorithm") or "none"), in_force, {}, str(head.get("version") or ""))
        rows = staging.shown_settings(was, was.algorithm)
        return joined_ranges([SettingView(r.key, r.title, staging.value_words(r.in_force)) for r in rows])
    try:
        plan = staging.plan_now(arm)
    except SessionError:
        return ()
    wanted = {row.key: row for row in arm.staged.plan.rows if row.part == "speculative"} if arm.staged else {}
    same = arm.staged is None or arm.staged.plan.algorithm == plan.algorithm
    known = arm.info.settings if arm.info is not None else {}
    found = []
    for row in staging.shown_settings(plan, plan.algorithm):
        value = known.get(row.key, row.in_force)
        after = wanted.get(row.key)
        changed = None
        if same and after is not None and after.in_force != row.in_force:
            changed = staging.value_words(after.in_force)
        found.append(SettingView(row.key, row.title, staging.value_words(value), changed))
    return joined_ranges(found)


def joined_ranges(settings: list[SettingView]) -> tuple[SettingView, ...]:
    """``breadth 1–10`` in place of a least and a largest breadth."""
    found: list[SettingView] = []
    by_key = {setting.key: setting for setting in settings}
    for setting in settings:
        low = by_key.get(setting.key.replace("max_", "min_")) if ".max_" in setting.key else None
        high = by_key.get(setting.key.replace("min_", "max_")) if ".min_" in setting.key else None
        if low is not None:
            staged = None
            if setting.staged is not None or low.staged is not None:
                staged = f"{low.staged or low.value}–{setting.staged or setting.value}"
            label = setting.label.rpartition(" ")[2]
            found.append(SettingView(setting.key, label, f"{low.value}–{setting.value}", staged))
        elif high is None:
            found.append(setting)
    return tuple(found)


def model_words(arm: LiveArm) -> tuple[str, ...]:
    words: list[str] = []
    if arm.stored is not None:
        head = arm.stored.head()
        run = arm.stored.result.head
        workload = (run.get("workload") or {}).get("name")
        return tuple(w for w in (short(str(head.get("model") or "")), f"workload {workload}" if workload else "") if w)
    info = arm.info
    if info is None:
        return (short(arm.profile.server.model_path or ""),) if arm.profile is not None else ()
    words.append(short(info.model_path))
    server = info.server
    if (server.get("tp_size") or 1) != 1:
        words.append(f"tp {server['tp_size']}")
    if (server.get("dp_size") or 1) != 1:
        words.append(f"dp {server['dp_size']}")
    if arm.record is not None and arm.record.gpus:
        words.append(f"GPU {','.join(arm.record.gpus)}")
    limit = server.get("max_running_requests")
    if isinstance(limit, int):
        words.append(f"{limit:,} running at most{limit_setter(arm, limit)}")
    if arm.without_graphs:
        words.append(arm.without_graphs)
    if any(rank.outlier for rank in info.ranks):
        bad = ", ".join(str(rank.index) for rank in info.ranks if rank.outlier)
        words.append(f"rank {bad} accepts less than the others")
    draft = info.settings.get("draft_model_path")
    if isinstance(draft, str) and draft:
        words.append(f"draft {short(draft)}")
    return tuple(words)


def limit_setter(arm: LiveArm, limit: int) -> str:
    asked = arm.profile.server.arguments().get("max_running_requests") if arm.profile is not None else None
    return "" if asked == limit or arm.profile is None else " (set by the server)"


def short(path: str, limit: int = 40) -> str:
    name = path.rstrip("/").rpartition("/")[2] or path
    return name if len(name) <= limit else "…" + name[-limit + 1 :]


def stateless_words(arm: LiveArm, algorithm: str) -> str:
    if not arm.live or arm.info is None:
        return ""
    words = [] if algorithm in ("none", "unknown") else ["draft has no state"]
    idle = arm.idle
    if idle.note:
        words.append(idle.note)
    if idle.state == "idle" or idle.note:
        words.append(f"idle, accept length {idle.accept_length}")
    elif idle.running:
        queued = f", {idle.queued} queued" if idle.queued else ""
        words.append(f"{idle.running} requests running{queued}, accept length {idle.accept_length}")
    return "; ".join(words)


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
