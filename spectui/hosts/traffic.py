"""Whether someone is sending requests to a server now, and the settings it tells: asked quickly, of many at once."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable

LIMIT_S = 2.0


@dataclass(frozen=True, slots=True)
class Traffic:
    running: int | None = None
    waiting: int | None = None
    why: str = ""
    """Why it is not known; empty where it is."""
    algorithm: str = ""
    version: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Speculative settings in force, by neutral name; empty where the server did not tell."""

    @property
    def busy(self) -> bool | None:
        """None: not known."""
        if self.running is None:
            return None
        return bool(self.running or self.waiting)

    @property
    def text(self) -> str:
        if self.running is None:
            return f"requests not known ({self.why})" if self.why else "requests not known"
        waiting = f", {self.waiting} waiting" if self.waiting else ""
        return f"{self.running} running{waiting}" if self.busy else "idle"


def requests_now(client: SglangClient, reading: MetricsReading | MetricsUnavailable) -> tuple[int | None, int | None]:
    """(running, waiting): by the gauges where they say none, else by ``/v1/loads`` where the server has it.

    The gauges of SGLang 0.4.9-0.5.23 are written once a log interval and keep their last value for some 30 s after the
    last request has ended, so that "1 running" may be one that is long done; the load is published at once.
    """
    from spectui.engines.sglang.errors import EngineError
    from spectui.engines.sglang.metrics import MetricsUnavailable

    gauges = (None, None) if isinstance(reading, MetricsUnavailable) else (reading.running, reading.queued)
    if gauges[0] == 0 and not gauges[1]:
        return gauges
    try:
        known = [load for load in client.loads() or () if load.running is not None]
    except EngineError:
        known = []
    if not known:
        return gauges
    return sum(load.running or 0 for load in known), sum(load.waiting or 0 for load in known)


def look(url: str, *, key: str | None = None, settings: bool = True, limit_s: float = LIMIT_S) -> Traffic:
    """Asks one server: its metrics, else its load; with ``settings`` also what is in force. Never raises for a server.

    ``key``: the key itself. Nothing is generated: a health call would be a request of our own.
    """
    import httpx  # noqa: F401 - a machine under load takes a second for it, which is not the server's

    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.errors import EngineError
    from spectui.engines.sglang.metrics import MetricsUnavailable

    running = waiting = None
    why = algorithm = version = ""
    in_force: dict[str, Any] = {}
    try:
        with SglangClient(url, key=key, timeout=limit_s) as client:
            reading = client.metrics()
            if isinstance(reading, MetricsUnavailable):
                if reading.kind == "down":
                    return Traffic(why="it does not answer")
                why = reading.reason
            running, waiting = requests_now(client, reading)
            if settings:
                info = client.info()
                algorithm, version, in_force = info.algorithm, info.version, dict(info.settings)
    except EngineError as error:
        why = why or error.what
    return Traffic(running, waiting, "" if running is not None else why, algorithm, version, in_force)


def look_all(
    urls: Iterable[str], *, keys: Mapping[str, str] | None = None, quiet: Iterable[str] = (), limit_s: float = LIMIT_S
) -> dict[str, Traffic]:
    """:func:`look` at each, side by side. ``quiet``: those being measured, whose settings are not asked for."""
    asked, unasked = list(dict.fromkeys(urls)), set(quiet)
    if not asked:
        return {}

    def one(url: str) -> Traffic:
        return look(url, key=(keys or {}).get(url), settings=url not in unasked, limit_s=limit_s)

    with ThreadPoolExecutor(max_workers=min(16, len(asked))) as pool:
        return dict(zip(asked, pool.map(one, asked), strict=True))
