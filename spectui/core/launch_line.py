"""From a profile to the words of its command line. Flags come from the engine's contract, so nothing here knows one."""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

from spectui.core.profile import Profile
from spectui.core.settings import Value

DEFAULT_COMMAND = ("python3", "-m", "sglang.launch_server")
PLACES = ("args", "host", "port", "model_path", "gpus", "name")
"""Names that may stand in braces in a profile's command."""


@dataclass(frozen=True, slots=True)
class Arguments:
    words: tuple[str, ...]
    left_out: tuple[tuple[str, str], ...]
    """(neutral key or flag, why) of what was asked for and is not passed."""


def arrange(
    profile: Profile,
    flags: Mapping[str, str],
    *,
    port: int | None = None,
    listed: Collection[str] | None = None,
    knobs: Collection[str] | None = None,
    more: Mapping[str, Value] | None = None,
) -> Arguments:
    """The server's arguments, in a fixed order, secrets still as references.

    ``flags``: neutral key -> flag of this version (``num_steps`` -> ``--speculative-num-steps``), also for arguments of
    the server that are spelled differently by version; a knob that it lacks is left out. ``knobs``: those that the
    algorithm has; others are left out. ``listed``: the flags that the target's ``--help`` lists, where it was asked.
    ``port``: in place of the profile's. ``more``: further arguments of the server, where not set yet.
    """
    server = profile.server
    words: list[str] = []
    left: list[tuple[str, str]] = []

    def put(name: str, flag: str, value: Any) -> None:
        if listed is not None and flag.partition("=")[0] not in listed:
            left.append((name, f"{flag} is not listed by this server's --help"))
        else:
            words.extend(spell(flag, value))

    if server.model_path:
        put("model_path", "--model-path", server.model_path)
    put("host", "--host", server.host)
    used_port = port if port is not None else server.port
    if used_port is not None:
        put("port", "--port", used_port)
    for key in ("api_key", "admin_api_key"):
        reference = getattr(server, key)
        if reference:
            put(key, flag_of(key), reference)
    own = {"model_path", "host", "port", "api_key", "admin_api_key"}
    if isinstance(server.args, Mapping):
        for key, value in server.args.items():
            field = key.replace("-", "_")
            if field not in own or field not in _given(profile, used_port):
                put(key, flags.get(field, flag_of(key)), value)
    else:
        words.extend(server.args)
    have = set(server.arguments())
    for key, value in (more or {}).items():
        if key not in have:
            put(key, flags.get(key, flag_of(key)), value)
    speculative = profile.speculative
    if speculative.algorithm != "none":
        put("algorithm", "--speculative-algorithm", speculative.algorithm)
        for key, value in speculative.knobs.items():
            if value is None:
                continue
            if knobs is not None and key not in knobs:
                left.append((key, f"is no knob of {speculative.algorithm}"))
            elif key in flags:
                put(key, flags[key], value)
            else:
                left.append((key, "this version of SGLang has no such flag"))
    return Arguments(tuple(words), tuple(left))


def launch_arguments(profile: Profile, flags: Mapping[str, str], **options: Any) -> list[str]:
    """The words of :func:`arrange`."""
    return list(arrange(profile, flags, **options).words)


def launch_command(profile: Profile, arguments: Collection[str], *, port: int | None = None) -> list[str]:
    """The whole command: the profile's template with its places filled, or plain Python.

    A word that is just ``{args}`` becomes all arguments; inside a longer word (a command for ``ssh``) they are quoted
    for a shell. A template without ``{args}`` gets them at its end. Raises ValueError for a template that no shell
    could split.
    """
    command = profile.server.command
    if command is None:
        template: list[str] = list(DEFAULT_COMMAND)
    elif isinstance(command, str):
        try:
            template = shlex.split(command)
        except ValueError as error:
            raise ValueError(f"server.command cannot be split into words: {error}") from None
    else:
        template = list(command)
    arguments = list(arguments)
    server = profile.server
    used_port = port if port is not None else server.port
    values = {
        "args": shlex.join(arguments),
        "host": server.host,
        "port": str(used_port if used_port is not None else ""),
        "model_path": server.model_path or "",
        "gpus": ",".join(str(gpu) for gpu in server.gpus or ()),
        "name": profile.name,
    }
    place = re.compile(r"\{(" + "|".join(PLACES) + r")\}")
    words: list[str] = []
    for word in template:
        if word == "{args}":
            words.extend(arguments)
        else:
            words.append(place.sub(lambda found: values[found[1]], word))
    if not any("{args}" in word for word in template):
        words.extend(arguments)
    return words


def flag_of(key: str) -> str:
    return f"--{key.strip('-').replace('_', '-')}"


def spell(flag: str, value: Any) -> list[str]:
    """One argument: True is the bare flag, False and None nothing, lists several words, tables JSON."""
    if value is None or value is False:
        return []
    if value is True:
        return [flag]
    if isinstance(value, (list, tuple)):
        return [flag, *(_word(item) for item in value)]
    return [flag, _word(value)]


def _word(value: Any) -> str:
    if isinstance(value, str):
        return value
    if isinstance(value, Mapping):
        return json.dumps(dict(value))
    return f"{value:g}" if isinstance(value, float) and float(f"{value:g}") == value else str(value)


def _given(profile: Profile, port: int | None) -> set[str]:
    server = profile.server
    fields = {"host": server.host, "port": port, "model_path": server.model_path}
    fields |= {"api_key": server.api_key, "admin_api_key": server.admin_api_key}
    return {key for key, value in fields.items() if value is not None}
