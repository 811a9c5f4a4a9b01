"""How requests of a run reach a server and how its bytes come back, behind one small interface.

The measuring transport is an epoll loop with the kernel's receive stamps (:mod:`spectui.runner.epoll`). Where TLS or
a proxy is in the way, or the system has no epoll, httpx in threads serves (:mod:`spectui.runner.threaded`); it is
slower, and the journal says which it was.
"""

from __future__ import annotations

import os
import select
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Protocol
from urllib.parse import urlsplit

from spectui.engines.sglang.address import dialled
from spectui.runner.record import Ending

BODY_LIMIT = 64 * 1024
"""So much is kept of an answer that is no stream (an error page)."""


@dataclass(frozen=True, slots=True)
class Call:
    """One POST of JSON. ``path`` begins with a slash and is joined to the path of the server's URL."""

    path: str
    body: bytes


class Sink(Protocol):
    """Where the bytes of one exchange go. All calls come from inside ``poll``, ``start`` or ``stop``."""

    def sent(self, t_ns: int) -> None:
        """The request is being handed to the kernel now; called again when it is sent again."""

    def received(self, heard: list[tuple[bytes, int]]) -> int:
        """Bytes of a 200 answer's body, each with the time of its receipt; gives the time of the end mark, or 0 while
        more is expected."""

    def ended(self, ending: Ending) -> None:
        """The exchange is over; called exactly once."""


class Exchange(Protocol):
    """A request in flight."""

    @property
    def open(self) -> bool: ...


class Transport(Protocol):
    name: str
    stamps: str
    """kernel (receive stamps) or user (the clock, once the program has read)."""

    @property
    def lag(self) -> Lag: ...

    def start(self, call: Call, sink: Sink) -> Exchange:
        """Sends a request. Never raises for the server's state: the sink is told."""

    def poll(self, timeout_s: float) -> None:
        """Waits at most so long for an exchange to end, and tells the sinks. Of streams in their middle the sinks may
        hear later: when the time is up, or by :meth:`settle`."""

    def settle(self) -> None:
        """Tells the sinks all that was read so far."""

    def stop(self, exchange: Exchange) -> None:
        """Ends a request in flight by closing its connection, which makes SGLang abort it."""

    def close(self) -> None: ...


class Lag:
    """How long received bytes lay in the kernel before they were read: the client's own lateness.

    Counted in classes of 16 µs up to 67 ms, so that memory does not grow with the run.
    """

    __slots__ = ("_classes", "late", "reads")
    LATE_NS = 5_000_000
    _SHIFT = 14

    def __init__(self) -> None:
        self._classes = [0] * 4097
        self.reads = 0
        self.late = 0

    def add(self, lag_ns: int) -> None:
        self.reads += 1
        if lag_ns > self.LATE_NS:
            self.late += 1
        place = lag_ns >> self._SHIFT
        self._classes[0 if place < 0 else min(place, 4096)] += 1

    def p99_ms(self) -> float | None:
        """Upper edge of the class that holds the 99th percentile; None where nothing was read."""
        if not self.reads:
            return None
        left = self.reads - self.reads // 100
        for place, count in enumerate(self._classes):
            left -= count
            if left <= 0:
                return round(((place + 1) << self._SHIFT) / 1e6, 3)
        return None

    def late_share(self) -> float | None:
        """Share of reads that came more than 5 ms after the bytes; None where nothing was read."""
        return round(self.late / self.reads, 5) if self.reads else None

    def clear(self) -> None:
        self._classes = [0] * 4097
        self.reads = self.late = 0


@dataclass(frozen=True, slots=True)
class Place:
    """A server's address, taken apart."""

    scheme: str
    host: str
    port: int
    prefix: str
    """Path before the routes, without a trailing slash."""
    header: str
    """Value of the Host header."""
    base: str


def place_of(url: str) -> Place:
    """The address to dial: 0.0.0.0 and :: become loopback. Raises BadAddress (engines/sglang/errors.py)."""
    base = dialled(url)
    parts = urlsplit(base)
    host = parts.hostname or ""
    port = parts.port or (443 if parts.scheme == "https" else 80)
    shown = f"[{host}]" if ":" in host else host
    header = shown if parts.port is None else f"{shown}:{port}"
    return Place(parts.scheme, host, port, parts.path.rstrip("/"), header, base)


def head_of(place: Place, call: Call, headers: Mapping[str, str]) -> bytes:
    """Request line and headers of a call."""
    lines = [
        f"POST {place.prefix}{call.path} HTTP/1.1",
        f"Host: {place.header}",
        "Content-Type: application/json",
        "Accept: text/event-stream",
        "Accept-Encoding: identity",
        f"Content-Length: {len(call.body)}",
        *(f"{name}: {value}" for name, value in headers.items()),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def open_transport(
    url: str, *, key: str | None = None, silence_s: float = 600.0, proxy: str | None = None, kind: str | None = None
) -> Transport:
    """The best transport for a server. ``silence_s``: so long may a stream say nothing, keep-alives included.

    Proxies of the environment are not used; ``proxy`` names one. ``kind`` (epoll, httpx) forces a choice.
    """
    place = place_of(url)
    headers = {"Authorization": f"Bearer {key}"} if key else {}
    fit = place.scheme == "http" and proxy is None and hasattr(select, "epoll")
    if kind == "epoll" or (kind is None and fit):
        from spectui.runner.epoll import EpollTransport

        return EpollTransport(place, headers, silence_s=silence_s)
    from spectui.runner.threaded import ThreadedTransport

    return ThreadedTransport(place, headers, silence_s=silence_s, proxy=proxy)


def words_of_errno(number: int, place: Place) -> str:
    """Why a connection failed, in words fit for a line on the screen."""
    return f"{place.header}: {os.strerror(number).lower()}"
