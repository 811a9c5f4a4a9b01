"""Servers that run on this node already, whoever started them: found by command line or title, and by their port."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import psutil

from spectui.core.gpu import GpuReading
from spectui.core.redact import hide_argv
from spectui.hosts.command_lines import DEFAULT_HOST, matches, port_of, settings_of
from spectui.hosts.gpu_facts import gpus_of
from spectui.hosts.processes import marker
from spectui.hosts.records import ServerRecord, alive, read_all
from spectui.hosts.sockets import Sockets
from spectui.hosts.supervision import Supervision, supervision
from spectui.hosts.visible import Visible, map_visible


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


def _scan() -> list[Row]:
    """Every process that may be looked at. Straight from procfs where there is one: psutil takes six times as long."""
    if not os.path.exists("/proc/self/stat"):
        return _scan_by_psutil()
    found = []
    for entry in os.listdir("/proc"):
        if not entry.isdecimal():
            continue
        try:
            with open(f"/proc/{entry}/stat", "rb") as file:
                stat = file.read()
            with open(f"/proc/{entry}/cmdline", "rb") as file:
                words = file.read()
        except OSError:
            continue  # gone, or not ours to see
        name, rest = stat[stat.index(b"(") + 1 : stat.rindex(b")")], stat[stat.rindex(b")") + 2 :].split(None, 2)
        if rest[0] == b"Z":
            continue
        found.append(Row(int(entry), int(rest[1]), os.fsdecode(name), _words(os.fsdecode(words))))
    return found


def _words(text: str) -> tuple[str, ...]:
    """As psutil splits: a program that wrote its own title may have left blanks in place of zero bytes."""
    between = "\0" if text.endswith("\0") else " "
    words = text.removesuffix(between).split(between) if text else []
    return tuple(words[0].split(" ") if between == "\0" and len(words) == 1 else words)


def _scan_by_psutil() -> list[Row]:
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
    port = port_of(settings)
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
