"""A change that waits for the operator's key: what it would do, what it costs, and what it is likely to bring."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from spectui import algorithms
from spectui.core.changes import Change, changes, needs_relaunch
from spectui.core.plan import Plan
from spectui.core.plan_rows import PlanRow
from spectui.core.profile import Profile
from spectui.core.settings import Knob, bracket_for, move
from spectui.session import SessionError, serving
from spectui.session.view import Prediction

if TYPE_CHECKING:
    from spectui.session.live_arm import LiveArm


@dataclass(frozen=True, slots=True)
class Staged:
    profile: Profile
    """As it would be launched."""
    plan: Plan
    changes: tuple[Change, ...]
    hot: bool
    """No relaunch is needed."""
    relaunch_s: float | None = None
    """What the last start took on this node."""
    prediction: Prediction | None = None

    @property
    def words(self) -> str:
        """``draft tokens 8 → 12, trie depth 18 → 24``; what follows from them is left out."""
        known = {knob.key for knob in algorithms.for_name(self.plan.algorithm).knobs} | {"algorithm"}
        own = [c for c in self.changes if c.key in known and c.after is not None] or list(self.changes)
        return ", ".join(change_words(change) for change in own) or "nothing changes"

    @property
    def refused(self) -> str:
        return "; ".join(finding.text for finding in self.plan.refusals)

    @property
    def warned(self) -> tuple[str, ...]:
        return tuple(finding.text for finding in (*self.plan.dangers, *self.plan.warnings))


def change_words(change: Change) -> str:
    return f"{change.title} {value_words(change.before)} → {value_words(change.after)}"


def value_words(value: object) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, float):
        return f"{value:g}"
    return str(value)


def ground(arm: LiveArm) -> Profile:
    """What the arm runs now, as a profile. Raises SessionError where that is not known."""
    if arm.staged is not None:
        return arm.staged.profile
    return base(arm)


def base(arm: LiveArm) -> Profile:
    """The profile that the server was started from, else one read off the running server."""
    if arm.profile is not None:
        return arm.profile
    if arm.info is None:
        raise SessionError(f"{arm.letter}: what it runs is not known yet" if arm.live else nothing_staged(arm))
    from spectui.store import profiles

    if arm.info.unreadable:
        raise SessionError(f"{arm.letter}: its settings are {arm.info.unreadable}, so nothing can be changed from here")
    info = arm.info
    return profiles.from_server(
        info.raw, arm.name or "server", settings=info.settings, algorithm=info.algorithm, url=arm.url
    )


def plan_now(arm: LiveArm) -> Plan:
    return serving.plan_for(base(arm), arm.version)


def stage(arm: LiveArm, profile: Profile) -> Staged | None:
    """The change from what runs to ``profile``; None where they come out the same."""
    before, after = plan_now(arm), serving.plan_for(profile, arm.version)
    # An asked value that resolves to the same is no change, unless nothing runs yet.
    found = changes(before, after)
    if not found and arm.live:
        return None
    return Staged(profile, after, found, bool(found) and not needs_relaunch(found) and arm.live, start_seconds(arm))


def stage_algorithm(arm: LiveArm, name: str, other: LiveArm | None = None) -> Staged | None:
    """Another algorithm, with the knobs it last had on this arm, else those of the other arm, else its defaults."""
    here = base(arm)
    chosen = algorithms.for_name(name)
    if here.speculative.algorithm == chosen.name:
        return stage(arm, here)
    knobs: Mapping[str, Any] = {}
    for profile in _known_profiles(arm, other):
        same_model = profile.server.model_path == here.server.model_path
        if profile.speculative.algorithm == chosen.name and (same_model or chosen.draft == "no"):
            knobs = profile.speculative.knobs
            break
    return stage(arm, serving.with_settings(here, chosen.name, knobs))


def _known_profiles(arm: LiveArm, other: LiveArm | None) -> list[Profile]:
    from spectui.store import profiles

    found = [*reversed(arm.ready_before)]
    if other is not None and other.profile is not None:
        found.append(other.profile)
    if other is not None:
        found += reversed(other.ready_before)
    return found + [entry.profile for entry in profiles.list_all() if entry.profile is not None]


def can_start(arm: LiveArm) -> bool:
    """Whether there is a server to be started although nothing is staged: a profile, or one of ours that has ended."""
    return arm.profile is not None and (not arm.live or (arm.state is not None and not arm.state.running))


def nothing_staged(arm: LiveArm, opening: str = "") -> str:
    """Why there is nothing to apply, and what leads on. ``opening``: what the screen still waits for."""
    state, trouble = arm.standing()
    if opening and not arm.ready:
        return f"nothing to apply yet: {opening}"
    if arm.empty:
        return f"{arm.letter} is empty: o chooses a server, a profile to launch, or a stored run"
    if arm.stored is not None:
        return f"{arm.letter} is a stored run: o chooses a server"
    if trouble and not arm.ready:
        return f"nothing to apply{' yet' if state in ('starting', 'connecting') else ''}: {arm.letter} {trouble}"
    return "nothing is staged yet: ] and [ move the knob, n chooses an algorithm, e shows every setting"


def stage_step(arm: LiveArm, direction: int) -> Staged | None:
    """The algorithm's knob one step down (-1) or up (+1). Raises SessionError where it has none, or no further step."""
    here = ground(arm)
    algorithm = algorithms.for_name(here.speculative.algorithm)
    in_force = serving.plan_for(here, arm.version).in_force
    bracket = bracket_for(algorithm, in_force)
    if bracket is None:
        raise SessionError(f"{algorithm.name} has no knob for [ and ]: n chooses an algorithm, e shows every setting")
    moved = move(algorithm, here.speculative.knobs, in_force, direction)
    if moved == dict(here.speculative.knobs):
        knob = algorithm.knob(bracket.key)
        end = "largest" if direction > 0 else "smallest"
        raise SessionError(f"{knob.title if knob else bracket.key} is at its {end} step: e sets any value")
    return stage(arm, serving.with_settings(here, algorithm.name, moved))


