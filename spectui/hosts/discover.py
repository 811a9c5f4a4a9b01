"""Servers that run on this node already, whoever started them: found by command line or title, and by their port."""

from __future__ import annotations

import os
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from spectui.core.gpu import GpuReading
from spectui.core.redact import HIDDEN, hide_argv, is_secret, looks_secret
from spectui.hosts.gpu_facts import gpus_of
from spectui.hosts.processes import marker
from spectui.hosts.records import ServerRecord, alive, read_all
from spectui.hosts.sockets import Sockets
from spectui.hosts.supervision import Supervision, supervision
from spectui.hosts.visible import Visible, map_visible

DEFAULT_HOST, DEFAULT_PORT = "127.0.0.1", 30000
_INTERPRETER = re.compile(r"^(python|pypy)[\d.]*$")
_MODULES = {"sglang.launch_server": False, "spectui.engines.sim": True}


@dataclass(frozen=True, slots=True)
class Row:
    """What is read of every process of the machine: as little as possible."""

    pid: int
    ppid: int
    name: str
    cmdline: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FoundServer:
    pid: int
    """Its first process; for left-overs, the oldest of them."""
    host: str
    port: int
    argv: tuple[str, ...]
    """Keys left out."""
    settings: dict[str, str | bool]
    """Its arguments by flag name without dashes; a flag without a value is True. Keys left out."""
    user: str = ""
    start_time: float = 0.0
    cwd: str | None = None
    pids: tuple[int, ...] = ()
    """The whole tree."""
    listening: bool | None = None
    """Whether its port listens; None where another user's sockets cannot be seen."""
    gpus: tuple[int, ...] = ()
    """NVML indices its processes hold, where the driver shows them."""
    visible: Visible | None = None
    """By its environment, where that can be read and GPUs were given."""
    record: ServerRecord | None = None
    """spectui's own record of it: spectui started it."""
    supervised: Supervision | None = None
    simulated: bool = False
    leftover: bool = False
    """Workers whose first process is gone: they serve nothing and may hold memory."""

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "::": "::1", "": "127.0.0.1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def owned(self) -> bool:
        return self.record is not None


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


def find(
    readings: Iterable[GpuReading] = (),
    *,
    folder: Path | None = None,
    rows: Sequence[Row] | None = None,
) -> list[FoundServer]:
    """Servers of this node, by port. ``readings``: the latest of the GPUs, to tie servers to them.

    Two reads for each process of the machine; everything else is looked up for matches only.
    """
    all_ = _scan() if rows is None else rows
    known = read_all(folder)[0] if folder is not None or rows is None else []
    by_pid = {r.pid: r for r in all_}
    roots = {r.pid: sim for r in all_ if (sim := matches(r.cmdline)) is not None}
    children: dict[int, list[int]] = {}
    for r in all_:
        children.setdefault(r.ppid, []).append(r.pid)
    gpus = list(readings)
    found = []
    in_trees: set[int] = set()
    sockets = Sockets()
    for pid, sim in roots.items():
        if any(parent in roots for parent in _ancestors(pid, by_pid)):
            continue
        pids = _tree(pid, children)
        in_trees.update(pids)
        above = _ancestors(pid, by_pid)
        found.append(_describe(by_pid[pid], sim, pids, above, gpus, known, sockets))
    found += _leftovers(all_, in_trees, children, gpus, known)
    return sorted(found, key=lambda s: (s.leftover, s.port, s.pid))


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


def _scan() -> list[Row]:
    found = []
    for p in psutil.process_iter(["ppid", "name", "cmdline"]):  # one read of its stat file for the first two
        info = p.info
        if info["cmdline"] is None or info["ppid"] is None:
            continue
        found.append(Row(p.pid, info["ppid"], info["name"] or "", tuple(info["cmdline"])))
    return found


def _ancestors(pid: int, by_pid: Mapping[int, Row]) -> list[int]:
    found: list[int] = []
    parent = by_pid[pid].ppid
    while parent in by_pid and parent not in found:
        found.append(parent)
        parent = by_pid[parent].ppid
    return found


