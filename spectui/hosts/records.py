"""What is kept of each server that spectui started: enough to find it again, to prove it is the same, and to stop it.

One JSON file a server, mode 0600, in the folder of servers. Keys are never in it.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import tempfile
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

from spectui.hosts.processes import Identity, boot_id, same

SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ServerRecord:
    name: str
    id: str
    """Also in the environment of its processes, as ``SPECTUI_SERVER``."""
    pid: int
    start_time: float
    """Epoch seconds, as the system tells of the process."""
    host: str
    port: int
    argv: tuple[str, ...]
    """Keys left out."""
    log_path: str
    ticks: int | None = None
    boot: str | None = None
    node: str = ""
    pgid: int = 0
    sid: int = 0
    uid: int = 0
    user: str = ""
    when: float = 0.0
    """Epoch seconds of the launch."""
    cwd: str = ""
    env: dict[str, str] = field(default_factory=dict)
    """What the launch set beyond the inherited environment; values that look like keys left out."""
    profile: str | None = None
    kind: str = "plain"
    """plain, docker, srun or ssh: what its first process is."""
    container: str | None = None
    simulated: bool = False
    gpus: tuple[str, ...] = ()
    nccl_port: int | None = None
    derived_ports: tuple[int, ...] = ()
    memory_before: dict[str, int] = field(default_factory=dict)
    """GPU UUID -> bytes in use before the start; empty where GPUs could not be read."""
    others_before: dict[str, int] = field(default_factory=dict)
    """GPU UUID -> bytes that listed processes held before the start."""
    key: str | None = None
    """Reference to its API key."""
    admin_key: str | None = None

    @property
    def url(self) -> str:
        host = {"0.0.0.0": "127.0.0.1", "": "127.0.0.1", "::": "::1"}.get(self.host, self.host)  # noqa: S104
        return f"http://[{host}]:{self.port}" if ":" in host else f"http://{host}:{self.port}"

    @property
    def identity(self) -> Identity:
        return Identity(self.pid, self.start_time, self.ticks, self.boot)

    @property
    def here(self) -> bool:
        """Whether it was started on this node since its last boot; a folder shared by nodes holds others' too."""
        return (self.boot is None or self.boot == boot_id()) and self.node in ("", os.uname().nodename)


def alive(record: ServerRecord) -> bool:
    """Whether the record's own process still runs: its pid *and* its start must be the recorded ones."""
    return record.here and same(record.identity) is not None


def default_folder() -> Path:
    from spectui.store.locations import servers_dir

    return servers_dir()


def path_of(record: ServerRecord, folder: Path | None = None) -> Path:
    return (folder or default_folder()) / f"{file_name(record.name)}.json"


def file_name(name: str) -> str:
    """A name as a file's: letters, digits and a few signs, never hidden, never a path."""
    return re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip(".-")[:80] or "server"


def save(record: ServerRecord, folder: Path | None = None) -> Path:
    """Write the record so that a reader sees the old one or the new one, never half. Raises ``OSError``."""
    target = path_of(record, folder)
    target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
    write_whole(target, json.dumps({"schema": SCHEMA, **asdict(record)}, indent=1))
    return target


def write_whole(target: Path, text: str) -> None:
    descriptor, name = tempfile.mkstemp(dir=target.parent, prefix=f".{target.name}.")  # made with mode 0600
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as f:
            f.write(text)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


def remove(record: ServerRecord, folder: Path | None = None) -> None:
    """Forget the server, unless its name has been given to another since."""
    target = path_of(record, folder)
    with contextlib.suppress(OSError, ValueError):
        if load(target).id == record.id:
            target.unlink()


def load(path: Path) -> ServerRecord:
    """Raises ``OSError`` or ``ValueError`` (what is wrong, in which file)."""
    try:
        data = json.loads(path.read_text(encoding="utf-8"))
    except (UnicodeDecodeError, json.JSONDecodeError) as error:
        raise ValueError(f"{path}: not a server record ({error})") from error
    if not isinstance(data, dict):
        raise ValueError(f"{path}: not a server record (no JSON object)")
    return _from(data, path)


def read_all(folder: Path | None = None) -> tuple[list[ServerRecord], list[str]]:
    """All records, the newest first, and one line for each file that could not be read."""
    found: list[ServerRecord] = []
    faults: list[str] = []
    for path in sorted((folder or default_folder()).glob("*.json")):
        if path.name.startswith("."):
            continue
        try:
            found.append(load(path))
        except (OSError, ValueError) as error:
            faults.append(str(error))
    return sorted(found, key=lambda r: -r.when), faults


def _from(data: Mapping[str, Any], path: Path) -> ServerRecord:
    known = {f.name: f for f in fields(ServerRecord)}
    values = {k: v for k, v in data.items() if k in known}
    lists = ("argv", "gpus", "derived_ports")
    kinds: dict[str, Any] = {"pid": int, "port": int, "start_time": (int, float), "pgid": int, "sid": int, "uid": int}
    kinds |= dict.fromkeys(("name", "id", "host", "log_path", "node", "cwd", "kind", "user"), str)
    kinds |= dict.fromkeys(lists, list) | dict.fromkeys(("env", "memory_before", "others_before"), dict)
    for name, kind in kinds.items():
        if name in values and (not isinstance(values[name], kind) or isinstance(values[name], bool)):
            raise ValueError(f"{path}: {name} is {values[name]!r}, which no record has")
    for name in lists:
        if name in values:
            values[name] = tuple(values[name])
    try:
        return ServerRecord(**values)
    except TypeError as error:
        missing = [
            n for n in ("name", "id", "pid", "start_time", "host", "port", "argv", "log_path") if n not in values
        ]
        raise ValueError(f"{path}: {', '.join(missing)} missing") from error
