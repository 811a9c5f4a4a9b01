"""What an algorithm declares: knobs, rules between them, and which knob two keys move. Values only.

Keys in tests, rules and texts: a bare name is a speculative knob (``num_steps``, ``ngram.capacity``); ``server.x`` an
argument of the server (``server.page_size``); ``model.x`` a fact of the model's config files (``model.architecture``);
``env.X`` a variable of the server's environment; ``tree_size`` the number of nodes a full draft tree can have.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace

from spectui.core.versions import Version

Value = object
"""int, float, bool, str, or None for unset."""

KINDS = ("int", "float", "flag", "choice", "path", "text")
ACTIONS = ("default", "force", "refuse", "danger", "warn", "note")


@dataclass(frozen=True, slots=True)
class Knob:
    """One setting of an algorithm, under its neutral name. Which flag it becomes is the engine's business."""

    key: str
    kind: str
    title: str
    help: str
    minimum: float | None = None
    maximum: float | None = None
    default: Value = None
    """What the server takes when it is left out; None where a rule or the server decides."""
    choices: tuple[str, ...] = ()
    unit: str = ""
    since: Version | None = None
    until: Version | None = None
    advanced: bool = False
    """Rarely touched: a form shows it on demand."""
    off_when_unset: bool = False
    """True where leaving it out means that the feature is not used."""
    hot_since: Version | None = None
    """From which release it can be changed while the server runs; None needs a relaunch."""

    def fault(self, value: Value) -> str | None:
        """What is wrong with a value, as the end of a sentence that begins with the key; None when nothing is."""
        if value is None:
            return None
        shown = f'not "{value}"' if isinstance(value, str) else f"not {_plain(value)}"
        if self.kind == "flag":
            return None if isinstance(value, bool) else f"must be true or false, {shown}"
        if self.kind in ("int", "float"):
            kinds: tuple[type, ...] = (int,) if self.kind == "int" else (int, float)
            word = "an integer" if self.kind == "int" else "a number"
            # float nan compares false with every limit, so the range is asked for, not its opposite
            inside = (
                isinstance(value, kinds)
                and not isinstance(value, bool)
                and (self.minimum is None or value >= self.minimum)  # type: ignore[operator]
                and (self.maximum is None or value <= self.maximum)  # type: ignore[operator]
                and value == value
            )
            return None if inside else f"must be {word}{self.range_text()}, {shown}"
        if not isinstance(value, str) or not value.strip():
            return f"must be text, {shown}"
        if self.kind == "choice" and value not in self.choices:
            return f"must be one of {', '.join(self.choices)}, {shown}"
        if "\0" in value or "\n" in value:
            return "must be one line"
        return None

    def range_text(self) -> str:
        low, high = self.minimum, self.maximum
        if low is not None and high is not None:
            return f" from {low:g} to {high:g}"
        if low is not None:
            return f" of at least {low:g}"
        return f" of at most {high:g}" if high is not None else ""

    def read(self, text: str) -> Value:
        """The value that a typed text means. Raises ValueError with a sentence for the operator."""
        text = text.strip()
        if not text:
            return None
        value: Value = text
        try:
            if self.kind == "int":
                value = int(text)
            elif self.kind == "float":
                value = float(text)
            elif self.kind == "flag":
                value = {"true": True, "on": True, "yes": True, "false": False, "off": False, "no": False}.get(
                    text.lower(), text
                )
        except ValueError:
            pass
        fault = self.fault(value)
        if fault:
            raise ValueError(f"{self.title} {fault}")
        return value


@dataclass(frozen=True, slots=True)
class Ref:
    """The value of another key, plus ``add``; divided by that of ``over`` (whole numbers) where given."""

    key: str
    add: int = 0
    over: str | None = None


@dataclass(frozen=True, slots=True)
class Test:
    """One comparison. An unset key fails every comparison but ``unset`` and ``off``."""

    __test__ = False

    key: str
    op: str
    value: Value = None


def given(key: str) -> Test:
    return Test(key, "given")


def unset(key: str) -> Test:
    return Test(key, "unset")


def on(key: str) -> Test:
    return Test(key, "on")


def off(key: str) -> Test:
    return Test(key, "off")


def equal(key: str, value: Value) -> Test:
    return Test(key, "equal", value)


def differs(key: str, value: Value) -> Test:
    return Test(key, "differs", value)


def above(key: str, value: Value) -> Test:
    return Test(key, "above", value)


def below(key: str, value: Value) -> Test:
    return Test(key, "below", value)


def one_of(key: str, *values: Value) -> Test:
    return Test(key, "one of", values)


def none_of(key: str, *values: Value) -> Test:
    return Test(key, "none of", values)