def _record_of(pid: int, start: float, above: Collection[int], known: Sequence[ServerRecord]) -> ServerRecord | None:
    """spectui's record of it: of itself, of a script or a prefix above it, or of a step that took its mark along."""
    mark = marker(pid) if known else None
    for record in known:
        if mark is not None and record.id == mark and record.here:
            return record
        if record.pid == pid:
            if record.here and abs(record.start_time - start) < 1.0:
                return record
        elif record.pid in above and alive(record):
            return record
    return None


def _tree(pid: int, children: Mapping[int, Sequence[int]]) -> tuple[int, ...]:
    out = [pid]
    for one in out:
        out += [c for c in children.get(one, ()) if c not in out]
    return tuple(out)


def _port(settings: Mapping[str, str | bool]) -> int:
    value = str(settings.get("port", DEFAULT_PORT))
    return int(value) if value.isdigit() else DEFAULT_PORT


def _describe(
    row: Row,
    sim: bool,
    pids: tuple[int, ...],
    above: Collection[int],
    gpus: Sequence[GpuReading],
    known: Sequence[ServerRecord],
    sockets: Sockets,
) -> FoundServer:
    settings = settings_of(row.cmdline)
    port = _port(settings)
    user, start, cwd, environ = "", 0.0, None, None
    try:
        process = psutil.Process(row.pid)
        start = process.create_time()
        user = process.username()
        cwd = str(process.cwd())
        environ = process.environ() if gpus else None
    except (psutil.Error, OSError, KeyError):
        pass  # another user's: what could be read until here is shown
    listening = sockets.listens(pids, port)
    record = _record_of(row.pid, start, above, known)
    visible = None
    if environ is not None:
        visible = map_visible(gpus, environ.get("CUDA_VISIBLE_DEVICES"), environ.get("CUDA_DEVICE_ORDER"))
    return FoundServer(
        pid=row.pid,
        host=str(settings.get("host", DEFAULT_HOST)),
        port=port,
        argv=hide_argv(row.cmdline),
        settings=settings,
        user=user,
        start_time=start,
        cwd=cwd,
        pids=pids,
        listening=listening,
        gpus=gpus_of(pids, gpus),
        visible=visible,
        record=record,
        supervised=None if record is not None else supervision(row.pid),
        simulated=sim,
    )


def _leftovers(
    rows: Sequence[Row],
    in_trees: set[int],
    children: Mapping[int, Sequence[int]],
    gpus: Sequence[GpuReading],
    known: Sequence[ServerRecord],
) -> list[FoundServer]:
    """Processes titled as SGLang's workers that hang below no server, one entry a process group."""
    groups: dict[int, list[Row]] = {}
    for row in rows:
        titled = bool(row.cmdline) and row.cmdline[0].startswith("sglang::")
        if titled and row.pid not in in_trees:
            try:
                group = os.getpgid(row.pid)
            except OSError:
                continue
            groups.setdefault(group, []).append(row)
    found = []
    for group, members in groups.items():
        pids = tuple(sorted(m.pid for m in members))
        record = next((r for r in known if r.here and r.pgid == group), None)
        user, start = "", 0.0
        try:
            process = psutil.Process(pids[0])
            user, start = process.username(), process.create_time()
        except (psutil.Error, KeyError):
            pass
        if record is not None and start < record.start_time:
            record = None
        found.append(
            FoundServer(
                pid=pids[0],
                host=record.host if record else DEFAULT_HOST,
                port=record.port if record else 0,
                argv=tuple(m.cmdline[0].split()[0] for m in members),
                settings={},
                user=user,
                start_time=start,
                pids=pids,
                listening=False,
                gpus=gpus_of(pids, gpus),
                record=record,
                leftover=True,
            )
        )
    return found


def _own_user() -> str:
    try:
        return str(psutil.Process().username())
    except (psutil.Error, KeyError):
        return str(os.getuid())
