"""The way out of the measuring transport: connections are dialled, kept, used again and closed; requests are sent."""

from __future__ import annotations

import errno
import select
import socket
import time
from collections.abc import Mapping

from spectui.runner.line import TIMESTAMPNS, Line
from spectui.runner.record import Ending
from spectui.runner.transport import Call, Place, Sink, head_of, words_of_errno

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT


class Outgoing:
    """The connections to one server, and what of them epoll is asked to watch."""

    def __init__(self, place: Place, headers: Mapping[str, str], *, kernel_stamps: bool = True) -> None:
        self.stamps = "kernel" if kernel_stamps else "user"
        self._place = place
        self._headers = dict(headers)
        self._epoll = select.epoll()
        self._lines: dict[int, Line] = {}
        self._idle: list[Line] = []
        self._targets: list[tuple[int, tuple[object, ...]]] = []
        self._held = 0
        """Bytes that were read and lie aside."""
        self._lingering = 0
        """Exchanges of which the end mark was seen and the end of the message was not."""
        self._over = False
        """An exchange has ended since this was last set."""

    def start(self, call: Call, sink: Sink) -> Line:
        request = head_of(self._place, call, self._headers) + call.body
        while self._idle:
            line = self._idle.pop()
            if line.socket is not None and line.number in self._lines:
                line.occupy(request, sink, time.time_ns(), fresh=False)
                line.unsent = memoryview(request)
                self._send(line)
                return line
        line = Line()
        line.occupy(request, sink, time.time_ns(), fresh=True)
        self._dial(line)
        return line

    def _dial(self, line: Line) -> None:
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
        line.receive = made.recvmsg
        try:
            made.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            if self.stamps == "kernel":
                made.setsockopt(socket.SOL_SOCKET, TIMESTAMPNS, 1)
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

    def _undialled(self, line: Line, number: int) -> None:
        """The address did not take the connection: the next one of the name is tried."""
        self._drop(line)
        if line.target + 1 < len(self._targets):
            line.target += 1
            self._dial(line)
            return
        self._targets = []
        state = "refused" if number == errno.ECONNREFUSED else "unreachable"
        self._end(line, state, words_of_errno(number, self._place))

    def _writable(self, line: Line) -> None:
        if not line.stamped and line.fresh:
            assert line.socket is not None
            number = line.socket.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
            if number:
                self._undialled(line, number)
                return
        self._send(line)

    def _send(self, line: Line) -> None:
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

    def _watch(self, line: Line, mask: int) -> None:
        if line.mask != mask:
            line.mask = mask
            self._epoll.modify(line.number, mask)

    def _stale(self, line: Line) -> bool:
        """A kept-open connection that the server had closed meanwhile: the request is sent again on a new one."""
        if line.fresh or line.reply.headers_done:
            return False
        self._drop(line)
        again = line.sink
        if again is None:
            return True
        line.reply.renew()
        line.target = 0
        line.occupy(line.request, again, time.time_ns(), fresh=True)
        self._dial(line)
        return True

    def _release(self, line: Line) -> Sink | None:
        sink, line.sink = line.sink, None
        line.steady = False
        self._over = True
        if line.lingers:
            line.lingers = False
            self._lingering -= 1
        line.request = b""
        line.unsent = None
        return sink

    def _end(self, line: Line, state: str, detail: str) -> None:
        """Closes the connection and tells the sink."""
        at = line.done_ns or time.time_ns()
        status, body = line.status or None, line.body
        sink = self._release(line)
        self._drop(line)
        if sink is not None:
            sink.ended(Ending(state, at, status, detail, body))

    def _drop(self, line: Line) -> None:
        if line.socket is None:
            return
        if line.number >= 0:
            self._lines.pop(line.number, None)
            if line.mask:
                self._epoll.unregister(line.number)
        if line.aside:
            self._held -= sum(len(data) for data, _, _ in line.aside)
            line.aside = []
        line.socket.close()
        line.socket = None
        line.number = -1
        line.mask = 0
