"""Would something start the server again by itself? Then a relaunch from here would end in two of them."""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

# Units that hold logins, jobs and containers; what runs inside is not theirs to restart.
_HOLDERS = re.compile(
    r"^(user@.*|sshd?(@.*)?|cron|crond|atd|getty@.*|slurmd|slurmstepd.*|docker|containerd|podman|gdm|sddm|lightdm|"
    r"dropbear.*|systemd-.*|init)\.(service|scope)$"
)
_CONTAINER = re.compile(r"(docker-|/docker/|cri-containerd-|crio-|libpod-|kubepods|/lxc/)")
_SUPERVISORS = ("supervisord", "runsv", "s6-supervise", "circusd", "monit", "pm2", "god", "watch", "dumb-init-loop")
_SHELLS = ("sh", "bash", "dash", "zsh", "ksh", "ash", "fish")
_LOOP = re.compile(r"(^|[\s;&|(])(while|until|for)\s")
_HANDED = re.compile(r"/dev/stdin|/(?:dev|proc/self)/fd/(\d+)")


@dataclass(frozen=True, slots=True)
class Supervision:
    kind: str
    """systemd, container, supervisor or loop."""
    name: str
    sentence: str
    """Why a relaunch is refused, and what to do in its place."""


@dataclass(frozen=True, slots=True)
class Ancestor:
    pid: int
    name: str
    cmdline: tuple[str, ...]
    cwd: str | None = None


def judge(cgroup: str, own_cgroup: str, ancestors: Sequence[Ancestor], pid: int) -> Supervision | None:
    """From a server's cgroup path, spectui's own, and the server's ancestors, nearest first."""
    unit = next((p for p in reversed(cgroup.split("/")) if p.endswith(".service")), "")
    if cgroup != own_cgroup and _CONTAINER.search(cgroup):
        return Supervision(
            "container",
            cgroup.rsplit("/", 1)[-1],
            "it runs in a container, which may restart by itself: stop or change it with the container's own tools",
        )
    if unit and not _HOLDERS.match(unit) and cgroup != own_cgroup:
        return Supervision(
            "systemd", unit, f"systemd unit {unit} may start it again: change it with systemctl, or stop the unit first"
        )
    if pid == 1:
        return Supervision(
            "container", "pid 1", "it is the first process of this container: ending it ends the container"
        )
    for ancestor in ancestors[:4]:
        found = _parent(ancestor)
        if found is not None:
            return found
    return None


def supervision(pid: int) -> Supervision | None:
    """Who would start this process again, or None where nobody is seen."""
    ancestors: list[Ancestor] = []
    try:
        for parent in psutil.Process(pid).parents():
            if parent.pid == 1 or len(ancestors) == 4:
                break
            ancestors.append(Ancestor(parent.pid, parent.name(), tuple(_cmdline(parent)), _cwd(parent)))
    except psutil.Error:
        pass  # what could be seen until here is judged
    return judge(_cgroup(pid), _cgroup(os.getpid()), ancestors, pid)


def _parent(parent: Ancestor) -> Supervision | None:
    words = parent.cmdline
    name = parent.name.lower()
    if name in _SUPERVISORS or any(w.rsplit("/", 1)[-1] in _SUPERVISORS for w in words[:2]):
        return Supervision(
            "supervisor", parent.name, f"{parent.name} (pid {parent.pid}) may start it again: change it there"
        )
    if name.lstrip("-") not in _SHELLS:
        return None
    script = next((w for w in words[1:] if not w.startswith("-")), None)
    if script is None:
        return None  # a shell someone types in
    inline = any(re.fullmatch(r"-[a-z]*c", w) for w in words[1:])
    text = script if inline else _script(script, parent)
    if text is not None and _LOOP.search(text):
        label = "a shell loop" if inline else script
        return Supervision(
            "loop", label, f"{label} (pid {parent.pid}) may start it again: end that loop first, then relaunch"
        )
    return None


def _script(name: str, parent: Ancestor) -> str | None:
    """Text of a shell's script, without comments; None where it is no file, such as the pipe of ``bash <(...)``."""
    path = Path(name) if os.path.isabs(name) or parent.cwd is None else Path(parent.cwd) / name
    if (handed := _HANDED.fullmatch(name)) is not None:  # a number of that shell's files, not of ours
        path = Path(f"/proc/{parent.pid}/fd/{handed[1] or 0}")
    try:
        # Opening a pipe or a device could wait for ever, and would take from whoever it is meant for.
        if not path.is_file():
            return None
        with path.open(encoding="utf-8", errors="replace") as f:
            text = f.read(65536)
    except OSError:
        return None
    return "\n".join(line for line in text.splitlines() if not line.lstrip().startswith("#"))


def _cgroup(pid: int) -> str:
    try:
        lines = Path(f"/proc/{pid}/cgroup").read_text().splitlines()
    except OSError:
        return ""
    unified = [line for line in lines if line.startswith("0::")]
    named = [line for line in lines if ":name=systemd:" in line]
    return (unified or named or lines or [""])[0].split(":", 2)[-1]


def _cmdline(process: psutil.Process) -> list[str]:
    try:
        return list(process.cmdline())
    except psutil.Error:
        return []


def _cwd(process: psutil.Process) -> str | None:
    try:
        return str(process.cwd())
    except psutil.Error:
        return None
