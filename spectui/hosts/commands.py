"""Command templates: text with named places, turned into the words of a command.

====================  ==============================================================================
place                 stands for
====================  ==============================================================================
``{python}``          the interpreter
``{args}``            all server arguments; a word of its own becomes one word an argument
``{host}``, ``{port}``  where it listens
``{name}``            the server's name (for ``docker run --name``)
``{gpus}``            its GPUs, comma-separated
``{model}``, ``{cwd}``  model path, working folder
====================  ==============================================================================
"""

from __future__ import annotations

import re
import shlex
from collections.abc import Mapping, Sequence

PLAIN = "{python} -m sglang.launch_server {args}"
SERVE = "sglang serve {args}"
DOCKER = (
    "docker run --rm --name {name} --gpus device={gpus} --network host --ipc host "
    "lmsysorg/sglang python3 -m sglang.launch_server {args}"
)
SRUN = "srun --overlap --gpus-per-task 1 {python} -m sglang.launch_server {args}"
SSH = "ssh -tt {host} {python} -m sglang.launch_server {args}"

_PLACE = re.compile(r"\{(\w+)\}")
_SHELLS_AFTER = ("ssh",)


class TemplateError(ValueError):
    """A template that cannot be made into a command: what is wrong and what it may hold."""


def kind_of(argv: Sequence[str]) -> str:
    """plain, docker, srun or ssh, by the command's first word."""
    first = argv[0].rsplit("/", 1)[-1] if argv else ""
    if first in ("docker", "podman", "nerdctl"):
        return "docker"
    return first if first in ("srun", "ssh") else "plain"


def expand(template: str, args: Sequence[str], places: Mapping[str, str]) -> list[str]:
    """The words of the command.

    After ``ssh HOST`` the words pass through a shell on the other side, so values put in there are quoted for it.
    Raises :class:`TemplateError` for an unknown place, unbalanced quotes, or a template without a word.
    """
    try:
        words = shlex.split(template)
    except ValueError as error:
        raise TemplateError(f"command template {template!r}: {error} (unbalanced quotes)") from error
    if not words:
        raise TemplateError("command template is empty: give at least a program, as in " + repr(PLAIN))
    if not any("{args}" in w for w in words):
        raise TemplateError(f"command template {template!r} has no {{args}}: the server's arguments would get lost")
    remote = kind_of(words) in _SHELLS_AFTER
    out: list[str] = []
    for word in words:
        if word == "{args}":
            out += [shlex.quote(a) for a in args] if remote else list(args)
            continue
        # A place inside a longer word with spaces is text for some shell (bash -c, ssh host '…').
        quoted = remote or " " in word

        def put(match: re.Match[str], quoted: bool = quoted) -> str:
            name = match.group(1)
            if name == "args":
                return shlex.join(args)
            if name not in places:
                known = ", ".join(sorted({*places, "args"}))
                raise TemplateError(f"command template: {{{name}}} is not known here; known: {known}")
            value = places[name]
            return shlex.quote(value) if quoted and value else value

        out.append(_PLACE.sub(put, word))
    return out


def container_name(argv: Sequence[str]) -> str | None:
    """The ``--name`` of a ``docker run``, if the command is one."""
    if kind_of(argv) != "docker":
        return None
    for i, word in enumerate(argv):
        if word == "--name" and i + 1 < len(argv):
            return argv[i + 1]
        if word.startswith("--name="):
            return word[len("--name=") :]
    return None


def notes(argv: Sequence[str], gpus: Sequence[str], environ: Mapping[str, str]) -> list[str]:
    """What the operator should know before this command is started."""
    kind = kind_of(argv)
    found = []
    if kind == "ssh" and not any(re.fullmatch(r"-[A-Za-z]*t+[A-Za-z]*", w) for w in argv[1:]):
        found.append("without -tt, stopping ends the ssh client only and the server on the other node stays")
    if kind == "docker" and container_name(argv) is None:
        found.append("without --name {name}, the container cannot be ended if it does not stop by itself")
    if kind == "docker" and gpus and not any(",".join(gpus) in w for w in argv):
        found.append("CUDA_VISIBLE_DEVICES does not reach into a container: add --gpus device={gpus}")
    if kind == "ssh" and gpus and not any("CUDA_VISIBLE_DEVICES" in w for w in argv):
        found.append("CUDA_VISIBLE_DEVICES does not travel over ssh: put CUDA_VISIBLE_DEVICES={gpus} before {python}")
    for name in sorted(environ):
        if name.startswith("SGLANG_SIMULATE_ACC"):
            found.append(f"{name} is set: acceptance is forced, and results say nothing about the model")
    return found
