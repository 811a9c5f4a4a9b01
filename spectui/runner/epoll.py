"""The measuring transport: non-blocking sockets on epoll, a C parser for headers and chunks, the kernel's stamps.

A byte's receipt is stamped by the kernel (``SO_TIMESTAMPNS``, realtime clock) and so does not depend on when this
process gets to read it. Where the kernel gives no stamp, the clock is read once the bytes are there.

An event that comes alone pays for a wake-up, and after it every line of Python runs on cold caches. So the middle of a
stream is only read and laid aside with its stamp. What lies aside is parsed and folded later, all of a stream's at
once: when the stream ends, when so much lies there, at a time limit of ``poll``, and when ``settle`` asks for it; in
portions of a fraction of a millisecond, between which is read what came meanwhile.
"""

from __future__ import annotations

import errno
import select
import time
from collections import deque
from collections.abc import Mapping

from httptools import HttpParserError

from spectui.runner.line import ANCILLARY, READ, Line, unpack
from spectui.runner.outgoing import Outgoing
from spectui.runner.record import Ending
from spectui.runner.transport import BODY_LIMIT, Lag, Place, words_of_errno

_IN, _OUT = select.EPOLLIN, select.EPOLLOUT
_AT_ONCE = 64
"""So many connections are read from between two looks at the clock."""
_ASIDE = 1024 * 1024
"""Bytes that may lie aside, of all streams together."""
_PORTION = 64 * 1024
"""Bytes looked at before the next reading: some 150 events, a third of a millisecond. Events of one stream that come
within that time are read together and have one stamp between them; verify steps take longer."""
_LARGE = 16 * 1024
"""Bytes of one read that are looked at now: they hold many events, or one that is dear to keep."""
_ENDS = (b"0\r\n\r\n", b"[DONE]\n\n\r\n", b"[DONE]\r\n\r\n\r\n")
"""Ways in which a read ends that ends an answer: it is looked at now, since the next request waits for it."""
_LINGER_NS = 50_000_000
"""After the end mark: so long is waited for the end of the HTTP message, so that the connection can be used again."""
_CONNECT_NS = 10_000_000_000
_CHECK_S = 0.25
_FOREVER = 8
"""A stream may last so many times the limit of silence, whatever it says meanwhile."""


