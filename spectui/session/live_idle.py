"""What a server says of itself while nothing of ours runs on it, and which of its sources says so."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from spectui.engines.sglang.batchlines import DecodeLine
from spectui.engines.sglang.info import ServerInfo
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable, live

GAUGE = "/metrics gauge"
LAST_GAUGE = "/metrics, last window"
LIFETIME = "/server_info, mean since its start or last flush"
STILL = "still"
"""The gauge says that requests run, and no token came since the last look: it holds its last window."""
LOG = "last decode line of its log"
_NUMBERS = frozenset("0123456789")


@dataclass(frozen=True, slots=True)
class Idle:
    """What the server says of itself while spectui does not measure it."""

    running: int | None = None
    queued: int | None = None
    accept_length: str = ""
    """``2.87``, ``off`` without speculation, or why there is none."""
    tokens_per_s: float | None = None
    state: str = "unknown"
    """busy, idle, still or unknown."""
    note: str = ""
    """Why there are no metrics."""
    source: str = ""
    """Where the accept length comes from; empty where there is none."""
    metrics_off: bool = False
    """The server was launched without ``--enable-metrics``: a relaunch turns them on."""
    at: float | None = None
    """When it was said, epoch seconds."""


def idle_of(
    info: ServerInfo,
    before: MetricsReading | None,
    reading: MetricsReading | MetricsUnavailable,
    lines: Sequence[DecodeLine],
    now: float,
) -> Idle:
    """The gauge where there is one, else the log's last window, else the lifetime figure of ``/server_info``.

    ``lines``: decode lines of the server's log, the latest last; empty where it cannot be read.
    """
    if isinstance(reading, MetricsUnavailable):
        length, source = _without_gauge(info, lines)
        return Idle(None, None, length, None, "unknown", reading.reason, source, reading.kind == "off", now)
    shown = live(before, reading, speculates=info.speculates)
    still = shown.state == "busy" and before is not None and not _moved(before, reading)
    length, source = shown.shown_accept_length.removeprefix("last "), LAST_GAUGE if still or not shown.counts else GAUGE
    if not _is_number(length):
        length, source = _without_gauge(info, lines)
    state, speed = (STILL, 0.0) if still else (shown.state, shown.throughput)
    return Idle(reading.running, reading.queued, length, speed, state, "", source, False, now)


def _moved(before: MetricsReading, now: MetricsReading) -> bool:
    """Whether a token came in between. Only counters of every iteration can deny it; without them it is believed."""
    counted = [name for name in now.counters if name.startswith("realtime_")]
    return not counted or any(now.counters[name] != before.counters.get(name) for name in counted)


def _without_gauge(info: ServerInfo, lines: Sequence[DecodeLine]) -> tuple[str, str]:
    if info.speculates and not info.unreadable:
        last = next((line.accept_length for line in reversed(lines) if line.accept_length is not None), None)
        if last is not None:
            return f"{last:.2f}", LOG
    length = info.accept_length_in_force()
    return length, LIFETIME if _is_number(length) else ""


def _is_number(text: str) -> bool:
    return text[:1] in _NUMBERS and bool(text)


def idle_words(idle: Idle, now: float) -> str:
    """``idle, accept length 2.13 (/metrics, last window)``: what is shown of it, its age where it is old."""
    if idle.state == "busy" and (idle.running or idle.queued):
        one = "request" if idle.running == 1 else "requests"
        words = f"{idle.running} {one} running" if idle.running else "between requests"
        words += f", {idle.queued} queued" if idle.queued else ""
    elif idle.state == STILL:
        words = f"no token since the last look, its gauge holds {idle.running} running"
    else:
        words = "" if idle.state == "unknown" else "idle"
    length = ""
    if idle.accept_length and idle.accept_length != "off":
        length = f"accept length {idle.accept_length}{f' ({idle.source})' if idle.source else ''}"
    found = ", ".join(part for part in (words, length) if part)
    old = now - idle.at if idle.at is not None else 0.0
    return f"{found}, {old:.0f} s ago" if found and old >= 15 else found
