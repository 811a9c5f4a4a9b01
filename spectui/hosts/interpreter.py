"""What the interpreter of a launch says of itself: its SGLang version, and the flags that its ``--help`` lists.

Only commands that run here are asked: asking one behind docker, srun or ssh would take a job or a container. The
version takes a tenth of a second. ``--help`` imports all of SGLang, some ten seconds, so it is asked in the
background, once for each command and version, and remembered.
"""

from __future__ import annotations

import hashlib
import json
import re
import shutil
import subprocess
import threading
import time
from collections.abc import Mapping, Sequence
from pathlib import Path

from spectui.core.launch_line import kind_of
from spectui.hosts.records import write_whole

HELP_LIMIT_S = 90.0
_KEPT = 50
_INTERPRETER = re.compile(r"^(python|pypy)[\d.]*$")
_FLAG = re.compile(r"(?<![\w-])--[a-z][a-z0-9-]*")
_ASK = "import importlib.metadata as m; print(m.version('sglang'))"
_versions: dict[tuple[str, float], str | None] = {}


def interpreter_of(argv: Sequence[str], env: Mapping[str, str]) -> str | None:
    """The Python that a local command runs: named in it, or in the first line of its script. None where not seen."""
    if kind_of(argv) != "plain":
        return None
    for word in argv[:6]:
        first = word.rsplit("/", 1)[-1]
        if _INTERPRETER.match(first):
            return shutil.which(word, path=env.get("PATH"))
        if first == "sglang" and (script := shutil.which(word, path=env.get("PATH"))):
            try:
                with open(script, "rb") as file:
                    head = file.readline(400).decode("utf-8", "replace").strip()
            except OSError:
                return None
            words = head.removeprefix("#!").split()
            return words[0] if head.startswith("#!") and len(words) == 1 and "/" in words[0] else None
    return None


def runs_sglang(argv: Sequence[str]) -> bool:
    """Whether a local command is SGLang's own, perhaps behind a prefix such as ``numactl``, with no shell around it."""
    from spectui.hosts.command_lines import matches

    if kind_of(argv) != "plain" or any(" " in word for word in argv):
        return False
    return any(matches(argv[i:]) is False for i in range(min(6, len(argv))))


def version_of(
    argv: Sequence[str], env: Mapping[str, str], cwd: str | None = None, *, timeout_s: float = 5.0
) -> str | None:
    """The SGLang version that this command would start; None where it cannot be asked or names none."""
    python = interpreter_of(argv, env)
    if python is None:
        return None
    try:
        key = (python, Path(python).parent.stat().st_mtime)
        if key not in _versions:
            done = subprocess.run(
                [python, "-c", _ASK],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                text=True,
                timeout=timeout_s,
                env=dict(env),
                cwd=cwd,
                check=False,
            )
            said = done.stdout.strip()
            _versions[key] = said if done.returncode == 0 and re.match(r"\d+\.\d+", said) else None
        return _versions[key]
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None


def listed(head: Sequence[str], version: str | None, *, folder: Path | None = None) -> frozenset[str] | None:
    """The flags that this command (``head``: without its arguments) listed when it was asked; None: not asked yet."""
    flags = _read(folder).get(_key(head, version))
    return frozenset(flags) if flags else None


def ask(
    head: Sequence[str],
    version: str | None,
    env: Mapping[str, str],
    cwd: str | None = None,
    *,
    timeout_s: float = HELP_LIMIT_S,
    folder: Path | None = None,
) -> frozenset[str] | None:
    """Ask for ``--help`` now and remember the answer; None where there is none in time or it is not SGLang's.

    A script or a shell around the server is not asked: what it makes of ``--help`` nobody knows; it may start one.
    """
    if not runs_sglang(head):
        return None
    try:
        done = subprocess.run(
            [*head, "--help"],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            errors="replace",
            timeout=timeout_s,
            env={**env, "CUDA_VISIBLE_DEVICES": ""},  # it must not touch a GPU that someone measures on
            cwd=cwd,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired, ValueError):
        return None
    flags = frozenset(_FLAG.findall(done.stdout))
    if done.returncode != 0 or not {"--model-path", "--port"} <= flags:
        return None
    known = _read(folder)
    key = _key(head, version)
    known.pop(key, None)
    known[key] = sorted(flags)
    for old in list(known)[: max(0, len(known) - _KEPT)]:
        del known[old]
    try:
        path = _path(folder)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, json.dumps(known))
    except OSError:
        pass  # asked again the next time
    return flags


def ask_in_background(
    head: Sequence[str], version: str | None, env: Mapping[str, str], cwd: str | None = None
) -> threading.Thread:
    """As :func:`ask`, in a thread that nobody waits for."""
    thread = threading.Thread(
        target=ask, args=(tuple(head), version, dict(env), cwd), daemon=True, name=f"help-{time.monotonic():.0f}"
    )
    thread.start()
    return thread


def _key(head: Sequence[str], version: str | None) -> str:
    return hashlib.sha256("\0".join([*head, version or ""]).encode()).hexdigest()[:16]


def _path(folder: Path | None) -> Path:
    if folder is None:
        from spectui.store import locations

        folder = locations.known_dir()
    return folder / "flags.json"


def _read(folder: Path | None) -> dict[str, list[str]]:
    try:
        data = json.loads(_path(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {str(k): [str(f) for f in v] for k, v in data.items() if isinstance(v, list)}
