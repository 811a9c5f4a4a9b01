"""A server of exact timing, to measure clients against: it streams events like SGLang's incremental /generate on an
absolute schedule, and writes into each event when it was really handed to the kernel.

    python bench/paced_server.py --port 0        prints the port it listens on

The request's JSON says what to stream: ``events``, ``rate`` (events a second; 0: as fast as they are taken) and
``first_s`` (from the request's receipt to the first event). The text of each event is when it was sent (realtime clock
in ns, just before the send), that of the first one begins with the kernel's stamp of the request.
"""

from __future__ import annotations

import argparse
import heapq
import json
import select
import socket
import struct
import time

STAMP = struct.Struct("@qq")
SO_TIMESTAMPNS = getattr(socket, "SO_TIMESTAMPNS", 35)
BATCH = 32
HEAD = b"HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\nTransfer-Encoding: chunked\r\n\r\n"
EVENT = (
    'data: {"text":"%s %d","output_ids":[%d],"meta_info":{"id":"0123456789abcdef0123456789abcdef",'
    '"finish_reason":%s,"prompt_tokens":32,"weight_version":"default","num_retractions":0,"queue_time":0.0,'
    '"reasoning_tokens":0,"completion_tokens":%d,"cached_tokens":0,"cached_tokens_details":null,"dp_rank":null,'
    '"routed_experts":null}}\n\n'
)


class Stream:
    def __init__(self, wire: socket.socket) -> None:
        self.wire = wire
        self.received = b""
        self.stamp = 0
        self.events = self.made = 0
        self.rate = 0.0
        self.begin = 0.0
        self.unsent = b""

    def event(self) -> bytes:
        self.made += 1
        last = f'{{"type":"length","length":{self.events}}}' if self.made == self.events else "null"
        begun = f"{self.stamp}" if self.made == 1 else ""
        body = (EVENT % (begun, time.time_ns(), self.made, last, self.made)).encode()
        if self.made == self.events:
            body += b"data: [DONE]\n\n"
        chunk = b"%x\r\n%s\r\n" % (len(body), body)
        if self.made == 1:
            chunk = HEAD + chunk
        return chunk + b"0\r\n\r\n" if self.made == self.events else chunk


class PacedServer:
    def __init__(self, port: int) -> None:
        self.listener = socket.create_server(("127.0.0.1", port), backlog=1024)
        self.listener.setblocking(False)
        self.port = self.listener.getsockname()[1]
        self.poller = select.epoll()
        self.poller.register(self.listener, select.EPOLLIN)
        self.streams: dict[int, Stream] = {}
        self.due: list[tuple[float, int, Stream]] = []
        self.hungry: set[Stream] = set()

    def serve(self) -> None:
        while True:
            now = time.monotonic()
            while self.due and self.due[0][0] <= now:
                _, number, stream = heapq.heappop(self.due)
                if self.streams.get(number) is not stream:
                    continue
                self.push(stream, stream.event())
                if stream.made < stream.events:
                    heapq.heappush(self.due, (stream.begin + stream.made / stream.rate, number, stream))
            for stream in list(self.hungry):
                if not stream.unsent:
                    self.push(stream, b"".join(stream.event() for _ in range(min(BATCH, stream.events - stream.made))))
                if stream.made >= stream.events and not stream.unsent:
                    self.hungry.discard(stream)
            wait = 0.0 if any(not s.unsent for s in self.hungry) else 1.0
            if self.due:
                wait = min(wait, max(0.0, self.due[0][0] - time.monotonic()))
            if 0 < wait < 0.002:
                # epoll waits whole milliseconds. Sleeping leaves the core to the client, which may share it; how late
                # that makes an event does not matter, since each says when it was sent.
                time.sleep(wait)
                wait = 0.0
            for number, mask in self.poller.poll(int(wait * 1000) / 1000):
                if number == self.listener.fileno():
                    self.accept()
                elif (stream := self.streams.get(number)) is not None:
                    if mask & select.EPOLLOUT:
                        self.push(stream, b"")
                    if mask & ~select.EPOLLOUT:
                        self.read(stream)

    def accept(self) -> None:
        while True:
            try:
                wire, _ = self.listener.accept()
            except BlockingIOError:
                return
            wire.setblocking(False)
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            wire.setsockopt(socket.SOL_SOCKET, SO_TIMESTAMPNS, 1)
            self.streams[wire.fileno()] = Stream(wire)
            self.poller.register(wire, select.EPOLLIN)

    def read(self, stream: Stream) -> None:
        try:
            data, ancillary, _, _ = stream.wire.recvmsg(65536, 64)
        except BlockingIOError:
            return
        except OSError:
            data = b""
        if not data:
            self.drop(stream)
            return
        stream.received += data
        head, found, body = stream.received.partition(b"\r\n\r\n")
        length = next(
            (int(v) for k, _, v in (x.partition(b":") for x in head.split(b"\r\n")) if k.lower() == b"content-length"),
            0,
        )
        if not found or len(body) < length:
            return
        if ancillary:
            whole, part = STAMP.unpack(ancillary[0][2])
            stream.stamp = whole * 1_000_000_000 + part
        else:
            stream.stamp = time.time_ns()
        asked = json.loads(body[:length])
        stream.received = b""
        stream.events, stream.rate, stream.made = int(asked["events"]), float(asked["rate"]), 0
        if stream.rate:
            stream.begin = time.monotonic() + float(asked["first_s"])
            heapq.heappush(self.due, (stream.begin, stream.wire.fileno(), stream))
        else:
            self.hungry.add(stream)

    def push(self, stream: Stream, data: bytes) -> None:
        data = stream.unsent + data
        if not data:
            return
        try:
            sent = stream.wire.send(data)
        except BlockingIOError:
            sent = 0
        except OSError:
            self.drop(stream)
            return
        was, stream.unsent = bool(stream.unsent), data[sent:]
        if bool(stream.unsent) != was:
            mask = select.EPOLLIN | (select.EPOLLOUT if stream.unsent else 0)
            self.poller.modify(stream.wire, mask)

    def drop(self, stream: Stream) -> None:
        self.streams.pop(stream.wire.fileno(), None)
        self.hungry.discard(stream)
        self.poller.unregister(stream.wire)
        stream.wire.close()


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--port", type=int, default=0)
    server = PacedServer(parser.parse_args().port)
    print(server.port, flush=True)
    server.serve()
