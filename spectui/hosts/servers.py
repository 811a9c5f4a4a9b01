"""Starts servers that outlive the terminal, and finds again those it started."""

from __future__ import annotations

import getpass
import os
import shutil
import signal
import subprocess
import time
import uuid
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from spectui.core.launch_line import kind_of
from spectui.core.redact import hide_argv, hide_env
from spectui.hosts import children, elsewhere
from spectui.hosts import records as _records
from spectui.hosts.commands import container_name, with_keys
from spectui.hosts.gpus import GpuPanel, read_once
from spectui.hosts.ports import holder
from spectui.hosts.processes import MARKER, identify
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.stop import StopOutcome, stop
from spectui.hosts.watch import ServerState, ServerWatch, watch
from spectui.store.secrets import SecretError, resolve

__all__ = [
    "LaunchError",
    "LaunchPlan",
    "ServerRecord",
    "ServerState",
    "ServerWatch",
    "StopOutcome",
    "alive",
    "check",
    "child_environment",
    "find_record",
    "launch",
    "records",
    "stop",
    "watch",
]

LOOPBACK = ("localhost", "127.0.0.1", "::1", "0.0.0.0")  # noqa: S104 - names for a list of exceptions, not an address

_SET_IT = "Set it, or change the reference in the profile."
_CHECK_PROGRAM = "Check the interpreter or the command of the profile."


class LaunchError(Exception):
    """A server could not be started; ``str()`` is one line: what, where, what to do next."""

    def __init__(self, what: str, where: str, next_step: str) -> None:
        super().__init__(f"{where}: {what}. {next_step}")
        self.what = what
        self.where = where
        self.next = next_step


@dataclass(frozen=True, slots=True)
class LaunchPlan:
    """All that a launch needs. ``argv`` and ``env`` may hold references to keys (``env:NAME``, ``file:PATH``)."""

    name: str
    argv: tuple[str, ...]
    host: str
    port: int
    log_path: str
    env: Mapping[str, str] = field(default_factory=dict)
    cwd: str | None = None
    gpus: tuple[str, ...] = ()
    """NVML indices or UUIDs; empty leaves the choice to the environment."""
    profile: str | None = None
    simulated: bool = False
    nccl_port: int | None = None
    derived_ports: tuple[int, ...] = ()
    key: str | None = None
    admin_key: str | None = None
    inherit: bool = True
    """Its environment is spectui's own with ``env`` over it; False: ``env`` is all of it."""


def check(plan: LaunchPlan) -> None:
    """What would keep this from starting, found before another server is ended for it. Raises :class:`LaunchError`."""
    where = f"server {plan.name}"
    try:
        with_keys(plan.argv, resolve)
        env = child_environment(plan, os.environ)
    except SecretError as error:
        raise LaunchError(str(error), where, _SET_IT) from error
    if plan.cwd is not None and not Path(plan.cwd).is_dir():
        raise LaunchError(f"the working folder {plan.cwd} does not exist", where, "Change cwd in the profile.")
    program = plan.argv[0] if plan.argv else ""
    place = str(Path(plan.cwd or ".", program)) if "/" in program else program
    if shutil.which(place, path=env.get("PATH")) is None:
        raise LaunchError(f"{program or '(empty command)'}: no such program", where, _CHECK_PROGRAM)


def launch(plan: LaunchPlan, *, folder: Path | None = None, panel: GpuPanel | None = None) -> ServerRecord:
    """Start the server in a process session of its own, with its output in a file, and write its record.

    ``panel``: a fresh reading of the GPUs, from before the start; without one they are read once (at most 0.8 s).
    The server has no terminal and no pipe to spectui: neither a hang-up nor the end of spectui reaches it.
    Raises :class:`LaunchError`.
    """
    where = f"server {plan.name}"
    _refuse_taken(plan, folder, where)
    try:
        argv = with_keys(plan.argv, resolve)
        marker = uuid.uuid4().hex
        env = child_environment(plan, os.environ) | {MARKER: marker}
    except SecretError as error:
        raise LaunchError(str(error), where, _SET_IT) from error
    if panel is None:
        panel = read_once(0.8)
    before = {r.uuid: r.memory_used for r in panel.readings if r.memory_used is not None}
    others = {r.uuid: sum(m or 0 for _, m in r.processes) for r in panel.readings}
    process = _start(elsewhere.labelled(argv, marker), env, plan, where)
    children.keep(process)
    identity = identify(process.pid)
    record = ServerRecord(
        name=plan.name,
        id=marker,
        pid=process.pid,
        start_time=identity.start_time if identity else time.time(),
        ticks=identity.ticks if identity else None,
        boot=identity.boot if identity else None,
        host=plan.host,
        port=plan.port,
        argv=hide_argv(plan.argv),
        log_path=plan.log_path,
        node=os.uname().nodename,
        pgid=process.pid,  # a new session's leader leads its group too
        sid=process.pid,
        uid=os.getuid(),
        user=_user(),
        when=time.time(),
        cwd=plan.cwd or os.getcwd(),
        env=hide_env(dict(plan.env) | _gpu_environment(plan)),
        profile=plan.profile,
        kind=kind_of(argv),
        container=container_name(argv),
        simulated=plan.simulated,
        gpus=plan.gpus,
        nccl_port=plan.nccl_port,
        derived_ports=plan.derived_ports,
        memory_before=before,
        others_before=others,
        key=plan.key,
        admin_key=plan.admin_key,
    )
    try:
        _records.save(record, folder)
    except OSError as error:
        # Without a record nobody could find or stop it again.
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        children.forget(process.pid)
        raise LaunchError(
            f"its record cannot be written ({error.strerror})", where, "Free space or fix the folder's rights."
        ) from error
    return record