def stage_knobs(arm: LiveArm, knobs: Mapping[str, Any]) -> Staged | None:
    here = ground(arm)
    return stage(arm, serving.with_settings(here, here.speculative.algorithm, knobs))


def asked_anew(arm: LiveArm, original: Profile) -> dict[str, Any]:
    """The staged knobs for a server that was started by ``original``: what it was asked for, and what was changed; not
    all that it reports, which would be asked for where it was left to the server before."""
    assert arm.staged is not None
    wanted, known = arm.staged.profile.speculative, base(arm).speculative
    if wanted.algorithm != original.speculative.algorithm:
        return dict(wanted.knobs)
    changed = {key: value for key, value in wanted.knobs.items() if known.knobs.get(key) != value}
    kept = {key: value for key, value in original.speculative.knobs.items() if key in wanted.knobs}
    return {**kept, **changed}


def start_seconds(arm: LiveArm) -> float | None:
    """What the last start of this server took on this node."""
    from spectui.hosts import timings

    if arm.record is None:
        return None
    seconds = timings.last_time(arm.record)
    return sum(seconds.values()) if seconds else None


def shown_settings(plan: Plan, algorithm: str, most: int = 5) -> tuple[PlanRow, ...]:
    """The rows that a card shows: the knob that [ and ] move first, then what was asked for or set by the server, then
    plain defaults. Files and thresholds at their defaults say nothing new."""
    declared = algorithms.for_name(algorithm)
    knobs = {knob.key: knob for knob in declared.knobs}
    bracket = bracket_for(declared, plan.in_force)
    rows = [r for r in plan.rows if r.part == "speculative" and r.key in knobs and r.in_force is not None]
    rows = [r for r in rows if knobs[r.key].kind != "path" and not (r.by == "default" and _dull(knobs[r.key], r))]

    def rank(row: PlanRow) -> int:
        if bracket is not None and row.key == bracket.key:
            return 0
        return 1 if row.by in ("you", "server") else 2

    return tuple(sorted(rows, key=rank)[:most])


def _dull(knob: Knob, row: PlanRow) -> bool:
    roomy = isinstance(row.in_force, int) and row.in_force >= 1_000_000  # a limit that nobody meets
    return knob.advanced or knob.off_when_unset or knob.kind != "int" or roomy or row.in_force == 0


def hot_values(staged: Staged) -> dict[str, Any]:
    return {change.key: change.after for change in staged.changes if change.how == "hot"}


def renamed(profile: Profile, name: str) -> Profile:
    """Under another name, without a place: it is written anew."""
    return replace(profile, name=name, path=None, digest=None)
