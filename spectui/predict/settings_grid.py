"""From axes to the settings of a sweep: every combination once, as the server would resolve it, refused ones named.

Pure. Knobs go to the algorithms that have them; what an algorithm needs and nobody gave follows from its own rules.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from spectui.core.changes import changes, distinct, fair_baseline, needs_relaunch
from spectui.core.plan import Plan
from spectui.core.settings import Algorithm, Value

_NAMES = {
    "num_draft_tokens": "{} draft tokens",
    "num_steps": "{} steps",
    "eagle_topk": "topk {}",
    "dflash.block_size": "block {}",
    "dspark.block_size": "block {}",
}
_HIDDEN = ("draft_model_path",)
_USUAL = ("num_draft_tokens", "num_steps", "dflash.block_size", "dspark.block_size")


@dataclass(frozen=True, slots=True)
class Setting:
    """One point of a sweep. What it is called is unique within the sweep."""

    name: str
    algorithm: str
    knobs: Mapping[str, Value]
    """Neutral knobs as asked for."""
    plan: Plan
    same_as: str | None = None
    """Name of the setting that the server would resolve to the same."""

    @property
    def refused(self) -> str | None:
        """Why the server would not take it; None when it would."""
        return " ".join(f.text for f in self.plan.refusals) or None

    @property
    def runs(self) -> bool:
        return self.same_as is None and self.refused is None

    @property
    def width(self) -> int:
        """Tokens verified a step, as resolved; 1 without speculation."""
        for key in ("num_draft_tokens", "dflash.block_size", "dspark.block_size"):
            value = self.plan.in_force.get(key)
            if isinstance(value, int) and not isinstance(value, bool):
                return value
        return 1

    @property
    def num_steps(self) -> int | None:
        value = self.plan.in_force.get("num_steps")
        return value if isinstance(value, int) else None

    @property
    def chain(self) -> bool:
        """A draft model that writes one draft after another, without branches."""
        drafts = self.algorithm not in ("none", "NGRAM", "DFLASH", "DSPARK")
        return drafts and self.plan.in_force.get("eagle_topk") == 1 and self.num_steps is not None


@dataclass(frozen=True, slots=True)
class Axes:
    """What is swept. An empty axis leaves its knob to the profile, or to the server."""

    algorithms: tuple[str, ...]
    knobs: Mapping[str, tuple[Value, ...]] = field(default_factory=dict)
    """Neutral knob -> values."""
    draft_models: Mapping[str, str] = field(default_factory=dict)
    """Algorithm -> path; ``*`` for those not named."""


@dataclass(frozen=True, slots=True)
class Grid:
    settings: tuple[Setting, ...]
    texts: tuple[str, ...]
    """``3 of 5 settings are the same …`` and the like."""


def combinations(algorithm: Algorithm, axes: Axes, base: Mapping[str, Value] | None = None) -> list[dict[str, Value]]:
    """Knobs of every combination for one algorithm. ``base``: the profile's own knobs, where it is of this algorithm.

    A chain that is asked for by its draft tokens alone gets the steps that go with them (draft tokens − 1, topk 1),
    since the server takes all three or none.
    """
    mine = {key: values for key, values in axes.knobs.items() if values and algorithm.knob(key) is not None}
    found: list[dict[str, Value]] = []
    for values in itertools.product(*mine.values()):
        knobs = {**(base or {}), **dict(zip(mine, values, strict=True))}
        path = axes.draft_models.get(algorithm.name) or axes.draft_models.get("*")
        if path and algorithm.knob("draft_model_path") is not None:
            knobs["draft_model_path"] = path
        if algorithm.knob("num_steps") is not None:
            _complete_chain(knobs, set(mine))
        found.append(knobs)
    return found


def _complete_chain(knobs: dict[str, Value], asked: set[str]) -> None:
    tokens, steps = knobs.get("num_draft_tokens"), knobs.get("num_steps")
    if "num_draft_tokens" in asked and "num_steps" not in asked and knobs.get("eagle_topk", 1) == 1:
        if isinstance(tokens, int) and tokens > 1:
            knobs.update(num_steps=tokens - 1, eagle_topk=1)
    elif "num_steps" in asked and "num_draft_tokens" not in asked and knobs.get("eagle_topk", 1) == 1:
        if isinstance(steps, int):
            knobs.update(eagle_topk=1, num_draft_tokens=steps + 1)
    elif tokens is not None and steps is not None:
        knobs.setdefault("eagle_topk", 1)


def build(
    algorithms: Sequence[Algorithm],
    axes: Axes,
    *,
    base: tuple[str, Mapping[str, Value]] = ("none", {}),
    server: Mapping[str, Value] | None = None,
    version: str | None = None,
    model: Mapping[str, Value] | None = None,
    drafts: Mapping[str, Mapping[str, Value]] | None = None,
    env: Mapping[str, Value] | None = None,
) -> Grid:
    """All settings: those that run, those that are the same as another, those that the server would refuse.

    ``base``: (algorithm, knobs) of the profile; ``drafts``: algorithm -> facts of its draft model, beside those of the
    ``model``. The setting without speculation, which others are held against, gets
    the limits of running requests that a speculative server has by itself.
    """
    settings: list[Setting] = []
    texts: list[str] = []
    arguments = dict(server or {})
    for algorithm in algorithms:
        knobs = combinations(algorithm, axes, base[1] if algorithm.name == base[0] else None)
        about = {**(model or {}), **(drafts or {}).get(algorithm.name, {})}
        facts: dict[str, Mapping[str, Value]] = {"model": about, "env": env or {}}
        found = distinct(algorithm, knobs, arguments, version, **facts)
        texts += [f"{algorithm.name}: {text}" for text in _once(found.texts)]
        first: dict[int, int] = {}
        for group in found.groups:
            for alike in ([i for i in group if found.plans[i].ok], [i for i in group if not found.plans[i].ok]):
                first.update(dict.fromkeys(alike[1:], alike[0] if alike else 0))
        # What runs is called by what will be in force, the others by what was asked for.
        called = [
            one if i in first or not plan.ok else {**one, **{k: plan.in_force.get(k, v) for k, v in one.items()}}
            for i, (one, plan) in enumerate(zip(knobs, found.plans, strict=True))
        ]
        names = _names(algorithm, called, set(axes.knobs))
        settings += [
            Setting(names[i], algorithm.name, knobs[i], plan, names[first[i]] if i in first else None)
            for i, plan in enumerate(found.plans)
        ]
    return Grid(tuple(settings), tuple(texts))


def _once(texts: Sequence[str]) -> list[str]:
    return [text if (n := texts.count(text)) == 1 else f"{text} ({n} times)" for text in dict.fromkeys(texts)]


def baseline_arguments(settings: Sequence[Setting], server: Mapping[str, Value]) -> dict[str, Value]:
    """Arguments of the server without speculation: limits that every speculative one would have, it gets too."""
    plans = [s.plan for s in settings if s.runs and s.algorithm != "none"]
    if not plans:
        return dict(server)
    return fair_baseline(plans[0], server).args


def _names(algorithm: Algorithm, knobs: Sequence[Mapping[str, Value]], swept: Collection[str]) -> list[str]:
    """What tells the settings of one algorithm apart, and its usual knob always."""
    keys = list(dict.fromkeys(key for one in knobs for key in one if key not in _HIDDEN))
    varying = [k for k in keys if len({repr(one.get(k)) for one in knobs}) > 1 and k in swept]
    shown = [k for k in keys if k in varying] or [k for k in _USUAL if k in keys][:1]
    found: list[str] = []
    for one in knobs:
        words = [_word(key, one[key]) for key in shown if one.get(key) is not None]
        name = " ".join([algorithm.name, ", ".join(words)]).strip()
        found.append(name if name not in found else f"{name} ({found.count(name) + 1})")
    return found


def _word(key: str, value: Value) -> str:
    if key in _NAMES:
        return _NAMES[key].format(value).replace("1 steps", "1 step") if value == 1 else _NAMES[key].format(value)
    return f"{key.rpartition('.')[2].replace('_', ' ')} {value}"


def launch_groups(settings: Sequence[Setting]) -> list[list[Setting]]:
    """Settings that one start of the server serves, since they differ in what can be changed while it runs.

    Only accept thresholds are changed so; an external corpus once loaded stays in the store's reach.
    """
    groups: list[list[Setting]] = []
    for setting in settings:
        for group in groups:
            if _hot(group[0], setting):
                group.append(setting)
                break
        else:
            groups.append([setting])
    return groups


HOT = ("accept_threshold_single", "accept_threshold_acc")


def _hot(a: Setting, b: Setting) -> bool:
    if a.algorithm != b.algorithm:
        return False
    found = changes(a.plan, b.plan)
    return bool(found) and not needs_relaunch(found) and all(change.key in HOT for change in found)