def records(folder: Path | None = None) -> list[ServerRecord]:
    """Every server that spectui started and whose record was not removed, the newest first."""
    return _records.read_all(folder)[0]


def find_record(name: str, folder: Path | None = None) -> ServerRecord | None:
    return next((r for r in records(folder) if r.name == name), None)


def child_environment(plan: LaunchPlan, inherited: Mapping[str, str]) -> dict[str, str]:
    """The server's environment: inherited, then the plan's own (keys resolved), loopback kept off any proxy.

    Raises :class:`SecretError`.
    """
    env = (dict(inherited) if plan.inherit else {}) | _gpu_environment(plan)
    env |= {name: resolve(value, inherited) for name, value in plan.env.items()}
    for name in ("no_proxy", "NO_PROXY"):
        have = [w for w in env.get(name, "").split(",") if w.strip()]
        env[name] = ",".join(have + [w for w in LOOPBACK if w not in (h.strip() for h in have)])
    env.setdefault("PYTHONUNBUFFERED", "1")  # lines reach the log when they are written
    env.pop(MARKER, None)
    return env


def _gpu_environment(plan: LaunchPlan) -> dict[str, str]:
    if not plan.gpus:
        return {}
    # Numbers are NVML's, which are those of the bus order only.
    return {"CUDA_DEVICE_ORDER": "PCI_BUS_ID", "CUDA_VISIBLE_DEVICES": ",".join(plan.gpus)}


def _refuse_taken(plan: LaunchPlan, folder: Path | None, where: str) -> None:
    other = find_record(plan.name, folder)
    if other is not None and alive(other):
        raise LaunchError(
            f"a server of this name runs already (pid {other.pid}, port {other.port})",
            where,
            "Stop it first or choose another name.",
        )
    if elsewhere.on_another_node(kind_of(plan.argv), plan.host):
        return  # the port is the other node's
    taken = holder(plan.port)
    if taken is not None:
        raise LaunchError(f"port {plan.port} is taken by {taken.text}", where, "Choose another port or end that.")


def _start(argv: Sequence[str], env: Mapping[str, str], plan: LaunchPlan, where: str) -> subprocess.Popen[bytes]:
    log = Path(plan.log_path)
    try:
        log.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        if shutil.disk_usage(log.parent).free < 1024**2:
            raise LaunchError("the disk of its log is full", str(log), "Free some space or choose another folder.")
        descriptor = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_TRUNC, 0o600)
    except OSError as error:
        raise LaunchError(
            f"its log cannot be written ({error.strerror})", str(log), "Choose another folder."
        ) from error
    if plan.cwd is not None and not Path(plan.cwd).is_dir():
        os.close(descriptor)
        raise LaunchError(f"the working folder {plan.cwd} does not exist", where, "Change cwd in the profile.")
    try:
        return subprocess.Popen(
            list(argv),
            stdin=subprocess.DEVNULL,
            stdout=descriptor,
            stderr=descriptor,
            cwd=plan.cwd,
            env=dict(env),
            start_new_session=True,
        )
    except (OSError, ValueError, IndexError) as error:
        reasons: dict[type[Exception], str] = {
            FileNotFoundError: "no such program",
            PermissionError: "not permitted to run it",
        }
        reason = reasons.get(type(error))
        first = plan.argv[0] if plan.argv else "(empty command)"
        raise LaunchError(f"{first}: {reason or error}", where, _CHECK_PROGRAM) from error
    finally:
        os.close(descriptor)


def _user() -> str:
    try:
        return getpass.getuser()
    except (OSError, KeyError):
        return str(os.getuid())