class EpollTransport(Outgoing):
    """One server. Not thread-safe: everything happens in the thread that polls."""

    name = "epoll"

    def __init__(
        self, place: Place, headers: Mapping[str, str], *, silence_s: float = 600.0, kernel_stamps: bool = True
    ) -> None:
        super().__init__(place, headers, kernel_stamps=kernel_stamps)
        self._silence_ns = int(silence_s * 1e9)
        self._lag = Lag()
        self._lags: list[int] = []
        self._dirty: deque[Line] = deque()
        """Lines of which something lies aside; more than once, or in vain, does no harm."""
        self._checked_s = 0.0

    def poll(self, timeout_s: float) -> None:
        self._over = False
        until = time.monotonic() + timeout_s
        while True:
            due = min(until, self._checked_s + _CHECK_S)
            now = self._gather(time.monotonic() + _LINGER_NS / 1e9 if self._lingering else due)
            if self._held > _ASIDE:
                self._portion(len(self._dirty))
            if now >= until:
                self.settle()
            if now >= due or self._lingering:
                self._checked_s = now
                self._check_limits(time.time_ns())
                self._note_lags()
            if self._over or now >= until:
                return

    def settle(self) -> None:
        left = len(self._dirty)
        while left > 0:
            left -= self._portion(left)
            if left > 0:
                self._gather(0.0)  # what has come meanwhile

    def _gather(self, until: float) -> float:
        """Reads what comes, and lays the middle of streams aside, until then (``time.monotonic``), or until something
        else is to be done: an exchange is over, or enough lies aside. Gives the time. Every line of it is run for a
        single event, on cold caches: so there are few."""
        lines, dirty, wait_for = self._lines, self._dirty, self._epoll.poll
        clock, stamp = time.monotonic, time.time_ns
        wait = until - clock() if until else 0.0
        while True:
            for number, mask in wait_for(wait if wait > 0 else 0, _AT_ONCE):
                line = lines.get(number)
                if line is None:
                    continue
                if mask != _IN or not line.steady:
                    self._ready(line, number, mask)
                    continue
                try:
                    data, said, _, _ = line.receive(READ, ANCILLARY)
                except OSError as error:
                    self._unread(line, error)
                    continue
                aside = line.aside
                if not aside:
                    dirty.append(line)
                aside.append((data, said, stamp()))
                size = len(data)
                self._held += size
                if not 0 < size < _LARGE or data.endswith(_ENDS):
                    self._look(line)
            now = clock()
            wait = until - now
            if wait <= 0 or self._over or self._held > _ASIDE or self._lingering:
                return now

    def _ready(self, line: Line, number: int, mask: int) -> None:
        """A connection outside the middle of a stream can be written to, read from, or has ended."""
        if line.aside:
            self._look(line)
        if mask & _OUT and line.unsent is not None:
            self._writable(line)
            if line.number != number:
                return
        if mask & ~_OUT and line.socket is not None:
            self._read(line)

    def _portion(self, most: int) -> int:
        """Looks at some lines, those first that waited longest; gives how many."""
        least = self._held - _PORTION
        done = 0
        while done < most and self._dirty and self._held > least:
            self._look(self._dirty.popleft())
            done += 1
        return max(done, 1)

    def _look(self, line: Line) -> None:
        """At all that lies aside of a connection, in one go."""
        aside = line.aside
        if not aside or line.socket is None:
            return
        line.aside = []
        self._held -= sum([len(entry[0]) for entry in aside])
        if line.sink is None:  # an idle connection on which the server speaks: not ours to interpret
            self._drop(line)
            return
        reply, lags = line.reply, self._lags
        feed, pieces = reply.feed, reply.pieces
        heard: list[tuple[bytes, int]] = []
        fault = ""
        stamp = 0
        for data, said, read_ns in aside:
            if not data:
                break
            if said:
                whole, part = unpack(said[0][2])
                stamp = whole * 1_000_000_000 + part
                lags.append(read_ns - stamp)
            else:
                self.stamps = "user"
                stamp = read_ns
            try:
                feed(data)
            except HttpParserError as error:
                fault = f"{self._place.header} does not speak HTTP ({error})"[:200]
                break
            if pieces:
                heard += [(piece, stamp) for piece in pieces]
                pieces.clear()
            if reply.complete:
                break
        line.heard_ns = read_ns
        if reply.headers_done and not line.status:
            line.status = reply.parser.get_status_code()
            line.steady = line.status == 200 and reply.chunked
        if heard:
            self._tell(line, heard)
        if fault:
            self._broken(line, "unreadable", fault)
        elif reply.complete:
            self._finished(line, stamp)
        elif not data:
            self._hung_up(line)

    def _tell(self, line: Line, heard: list[tuple[bytes, int]]) -> None:
        """The sink, of the body's bytes."""
        assert line.sink is not None
        if line.status != 200:
            for data, _ in heard:
                if len(line.body) < BODY_LIMIT:
                    line.body += data[:BODY_LIMIT]
        elif not line.done_ns:
            line.done_ns = line.sink.received(heard)
            if line.done_ns:
                line.steady = False
                if not line.reply.complete:
                    line.lingers = True
                    self._lingering += 1

    def _note_lags(self) -> None:
        """Gathered while reading, counted when there is time."""
        for lag in self._lags:
            self._lag.add(lag)
        self._lags.clear()

    @property
    def lag(self) -> Lag:
        self._note_lags()
        return self._lag

    def _read(self, line: Line) -> None:
        try:
            data, said, _, _ = line.receive(READ, ANCILLARY)
        except OSError as error:
            self._unread(line, error)
            return
        line.aside.append((data, said, time.time_ns()))
        self._held += len(data)
        self._look(line)

    def _unread(self, line: Line, error: OSError) -> None:
        if not isinstance(error, BlockingIOError | InterruptedError):
            self._look(line)
            self._broken(line, "reset", words_of_errno(error.errno or errno.EIO, self._place))

    def _finished(self, line: Line, stamp: int) -> None:
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

    def _hung_up(self, line: Line) -> None:
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

    def _broken(self, line: Line, state: str, detail: str) -> None:
        if line.sink is None:
            self._drop(line)
        elif line.done_ns:
            self._end(line, "complete", "")
        elif state != "reset" or not self._stale(line):
            self._end(line, state, detail)

    def _check_limits(self, now: int) -> None:
        for line in list(self._lines.values()):
            if line.sink is None or line.aside:  # what lies aside was heard just now
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
        if isinstance(exchange, Line):
            self._look(exchange)
        if isinstance(exchange, Line) and exchange.sink is not None:
            self._end(exchange, "stopped", "stopped before its end")

    def close(self) -> None:
        for line in list(self._lines.values()):
            self.stop(line)
            self._drop(line)
        self._idle.clear()
        self._epoll.close()
