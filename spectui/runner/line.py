"""One connection of the measuring transport: its socket, the parser of what comes, and the exchange that it carries."""

from __future__ import annotations

import socket
import struct
from collections.abc import Callable
from typing import Any

from httptools import HttpResponseParser

from spectui.runner.transport import Sink

TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
"""Python names it from 3.12 on; 35 on all common Linux machines."""
_STAMP = struct.Struct("@qq")
ANCILLARY = socket.CMSG_SPACE(_STAMP.size)
"""Bytes to give ``recvmsg`` for a stamp."""
unpack = _STAMP.unpack
"""Of a stamp: whole seconds of the realtime clock, and nanoseconds."""
READ = 64 * 1024
"""Bytes of one read at most."""

Said = list[tuple[int, int, bytes]]
"""Ancillary data as ``recvmsg`` gives it."""


class Reply:
    """What the parser tells of the reply in progress. The body's callback is a list's append: no Python frame."""

    __slots__ = ("chunked", "complete", "feed", "headers_done", "keep", "length", "on_body", "parser", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append
        self.renew()
        self.reset()

    def reset(self) -> None:
        self.pieces.clear()
        self.chunked = self.length = self.headers_done = self.complete = self.keep = False

    def renew(self) -> None:
        """For a new connection: whatever the parser still waited for came on the old one."""
        self.parser = HttpResponseParser(self)
        self.feed: Callable[[bytes], None] = self.parser.feed_data

    def on_header(self, name: bytes, value: bytes) -> None:
        lowered = name.lower()
        if lowered == b"transfer-encoding":
            self.chunked = True
        elif lowered == b"content-length":
            self.length = True

    def on_headers_complete(self) -> None:
        self.headers_done = True

    def on_message_complete(self) -> None:
        self.complete = True
        self.keep = bool(self.parser.should_keep_alive())  # the parser forgets it after this call


class Line:
    """One connection, and the exchange that it carries, if any."""

    __slots__ = (
        "aside", "begun_ns", "body", "done_ns", "fresh", "heard_ns", "lingers", "mask", "number", "receive", "reply",
        "request", "sink", "socket", "stamped", "status", "steady", "target", "unsent",
    )  # fmt: skip

    def __init__(self) -> None:
        self.target = 0
        """Which of the host's addresses is tried."""
        self.socket: socket.socket | None = None
        self.receive: Callable[[int, int], tuple[bytes, Said, int, Any]]
        """``recvmsg`` of the socket."""
        self.number = -1
        self.mask = 0
        self.reply = Reply()
        self.sink: Sink | None = None
        self.request = b""
        self.unsent: memoryview | None = None
        self.fresh = True
        """The exchange has the connection from its start on."""
        self.stamped = False
        self.lingers = False
        self.aside: list[tuple[bytes, Said, int]] = []
        """What was read and not looked at yet: bytes, ancillary data, time of the reading."""
        self.steady = False
        """In the middle of a streamed answer: what is read may wait a moment before it is looked at."""
        self.status = 0
        self.body = b""
        self.begun_ns = self.heard_ns = self.done_ns = 0

    def occupy(self, request: bytes, sink: Sink, now_ns: int, *, fresh: bool) -> None:
        """An exchange begins."""
        self.sink = sink
        self.request = request
        self.fresh = fresh
        self.steady = False
        self.reply.reset()
        self.status = 0
        self.body = b""
        self.done_ns = 0
        self.begun_ns = self.heard_ns = now_ns

    @property
    def open(self) -> bool:
        return self.sink is not None
