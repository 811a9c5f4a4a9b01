"""Whether this node ends what a login leaves behind, said before a server or a run is started.

Three things can: logind with ``KillUserProcesses`` (ends the login's scope), the end of the user's own service
manager when no login is left and lingering is off, and the end of a Slurm step or job.
"""

from __future__ import annotations

import getpass
import os
import re
import subprocess
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

_LOGIND_CONF = (
    "usr/lib/systemd/logind.conf",
    "usr/lib/systemd/logind.conf.d",
    "etc/systemd/logind.conf",
    "run/systemd/logind.conf.d",
    "etc/systemd/logind.conf.d",
)


@dataclass(frozen=True, slots=True)
class Lasting:
    survives: bool | None
    """None: could not be found out."""
    sentence: str
    """What the operator should know, with what to do."""
    facts: tuple[str, ...] = ()


def lasting(
    *,
    root: Path = Path("/"),
    environ: Mapping[str, str] | None = None,
    user: str | None = None,
    ask_logind: Callable[[], str | None] | None = None,
) -> Lasting:
    """What becomes of a server when this login ends. ``root`` and the rest stand in for the machine in tests.

    Reads files; asks logind over its bus once (at most 2 s) where there is one.
    """
    env = os.environ if environ is None else environ
    name = user or _user()
    cgroup = _read(root / "proc/self/cgroup")
    slurm = _slurm(env, cgroup)
    if slurm is not None:
        return slurm
    linger = (root / "var/lib/systemd/linger" / name).exists()
    facts = [f"lingering is {'on' if linger else 'off'} for {name}"]
    if not (root / "run/systemd/system").exists():
        return Lasting(True, "servers stay when the login ends (no systemd here)", tuple(facts))
    path = cgroup.strip().rsplit(":", 1)[-1]
    if re.search(r"/user@\d+\.service/", path + "/"):
        if linger:
            return Lasting(True, "servers stay when the login ends (lingering is on)", tuple(facts))
        return Lasting(
            False,
            "servers end with your last login: this shell belongs to your user service manager and lingering is off. "
            "Turn it on once: loginctl enable-linger",
            tuple(facts),
        )
    kills = _kill_user_processes(root, name, ask_logind if ask_logind is not None else _busctl)
    if kills is None:
        facts.append("KillUserProcesses could not be read")
        return Lasting(None, "whether servers stay when the login ends could not be found out", tuple(facts))
    facts.append(f"KillUserProcesses is {'on' if kills else 'off'} for {name}")
    if not kills or not re.search(r"/session-[^/]+\.scope", path):
        return Lasting(True, "servers stay when the login ends", tuple(facts))
    first = "" if linger else "loginctl enable-linger, then "
    return Lasting(
        False,
        "this node ends everything that a login leaves behind (KillUserProcesses=yes). To keep servers and runs: "
        f"{first}start spectui by: systemd-run --user --scope spectui",
        tuple(facts),
    )


def _slurm(env: Mapping[str, str], cgroup: str) -> Lasting | None:
    job = env.get("SLURM_JOB_ID")
    found = re.search(r"/job_(\d+)(?:/step_(\w+))?", cgroup)
    if found is None and (job is None or ("slurm" not in cgroup and "SLURM_STEP_ID" not in env)):
        # A variable alone may have been carried into a shell outside the job.
        return None
    number = found.group(1) if found else job
    step = (found.group(2) if found else None) or env.get("SLURM_STEP_ID")
    what = f"step {number}.{step}" if step else f"job {number}"
    text = f"Slurm ends all processes of {what} when it ends"
    if found and found.group(2) == "extern":
        text = f"Slurm ends what was started over ssh when job {number} ends"
    end = env.get("SLURM_JOB_END_TIME", "")
    if end.isdigit():
        text += f"; the job's time is over at epoch second {end}"
    hint = "Start servers from a step that lives as long as they should (the batch script, or srun --overlap)"
    return Lasting(False, f"{text}. {hint}", (f"Slurm {what}",))


def _kill_user_processes(root: Path, user: str, ask: Callable[[], str | None]) -> bool | None:
    settings = _settings(root)
    if user in settings.get("KillExcludeUsers", "root").split():
        return False
    only = settings.get("KillOnlyUsers", "").split()
    answer = ask()
    value = answer if answer is not None else settings.get("KillUserProcesses", "no")
    on = value.strip().lower() in ("yes", "true", "1", "on", "b true")
    return on and (not only or user in only)


def _settings(root: Path) -> dict[str, str]:
    """The last value of each key of ``[Login]`` over all of logind's files, in the order that systemd reads them."""
    found: dict[str, str] = {}
    for place in _LOGIND_CONF:
        path = root / place
        files: Sequence[Path] = sorted(path.glob("*.conf")) if path.is_dir() else [path]
        for file in files:
            for line in _read(file).splitlines():
                key, has, value = line.partition("=")
                if has and not line.lstrip().startswith(("#", ";")):
                    found[key.strip()] = value.strip()
    return found


def _busctl() -> str | None:
    command = ["busctl", "get-property", "org.freedesktop.login1", "/org/freedesktop/login1"]
    command += ["org.freedesktop.login1.Manager", "KillUserProcesses"]
    try:
        done = subprocess.run(command, stdin=subprocess.DEVNULL, capture_output=True, text=True, timeout=2, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() if done.returncode == 0 and done.stdout.strip() else None


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
