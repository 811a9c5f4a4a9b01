"""The slower transport, for what the epoll loop does not speak: TLS, a proxy, a system without epoll.

A thread a request reads from httpx and hands on stamped bytes; everything else happens in the thread that polls.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from spectui.engines.sglang.connection import certificates
from spectui.runner.record import Ending
from spectui.runner.transport import BODY_LIMIT, Call, Lag, Place, Sink

if TYPE_CHECKING:
    import httpx

_LINGER_S = 0.05
"""After the end mark: so long is waited for the end of the HTTP message, so that the connection can be used again."""
_LEAVE_S = 2.0
"""And so long before its socket is shut: by then no other request can have taken the connection over."""


class _Request:
    __slots__ = ("done_ns", "response", "sink", "stopped", "thread")

    def __init__(self, sink: Sink) -> None:
        self.sink: Sink | None = sink
        self.done_ns = 0
        """When the end mark was seen: what follows, and how the connection ends, does not matter."""
        self.stopped = False
        self.response: httpx.Response | None = None
        self.thread: threading.Thread | None = None

    @property
    def open(self) -> bool:
        return self.sink is not None


class ThreadedTransport:
    """One server, by httpx. Stamps are the clock's, read in the thread that received."""

    name = "httpx"
    stamps = "user"

    def __init__(
        self, place: Place, headers: Mapping[str, str], *, silence_s: float = 600.0, proxy: str | None = None
    ) -> None:
        import httpx

        self.lag = Lag()
        self._place = place
        self._silence_s = silence_s
        self._said: queue.SimpleQueue[tuple[_Request, str, Any, int]] = queue.SimpleQueue()
        self._open: set[_Request] = set()
        self._left: list[_Request] = []
        """Over for whoever asked, though the HTTP message had not ended."""
        self._client = httpx.Client(
            base_url=place.base,
            headers={**headers, "Accept": "text/event-stream", "Accept-Encoding": "identity"},
            timeout=httpx.Timeout(silence_s, connect=10.0),
            limits=httpx.Limits(max_connections=None, max_keepalive_connections=None),
            trust_env=False,
            verify=certificates(),
            proxy=proxy,
        )

    def start(self, call: Call, sink: Sink) -> _Request:
        request = _Request(sink)
        self._open.add(request)
        request.thread = threading.Thread(target=self._carry, args=(request, call), daemon=True)
        request.thread.start()
        return request

    def _carry(self, request: _Request, call: Call) -> None:
        """In a thread of its own: one exchange from start to end."""
        import httpx

        def trace(name: str, _: object) -> None:
            if name.endswith("send_request_headers.started"):
                self._said.put((request, "sent", None, time.time_ns()))

        ending: Ending
        try:
            with self._client.stream(
                "POST",
                call.path,
                content=call.body,
                headers={"Content-Type": "application/json"},
                extensions={"trace": trace},
            ) as response:
                request.response = response
                body = b""
                for data in response.iter_raw():
                    now = time.time_ns()
                    if request.stopped:
                        return
                    if response.status_code == 200:
                        self._said.put((request, "data", data, now))
                    elif len(body) < BODY_LIMIT:
                        body += data[:BODY_LIMIT]
                request.response = None  # from here on its connection may be another request's
                state = "complete" if response.status_code == 200 else "status"
                ending = Ending(state, time.time_ns(), response.status_code, "", body)
        except httpx.ConnectError as error:
            refused = "refused" in str(error).lower()
            ending = self._failed("refused" if refused else "unreachable", str(error) or "cannot connect")
        except httpx.TimeoutException:
            ending = self._failed("silent", f"nothing received for {self._silence_s:g} s")
        except httpx.ReadError as error:
            ending = self._failed("reset", str(error) or "connection reset")
        except (httpx.HTTPError, httpx.StreamError, RuntimeError, OSError, ValueError) as error:
            ending = self._failed("closed", str(error) or type(error).__name__)
        self._said.put((request, "end", ending, ending.t_ns))

    def _failed(self, state: str, detail: str) -> Ending:
        return Ending(state, time.time_ns(), None, f"{self._place.header}: {detail}"[:300])

    def poll(self, timeout_s: float) -> None:
        if any(request.done_ns for request in self._open):
            timeout_s = min(timeout_s, _LINGER_S)
        self._wait(timeout_s)
        now = time.time_ns()
        for request in [r for r in self._open if r.done_ns and now - r.done_ns > _LINGER_S * 1e9]:
            self._left.append(request)
            self._end(request, Ending("complete", request.done_ns, 200))
        if self._left:
            self._leave(now)

    def _leave(self, now_ns: int) -> None:
        """Shuts the sockets of messages that do not end: the server may talk on for ever."""
        for request in [r for r in self._left if r.response is None or now_ns - r.done_ns > _LEAVE_S * 1e9]:
            request.stopped = True
            self._hang_up(request)
            self._left.remove(request)

    def _wait(self, timeout_s: float) -> None:
        try:
            said = self._said.get(timeout=max(timeout_s, 0.0)) if timeout_s > 0 else self._said.get_nowait()
            while True:
                self._take(*said)
                said = self._said.get_nowait()
        except queue.Empty:
            return

    def settle(self) -> None:
        """Nothing is laid aside here."""

    def _take(self, request: _Request, kind: str, value: Any, t_ns: int) -> None:
        sink = request.sink
        if sink is None:
            return
        if kind == "sent":
            sink.sent(t_ns)
        elif kind == "data":
            self.lag.add(time.time_ns() - t_ns)
            if not request.done_ns:
                request.done_ns = sink.received([(value, t_ns)])
        elif request.done_ns:
            self._end(request, Ending("complete", request.done_ns, 200))
        else:
            self._end(request, value)

    def _end(self, request: _Request, ending: Ending) -> None:
        sink, request.sink = request.sink, None
        self._open.discard(request)
        if sink is not None:
            sink.ended(ending)

    def stop(self, exchange: object) -> None:
        if isinstance(exchange, _Request) and exchange.sink is not None:
            exchange.stopped = True
            self._hang_up(exchange)
            self._end(exchange, Ending("stopped", time.time_ns(), None, "stopped before its end"))

    def _hang_up(self, request: _Request) -> None:
        """Shuts the socket under the reading thread; httpx has no call for that from another thread."""
        response = request.response
        stream = None if response is None else response.extensions.get("network_stream")
        raw = None if stream is None else stream.get_extra_info("socket")
        if raw is not None:
            with contextlib.suppress(OSError):
                raw.shutdown(2)

    def close(self) -> None:
        threads = [request.thread for request in (*self._open, *self._left)]
        for request in self._left:
            request.stopped = True
            self._hang_up(request)
        for request in list(self._open):
            self.stop(request)
        for thread in threads:
            if thread is not None:
                thread.join(2.0)
        self._client.close()
