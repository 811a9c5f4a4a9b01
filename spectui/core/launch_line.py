"""From a profile to the words of its command line. Flags come from the engine's contract, so nothing here knows one.

====================  ==============================================================================
place in a template   stands for
====================  ==============================================================================
``{args}``            all server arguments; a word of its own becomes one word an argument
``{python}``          the interpreter
``{host}``, ``{port}``  where it listens
``{name}``            the server's name (for ``docker run --name``)
``{gpus}``            its GPUs, comma-separated
``{model_path}``      the model; ``{model}`` is the same
``{cwd}``             working folder
====================  ==============================================================================
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from spectui.core.profile import Profile, SpeculativePart
from spectui.core.settings import Value

DEFAULT_COMMAND = ("python3", "-m", "sglang.launch_server")
PLAIN = "{python} -m sglang.launch_server {args}"
SERVE = "sglang serve {args}"
DOCKER = (
    "docker run --rm --name {name} --gpus device={gpus} --network host --ipc host "
    "lmsysorg/sglang python3 -m sglang.launch_server {args}"
)
SRUN = "srun --overlap --gpus-per-task 1 {python} -m sglang.launch_server {args}"
SSH = "ssh -tt {host} {python} -m sglang.launch_server {args}"
"""Templates of a server's command; :func:`launch_command` says what their places stand for."""

_CLIENTS = {"docker": "docker", "podman": "docker", "nerdctl": "docker", "srun": "srun", "ssh": "ssh"}
_PREFIXES = frozenset({"sudo", "doas", "env", "nohup", "nice", "ionice", "setsid", "stdbuf", "timeout", "time"})
_PLACE = re.compile(r"\{\{|\}\}|(?<!\$)\{(\w+)\}")


class TemplateError(ValueError):
    """A template that cannot be made into a command: what is wrong and what it may hold."""


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

    ``flags``: neutral key -> flag of this version (``num_steps`` -> ``--speculative-num-steps``; ``--flag=value`` where
    a plain yes is spelled so), as ``Contract.flags`` gives them, also for arguments of
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
    for name, flag, text in _speculative(profile.speculative, flags, knobs, left):
        put(name, flag, text)
    return Arguments(tuple(words), tuple(left))


def _speculative(
    part: SpeculativePart, flags: Mapping[str, str], knobs: Collection[str] | None, left: list[tuple[str, str]]
) -> Iterator[tuple[str, str, Value]]:
    if part.algorithm == "none":
        return
    yield "algorithm", "--speculative-algorithm", part.algorithm
    for key, value in part.knobs.items():
        if value is None:
            continue
        if knobs is not None and key not in knobs:
            left.append((key, f"is no knob of {part.algorithm}"))
        elif key in flags:
            yield key, flags[key], value
        else:
            left.append((key, "this version of SGLang has no such flag"))


def launch_arguments(profile: Profile, flags: Mapping[str, str], **options: Any) -> list[str]:
    """The words of :func:`arrange`."""
    return list(arrange(profile, flags, **options).words)


def launch_command(
    profile: Profile,
    arguments: Sequence[str],
    *,
    port: int | None = None,
    name: str | None = None,
    python: str = DEFAULT_COMMAND[0],
) -> list[str]:
    """The whole command: the profile's template with its places filled, or plain Python. Raises TemplateError."""
    server = profile.server
    used_port = port if port is not None else server.port
    places = {
        "python": python,
        "host": server.host,
        "port": str(used_port if used_port is not None else ""),
        "name": name or profile.name,
        "gpus": ",".join(str(gpu) for gpu in server.gpus or ()),
        "model_path": server.model_path or "",
        "model": server.model_path or "",
        "cwd": server.cwd or "",
    }
    return expand(PLAIN if server.command is None else server.command, arguments, places)


def expand(template: str | Sequence[str], arguments: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The words of the command: ``{name}`` stands for a place, ``{{`` and ``}}`` for braces, ``${NAME}`` stays.

    A word that is just ``{args}`` becomes one word an argument; a template without it gets the arguments at its end.
    After ``ssh HOST``, and in a word with blanks (``bash -c "…"``), a shell reads what is put in, so it is quoted for
    one; a variable (``$NAME``) stays a variable. Raises TemplateError.
    """
    if isinstance(template, str):
        try:
            words = shlex.split(template)
        except ValueError as error:
            raise TemplateError(f"server.command: {template!r} cannot be split into words: {error}") from None
    else:
        words = list(template)
    if not words:
        raise TemplateError(f"server.command is empty: give at least a program, as in {PLAIN!r}")
    if not any("{args}" in word for word in words):
        script = _script(words)
        if script is not None and not re.search(r"\$[@*{]", script):
            raise TemplateError(f"server.command: {script!r} would lose all arguments: write {{args}} where they go")
        words.append("{args}")
    remote = kind_of(words) == "ssh"
    out: list[str] = []
    for word in words:
        if word == "{args}":
            out += [_for_shell(argument) for argument in arguments] if remote else list(arguments)
            continue
        quoted = remote or " " in word

        def put(found: re.Match[str], quoted: bool = quoted) -> str:
            name = found[1]
            if name is None:
                return found[0][0]
            if name == "args":
                return " ".join(_for_shell(argument) for argument in arguments)
            if name not in places:
                known = ", ".join(sorted({*places, "args"}))
                raise TemplateError(f"server.command: {{{name}}} is not known; known are {known} (a brace is {{{{)")
            return _for_shell(places[name]) if quoted and places[name] else places[name]

        out.append(_PLACE.sub(put, word))
    return out


def _script(words: Sequence[str]) -> str | None:
    """The script of ``sh -c SCRIPT``, whose further words it does not see by itself."""
    if _base(words[0]) not in ("sh", "bash", "dash", "zsh", "ksh") or len(words) < 3:
        return None
    return next((after for word, after in pairwise(words[1:]) if re.fullmatch(r"-[a-z]*c", word)), None)


def kind_of(argv: Sequence[str]) -> str:
    """plain, docker, srun or ssh, by the command's first word, or the one behind a prefix such as ``sudo``."""
    return _CLIENTS.get(_base(argv[client_at(argv)]), "plain") if argv else "plain"


def client_at(argv: Sequence[str]) -> int:
    """Where the program stands that starts the server elsewhere; 0 where there is none."""
    if not argv or _base(argv[0]) not in _PREFIXES:
        return 0
    return next((i for i, word in enumerate(argv[:8]) if _base(word) in _CLIENTS), 0)


def _base(word: str) -> str:
    return word.rsplit("/", 1)[-1]


def _for_shell(word: str) -> str:
    return word if re.fullmatch(r"(--?[\w-]+=)?\$\w+", word) else shlex.quote(word)


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
