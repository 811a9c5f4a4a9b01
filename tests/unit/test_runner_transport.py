"""Both transports against a server that does what well-behaved servers do not."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from itertools import pairwise
from typing import Any

import pytest
from scripted_server import ScriptedServer, Talk

from spectui.runner.epoll import EpollTransport
from spectui.runner.record import Ending
from spectui.runner.transport import Call, Lag, Transport, open_transport, place_of


class Kept:
    """A sink that keeps all it is told."""

    def __init__(self, end_mark: bytes = b"[DONE]") -> None:
        self.sent_ns: list[int] = []
        self.pieces: list[tuple[bytes, int]] = []
        self.ending: Ending | None = None
        self.end_mark = end_mark

    def sent(self, t_ns: int) -> None:
        self.sent_ns.append(t_ns)

    def received(self, heard: list[tuple[bytes, int]]) -> int:
        self.pieces += heard
        return heard[-1][1] if self.end_mark in self.data else 0

    def ended(self, ending: Ending) -> None:
        assert self.ending is None, "told twice"
        self.ending = ending

    @property
    def data(self) -> bytes:
        return b"".join(piece for piece, _ in self.pieces)


def drive(transport: Transport, *sinks: Kept, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while any(sink.ending is None for sink in sinks):
        assert time.monotonic() < deadline, "the exchange did not end"
        transport.poll(0.05)


def until(transport: Transport, condition: object, limit_s: float = 20.0) -> None:
    deadline = time.monotonic() + limit_s
    while not condition():  # type: ignore[operator]
        assert time.monotonic() < deadline
        transport.poll(0.05)


CALL = Call("/generate", b'{"text": "x"}')


@pytest.fixture(params=["epoll", "httpx"])
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
def opened(kind: str) -> Iterator[object]:
    made: list[Transport] = []

    def make(url: str, **more: object) -> Transport:
        transport = open_transport(url, kind=kind, **more)  # type: ignore[arg-type]
        made.append(transport)
        return transport

    yield make
    for transport in made:
        transport.close()


def stream(talk: Talk) -> None:
    talk.head()
    talk.event({"a": 1})
    talk.event({"b": 2})
    talk.done()


def test_a_stream_arrives_whole_and_stamped(opened, kind: str) -> None:  # type: ignore[no-untyped-def]
    with ScriptedServer(stream) as server:
        transport = opened(server.url, key="secret")
        sink = Kept()
        before = time.time_ns()
        transport.start(CALL, sink)
        drive(transport, sink)
        after = time.time_ns()
        request = server.requests[0]
        assert request.body == CALL.body
        assert request.path == "/generate"
        assert request.headers["authorization"] == "Bearer secret"
    assert sink.data == b'data: {"a": 1}\n\ndata: {"b": 2}\n\ndata: [DONE]\n\n'
    assert sink.ending is not None
    assert sink.ending.state == "complete"
    stamps = [before, sink.sent_ns[0], sink.pieces[0][1], sink.ending.t_ns, after]
    # The kernel's clock on one core and the program's on another may differ by a little on a virtual machine.
    assert all(earlier <= later + 1_000_000 for earlier, later in pairwise(stamps))
    assert transport.stamps in (("kernel", "user") if kind == "epoll" else ("user",))
    assert transport.lag.reads >= 1


def test_connections_are_used_again(opened) -> None:  # type: ignore[no-untyped-def]
    with ScriptedServer(stream) as server:
        transport = opened(server.url)
        for _ in range(4):
            sink = Kept()
            transport.start(CALL, sink)
            drive(transport, sink)
        assert server.connections == 1


def test_many_at_once(opened) -> None:  # type: ignore[no-untyped-def]
    with ScriptedServer(stream) as server:
        transport = opened(server.url)
        sinks = [Kept() for _ in range(40)]
        for sink in sinks:
            transport.start(CALL, sink)
        drive(transport, *sinks)
        assert {sink.ending.state for sink in sinks if sink.ending} == {"complete"}


def test_a_large_prompt_is_sent_whole(opened) -> None:  # type: ignore[no-untyped-def]
    body = b'{"text": "' + b"x" * 8_000_000 + b'"}'
    with ScriptedServer(stream) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(Call("/generate", body), sink)
        drive(transport, sink)
        assert server.requests[0].body == body
    assert sink.ending is not None
    assert sink.ending.state == "complete"
    assert len(sink.sent_ns) == 1, "the start is stamped once, when the first byte goes"


def test_a_refused_connection(opened) -> None:  # type: ignore[no-untyped-def]
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    transport = opened(url)
    sink = Kept()
    transport.start(CALL, sink)
    drive(transport, sink)
    assert sink.ending is not None
    assert sink.ending.state == "refused"
    assert "refused" in sink.ending.detail.lower()


def test_an_unknown_host(opened) -> None:  # type: ignore[no-untyped-def]
    transport = opened("http://no-such-host.invalid:80")
    sink = Kept()
    transport.start(CALL, sink)
    drive(transport, sink)
    assert sink.ending is not None
    assert sink.ending.state == "unreachable"


@pytest.mark.parametrize(("status", "body"), [(401, b'{"error":"Unauthorized"}'), (500, b"Internal Server Error")])
def test_an_answer_other_than_200(opened, status: int, body: bytes) -> None:  # type: ignore[no-untyped-def]
    with ScriptedServer(lambda talk: talk.answer(status, body)) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
    assert sink.ending is not None
    assert (sink.ending.state, sink.ending.status, sink.ending.body) == ("status", status, body)
    assert sink.pieces == []


@pytest.mark.parametrize("reset", [True, False])
def test_a_server_that_dies_in_the_middle(opened, reset: bool) -> None:  # type: ignore[no-untyped-def]
    def die(talk: Talk) -> None:
        talk.head()
        talk.event({"a": 1})
        talk.gate.wait(20)
        talk.hang_up(reset=reset)

    with ScriptedServer(die) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        until(transport, lambda: sink.pieces)
        server.gate.set()
        drive(transport, sink)
    assert sink.ending is not None
    assert sink.ending.state in ("reset", "closed")
    assert sink.ending.detail
    assert sink.data == b'data: {"a": 1}\n\n'


def test_a_stream_without_its_end_mark_ends_as_the_message_does(opened) -> None:  # type: ignore[no-untyped-def]
    def cut(talk: Talk) -> None:
        talk.head()
        talk.event({"a": 1})
        talk.chunk(b"")

    with ScriptedServer(cut) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
    assert sink.ending is not None
    assert sink.ending.state == "complete"


def test_a_body_that_ends_with_the_connection(opened) -> None:  # type: ignore[no-untyped-def]
    def old(talk: Talk) -> None:
        talk.wire.sendall(b"HTTP/1.1 200 OK\r\nConnection: close\r\n\r\ndata: [DONE]\n\n")
        talk.hang_up()

    with ScriptedServer(old) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        assert sink.data == b"data: [DONE]\n\n"
        assert sink.ending is not None
        assert sink.ending.state == "complete"


def test_silence_ends_a_request(opened) -> None:  # type: ignore[no-untyped-def]
    def mute(talk: Talk) -> None:
        talk.head()
        talk.event({"a": 1})
        talk.wait_for_hang_up()

    with ScriptedServer(mute) as server:
        transport = opened(server.url, silence_s=0.3)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        assert sink.ending is not None
        assert sink.ending.state == "silent"
        transport.close()


def test_stop_closes_the_connection(opened) -> None:  # type: ignore[no-untyped-def]
    seen: list[str] = []

    def endless(talk: Talk) -> None:
        talk.head()
        talk.event({"a": 1})
        talk.wait_for_hang_up()
        seen.append("hung up")

    with ScriptedServer(endless) as server:
        transport = opened(server.url)
        sink = Kept()
        exchange = transport.start(CALL, sink)
        until(transport, lambda: sink.pieces)
        assert exchange.open
        transport.stop(exchange)
        assert not exchange.open
        assert sink.ending is not None
        assert sink.ending.state == "stopped"
        transport.stop(exchange)
        transport.close()
    assert seen == ["hung up"], "the server must see the end of the connection, so that it aborts the request"


def test_the_end_mark_ends_the_request_though_the_message_does_not(opened) -> None:  # type: ignore[no-untyped-def]
    def lingering(talk: Talk) -> None:
        talk.head()
        talk.event(b"[DONE]")
        talk.gate.wait(20)
        talk.hang_up()

    with ScriptedServer(lingering) as server:
        transport = opened(server.url, silence_s=30)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink, limit_s=10)
        assert sink.ending is not None
        assert sink.ending.state == "complete"
        server.gate.set()


def test_a_kept_connection_that_the_server_closed_is_replaced(opened) -> None:  # type: ignore[no-untyped-def]
    def once(talk: Talk) -> None:
        if talk.number == 1:
            talk.hang_up()
            return
        stream(talk)

    with ScriptedServer(once) as server:
        transport = opened(server.url)
        for _ in range(2):
            sink = Kept()
            transport.start(CALL, sink)
            drive(transport, sink)
        if transport.name == "epoll":  # httpx leaves that to its caller
            assert sink.ending is not None
            assert sink.ending.state == "complete"
            assert server.connections == 2
            assert len(sink.sent_ns) == 2, "the start is stamped again when the request is sent again"


def test_what_is_not_http() -> None:
    def other(talk: Talk) -> None:
        talk.wire.sendall(b"SSH-2.0-OpenSSH_9.6\r\n")
        talk.hang_up()

    with ScriptedServer(other) as server:
        transport = open_transport(server.url, kind="epoll")
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        transport.close()
    assert sink.ending is not None
    assert sink.ending.state == "unreadable"
    assert "HTTP" in sink.ending.detail


def test_the_next_address_of_a_name_is_tried(monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(stream) as server:
        both = [
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", 1)),
            (socket.AF_INET, socket.SOCK_STREAM, 6, "", ("127.0.0.1", server.port)),
        ]
        monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
        transport = open_transport(server.url, kind="epoll")
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        transport.close()
    assert sink.ending is not None
    assert sink.ending.state == "complete"


def test_without_kernel_stamps_the_clock_is_read() -> None:
    with ScriptedServer(stream) as server:
        transport = EpollTransport(place_of(server.url), {}, kernel_stamps=False)
        sink = Kept()
        before = time.time_ns()
        transport.start(CALL, sink)
        drive(transport, sink)
        transport.close()
        assert transport.stamps == "user"
        assert before <= sink.pieces[0][1] <= time.time_ns()


@pytest.mark.parametrize(
    ("url", "host"),
    [("http://0.0.0.0:30000", "127.0.0.1"), ("http://[::]:30000", "::1"), ("http://10.0.0.5:8000/v1", "10.0.0.5")],
)
def test_addresses_to_dial(url: str, host: str) -> None:
    assert place_of(url).host == host


def test_proxies_of_the_environment_are_ignored(opened, monkeypatch: pytest.MonkeyPatch) -> None:  # type: ignore[no-untyped-def]
    for name in ("http_proxy", "HTTP_PROXY", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, "http://127.0.0.1:1")
    with ScriptedServer(stream) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        assert sink.ending is not None
        assert sink.ending.state == "complete"


@contextlib.contextmanager
def second_event_laid_aside() -> Iterator[tuple[EpollTransport, Kept, Any]]:
    """A stream of two events, of which the second was read and not looked at yet."""

    def slow(talk: Talk) -> None:
        talk.head()
        talk.event({"a": 1})
        talk.gate.wait(20)
        talk.event({"b": 2})
        talk.wait_for_hang_up()

    with ScriptedServer(slow) as server:
        transport = EpollTransport(place_of(server.url), {})
        sink = Kept()
        exchange = transport.start(CALL, sink)
        until(transport, lambda: sink.pieces)
        server.gate.set()
        while not transport._held:
            transport._gather(time.monotonic() + 1.0)
        yield transport, sink, exchange
        transport.close()


def test_the_middle_of_a_stream_is_laid_aside_with_its_stamps() -> None:
    with second_event_laid_aside() as (transport, sink, exchange):
        assert len(sink.pieces) == 1, "read, and not looked at yet"
        read = time.time_ns()
        transport.settle()
        assert sink.data == b'data: {"a": 1}\n\ndata: {"b": 2}\n\n'
        assert sink.pieces[0][1] < sink.pieces[1][1] <= read
        assert not transport._held
        transport.stop(exchange)


def test_what_lies_aside_is_told_before_a_stop() -> None:
    with second_event_laid_aside() as (transport, sink, exchange):
        transport.stop(exchange)
    assert len(sink.pieces) == 2
    assert sink.ending is not None
    assert sink.ending.state == "stopped"


def test_lag_percentiles() -> None:
    lag = Lag()
    assert lag.p99_ms() is None
    for _ in range(990):
        lag.add(20_000)
    for _ in range(10):
        lag.add(8_000_000)
    assert lag.p99_ms() == pytest.approx(0.033, abs=0.002)
    assert lag.late_share() == 0.01
    for _ in range(20):
        lag.add(400_000_000)
    assert lag.p99_ms() == pytest.approx(67.1, abs=0.1), "what is beyond the last class reads as its edge"
    lag.clear()
    assert lag.reads == 0


def test_the_epoll_loop_is_taken_where_it_can_serve() -> None:
    for url, more, name in (
        ("http://127.0.0.1:1", {}, "epoll"),
        ("https://127.0.0.1:1", {}, "httpx"),
        ("http://127.0.0.1:1", {"proxy": "http://127.0.0.1:2"}, "httpx"),
    ):
        transport = open_transport(url, **more)  # type: ignore[arg-type]
        assert transport.name == name
        transport.close()


def test_tls_that_is_none_is_named() -> None:
    with ScriptedServer(stream) as server:
        transport = open_transport(server.url.replace("http:", "https:"))
        sink = Kept()
        transport.start(CALL, sink)
        until(transport, lambda: server.connections)
        server.hang_up_all()
        drive(transport, sink)
        transport.close()
    assert sink.ending is not None
    assert sink.ending.state in ("unreachable", "closed", "reset")
    assert sink.ending.detail


def test_a_server_that_talks_on_after_its_end_is_left(opened) -> None:  # type: ignore[no-untyped-def]
    def talk_on(talk: Talk) -> None:
        talk.head()
        talk.event(b"[DONE]")
        with contextlib.suppress(OSError):  # until the client has hung up
            while True:
                talk.event({"more": "x" * 60_000})

    with ScriptedServer(talk_on) as server:
        transport = opened(server.url)
        sink = Kept()
        transport.start(CALL, sink)
        drive(transport, sink)
        assert sink.ending is not None
        assert sink.ending.state == "complete"
