"""The algorithms, one file each, found by name. A file declares ``ALGORITHM``; files that begin with ``_`` are shared.

Order: none first, then as :data:`_ORDER` says, then others by name.
"""

from __future__ import annotations

import difflib
import importlib
import re
from collections.abc import Mapping
from functools import cache
from pathlib import Path

from spectui.core import plan
from spectui.core.profile import Profile
from spectui.core.settings import Algorithm, Value

_ORDER = ("none", "NGRAM", "EAGLE3", "EAGLE", "NEXTN", "STANDALONE", "DFLASH", "DSPARK", "UNO")


@cache
def every() -> tuple[Algorithm, ...]:
    """All of them, broken ones too: those carry their error and no knobs."""
    files = sorted(path.stem for path in Path(__file__).parent.glob("[a-z]*.py"))
    found = [_from_module(f"{__name__}.{stem}", stem) for stem in files]
    rank = {name: number for number, name in enumerate(_ORDER)}
    return tuple(sorted(found, key=lambda algorithm: (rank.get(algorithm.name, len(rank)), algorithm.name)))


def names() -> tuple[str, ...]:
    return tuple(algorithm.name for algorithm in every())


def load(name: str) -> Algorithm:
    """The algorithm of exactly this name. Raises KeyError."""
    for algorithm in every():
        if algorithm.name == name:
            return algorithm
    raise KeyError(name)


def find(typed: str | None) -> Algorithm | None:
    """The algorithm that a typed name means: case, dashes and blanks do not matter. Nothing typed means none."""
    key = _key(typed or "none")
    for algorithm in every():
        if key in {_key(name) for name in (algorithm.name, *algorithm.aliases)}:
            return algorithm
    return None


def nearest(typed: str) -> str | None:
    """The name that was perhaps meant."""
    keys = {_key(name): algorithm.name for algorithm in every() for name in (algorithm.name, *algorithm.aliases)}
    close = difflib.get_close_matches(_key(typed), list(keys), n=1, cutoff=0.5)
    return keys[close[0]] if close else None


def for_name(typed: str | None) -> Algorithm:
    """As :func:`find`; an unknown name is taken as that of a plug-in of the server (SGLang 0.5.12 and later)."""
    known = find(typed)
    if known is not None:
        return known
    shared = importlib.import_module(f"{__name__}._eagle_family")
    name = (typed or "").strip()
    return Algorithm(
        name.upper(),
        "plug-in",
        "An algorithm registered by a plug-in of the server; spectui knows nothing of it.",
        fits="not known",
        starves="not known",
        stateful=True,
        knobs=tuple(shared.KNOBS),
        draft="built-in",
        since=(0, 5, 12),
        plugin=True,
    )


def resolve(
    name: str | None,
    asked: Mapping[str, Value],
    server: Mapping[str, Value] | None = None,
    version: str | None = None,
    *,
    model: Mapping[str, Value] | None = None,
    env: Mapping[str, str] | None = None,
) -> plan.Plan:
    """:func:`spectui.core.plan.resolve` for an algorithm by name."""
    return plan.resolve(for_name(name), asked, server, version, model=model, env=env)


def plan_of(profile: Profile, version: str | None = None, *, model: Mapping[str, Value] | None = None) -> plan.Plan:
    """What a server of ``version`` makes of a profile."""
    wanted = profile.speculative
    return resolve(
        wanted.algorithm, wanted.knobs, profile.server.arguments(), version, model=model, env=profile.server.env
    )


def _key(name: str) -> str:
    return re.sub(r"[\s_-]", "", name).upper()


def _from_module(module: str, stem: str) -> Algorithm:
    """A broken file must not take the others along, so everything it can raise is caught here."""
    try:
        algorithm = importlib.import_module(module).ALGORITHM
        if not isinstance(algorithm, Algorithm):
            raise TypeError(f"ALGORITHM is a {type(algorithm).__name__}, not an Algorithm")
        fault = _fault(algorithm)
        return algorithm.broken(fault) if fault else algorithm
    except Exception as error:
        why = f"{stem}.py: {type(error).__name__}: {error}"
        return Algorithm(stem.upper(), stem, "Its file could not be read.", "", "", error=why)


def _fault(algorithm: Algorithm) -> str | None:
    """A declaration that would fail later, found now."""
    keys = [knob.key for knob in algorithm.knobs]
    if len(keys) != len(set(keys)):
        return "a knob is declared twice"
    for knob in algorithm.knobs:
        if knob.fault(knob.default):
            return f"the default of {knob.key} {knob.fault(knob.default)}"
    for bracket in algorithm.brackets:
        if bracket.key not in keys:
            return f"[ and ] move {bracket.key}, which is no knob of it"
        if list(bracket.steps) != sorted(set(bracket.steps)):
            return f"the steps of {bracket.key} do not rise"
    return None


__all__ = ["Algorithm", "every", "find", "for_name", "load", "names", "nearest", "plan_of", "resolve"]
