"""One arm for the screen: state or trouble, settings, model, what its store knows, what it says of itself when idle."""

from __future__ import annotations

from typing import TYPE_CHECKING

from spectui import algorithms
from spectui.core.evidence import is_stateful
from spectui.session import SessionError, staging
from spectui.session.live_arm import LiveArm
from spectui.session.live_idle import idle_words
from spectui.session.showing_gpu import gpu_words
from spectui.session.view import ArmView, SettingView, StartView, StoreView

if TYPE_CHECKING:
    from spectui.session.live import Live


def arm_view(live: Live, arm: LiveArm, now: float) -> ArmView:
    state, trouble = arm.standing()
    if state == "suspect" and (hint := gpu_words(live, arm, now)):
        trouble = f"{hint}; {trouble}"
    if live.opening and arm.empty:
        state, trouble = "connecting", live.opening
    algorithm = arm.algorithm
    staged = arm.staged
    over = state in ("failed", "gone")  # with the process went what it knew
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
        store=store_of(live, arm, now) if arm.live and is_stateful(algorithm) and not over else None,
        stateless="draft has no state" if arm.live and algorithm not in ("none", "unknown", "") and not over else "",
        idle=idle_text(live, arm, now),
        staged=staged is not None,
        can_go_back=bool(arm.ready_before),
        start=start_view(arm),
    )


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


_WORKED_OUT: dict[str, tuple[tuple[object, ...], tuple[SettingView, ...]]] = {}
"""Letter -> what its settings were worked out from, and how they are shown."""


def settings_of(arm: LiveArm) -> tuple[SettingView, ...]:
    """Worked out anew when something that they rest on is another object: planning, asked twice a second for each arm,
    was two thirds of what a snapshot takes."""
    grounds = (arm.profile, arm.info, arm.version, arm.staged, arm.stored)
    known = _WORKED_OUT.get(arm.letter)
    if known is not None and all(was is now for was, now in zip(known[0], grounds, strict=True)):
        return known[1]
    found = worked_out(arm)
    _WORKED_OUT[arm.letter] = grounds, found
    return found


def worked_out(arm: LiveArm) -> tuple[SettingView, ...]:
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


def idle_text(live: Live, arm: LiveArm, now: float) -> str:
    """What the server says of itself; nothing while it is measured, since then the figures say it better."""
    if not arm.live or arm.info is None or arm.error is not None or arm.letter in live.measuring.measured_letters():
        return ""
    idle = arm.idle
    if not idle.note:
        return idle_words(idle, now)
    passed = live.measuring.figures.passes.get(arm.letter)
    if passed is not None and passed.accept_length is not None and passed.speculative:
        words = f"accept length {passed.accept_length:.2f} (finished requests of the last run)"
    else:
        words = idle_words(idle, now)
    note = "metrics are off: e ticks --enable-metrics for a relaunch" if idle.metrics_off and arm.managed else idle.note
    return "; ".join(part for part in (note, words) if part)


def start_view(arm: LiveArm) -> StartView | None:
    """How far the start that is waited for has come."""
    state = arm.state
    if state is None or state.ready or not state.running or "stopping" in arm.busy:
        return None
    left = arm.left_s
    total = state.elapsed_s + left if left is not None else None
    part = f" {state.progress[0]} of {state.progress[1]}" if state.progress else ""
    seen = [(p.name, p.seconds, p.last_time_s or arm.last_start.get(p.name)) for p in state.phases if p.name != "ready"]
    names = {name for name, _, _ in seen}
    to_come = [(name, None, seconds) for name, seconds in arm.last_start.items() if name not in {*names, "ready"}]
    share = min(0.99, state.elapsed_s / total) if total else None
    return StartView(share, left, (*seen, *to_come), f"{state.phase}{part}")
