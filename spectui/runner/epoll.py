"""The measuring transport: non-blocking sockets on epoll, a C parser for headers and chunks, the kernel's stamps.

A byte's receipt is stamped by the kernel (``SO_TIMESTAMPNS``, realtime clock) and so does not depend on when this
process gets to read it. Where the kernel gives no stamp, the clock is read once the bytes are there.
"""

from __future__ import annotations

import errno
import select
import socket
import struct
import time
from collections.abc import Mapping

from httptools import HttpParserError, HttpResponseParser

from spectui.runner.record import Ending
from spectui.runner.transport import BODY_LIMIT, Call, Lag, Place, Sink, head_of, words_of_errno

_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)  # Python names it from 3.12 on; 35 on all common Linux machines
_STAMP = struct.Struct("@qq")
_ANCILLARY = socket.CMSG_SPACE(_STAMP.size)
_READ = 256 * 1024
_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_LINGER_NS = 50_000_000
"""After the end mark: so long is waited for the end of the HTTP message, so that the connection can be used again."""
_CONNECT_NS = 10_000_000_000
_FOREVER = 8
"""A stream may last so many times the limit of silence, whatever it says meanwhile."""


class _Reply:
    """What the parser tells of the reply in progress. The body's callback is a list's append: no Python frame."""

    __slots__ = ("chunked", "complete", "headers_done", "keep", "length", "on_body", "parser", "pieces")

    def __init__(self) -> None:
        self.pieces: list[bytes] = []
        self.on_body = self.pieces.append
        self.parser = HttpResponseParser(self)
        self.reset()

    def reset(self) -> None:
        self.pieces.clear()
        self.chunked = self.length = self.headers_done = self.complete = self.keep = False

    def renew(self) -> None:
        """For a new connection: whatever the parser still waited for came on the old one."""
        self.parser = HttpResponseParser(self)

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


class _Line:
    """One connection, and the exchange that it carries, if any."""

    __slots__ = (
        "begun_ns", "body", "done_ns", "fresh", "heard_ns", "lingers", "mask", "number", "reply", "request", "sink",
        "socket", "stamped", "status", "target", "unsent",
    )  # fmt: skip

    def __init__(self, target: int) -> None:
        self.target = target
        self.socket: socket.socket | None = None
        self.number = -1
        self.mask = 0
        self.reply = _Reply()
        self.sink: Sink | None = None
        self.request = b""
        self.unsent: memoryview | None = None
        self.fresh = True
        self.stamped = False
        self.lingers = False
        self.status = 0
        self.body = b""
        self.begun_ns = self.heard_ns = self.done_ns = 0

    @property
    def open(self) -> bool:
        return self.sink is not None


