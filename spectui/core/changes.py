"""Two settings held against each other: what a change needs, what differs, which sweep points collapse."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.plan import LIMITS, Plan, resolve
from spectui.core.plan_rows import SERVER_KEYS
from spectui.core.settings import Algorithm, Value

_FOLLOWS = ("overlap_schedule", "enable_mixed_chunk", "disable_overlap_schedule")
"""What the server switches because of the algorithm: part of what is compared, not an unequal trial."""


@dataclass(frozen=True, slots=True)
class Change:
    key: str
    title: str
    before: Value
    after: Value
    how: str
    """hot: while the server runs; relaunch."""
    part: str


def changes(before: Plan, after: Plan) -> tuple[Change, ...]:
    """What is in force otherwise after a change, and what each takes."""
    old = {(row.part, row.key): row for row in before.rows}
    new = {(row.part, row.key): row for row in after.rows}
    found = []
    for place in dict.fromkeys([*old, *new]):
        was, will = old.get(place), new.get(place)
        a, b = was.in_force if was else None, will.in_force if will else None
        if a == b:
            continue
        row = will or was
        assert row is not None
        hot = bool(will and will.hot) and before.algorithm == after.algorithm
        found.append(Change(row.key, row.title, a, b, "hot" if hot else "relaunch", row.part))
    return tuple(found)


def needs_relaunch(found: Sequence[Change]) -> bool:
    return any(change.how == "relaunch" for change in found)


@dataclass(frozen=True, slots=True)
class Difference:
    key: str
    a: Value
    b: Value
    kind: str
    """tested: what the comparison is about; follows: a consequence of it; other: makes the trial unequal."""

    @property
    def text(self) -> str:
        return f"{self.key.removeprefix('server.').replace('_', ' ')} {self.a} / {self.b}"


def differences(
    a: Mapping[str, Value], b: Mapping[str, Value], tested: Collection[str] = ("algorithm",)
) -> tuple[Difference, ...]:
    """What differs between two settings in force (as :attr:`Plan.in_force`: arguments of the server under ``server.``).

    ``tested``: the keys that the comparison is about; ``algorithm`` stands for all speculative knobs. Server arguments
    that one side does not tell are not compared.
    """
    found = []
    for key in sorted(set(a) | set(b), key=_rank):
        on_server = key.startswith("server.")
        if on_server and (key not in a or key not in b):
            continue
        if a.get(key) == b.get(key):
            continue
        if key in tested or (not on_server and "algorithm" in tested):
            kind = "tested"
        elif _follows(key, a.get("algorithm") != b.get("algorithm"), tested):
            kind = "follows"
        else:
            kind = "other"
        found.append(Difference(key, a.get(key), b.get(key), kind))
    return tuple(found)


def unequal(
    a: Mapping[str, Value], b: Mapping[str, Value], tested: Collection[str] = ("algorithm",)
) -> tuple[Difference, ...]:
    """The differences that keep "faster" and "slower" from being said."""
    return tuple(difference for difference in differences(a, b, tested) if difference.kind == "other")


def _follows(key: str, other_algorithm: bool, tested: Collection[str]) -> bool:
    if key.startswith("server."):
        return other_algorithm and key.removeprefix("server.") in _FOLLOWS
    widths = {"num_steps", "num_draft_tokens", "dflash.block_size", "dspark.block_size"}
    return key in widths and bool(widths & set(tested))


def _rank(key: str) -> tuple[int, int, str]:
    name = key.removeprefix("server.")
    if not key.startswith("server."):
        return (0, 0 if key == "algorithm" else 1, key)
    return (1, SERVER_KEYS.index(name) if name in SERVER_KEYS else len(SERVER_KEYS), key)


@dataclass(frozen=True, slots=True)
class Distinct:
    """Settings of a sweep, resolved and grouped by what the server would really run."""

    plans: tuple[Plan, ...]
    groups: tuple[tuple[int, ...], ...]
    """Indices of settings that are the same, in the order of their first."""
    texts: tuple[str, ...]

    @property
    def points(self) -> tuple[int, ...]:
        """One index a distinct setting."""
        return tuple(group[0] for group in self.groups)


def distinct(
    algorithm: Algorithm,
    settings: Sequence[Mapping[str, Value]],
    server: Mapping[str, Value] | None = None,
    version: str | None = None,
    **facts: Mapping[str, Value],
) -> Distinct:
    """Which of these settings are really different. ``facts``: ``model`` and ``env`` as for ``resolve``."""
    plans = tuple(resolve(algorithm, asked, server, version, **facts) for asked in settings)  # type: ignore[arg-type]
    groups: dict[tuple[tuple[str, str], ...], list[int]] = {}
    for index, plan in enumerate(plans):
        in_force = tuple(sorted((key, repr(value)) for key, value in plan.in_force.items()))
        groups.setdefault(in_force, []).append(index)
    texts = []
    for group in groups.values():
        if len(group) > 1:
            chain = any("steps + 1" in row.why for index in group for row in plans[index].rows)
            what = "steps + 1" if chain else "its rules"
            same = f"{len(group)} of {len(settings)} settings are the same"
            texts.append(f"{same} once the server has applied {what}")
    return Distinct(plans, tuple(tuple(group) for group in groups.values()), tuple(texts))


def queueing(
    concurrency: int, limit_a: int | None, limit_b: int | None, name_a: str = "A", name_b: str = "B"
) -> str | None:
    """What queues at this concurrency because of the limits of running requests; None where the arms are comparable.

    A limit that is None is not known, and says nothing.
    """
    said = [
        f"{concurrency - limit} of {concurrency} requests queue on {name} (limit {limit})"
        for limit, name in ((limit_a, name_a), (limit_b, name_b))
        if limit is not None and concurrency > limit
    ]
    return "; ".join(said) if said and limit_a != limit_b else None


@dataclass(frozen=True, slots=True)
class Baseline:
    args: dict[str, Value]
    """Arguments that a server without speculation must be given to equal the speculative one."""
    notes: tuple[str, ...]


def fair_baseline(speculative: Plan, server: Mapping[str, Value] | None = None) -> Baseline:
    """The arguments for a server without speculation: those of the speculative one, and the limits it really has.

    ``server``: the arguments of the speculative server. The overlap schedule and mixed chunks stay as they are without
    speculation: losing them is part of what speculation costs.
    """
    args = {key.replace("-", "_"): value for key, value in (server or {}).items()}
    args = {key: value for key, value in args.items() if not key.startswith("speculative") and value is not None}
    notes = []
    for row in speculative.rows:
        if row.part == "server" and row.key in LIMITS and row.in_force is not None:
            args[row.key] = row.in_force
    graphs = [key for key in LIMITS if key.startswith("cuda_graph") and key in args]
    if "mem_fraction_static" not in args:
        notes.append("mem_fraction_static is left to each server and will differ: set it on both")
    if not graphs and not args.get("disable_cuda_graph"):
        notes.append("the largest graph batch is left to each server and may differ: set it on both")
    return Baseline(args, tuple(notes))


@dataclass(frozen=True, slots=True)
class Match:
    state: str
    """match, mismatch or off."""
    text: str


def algorithm_match(asked: Algorithm, reported: str | None) -> Match:
    """Is what the server reports the algorithm that was asked for? NEXTN is reported as EAGLE, and that is right."""
    there = (reported or "").strip().upper()
    if there in ("", "NONE", "NULL"):
        if not asked.speculates:
            return Match("match", "no speculation")
        return Match("off", f"speculation is OFF: {asked.name} was asked for, and the server runs none")
    if there == asked.name.upper():
        return Match("match", asked.name)
    if there in asked.reported:
        return Match("match", f"{asked.name} ({asked.title}, server calls it {there})")
    return Match("mismatch", f"{asked.name} was asked for, and the server runs {there}")
