"""A small HTTP/1.1 server on asyncio: requests parsed by httptools, answers whole or in chunks."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from http import HTTPStatus
from typing import Any
from urllib.parse import parse_qs

import httptools
import msgspec

JSON = "application/json"
TEXT = "text/html; charset=utf-8"
_LARGEST_BODY = 64 * 1024 * 1024


class BadBody(ValueError):
    """A body that is no JSON object."""


class Exchange:
    """One request and the answer to it."""

    def __init__(
        self, connection: Connection, method: str, target: bytes, headers: dict[str, str], body: bytes
    ) -> None:
        url = httptools.parse_url(target)
        self.method = method
        self.path = (url.path or b"/").decode("utf-8", "replace")
        self.query = parse_qs((url.query or b"").decode("utf-8", "replace"))
        self.headers = headers
        self.body = body
        self.status = 0
        self.dropped = False
        self.done = False
        self.on_drop: Callable[[], None] | None = None
        self._connection = connection

    @property
    def client(self) -> str:
        return self._connection.peer

    @property
    def congested(self) -> bool:
        """The client reads slower than tokens come; events are joined then."""
        return self._connection.congested

    def json(self) -> dict[str, Any]:
        """The body as an object.

        Raises:
            BadBody: it is none.
        """
        try:
            value = msgspec.json.decode(self.body) if self.body.strip() else {}
        except (msgspec.DecodeError, UnicodeDecodeError) as problem:
            raise BadBody(f"JSON decode error: {problem}") from problem
        if not isinstance(value, dict):
            raise BadBody("Input should be a valid dictionary or object to extract fields from")
        return value

    def answer(self, status: int, body: object, content_type: str = JSON) -> None:
        """A whole answer; anything but text and bytes is written as JSON."""
        if isinstance(body, str):
            data = body.encode("utf-8", "replace")
        else:
            data = body if isinstance(body, bytes) else msgspec.json.encode(body)
        self._head(status, content_type, f"content-length: {len(data)}\r\n")
        self._connection.write(data)
        self._end()

    def stream(self, content_type: str = "text/event-stream; charset=utf-8") -> None:
        self._head(200, content_type, "transfer-encoding: chunked\r\n")

    def send(self, data: bytes) -> None:
        self._connection.write(b"%x\r\n%b\r\n" % (len(data), data))

    def finish(self) -> None:
        """End of a streamed answer."""
        self._connection.write(b"0\r\n\r\n")
        self._end()

    def _head(self, status: int, content_type: str, more: str) -> None:
        self.status = status
        self._connection.answered(self)
        self._connection.write(
            f"HTTP/1.1 {status} {phrase(status)}\r\nserver: uvicorn\r\n".encode()
            + f"content-type: {content_type}\r\n{more}\r\n".encode()
        )

    def _end(self) -> None:
        self.done = True
        self._connection.next(self)

    def drop(self) -> None:
        """The client is gone."""
        if not self.done:
            self.dropped = self.done = True
            if self.on_drop is not None:
                self.on_drop()


def phrase(status: int) -> str:
    return HTTPStatus(status).phrase


class Connection(asyncio.Protocol):
    """One client's connection; requests on it are answered one after the other."""

    def __init__(self, serve: Callable[[Exchange], None], answered: Callable[[Exchange], None],
                 closed: Callable[[Exchange], None]) -> None:  # fmt: skip
        self._serve = serve
        self.answered = answered
        self._closed = closed
        self._parser = httptools.HttpRequestParser(self)
        self._transport: asyncio.Transport | None = None
        self._waiting: deque[Exchange] = deque()
        self._current: Exchange | None = None
        self._keep = True
        self.congested = False
        self.peer = "-"
        self._target = b""
        self._headers: dict[str, str] = {}
        self._body: list[bytes] = []
        self._size = 0

    # -- asyncio ------------------------------------------------------------------------------------------------

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        peer = transport.get_extra_info("peername")
        if isinstance(peer, tuple):
            self.peer = f"{peer[0]}:{peer[1]}"

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserUpgrade:
            pass
        except httptools.HttpParserError:
            if self._transport is not None:
                self.write(b"HTTP/1.1 400 Bad Request\r\ncontent-length: 0\r\nconnection: close\r\n\r\n")
                self._transport.close()

    def connection_lost(self, exc: Exception | None) -> None:
        self._transport = None
        self._waiting.clear()
        if self._current is not None:
            current, self._current = self._current, None
            current.drop()
            self._closed(current)

    def pause_writing(self) -> None:
        self.congested = True

    def resume_writing(self) -> None:
        self.congested = False

    def write(self, data: bytes) -> None:
        if self._transport is not None:
            self._transport.write(data)

    # -- httptools ----------------------------------------------------------------------------------------------

    def on_message_begin(self) -> None:
        self._target, self._headers, self._body, self._size = b"", {}, [], 0

    def on_url(self, url: bytes) -> None:
        self._target += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode("latin-1").lower()] = value.decode("latin-1")

    def on_headers_complete(self) -> None:
        if self._headers.get("expect", "").lower() == "100-continue":
            self.write(b"HTTP/1.1 100 Continue\r\n\r\n")

    def on_body(self, body: bytes) -> None:
        self._size += len(body)
        if self._size > _LARGEST_BODY:
            raise httptools.HttpParserError("body too large")
        self._body.append(body)

    def on_message_complete(self) -> None:
        self._keep = self._parser.should_keep_alive()
        method = self._parser.get_method().decode()
        exchange = Exchange(self, method, self._target, self._headers, b"".join(self._body))
        if self._current is None:
            self._begin(exchange)
        else:
            self._waiting.append(exchange)

    def _begin(self, exchange: Exchange) -> None:
        self._current = exchange
        self._serve(exchange)

    def next(self, ended: Exchange) -> None:
        """An answer is complete: close, or go on with what came meanwhile."""
        if self._current is ended:
            self._current = None
            self._closed(ended)
        if self._transport is None:
            return
        if not self._keep and not self._waiting:
            self._transport.close()
        elif self._waiting:
            self._begin(self._waiting.popleft())