class EpollTransport:
    """One server. Not thread-safe: everything happens in the thread that polls."""

    name = "epoll"

    def __init__(
        self, place: Place, headers: Mapping[str, str], *, silence_s: float = 600.0, kernel_stamps: bool = True
    ) -> None:
        self.stamps = "kernel" if kernel_stamps else "user"
        self._lag = Lag()
        self._lags: list[int] = []
        self._place = place
        self._headers = dict(headers)
        self._silence_ns = int(silence_s * 1e9)
        self._epoll = select.epoll()
        self._lines: dict[int, _Line] = {}
        self._idle: list[_Line] = []
        self._targets: list[tuple[int, tuple[object, ...]]] = []
        self._buffer = bytearray(_READ)
        self._into = (self._buffer,)
        self._view = memoryview(self._buffer)
        self._checked_ns = 0
        self._lingering = 0

    def start(self, call: Call, sink: Sink) -> _Line:
        request = head_of(self._place, call, self._headers) + call.body
        while self._idle:
            line = self._idle.pop()
            if line.socket is not None and line.number in self._lines:
                self._occupy(line, request, sink, fresh=False)
                line.unsent = memoryview(request)
                self._send(line)
                return line
        line = _Line(0)
        self._occupy(line, request, sink, fresh=True)
        self._dial(line)
        return line

    def _occupy(self, line: _Line, request: bytes, sink: Sink, *, fresh: bool) -> None:
        line.sink = sink
        line.request = request
        line.fresh = fresh
        line.reply.reset()
        line.status = 0
        line.body = b""
        line.done_ns = 0
        line.begun_ns = line.heard_ns = time.time_ns()

    def _dial(self, line: _Line) -> None:
        if not self._targets:
            place = self._place
            try:
                found = socket.getaddrinfo(place.host, place.port, type=socket.SOCK_STREAM)
            except (OSError, UnicodeError) as error:
                self._end(line, "unreachable", f"{place.header}: host name is unknown ({error})")
                return
            self._targets = [(entry[0], entry[4]) for entry in found]
        family, address = self._targets[line.target]
        line.stamped = False
        line.unsent = memoryview(line.request)
        number = 0
        try:
            made = socket.socket(family, socket.SOCK_STREAM | socket.SOCK_NONBLOCK | socket.SOCK_CLOEXEC)
        except OSError as error:
            self._end(line, "unreachable", words_of_errno(error.errno or errno.EMFILE, self._place))
            return
        line.socket = made
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.stamps == "kernel":
                made.setsockopt(socket.SOL_SOCKET, _TIMESTAMPNS, 1)
            number = made.connect_ex(address)
        except OSError as error:
            number = error.errno or errno.EIO
        if number not in (0, errno.EINPROGRESS):
            self._undialled(line, number)
            return
        line.number = made.fileno()
        line.mask = _OUT
        self._lines[line.number] = line
        self._epoll.register(line.number, _OUT)

    def _undialled(self, line: _Line, number: int) -> None:
        """The address did not take the connection: the next one of the name is tried."""
        self._drop(line)
        if line.target + 1 < len(self._targets):
            line.target += 1
            self._dial(line)
            return
        self._targets = []
        state = "refused" if number == errno.ECONNREFUSED else "unreachable"
        self._end(line, state, words_of_errno(number, self._place))

    def poll(self, timeout_s: float) -> None:
        if self._lingering:
            timeout_s = min(timeout_s, _LINGER_NS / 1e9)
        lines = self._lines
        for number, mask in self._epoll.poll(timeout_s):
            line = lines.get(number)
            if line is None:
                continue
            if mask & _OUT and line.unsent is not None:
                self._writable(line)
                if line.number != number:
                    continue
            if mask & ~_OUT:
                self._read(line)
        now = time.time_ns()
        if now - self._checked_ns > 250_000_000 or self._lingering:
            self._checked_ns = now
            self._check_limits(now)
            self._note_lags()

    def _note_lags(self) -> None:
        """Gathered while reading, counted when there is time."""
        for lag in self._lags:
            self._lag.add(lag)
        self._lags.clear()

    @property
    def lag(self) -> Lag:
        self._note_lags()
        return self._lag

    def _writable(self, line: _Line) -> None:
        if not line.stamped and line.fresh:
            assert line.socket is not None
            number = line.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._undialled(line, number)
                return
        self._send(line)

    def _send(self, line: _Line) -> None:
        """Hands the request to the kernel, as much as it takes now."""
        assert line.socket is not None
        assert line.unsent is not None
        assert line.sink is not None
        if not line.stamped or len(line.unsent) == len(line.request):
            line.stamped = True
            line.sink.sent(time.time_ns())
        try:
            done = line.socket.send(line.unsent)
        except (BlockingIOError, InterruptedError):
            done = 0
        except OSError as error:
            # The server hung up while the request was on its way; it may have said why.
            if error.errno in (errno.EPIPE, errno.ECONNRESET) and not self._stale(line):
                line.unsent = None
                self._watch(line, _IN)
            return
        line.unsent = line.unsent[done:] if done < len(line.unsent) else None
        self._watch(line, _IN if line.unsent is None else _IN | _OUT)

    def _watch(self, line: _Line, mask: int) -> None:
        if line.mask != mask:
            line.mask = mask
            self._epoll.modify(line.number, mask)

    def _read(self, line: _Line) -> None:
        assert line.socket is not None
        try:
            size, ancillary, _, _ = line.socket.recvmsg_into(self._into, _ANCILLARY)
        except (BlockingIOError, InterruptedError):
            return
        except OSError as error:
            self._broken(line, "reset", words_of_errno(error.errno or errno.EIO, self._place))
            return
        now = time.time_ns()
        if not size:
            self._hung_up(line)
            return
        if ancillary and len(ancillary[0][2]) == _STAMP.size:
            whole, part = _STAMP.unpack(ancillary[0][2])
            stamp = whole * 1_000_000_000 + part
            self._lags.append(now - stamp)
        else:
            if self.stamps == "kernel":
                self.stamps = "user"
            stamp = now
        line.heard_ns = now
        sink = line.sink
        if sink is None:  # an idle connection on which the server speaks: not ours to interpret
            self._drop(line)
            return
        reply = line.reply
        try:
            reply.parser.feed_data(self._view[:size])
        except HttpParserError as error:
            self._broken(line, "unreadable", f"{self._place.header} does not speak HTTP ({error})"[:200])
            return
        if not line.status and reply.headers_done:
            line.status = reply.parser.get_status_code()
        pieces = reply.pieces
        if pieces:
            data = pieces[0] if len(pieces) == 1 else b"".join(pieces)
            pieces.clear()
            if line.status != 200:
                if len(line.body) < BODY_LIMIT:
                    line.body += data[:BODY_LIMIT]
            elif not line.done_ns and sink.received(data, stamp):
                line.done_ns = stamp
                if not reply.complete:
                    line.lingers = True
                    self._lingering += 1
        if reply.complete:
            self._finished(line, stamp)

    def _finished(self, line: _Line, stamp: int) -> None:
        """The HTTP message is whole: the connection may carry the next request."""
        keep = line.reply.keep and line.unsent is None
        state, status, body = ("complete" if line.status == 200 else "status"), line.status, line.body
        at = line.done_ns or stamp
        sink = self._release(line)
        if keep:
            self._idle.append(line)
        else:
            self._drop(line)
        if sink is not None:
            sink.ended(Ending(state, at, status, "", body))

    def _hung_up(self, line: _Line) -> None:
        reply = line.reply
        if line.sink is None:
            self._drop(line)
        elif line.done_ns:
            self._end(line, "complete", "")
        elif not reply.headers_done:
            if not self._stale(line):
                self._broken(line, "closed", f"{self._place.header} closed the connection without an answer")
        elif line.status != 200:
            self._end(line, "status", "")
        elif not reply.chunked and not reply.length:
            self._end(line, "complete", "")  # such a body ends where the connection does
        else:
            self._broken(line, "closed", f"{self._place.header} closed the connection in the middle of the answer")

    def _stale(self, line: _Line) -> bool:
        """A kept-open connection that the server had closed meanwhile: the request is sent again on a new one."""
        if line.fresh or line.reply.headers_done:
            return False
        self._drop(line)
        again = line.sink
        if again is None:
            return True
        line.reply.renew()
        line.target = 0
        self._occupy(line, line.request, again, fresh=True)
        self._dial(line)
        return True

    def _broken(self, line: _Line, state: str, detail: str) -> None:
        if line.sink is None:
            self._drop(line)
        elif line.done_ns:
            self._end(line, "complete", "")
        elif state != "reset" or not self._stale(line):
            self._end(line, state, detail)

    def _release(self, line: _Line) -> Sink | None:
        sink, line.sink = line.sink, None
        if line.lingers:
            line.lingers = False
            self._lingering -= 1
        line.request = b""
        line.unsent = None
        return sink

    def _end(self, line: _Line, state: str, detail: str) -> None:
        """Closes the connection and tells the sink."""
        at = line.done_ns or time.time_ns()
        status, body = line.status or None, line.body
        sink = self._release(line)
        self._drop(line)
        if sink is not None:
            sink.ended(Ending(state, at, status, detail, body))

    def _drop(self, line: _Line) -> None:
        if line.socket is None:
            return
        if line.number >= 0:
            self._lines.pop(line.number, None)
            if line.mask:
                self._epoll.unregister(line.number)
        line.socket.close()
        line.socket = None
        line.number = -1
        line.mask = 0

    def _check_limits(self, now: int) -> None:
        for line in list(self._lines.values()):
            if line.sink is None:
                continue
            if line.done_ns:
                # A server that talks on after its end is not waited for: it may never stop.
                if now - line.heard_ns > _LINGER_NS or now - line.done_ns > 10 * _LINGER_NS:
                    self._end(line, "complete", "")
            elif not line.stamped and now - line.begun_ns > _CONNECT_NS:
                self._undialled(line, errno.ETIMEDOUT)
            elif now - line.heard_ns > self._silence_ns:
                self._end(line, "silent", f"nothing received for {self._silence_ns / 1e9:g} s")
            elif now - line.begun_ns > self._silence_ns * _FOREVER:
                self._end(line, "silent", f"no end after {self._silence_ns * _FOREVER / 1e9:g} s")

    def stop(self, exchange: object) -> None:
        if isinstance(exchange, _Line) and exchange.sink is not None:
            self._end(exchange, "stopped", "stopped before its end")

    def close(self) -> None:
        for line in list(self._lines.values()):
            self.stop(line)
            self._drop(line)
        self._idle.clear()
        self._view.release()
        self._epoll.close()
