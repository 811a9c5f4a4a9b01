"""Everything that is wrong with a profile's tables, all at once, each with its place."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectui.core.profile import SCHEMA, Fault, Profile, ServerPart, SpeculativePart
from spectui.core.redact import is_reference, is_secret_name, looks_secret
from spectui.core.settings import Algorithm, Knob, Value

_TOP = ("schema", "name", "notes", "server", "speculative", "workload", "evidence")
SERVER_KEYS = (
    "command",
    "cwd",
    "env",
    "host",
    "port",
    "gpus",
    "model_path",
    "args",
    "api_key",
    "admin_api_key",
)
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
_VARIABLE = re.compile(r"^[A-Za-z_]\w*$")
_HOW_SECRET = "a secret is given by reference only: write env:NAME or file:PATH"  # noqa: S105 a message


@dataclass(slots=True)
class _Check:
    lines: Mapping[str, int]
    faults: list[Fault] = field(default_factory=list)

    def line(self, where: str) -> int | None:
        while where:
            if where in self.lines:
                return self.lines[where]
            where = where.rpartition(".")[0]
        return None

    def fault(self, where: str, text: str) -> None:
        self.faults.append(Fault(where, text, self.line(where)))

    def note(self, where: str, text: str) -> None:
        self.faults.append(Fault(where, text, self.line(where), level="note"))

    def text(self, where: str, value: Any, *, empty: bool = False) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(where, f"must be text, {shown(value)}")
        elif not value.strip() and not empty:
            self.fault(where, "must not be empty")
        elif "\0" in value:
            self.fault(where, "must not hold a zero byte")
        else:
            return value
        return None

    def table(self, where: str, value: Any) -> Mapping[str, Any]:
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return value
        self.fault(where, f"must be a table, {shown(value)}")
        return {}

    def unknown(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                perhaps = f"; did you mean {close[0]}?" if close else ""
                self.note(f"{where}.{key}" if where else key, f"unknown key, kept and not used{perhaps}")


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
    work = _Check(lines or {})
    _schema(work, tables.get("schema"))
    work.unknown("", tables, _TOP)
    title = work.text("name", tables.get("name")) or name
    notes = work.text("notes", tables.get("notes"), empty=True)
    server = _server(work, work.table("server", tables.get("server")))
    speculative = _speculative(work, work.table("speculative", tables.get("speculative")), find, nearest, knobs or {})
    workload = _workload(work, work.table("workload", tables.get("workload")))
    evidence = _evidence(work, tables.get("evidence"))
    _secrets(work, tables)
    faults = tuple(sorted(work.faults, key=lambda fault: (fault.line or 0, fault.where)))
    if any(fault.level == "fault" for fault in faults):
        return None, faults
    profile = Profile(title, notes, server, speculative, workload, evidence, remarks=faults)
    return profile, faults


def _schema(work: _Check, value: Any) -> None:
    if value is None:
        return
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        work.fault("schema", f"must be an integer of at least 0, {shown(value)}")
    elif value > SCHEMA:
        work.fault("schema", f"{value} was written by a newer spectui; this one reads up to {SCHEMA}: update spectui")


def _server(work: _Check, table: Mapping[str, Any]) -> ServerPart:
    work.unknown("server", table, SERVER_KEYS)
    command = table.get("command")
    words: str | tuple[str, ...] | None = None
    if isinstance(command, list):
        if command and all(isinstance(word, str) for word in command):
            words = tuple(command)
        else:
            work.fault("server.command", "must be text or a list of words")
    else:
        words = work.text("server.command", command)
    port = table.get("port")
    if port is not None and (not isinstance(port, int) or isinstance(port, bool) or not 1 <= port <= 65535):
        work.fault("server.port", f"must be an integer from 1 to 65535, {shown(port)}")
        port = None
    host = work.text("server.host", table.get("host"))
    if host is not None and (re.search(r"\s|/", host) or (host.count(":") == 1)):
        work.fault("server.host", f"must be a host name or an address without scheme and port, {shown(host)}")
    return ServerPart(
        command=words,
        cwd=work.text("server.cwd", table.get("cwd")),
        env=_env(work, table.get("env")),
        host=host or ServerPart().host,
        port=port,
        gpus=_gpus(work, table.get("gpus")),
        model_path=work.text("server.model_path", table.get("model_path")),
        args=_args(work, table.get("args")),
        api_key=_reference(work, "server.api_key", table.get("api_key")),
        admin_api_key=_reference(work, "server.admin_api_key", table.get("admin_api_key")),
    )


def _env(work: _Check, value: Any) -> dict[str, str]:
    env = {}
    for key, entry in work.table("server.env", value).items():
        where = f"server.env.{key}"
        if not _VARIABLE.match(key):
            work.fault(where, "is no name of an environment variable")
        elif isinstance(entry, bool) or not isinstance(entry, (str, int, float)):
            work.fault(where, f"must be text, {shown(entry)}")
        elif "\0" in str(entry):
            work.fault(where, "must not hold a zero byte")
        else:
            env[key] = str(entry)
    return env


def _gpus(work: _Check, value: Any) -> tuple[int | str, ...] | None:
    if value is None:
        return None
    if isinstance(value, str):
        value = [int(part) if part.strip().isdigit() else part.strip() for part in value.split(",") if part.strip()]
    good = isinstance(value, list) and all(
        (isinstance(gpu, int) and not isinstance(gpu, bool) and gpu >= 0)
        or (isinstance(gpu, str) and gpu.startswith(("GPU-", "MIG-")))
        for gpu in value
    )
    if not good:
        work.fault("server.gpus", f"must be a list of GPU numbers or UUIDs, {shown(value)}")
        return None
    if len(set(value)) != len(value):
        work.fault("server.gpus", "names a GPU twice")
    return tuple(value)


def _args(work: _Check, value: Any) -> Mapping[str, Any] | tuple[str, ...]:
    if value is None:
        return {}
    if isinstance(value, list):
        for index, word in enumerate(value):
            if not isinstance(word, (str, int, float)) or isinstance(word, bool):
                work.fault(f"server.args[{index}]", f"must be text, {shown(word)}")
        words = tuple(str(word) for word in value)
        for word in words:
            if word.startswith("--speculative-"):
                work.fault("server.args", f"{word.partition('=')[0]} belongs under [speculative]")
        return words
    table = {}
    for key, entry in work.table("server.args", value).items():
        where = f"server.args.{key}"
        if not re.match(r"^(--)?[A-Za-z][\w-]*$", key):
            work.fault(where, "is no name of an argument")
        elif key.replace("-", "_").lstrip("_").startswith("speculative_"):
            work.fault(where, "belongs under [speculative]")
        else:
            table[key.lstrip("-")] = entry
    return table


def _reference(work: _Check, where: str, value: Any) -> str | None:
    text = work.text(where, value)
    if text is not None and not is_reference(text):
        work.fault(where, _HOW_SECRET)  # the value itself is not repeated
        return None
    return text


def _speculative(
    work: _Check,
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


def _workload(work: _Check, table: Mapping[str, Any]) -> dict[str, Any]:
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


def _evidence(work: _Check, value: Any) -> tuple[Mapping[str, Any], ...]:
    if value is None:
        return ()
    if not isinstance(value, list) or not all(isinstance(entry, Mapping) for entry in value):
        work.fault("evidence", "must be a list of tables, written as [[evidence]]")
        return ()
    return tuple(value)


def _secrets(work: _Check, tables: Mapping[str, Any]) -> None:
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
                work.fault(where, _HOW_SECRET)

    look("", "", tables)


def shown(value: Any) -> str:
    """``not "x"``, for the end of a sentence; long values are cut, tables only named."""
    if isinstance(value, str):
        return f'not "{value if len(value) <= 60 else value[:57] + "..."}"'
    if isinstance(value, bool):
        return "not true" if value else "not false"
    if isinstance(value, Mapping):
        return "not a table"
    text = str(value)
    return f"not {text if len(text) <= 60 else text[:57] + '...'}"