@dataclass(frozen=True, slots=True)
class Rule:
    """What a server does with settings like these. All of ``when`` must hold."""

    name: str
    action: str
    """default: sets what is unset; force: sets in any case; refuse, danger, warn, note: says ``text``."""
    when: tuple[Test, ...] = ()
    sets: tuple[tuple[str, Value], ...] = ()
    text: str = ""
    """One sentence; ``{key}`` stands for the value of a key."""
    since: Version | None = None
    until: Version | None = None
    """Last release it holds in, itself included."""
    certain: bool = False
    """True where it follows from the mechanism, so that no release can be otherwise."""


@dataclass(frozen=True, slots=True)
class Bracket:
    """What ``[`` and ``]`` move, where ``when`` holds."""

    key: str
    steps: tuple[int, ...]
    when: tuple[Test, ...] = ()
    also: tuple[tuple[str, Value], ...] = ()
    """What must be asked for along with it; None unsets."""


@dataclass(frozen=True, slots=True)
class Algorithm:
    name: str
    title: str
    mechanism: str
    fits: str
    starves: str
    stateful: bool = False
    """True when what it proposes depends on what the server has generated before."""
    knobs: tuple[Knob, ...] = ()
    rules: tuple[Rule, ...] = ()
    brackets: tuple[Bracket, ...] = ()
    draft: str = "no"
    """yes: a draft model must be named; no: there is none; built-in: may be left out where the target carries one."""
    reported: tuple[str, ...] = ()
    """Other names under which a server may report it."""
    needs: tuple[str, ...] = ()
    switches_off: tuple[str, ...] = ()
    since: Version | None = None
    until: Version | None = None
    aliases: tuple[str, ...] = ()
    plugin: bool = False
    """True for a name typed by hand, of which nothing more is known."""
    error: str | None = None
    """Why its file could not be used; such an algorithm is listed and cannot be chosen."""

    def knob(self, key: str) -> Knob | None:
        return next((knob for knob in self.knobs if knob.key == key), None)

    @property
    def speculates(self) -> bool:
        return self.name != "none"

    def broken(self, why: str) -> Algorithm:
        return replace(self, knobs=(), rules=(), brackets=(), error=why)


def value_of(value: Value, at: Mapping[str, Value]) -> Value:
    """A plain value, or what a :class:`Ref` stands for; None where a part of it is unset."""
    if not isinstance(value, Ref):
        return value
    base = at.get(value.key)
    if not value.add and value.over is None:
        return base
    if not isinstance(base, int):
        return None
    if value.over is not None:
        over = at.get(value.over)
        if not isinstance(over, int) or over < 1:
            return None
        base //= over
    return base + value.add


def holds(test: Test, at: Mapping[str, Value]) -> bool:
    have = at.get(test.key)
    if test.op == "given":
        return have is not None
    if test.op == "unset":
        return have is None
    if test.op == "on":
        return bool(have)
    if test.op == "off":
        return not have
    if have is None:
        return False
    if test.op in ("one of", "none of"):
        assert isinstance(test.value, tuple)
        return (have in test.value) == (test.op == "one of")
    want = value_of(test.value, at)
    if want is None:
        return False
    if test.op == "equal":
        return have == want
    if test.op == "differs":
        return have != want
    if not isinstance(have, (int, float)) or not isinstance(want, (int, float)):
        return False
    return have > want if test.op == "above" else have < want


def fill(text: str, at: Mapping[str, Value]) -> str:
    """A rule's sentence with its values."""
    return re.sub(r"\{([\w.]+)\}", lambda found: _plain(at.get(found[1])), text)


def bracket_for(algorithm: Algorithm, in_force: Mapping[str, Value]) -> Bracket | None:
    return next((b for b in algorithm.brackets if all(holds(test, in_force) for test in b.when)), None)


def move(
    algorithm: Algorithm, asked: Mapping[str, Value], in_force: Mapping[str, Value], direction: int
) -> dict[str, Value]:
    """The settings after ``[`` (-1) or ``]`` (+1): asked, with the bracket's knob moved to its next step.

    Unchanged where the algorithm has no such knob or the last step is reached. Values set off the steps move to the
    next step in the direction.
    """
    bracket = bracket_for(algorithm, in_force)
    result = dict(asked)
    if bracket is None:
        return result
    have = in_force.get(bracket.key)
    if not isinstance(have, int):
        target: int | None = bracket.steps[0]
    elif direction > 0:
        target = next((step for step in bracket.steps if step > have), None)
    else:
        target = next((step for step in reversed(bracket.steps) if step < have), None)
    if target is None:
        return result
    result[bracket.key] = target
    at = {**in_force, bracket.key: target}
    for key, value in bracket.also:
        resolved = value_of(value, at)
        if resolved is None:
            result.pop(key, None)
        else:
            result[key] = resolved
    return result


def _plain(value: Value) -> str:
    if value is None:
        return "unset"
    if isinstance(value, bool):
        return "true" if value else "false"
    return f"{value:g}" if isinstance(value, float) else str(value)
