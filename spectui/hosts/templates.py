"""What it takes to start a found server again, read off its running process."""

from __future__ import annotations

import os
from dataclasses import dataclass, field

import psutil

from spectui.core.redact import HIDDEN, is_secret, looks_secret
from spectui.hosts.discover import FoundServer


@dataclass(frozen=True, slots=True)
class Template:
    """What it takes to make a found server again. A command line alone does not: environment and folder count."""

    argv: tuple[str, ...]
    """Keys replaced by references where one is known, else left out."""
    env: dict[str, str] = field(default_factory=dict)
    """Keys are not copied: ``env:NAME`` stands where one was, to be taken from spectui's own environment, where that
    has it."""
    cwd: str | None = None
    user: str = ""
    missing: tuple[str, ...] = ()
    """What could not be read or taken over, in words."""


def template_of(server: FoundServer) -> Template:
    """What a relaunch of this server would start from; read now, from the running process."""
    missing = []
    env: dict[str, str] = {}
    if len(server.argv) == 1 and " " in server.argv[0]:
        missing.append("its command line was rewritten by the program: quotes in it are lost")
    argv: tuple[str, ...] = server.argv
    try:
        process = psutil.Process(server.pid)
        if abs(process.create_time() - server.start_time) > 1.0:
            return Template(argv, {}, server.cwd, server.user, ("it has ended since it was found",))
        for name, value in process.environ().items():
            if is_secret(name, value) or looks_secret(value):
                if os.environ.get(name):
                    env[name] = f"env:{name}"
                else:
                    missing.append(f"{name} holds a secret there and is not set here: it is not copied")
            else:
                env[name] = value
    except (psutil.Error, OSError):
        missing.append("its environment cannot be read (another user's process)")
    if argv and any(HIDDEN in w for w in argv):
        missing.append("its API key is not copied: give a reference (env:NAME or file:PATH)")
    if server.cwd is None:
        missing.append("its working folder cannot be read")
    if server.user and server.user != _own_user():
        missing.append(f"it runs as {server.user}: started from here it runs as {_own_user()}")
    return Template(argv, env, server.cwd, server.user, tuple(missing))


def _own_user() -> str:
    try:
        return str(psutil.Process().username())
    except (psutil.Error, KeyError):
        return str(os.getuid())
