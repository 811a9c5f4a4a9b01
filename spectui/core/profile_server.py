"""The table ``[server]`` of a profile, checked key by key."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from spectui.core.profile import ServerPart
from spectui.core.profile_faults import Faults, shown
from spectui.core.redact import is_reference

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
_VARIABLE = re.compile(r"^[A-Za-z_]\w*$")
HOW_SECRET = "a secret is given by reference only: write env:NAME or file:PATH"  # noqa: S105 a message


def server(work: Faults, table: Mapping[str, Any]) -> ServerPart:
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


def _env(work: Faults, value: Any) -> dict[str, str]:
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


def _gpus(work: Faults, value: Any) -> tuple[int | str, ...] | None:
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


def _args(work: Faults, value: Any) -> Mapping[str, Any] | tuple[str, ...]:
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


def _reference(work: Faults, where: str, value: Any) -> str | None:
    text = work.text(where, value)
    if text is not None and not is_reference(text):
        work.fault(where, HOW_SECRET)  # the value itself is not repeated
        return None
    return text
