"""A limit on the whole of an HTTP call. httpx limits each reading, so that headers which come byte by byte would go on
without an end; here the sockets under it look at one clock for the call that they serve."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import httpcore

if TYPE_CHECKING:
    import ssl

    import httpx


class Deadline:
    """Of the call that a thread is making; each thread has its own."""

    def __init__(self) -> None:
        self._own = threading.local()

    @contextmanager
    def within(self, until: float) -> Iterator[None]:
        """Until ``until`` (``time.monotonic``) sockets may wait."""
        self._own.until = until
        try:
            yield
        finally:
            self._own.until = None

    def left(self, timeout: float | None, late: type[Exception]) -> float | None:
        """What is left of the call, at most ``timeout``; raises ``late`` once nothing is."""
        until: float | None = getattr(self._own, "until", None)
        if until is None:
            return timeout
        left = until - time.monotonic()
        if left <= 0:
            raise late("the call's time is up")
        return left if timeout is None else min(left, timeout)

    def hold(self, client: httpx.Client) -> None:
        """Lets the client's connections look at this clock. httpx has no setting for it: where a version keeps its
        connections elsewhere, the limit of each reading stays."""
        for transport in (client._transport, *client._mounts.values()):
            pool = getattr(transport, "_pool", None)
            backend = getattr(pool, "_network_backend", None)
            if pool is not None and isinstance(backend, httpcore.NetworkBackend):
                pool._network_backend = _Backend(backend, self)


class _Backend(httpcore.NetworkBackend):
    def __init__(self, inner: httpcore.NetworkBackend, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def connect_tcp(
        self,
        host: str,
        port: int,
        timeout: float | None = None,
        local_address: str | None = None,
        socket_options: Iterable[Any] | None = None,
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_tcp(host, port, left, local_address, socket_options), self._deadline)

    def connect_unix_socket(
        self, path: str, timeout: float | None = None, socket_options: Iterable[Any] | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.connect_unix_socket(path, left, socket_options), self._deadline)

    def sleep(self, seconds: float) -> None:
        self._inner.sleep(seconds)


class _Stream(httpcore.NetworkStream):
    def __init__(self, inner: httpcore.NetworkStream, deadline: Deadline) -> None:
        self._inner = inner
        self._deadline = deadline

    def read(self, max_bytes: int, timeout: float | None = None) -> bytes:
        return self._inner.read(max_bytes, self._deadline.left(timeout, httpcore.ReadTimeout))

    def write(self, buffer: bytes, timeout: float | None = None) -> None:
        self._inner.write(buffer, self._deadline.left(timeout, httpcore.WriteTimeout))

    def close(self) -> None:
        self._inner.close()

    def start_tls(
        self, ssl_context: ssl.SSLContext, server_hostname: str | None = None, timeout: float | None = None
    ) -> httpcore.NetworkStream:
        left = self._deadline.left(timeout, httpcore.ConnectTimeout)
        return _Stream(self._inner.start_tls(ssl_context, server_hostname, left), self._deadline)

    def get_extra_info(self, info: str) -> Any:
        return self._inner.get_extra_info(info)
