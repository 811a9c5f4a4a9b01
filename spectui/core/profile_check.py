"""Everything that is wrong with a profile's tables, all at once, each with its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from typing import Any

from spectui.core.profile import SCHEMA, Fault, Profile, SpeculativePart
from spectui.core.profile_faults import Faults, shown
from spectui.core.profile_server import HOW_SECRET
from spectui.core.profile_server import server as server_of
from spectui.core.redact import is_reference, is_secret_name, looks_secret
from spectui.core.settings import Algorithm, Knob, Value

_TOP = ("schema", "name", "notes", "server", "speculative", "workload", "evidence")
WORKLOAD_KEYS: dict[str, tuple[type, ...]] = {
    "name": (str,),
    "file": (str,),
    "passes": (list,),
    "concurrency": (int, list),
    "requests": (int,),
    "max_tokens": (int,),
    "temperature": (int, float),
    "seed": (int,),
    "thinking": (bool,),
}
_PASSES = ("cold", "warm", "primed", "as-found")


def check(
    tables: Mapping[str, Any],
    find: Callable[[str | None], Algorithm | None],
    nearest: Callable[[str], str | None],
    *,
    lines: Mapping[str, int] | None = None,
    knobs: Mapping[str, Knob] | None = None,
    name: str = "",
) -> tuple[Profile | None, tuple[Fault, ...]]:
    """A profile out of its tables, and every fault and note. None where there is a fault.

    ``find`` and ``nearest`` look up algorithms by a typed name; ``knobs``: neutral knobs of all algorithms;
    ``lines``: from :func:`spectui.core.profile.line_numbers`; ``name``: taken where the file gives none.
    """
    work = Faults(lines or {})
    _schema(work, tables.get("schema"))
    work.unknown("", tables, _TOP)
    title = work.text("name", tables.get("name")) or name
    notes = work.text("notes", tables.get("notes"), empty=True)
    server = server_of(work, work.table("server", tables.get("server")))
    speculative = _speculative(work, work.table("speculative", tables.get("speculative")), find, nearest, knobs or {})
    workload = _workload(work, work.table("workload", tables.get("workload")))
    evidence = _evidence(work, tables.get("evidence"))
    _secrets(work, tables)
    faults = tuple(sorted(work.faults, key=lambda fault: (fault.line or 0, fault.where)))
    if any(fault.level == "fault" for fault in faults):
        return None, faults
    profile = Profile(title, notes, server, speculative, workload, evidence, remarks=faults)
    return profile, faults


def _schema(work: Faults, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        work.fault("schema", f"must be an integer of at least 0, {shown(value)}")
    elif value > SCHEMA:
        work.fault("schema", f"{value} was written by a newer spectui; this one reads up to {SCHEMA}: update spectui")


def _speculative(
    work: Faults,
    table: Mapping[str, Any],
    find: Callable[[str | None], Algorithm | None],
    nearest: Callable[[str], str | None],
    known: Mapping[str, Knob],
) -> SpeculativePart:
    plugin = table.get("plugin", False)
    if not isinstance(plugin, bool):
        work.fault("speculative.plugin", f"must be true or false, {shown(plugin)}")
    typed = work.text("speculative.algorithm", table.get("algorithm"))
    algorithm = find(typed)
    if algorithm is None and plugin is not True:
        close = nearest(typed or "")
        perhaps = f"did you mean {close}? " if close else ""
        plug_in = "For one that a plug-in of the server adds, write plugin = true beside it"
        work.fault("speculative.algorithm", f'unknown algorithm "{typed}"; {perhaps}{plug_in}')
    if algorithm is not None and algorithm.error:
        work.fault("speculative.algorithm", f"{algorithm.name} cannot be used: {algorithm.error}")
    flat = {key: value for key, value in _flatten(table).items() if key not in ("algorithm", "plugin")}
    for key, value in flat.items():
        where = f"speculative.{key}"
        knob = algorithm.knob(key) if algorithm else None
        judge = knob or known.get(key)
        fault = judge.fault(value) if judge is not None else None
        if fault:
            work.fault(where, fault)
        elif judge is None and algorithm is not None and not algorithm.plugin:
            near = difflib.get_close_matches(key, list(known), n=1)
            perhaps = f"; did you mean {near[0]}?" if near else ""
            work.note(where, f"unknown key, kept and not used{perhaps}")
        elif knob is None and algorithm is not None:
            work.note(where, f"is no knob of {algorithm.name}")
    name = algorithm.name if algorithm else (typed or "none")
    return SpeculativePart(name, _values(flat), plugin is True)


def _values(flat: Mapping[str, Any]) -> dict[str, Value]:
    return {key: value for key, value in flat.items() if isinstance(value, (int, float, str, bool))}


def _flatten(table: Mapping[str, Any], before: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for key, value in table.items():
        name = f"{before}.{key}" if before else str(key)
        if isinstance(value, Mapping):
            flat.update(_flatten(value, name))
        else:
            flat[name] = value
    return flat


def _workload(work: Faults, table: Mapping[str, Any]) -> dict[str, Any]:
    work.unknown("workload", table, tuple(WORKLOAD_KEYS))
    for key, kinds in WORKLOAD_KEYS.items():
        value = table.get(key)
        where = f"workload.{key}"
        if value is None:
            continue
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = {str: "text", int: "an integer", float: "a number", list: "a list", bool: "true or false"}
            work.fault(where, f"must be {' or '.join(names[kind] for kind in kinds)}, {shown(value)}")
            continue
        numbers = value if isinstance(value, list) else [value]
        if key in ("concurrency", "requests", "max_tokens") and not all(
            isinstance(number, int) and not isinstance(number, bool) and number >= 1 for number in numbers
        ):
            work.fault(where, f"must be at least 1, {shown(value)}")
        if key == "temperature" and isinstance(value, (int, float)) and not 0 <= value <= 2:
            work.fault(where, f"must be a number from 0 to 2, {shown(value)}")
        if key == "passes" and not all(name in _PASSES for name in numbers):
            work.fault(where, f"must be out of {', '.join(_PASSES)}, {shown(value)}")
    return dict(table)


def _evidence(work: Faults, value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        work.fault("evidence", "must be a list of tables, written as [[evidence]]")
        return ()
    return tuple(value)


def _secrets(work: Faults, tables: Mapping[str, Any]) -> None:
    """A key that stands in the file is refused wherever it stands; what it is is never repeated."""
    said = {fault.where for fault in work.faults}

    def look(where: str, name: str, value: Any) -> None:
        if isinstance(value, Mapping):
            for key, entry in value.items():
                look(f"{where}.{key}" if where else str(key), str(key), entry)
        elif isinstance(value, (list, tuple)):
            before = ""
            for index, entry in enumerate(value):
                look(f"{where}[{index}]" if isinstance(entry, Mapping) else where, before, entry)
                before = entry if isinstance(entry, str) and entry.startswith("-") and "=" not in entry else ""
        elif isinstance(value, str) and value and where not in said:
            flag, equals, rest = value.partition("=")
            named = is_secret_name(name) and not is_reference(value)
            inline = bool(equals) and flag.startswith("-") and is_secret_name(flag) and not is_reference(rest)
            in_text = bool(re.search(r"--(?:admin-)?api-key[= ]+(?!env:|file:|\$|\{|\")\S", value))
            if named or inline or in_text or looks_secret(value):
                said.add(where)
                work.fault(where, HOW_SECRET)

    look("", "", tables)
