"""What a launch command is, what to know before it is started, and where keys take the place of their references."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable, Mapping, Sequence

from spectui.core.launch_line import kind_of
from spectui.core.marks import environment_marks

KEY_FLAGS = ("--api-key", "--admin-api-key")
_KEY_IN_TEXT = re.compile(r"(--(?:admin-)?api-key)([ =]+)(env:\w+|file:[^\s'\"]+|\$\{?\w+\}?)")


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
    if kind == "docker" and "exec" in argv[:6]:
        found.append(
            "docker exec hands no signal on: stopping ends its client only and the server in the container stays"
        )
    if kind == "docker" and gpus and not any(",".join(gpus) in w for w in argv):
        found.append("CUDA_VISIBLE_DEVICES does not reach into a container: add --gpus device={gpus}")
    if kind == "ssh" and gpus and not any("CUDA_VISIBLE_DEVICES" in w for w in argv):
        found.append("CUDA_VISIBLE_DEVICES does not travel over ssh: put CUDA_VISIBLE_DEVICES={gpus} before {python}")
    return [*found, *(mark.text for mark in environment_marks(environ))]


def with_keys(argv: Sequence[str], reveal: Callable[[str], str]) -> list[str]:
    """The command with keys where references to them stood, also inside a word that a shell will read.

    ``reveal`` turns a reference into its key and leaves other text alone; what it raises is passed on.
    """
    remote = kind_of(argv) == "ssh"

    def quoted(value: str) -> str:
        key = reveal(value)
        return shlex.quote(key) if key != value else value

    out: list[str] = []
    for before, word in zip(["", *argv], argv, strict=False):
        flag, equals, value = word.partition("=")
        if before in KEY_FLAGS:
            out.append(quoted(word) if remote else reveal(word))
        elif equals and flag in KEY_FLAGS:
            out.append(f"{flag}={quoted(value) if remote else reveal(value)}")
        elif " " in word:
            out.append(_KEY_IN_TEXT.sub(lambda found: found[1] + found[2] + quoted(found[3]), word))
        else:
            out.append(word)
    return out
