"""A profile's launch command for other places: a shell, docker, systemd, Kubernetes. No key is ever written out."""

from __future__ import annotations

import contextlib
import json
import re
import shlex
from collections.abc import Mapping, Sequence
from dataclasses import replace

from spectui.core.launch_line import DEFAULT_COMMAND, launch_command
from spectui.core.profile import DEFAULT_PORT, Profile
from spectui.core.redact import HIDDEN, is_reference, is_secret_name, is_typed_password, redact
from spectui.store import secrets

IMAGE = "lmsysorg/sglang:latest"
KINDS = ("shell", "docker", "systemd", "kubernetes")


def export(profile: Profile, arguments: Sequence[str], kind: str = "shell", *, image: str = IMAGE) -> str:
    """The launch of a profile as text. ``arguments``: from ``core.launch_line``. Raises ValueError for another kind."""
    if kind not in KINDS:
        raise ValueError(f'there is no export "{kind}": choose one of {", ".join(KINDS)}')
    if kind == "docker":
        return docker(profile, arguments, image=image)
    if kind == "systemd":
        return systemd(profile, arguments)
    if kind == "kubernetes":
        return kubernetes(profile, arguments, image=image)
    return shell(profile, arguments)


def shell(profile: Profile, arguments: Sequence[str]) -> str:
    """One command to paste into a shell; it starts the same server. Keys are shell variables."""
    words = _command(profile, arguments)
    server = profile.server
    lines = []
    if server.cwd:
        lines.append(f"cd {shlex.quote(server.cwd)} &&")
    environment = [f"{name}={_quote(value)}" for name, value in _environment(profile).items()]
    line = " ".join(part for part in (*environment, *map(_quote, words)) if part)
    return " ".join([*lines, line]) + "\n"


def docker(profile: Profile, arguments: Sequence[str], *, image: str = IMAGE) -> str:
    server = profile.server
    gpus = "all" if server.gpus is None else '"device=' + ",".join(str(gpu) for gpu in server.gpus) + '"'
    port = server.port or DEFAULT_PORT
    words = ["docker", "run", "--rm", "--gpus", gpus, "--ipc=host"]
    # published on the address that the server listens on now, and no wider
    host = f"[{server.host}]" if ":" in server.host else server.host
    words += ["-p", f"{port}:{port}" if host in ("0.0.0.0", "[::]") else f"{host}:{port}:{port}"]  # noqa: S104
    for name, value in server.env.items():
        # a variable without a value is taken from the caller's environment
        words += ["-e", name if _is_secret(name, value) else f"{name}={value}"]
    mounted = server.model_path if server.model_path and server.model_path.startswith("/") else None
    if mounted:
        words += ["-v", f"{mounted}:{mounted}:ro"]
    words.append(image)
    line = " ".join(map(_quote, words))
    return f"{line} {' '.join(map(_quote, _variables([*DEFAULT_COMMAND, *_anywhere(arguments)])))}\n"


def systemd(profile: Profile, arguments: Sequence[str]) -> str:
    """A unit. Keys come from an environment file that is not part of it."""
    server = profile.server
    command = _command(profile, arguments)
    needed = _needed(profile, command)
    lines = [
        "[Unit]",
        f"Description=SGLang, profile {redact(_one_line(profile.name))}",
        "After=network-online.target",
        "",
    ]
    lines += ["[Service]", "Type=simple"]
    if server.cwd:
        lines.append(f"WorkingDirectory={_unit(server.cwd)}")
    for name, value in _environment(profile).items():
        if not value.startswith("$"):
            lines.append(f'Environment="{_unit(f"{name}={value}", quoted=True)}"')
    if needed:
        lines.append(f"# holds {', '.join(f'{name}=…' for name in needed)}; mode 0600")
        lines.append(f"EnvironmentFile=/etc/spectui/{_slug(profile.name)}.env")
    words = " ".join(map(_unit_word, command))
    lines += [f"ExecStart=/usr/bin/env {words}", "KillMode=mixed", "TimeoutStopSec=90", "Restart=no", ""]
    lines += ["[Install]", "WantedBy=multi-user.target"]
    return "\n".join(lines) + "\n"


def kubernetes(profile: Profile, arguments: Sequence[str], *, image: str = IMAGE) -> str:
    """A pod, as YAML (JSON strings are YAML). Keys come from a secret that is not part of it."""
    server = profile.server
    name = _slug(profile.name)
    inside = _container_words(arguments)
    needed = _needed(profile, inside)
    command = [f"$({word[1:]})" if re.fullmatch(r"\$\w+", word) else word for word in inside]
    lines = [
        "apiVersion: v1",
        "kind: Pod",
        "metadata:",
        f"  name: {json.dumps(name)}",
        "spec:",
        "  restartPolicy: Never",
        "  containers:",
        "    - name: sglang",
        f"      image: {json.dumps(image)}",
        "      command:",
        *(f"        - {json.dumps(word, ensure_ascii=False)}" for word in command),
    ]
    plain = {key: value for key, value in server.env.items() if not _is_secret(key, value)}
    if plain or needed:
        lines.append("      env:")
    for key, value in plain.items():
        lines += [f"        - name: {json.dumps(key)}", f"          value: {json.dumps(value, ensure_ascii=False)}"]
    for key in needed:
        lines += [
            f"        - name: {json.dumps(key)}",
            "          valueFrom:",
            "            secretKeyRef:",
            f"              name: {json.dumps(f'{name}-keys')}",
            f"              key: {json.dumps(key)}",
        ]
    gpus = len(server.gpus) if server.gpus is not None else _world(profile)
    lines += [
        "      ports:",
        f"        - containerPort: {server.port or DEFAULT_PORT}",
        "      resources:",
        "        limits:",
        f"          nvidia.com/gpu: {gpus}",
    ]
    return "\n".join(lines) + "\n"


