"""Gathers what the probes need to know: from the server, from its processes on this node, from its log."""

from __future__ import annotations

from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spectui.engines.sglang.errors import EngineError, NotReachable, NotSglang, TimedOut
from spectui.engines.sglang.info import ServerInfo
from spectui.engines.sglang.metrics import MetricsReading

if TYPE_CHECKING:
    from spectui.checks._subject import Subject

TOKEN_LIMIT_S = 15.0
_LOG_TAIL = 8 * 1024**2


def reach(subject: Subject) -> None:
    """Health, counters, one real token, settings; in this order, so that the counters are those of before the check.

    Raises NotReachable where nothing listens, NotSglang where something else does.
    """
    client = subject.client
    assert client is not None
    subject.health = client.health()
    if isinstance(subject.health, NotReachable) and not isinstance(subject.health, TimedOut):
        raise subject.health
    if subject.health in (404, 405):
        subject.info = client.probe()  # raises NotSglang for a stranger
    metrics = client.metrics()
    if isinstance(metrics, MetricsReading):
        # A counter appears with its first increment.
        subject.generated_before = metrics.counters.get("generation_tokens_total", 0.0)
    try:
        subject.token = client.generate_one(timeout=TOKEN_LIMIT_S)
    except EngineError as error:
        subject.token = error
    if subject.info is not None:
        return
    try:
        # A probe may wait for a token of its own, which a server that generates nothing never gives.
        subject.info = client.probe() if subject.serves else client.info()
    except NotSglang:
        raise
    except EngineError as error:
        subject.info_why = f"its settings cannot be read: {error.what}"
        return
    if subject.generated_before is None and _says_unused(subject.info):
        subject.generated_before = 0.0


def _says_unused(info: ServerInfo) -> bool:
    """A speculating server that has no average yet has made fewer steps than one log window."""
    return bool(info.speculates and info.ranks and all(rank.accept_length is None for rank in info.ranks))


def look_at_node(subject: Subject, *, gpus: bool = True) -> None:
    """Processes, environment, GPUs and log, where the server runs on this node."""
    import psutil

    from spectui.hosts import discover
    from spectui.hosts.gpus import read_once

    parts = urlsplit(subject.url)
    if not _is_here(parts.hostname or ""):
        subject.log_why = "the server is on another node"
        return
    panel = read_once() if gpus else None
    found = discover.find(panel.readings if panel is not None else ())
    subject.leftovers = tuple(server for server in found if server.leftover)
    subject.server = next((s for s in found if not s.leftover and s.port == parts.port), None)
    if subject.server is None:
        subject.environment_why = (
            "no process of this node is known to serve that port (a container or a tunnel, perhaps)"
        )
        subject.gpus_why = subject.environment_why
        return
    subject.gpus = panel
    try:
        subject.environment = psutil.Process(subject.server.pid).environ()
    except (psutil.Error, OSError):
        subject.environment_why = "the server's environment cannot be read (another user's process)"
    if subject.server.record is not None:
        read_log(subject, subject.server.record.log_path)


def read_log(subject: Subject, path: str) -> None:
    from spectui.engines.sglang.log import LogReader

    try:
        with open(path, "rb") as file:
            size = file.seek(0, 2)
            file.seek(max(0, size - _LOG_TAIL))
            text = file.read().decode("utf-8", "replace")
    except OSError as error:
        subject.log_why = f"its log cannot be read: {path}: {error.strerror}"
        return
    reader = LogReader()
    reader.feed(text)
    subject.log = reader
    subject.log_lines = tuple(text.splitlines())


def _is_here(host: str) -> bool:
    import socket

    if host in ("127.0.0.1", "localhost", "::1", "0.0.0.0", "::"):  # noqa: S104
        return True
    return host.split(".")[0] == socket.gethostname().split(".")[0]
