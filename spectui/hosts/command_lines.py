"""Command lines of processes: whether one runs a server, and with which settings."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence

from spectui.core.redact import is_secret

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 30000
_INTERPRETER = re.compile(r"^(python|pypy)[\d.]*$")
_MODULES = {"sglang.launch_server": False, "spectui.engines.sim": True}


def matches(cmdline: Sequence[str]) -> bool | None:
    """Whether a command line is a server's: False for SGLang, True for a simulated one, None for neither.

    What merely mentions one (an editor, grep, a shell, ``docker run``) is not: a program must be running it.
    """
    if not cmdline:
        return None
    words = list(cmdline)
    if len(words) == 1 and " " in words[0] and not words[0].startswith("sglang::"):
        words = words[0].split()  # a title set by the program
    first = words[0].rsplit("/", 1)[-1]
    rest = words
    if _INTERPRETER.match(first):
        i = 1
        while i < len(words) and words[i].startswith("-") and words[i] not in ("-m", "-c"):
            i += 2 if words[i] in ("-X", "-W") else 1
        if i >= len(words) or words[i] == "-c":
            return None
        if words[i] == "-m":
            module = words[i + 1] if i + 1 < len(words) else ""
            if module == "spectui":
                return True if words[i + 2 : i + 3] == ["sim"] else None
            return _MODULES.get(module)
        rest = words[i:]
        if rest[0].endswith("sglang/launch_server.py"):
            return False
        first = rest[0].rsplit("/", 1)[-1]
    if first == "sglang" and rest[1:2] == ["serve"]:
        return False
    if first == "spectui" and rest[1:2] == ["sim"]:
        return True
    return None


def settings_of(cmdline: Sequence[str]) -> dict[str, str | bool]:
    """``--flag value``, ``--flag=value``, ``--flag`` of a command line; keys are left out."""
    out: dict[str, str | bool] = {}
    words = list(cmdline)
    if len(words) == 1 and " " in words[0]:
        words = words[0].split()
    i = 0
    while i < len(words):
        word = words[i]
        i += 1
        if not word.startswith("--") or len(word) == 2:
            continue
        name, has_value, value = word[2:].partition("=")
        taken: list[str] = [value] if has_value else []
        while not has_value and i < len(words) and not re.match(r"--?[A-Za-z]|--$", words[i]):
            taken.append(words[i])
            i += 1
        text = " ".join(taken)
        if not is_secret(name, text):
            out[name] = text if taken else True
    return out


def port_of(settings: Mapping[str, str | bool]) -> int:
    value = str(settings.get("port", DEFAULT_PORT))
    return int(value) if value.isdigit() else DEFAULT_PORT