def _command(profile: Profile, arguments: Sequence[str]) -> list[str]:
    template = profile.server.command
    if template is not None:
        with contextlib.suppress(ValueError):  # a template that cannot be split is told by launch_command
            words = shlex.split(template) if isinstance(template, str) else template
            profile = replace(profile, server=replace(profile.server, command=tuple(_variables(words))))
    return launch_command(profile, _variables(arguments))


def _container_words(arguments: Sequence[str]) -> list[str]:
    return _variables([*DEFAULT_COMMAND, *_anywhere(arguments)])


def _anywhere(arguments: Sequence[str]) -> list[str]:
    """Inside a container the server must listen on all interfaces."""
    words = list(arguments)
    for index, word in enumerate(words[:-1]):
        if word == "--host":
            words[index + 1] = "0.0.0.0"  # noqa: S104
    return words


def _variables(words: Sequence[str]) -> list[str]:
    """Secrets and references to them become ``$NAME``."""
    result: list[str] = []
    for index, word in enumerate(words):
        flag = result[-1] if result and result[-1].startswith("-") else ""
        name, equals, value = word.partition("=")
        if flag and "=" not in flag and is_secret_name(flag) and not word.startswith("--"):
            result.append(f"${_variable(flag, word)}")
        elif equals and value and re.fullmatch(r"-{0,2}[\w-]+", name) and is_secret_name(name):
            kept = value if re.fullmatch(r"\$\{?\w+\}?", value) else f"${_variable(name, value)}"
            result.append(f"{name}={kept}")
        elif is_typed_password(words, index):
            result.append("$SSHPASS" if result[-1] == "-p" else f"{word.partition(':')[0]}:{HIDDEN}")
        else:
            result.append(redact(word))
    return result


def _variable(flag: str, value: str) -> str:
    name = flag.strip("-").replace("-", "_").upper()
    name = f"SGLANG_{name}" if flag.startswith("-") else name
    return secrets.variable(value, name) if is_reference(value) else name


def _environment(profile: Profile) -> dict[str, str]:
    environment = {}
    if profile.server.gpus is not None:
        environment["CUDA_VISIBLE_DEVICES"] = ",".join(str(gpu) for gpu in profile.server.gpus)
    for name, value in profile.server.env.items():
        environment[name] = f"${secrets.variable(value, name)}" if _is_secret(name, value) else redact(value)
    return environment


def _is_secret(name: str, value: str) -> bool:
    return (is_secret_name(name) and bool(value)) or value.startswith("env:") or redact(value) != value


def _needed(profile: Profile, words: Sequence[str]) -> list[str]:
    """The variables that must hold keys, of the words of a command and of the environment."""
    named = [found[1] for word in words if (found := re.fullmatch(r"(?:[\w-]+=)?\$(\w+)", word))]
    named += [value[1:] for value in _environment(profile).values() if re.fullmatch(r"\$\w+", value)]
    return list(dict.fromkeys(named))


def _quote(word: str) -> str:
    """Quoted for a POSIX shell; a variable stays one, and survives blanks in its value."""
    found = re.fullmatch(r"(--?[\w-]+=)?(\$\w+)", word)
    if found:
        return f'{found[1] or ""}"{found[2]}"'
    name, equals, value = word.partition("=")
    if equals and re.fullmatch(r"\$\w+", value):
        return f'{shlex.quote(name)}="{value}"'
    return shlex.quote(word)


def _unit(text: str, *, quoted: bool = False) -> str:
    text = _one_line(text).replace("\\", "\\\\").replace("%", "%%")
    return text.replace('"', '\\"') if quoted else text


def _unit_word(word: str) -> str:
    """One word of ExecStart: ``$`` begins a variable there, unless doubled."""
    if re.fullmatch(r"([\w-]+=)?\$\w+", word):
        name, _, variable = word.partition("$")
        return f"{name}${{{variable}}}"
    escaped = _unit(word, quoted=True).replace("$", "$$")
    return escaped if re.fullmatch(r"[\w@%+=:,./-]+", escaped) else f'"{escaped}"'


def _one_line(text: str) -> str:
    return " ".join(text.split())


def _slug(name: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", redact(name).lower()).strip("-")[:50] or "sglang"


def _world(profile: Profile) -> int:
    args: Mapping[str, object] = profile.server.arguments()
    sizes = [args.get(key, 1) for key in ("tp_size", "dp_size", "pp_size")]
    tp, dp, pp = (size if isinstance(size, int) and not isinstance(size, bool) else 1 for size in sizes)
    return max(tp, 1) * max(pp, 1) * (1 if args.get("enable_dp_attention") else max(dp, 1))


__all__ = ["HIDDEN", "IMAGE", "KINDS", "docker", "export", "kubernetes", "redact", "shell", "systemd"]
