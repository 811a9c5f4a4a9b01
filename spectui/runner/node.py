"""What a run should know of the node it runs on: host, CPUs, GPUs, and which GPUs and environment an arm has."""

from __future__ import annotations

import os
import socket
from typing import TYPE_CHECKING, Any

from spectui.core.marks import Mark, environment_marks

if TYPE_CHECKING:
    from spectui.hosts.gpus import GpuPanel


def node_head(panel: GpuPanel | None) -> dict[str, Any]:
    """The ``node`` of a head row."""
    return {
        "host": socket.gethostname(),
        "cpus": os.cpu_count(),
        "driver": None if panel is None else panel.driver,
        "gpus": [] if panel is None else [{"uuid": r.uuid, "index": r.index, "name": r.name} for r in panel.readings],
        "gpu_state": "not sampled" if panel is None else panel.state,
    }


def gpus_of(pid: int | None, panel: GpuPanel | None) -> tuple[str, ...]:
    """UUIDs of the GPUs that a server's processes hold; empty where that cannot be seen."""
    if pid is None or panel is None:
        return ()
    import psutil

    try:
        root = psutil.Process(pid)
        family = {pid, *(child.pid for child in root.children(recursive=True))}
    except psutil.Error:
        return ()
    return tuple(r.uuid for r in panel.readings if r.pids and family.intersection(r.pids))


def environment_of(pid: int | None) -> tuple[Mark, ...]:
    """Marks that the environment of a server on this node puts on its results; none where its process is not known."""
    if pid is None:
        return ()
    try:
        with open(f"/proc/{pid}/environ", "rb") as file:
            entries = file.read().split(b"\0")
    except OSError:
        return environment_marks(None)
    pairs = (entry.decode("utf-8", "replace").partition("=") for entry in entries if entry)
    return environment_marks({name: value for name, _, value in pairs})
