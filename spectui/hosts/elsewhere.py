"""Servers whose first process here is only a client: ``docker run``, ``srun`` and ``ssh``, and what runs behind it.

A container is proved to be the server's by a label that its launch gave it, a step on this node by the mark in its
environment. Nothing proves a process on another node: of those only the address can be looked at, and it is said so.
"""

from __future__ import annotations

import os
import socket
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import psutil

from spectui.core.launch_line import client_at, kind_of
from spectui.core.redact import HIDDEN
from spectui.hosts.leftovers import leftovers
from spectui.hosts.records import ServerRecord

LABEL = "spectui.server"
ANSWER_LIMIT_S = 20.0
_ASK_S = 10.0
_ANY = ("", "localhost", "127.0.0.1", "::1", "0.0.0.0", "::")  # noqa: S104 names of this node


@dataclass(frozen=True, slots=True)
class Behind:
    """What is left of a server whose client has ended."""

    runs: bool | None
    """True and False are proved; None: cannot be seen from here."""
    text: str
    containers: tuple[str, ...] = ()
    """Ids of its containers that run."""


def labelled(argv: Sequence[str], mark: str) -> list[str]:
    """A ``docker run`` whose container can be told from all others; any other command as it is."""
    words = list(argv)
    at = _run_at(words)
    return words if at is None else [*words[: at + 1], f"--label={LABEL}={mark}", *words[at + 1 :]]


def returns_at_once(argv: Sequence[str]) -> str | None:
    """Why nothing could be watched or ended through this command; None where it stays as long as its server."""
    words = list(argv)
    kind, at = kind_of(words), client_at(words)
    run = _run_at(words)
    if run is not None:
        before = ""
        for word in words[run + 1 :]:
            if word in ("-d", "--detach", "--detach=true") or (word[:1] == "-" != word[1:2] and word.endswith("d")):
                return f"{words[at]} run {word} returns at once"
            if not word.startswith("-") and (not before.startswith("-") or "=" in before):
                break  # the image: what follows is the server's own command
            before = word
    if kind == "ssh" and any(w[:1] == "-" != w[1:2] and "f" in w[1:] for w in _options(words[at + 1 :])):
        return "ssh -f returns at once"
    if words and words[0].rsplit("/", 1)[-1] == "sbatch":
        return "sbatch returns at once"
    return None


def on_another_node(kind: str, host: str) -> bool:
    """Whether its ports and GPUs are another machine's: behind ssh, or a step that listens on another's address."""
    return kind == "ssh" or (kind == "srun" and not _is_here(host))


def node_of(kind: str, host: str) -> str:
    """Whose ports and GPUs a server takes: the other node's name, empty for this one's."""
    return host if on_another_node(kind, host) else ""


def look(record: ServerRecord, *, killed: bool = False) -> Behind | None:
    """What runs behind a client that has ended; None for a server that was started here itself.

    ``killed``: the client was, so it could not tell what it started.
    """
    if record.kind == "plain":
        return None
    client = _client(record)
    where = f"{record.host}:{record.port}"
    if record.kind == "docker" and _run_at(record.argv) is not None:
        ids = containers(record)
        if ids is None:
            return Behind(None, f"its {client} client has ended, and {client} does not say whether its container has")
        if ids:
            short = ", ".join(one[:12] for one in ids)
            return Behind(True, f"its {client} client has ended, but its container {short} runs on", ids)
        return Behind(False, "its container has ended")
    if answers(record):
        return Behind(True, f"its {client} client has ended, but {where} still answers: end the server there")
    if record.kind == "srun" and not on_another_node("srun", record.host) and not killed and not leftovers(record):
        return Behind(False, "its step has ended")
    return Behind(
        None,
        f"its {client} client has ended and {where} no longer answers; whether all its processes there have ended "
        "cannot be seen from here",
    )


def settle(
    record: ServerRecord, *, killed: bool, clock: Callable[[], float], sleep: Callable[[float], None]
) -> Behind | None:
    """As :func:`look`, once the address has closed, which is waited for at most 20 s."""
    if record.kind == "plain":
        return None
    until = clock() + ANSWER_LIMIT_S
    while True:
        behind = look(record, killed=killed)
        if behind is None or behind.runs is not True or behind.containers or clock() >= until:
            return behind
        sleep(0.2)


def containers(record: ServerRecord) -> tuple[str, ...] | None:
    """Ids of the record's containers that run; None where that cannot be asked."""
    said = _docker(record, ["ps", "--quiet", "--no-trunc", "--filter", f"label={LABEL}={record.id}"], _ASK_S)
    return None if said is None else tuple(said.split())


def end_containers(record: ServerRecord, grace_s: float, say: Callable[[str], None]) -> None:
    """Stops the record's containers, those and no others; what remains is for :func:`look` to find."""
    ids = containers(record)
    if not ids:
        return
    say("stopping the container " + ", ".join(one[:12] for one in ids))
    _docker(record, ["stop", "-t", str(max(0, round(grace_s))), *ids], grace_s + 20)
    ids = containers(record)
    if ids:
        say("killing the container " + ", ".join(one[:12] for one in ids))
        _docker(record, ["kill", *ids], _ASK_S)


def answers(record: ServerRecord, timeout_s: float = 1.0) -> bool:
    """Whether something takes connections at its address."""
    host = {"": "127.0.0.1", "0.0.0.0": "127.0.0.1", "::": "::1"}.get(record.host, record.host)  # noqa: S104
    try:
        with socket.create_connection((host, record.port), timeout=timeout_s):
            return True
    except OSError:
        return False


def _client(record: ServerRecord) -> str:
    at = client_at(record.argv)
    return record.argv[at].rsplit("/", 1)[-1] if at < len(record.argv) else record.kind


def _docker(record: ServerRecord, words: Sequence[str], timeout_s: float) -> str | None:
    """What the program of the launch says, prefixes such as sudo and options such as --context included."""
    at, run = client_at(record.argv), _run_at(record.argv)
    if run is None:
        return None
    head = [*record.argv[: at + 1], *(word for word in record.argv[at + 1 : run] if word != "container")]
    try:
        done = subprocess.run(
            [*head, *words],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**os.environ, **{name: value for name, value in record.env.items() if HIDDEN not in value}},
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    return done.stdout if done.returncode == 0 else None


def _run_at(argv: Sequence[str]) -> int | None:
    """Where the word ``run`` of a ``docker run`` stands."""
    if kind_of(argv) != "docker":
        return None
    at = client_at(argv) + 1
    before = ""
    for i, word in enumerate(argv[at : at + 8], at):
        if word == "run":
            return i
        if not word.startswith("-") and word != "container" and (not before.startswith("-") or "=" in before):
            return None  # another order: exec, start, compose
        before = word
    return None


def _options(words: Sequence[str]) -> list[str]:
    """The options of ssh, before its host."""
    found, takes_value = [], False
    for word in words:
        if takes_value:
            takes_value = False
        elif word.startswith("-"):
            found.append(word)
            takes_value = len(word) == 2 and word[1] in "BbcDEeFIiJLlmOopQRSWw"
        else:
            break
    return found


def _is_here(host: str) -> bool:
    if host in _ANY or host.startswith("127.") or host == socket.gethostname():
        return True
    return any(one.address == host for found in psutil.net_if_addrs().values() for one in found)
