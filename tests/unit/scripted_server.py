"""A server that does what a script says, byte for byte, over real sockets: for what no well-behaved server does."""

from __future__ import annotations

import contextlib
import json
import socket
import struct
import threading
from collections.abc import Callable
from dataclasses import dataclass, field

Script = Callable[["Talk"], None]


@dataclass
class Talk:
    """One request, as the script sees it."""

    wire: socket.socket
    path: str
    headers: dict[str, str]
    body: bytes
    gate: threading.Event
    """Set by the test, for a script that waits until the test has seen something."""
    number: int = 0
    """Which request of the connection it is, from 0."""
    closed: bool = False

    def head(self, status: int = 200, *lines: str, chunked: bool = True) -> None:
        extra = ["Transfer-Encoding: chunked"] if chunked else []
        self.wire.sendall("\r\n".join([f"HTTP/1.1 {status} X", *extra, *lines, "", ""]).encode())

    def chunk(self, data: bytes) -> None:
        self.wire.sendall(b"%x\r\n%s\r\n" % (len(data), data))

    def event(self, value: object) -> None:
        self.chunk(b"data: " + (value if isinstance(value, bytes) else json.dumps(value).encode()) + b"\n\n")

    def done(self) -> None:
        self.event(b"[DONE]")
        self.chunk(b"")

    def answer(self, status: int, body: bytes, *lines: str) -> None:
        self.head(status, f"Content-Length: {len(body)}", *lines, chunked=False)
        self.wire.sendall(body)

    def hang_up(self, *, reset: bool = False) -> None:
        if reset:
            self.wire.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.wire.close()
        self.closed = True

    def wait_for_hang_up(self) -> None:
        """Blocks until the client has closed the connection."""
        while self.wire.recv(4096):
            pass


@dataclass
class ScriptedServer:
    script: Script
    gate: threading.Event = field(default_factory=threading.Event)
    requests: list[Talk] = field(default_factory=list)
    connections: int = 0
    failures: list[BaseException] = field(default_factory=list)

    def __enter__(self) -> ScriptedServer:
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=256)
        self.port = self._listener.getsockname()[1]
        self.url = f"http://127.0.0.1:{self.port}"
        self._threads: list[threading.Thread] = []
        self._wires: list[socket.socket] = []
        self._ending = False
        self._accepting = threading.Thread(target=self._accept)
        self._accepting.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ending = True
        self.gate.set()
        self.stop_listening()
        self._accepting.join(5)
        self._listener.close()
        for wire in self._wires:
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)
        for thread in self._threads:
            thread.join(5)
            assert not thread.is_alive(), "a script did not end"
        for wire in self._wires:
            wire.close()
        assert not self.failures, self.failures

    def stop_listening(self) -> None:
        """From now on connections are refused."""
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)

    def hang_up_all(self) -> None:
        for wire in list(self._wires):
            with contextlib.suppress(OSError):
                wire.shutdown(socket.SHUT_RDWR)

    def _accept(self) -> None:
        while not self._ending:
            try:
                wire, _ = self._listener.accept()
            except OSError:
                return
            wire.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._wires.append(wire)
            self.connections += 1
            thread = threading.Thread(target=self._serve, args=(wire,))
            self._threads.append(thread)
            thread.start()

    def _serve(self, wire: socket.socket) -> None:
        try:
            number = 0
            rest = b""
            while True:
                while b"\r\n\r\n" not in rest:
                    got = wire.recv(65536)
                    if not got:
                        return
                    rest += got
                head, _, rest = rest.partition(b"\r\n\r\n")
                first, *lines = head.decode("latin-1").split("\r\n")
                headers = {k.lower(): v.strip() for k, _, v in (line.partition(":") for line in lines)}
                length = int(headers.get("content-length", "0"))
                while len(rest) < length:
                    got = wire.recv(65536)
                    if not got:
                        return
                    rest += got
                talk = Talk(wire, first.split(" ")[1], headers, rest[:length], self.gate, number)
                rest = rest[length:]
                number += 1
                self.requests.append(talk)
                self.script(talk)
                if talk.closed:
                    return
        except OSError:
            return
        except BaseException as error:
            self.failures.append(error)
