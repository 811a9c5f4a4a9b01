"""How an arm stands, in words: each state by its name, with what to do next."""

from __future__ import annotations

import http.server
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from spectui.engines.sglang.errors import StillStarting
from spectui.engines.sglang.info import read_info
from spectui.session import SessionError
from spectui.session.arms import Target
from spectui.session.live_arm import LiveArm

INFO: dict[str, Any] = {
    "version": "0.5.15",
    "model_path": "m/model",
    "served_model_name": "m/model",
    "speculative_algorithm": "NGRAM",
    "speculative_num_draft_tokens": 8,
    "max_running_requests": 48,
    "internal_states": [{"effective_max_running_requests_per_dp": 48}],
}


class Server:
    """Answers each path with what the test has put there: (status, body)."""

    def __init__(self) -> None:
        self.answers: dict[str, tuple[int, bytes]] = {}
        self.asked: list[str] = []
        outer = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def _answer(self) -> None:
                length = int(self.headers.get("Content-Length") or 0)
                self.rfile.read(length)
                outer.asked.append(self.path)
                status, body = outer.answers.get(self.path, (404, b"{}"))
                self.send_response(status)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            do_GET = do_POST = _answer

            def log_message(self, *_args: object) -> None:
                return

        self.httpd = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.thread = threading.Thread(target=self.httpd.serve_forever, kwargs={"poll_interval": 0.01})
        self.thread.start()

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.httpd.server_address[1]}"

    def sglang(self, metrics: str = "", **info: Any) -> None:
        self.answers["/server_info"] = (200, json.dumps({**INFO, **info}).encode())
        self.answers["/metrics"] = (200, metrics.encode()) if metrics else (404, b"{}")
        self.answers["/health"] = (200, b"")
        self.answers["/v1/models"] = (200, b'{"data": []}')
        token = {"text": "x", "meta_info": {"completion_tokens": 1, "finish_reason": None}}
        self.answers["/generate"] = (200, json.dumps(token).encode())

    def close(self) -> None:
        self.httpd.shutdown()
        self.thread.join()
        self.httpd.server_close()


@pytest.fixture
def server() -> Iterator[Server]:
    made = Server()
    yield made
    made.close()


@contextmanager
def aimed(url: str, **keys: str) -> Iterator[LiveArm]:
    arm = LiveArm("A")
    arm.aim(Target(url, url=url), **keys)
    try:
        yield arm
    finally:
        arm.close()


def test_an_empty_arm_says_how_to_fill_it() -> None:
    assert LiveArm("A").standing() == ("none", "nothing here yet: o chooses a server, a profile or a stored run")


def test_a_ready_server_has_no_trouble(server: Server) -> None:
    server.sglang()
    with aimed(server.url) as arm:
        assert arm.standing()[0] == "connecting"
        arm.poll(0.0)
        assert arm.standing() == ("ready", "")
        assert arm.ready
        assert arm.algorithm == "NGRAM"


def test_a_server_that_is_not_there(server: Server) -> None:
    url = server.url
    server.httpd.shutdown()  # else its thread may still hold the socket for a moment, and a connection breaks
    server.httpd.server_close()
    with aimed(url) as arm:
        arm.poll(0.0)
        state, trouble = arm.standing()
        assert state == "gone"
        assert trouble.startswith("not there: ")
        assert trouble.endswith("o chooses another server")
        assert not arm.ready


def test_a_key_that_is_missing_and_one_that_is_wrong(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    server.answers["/server_info"] = server.answers["/get_server_info"] = (401, b"{}")
    with aimed(server.url) as arm:
        arm.poll(0.0)
        assert arm.standing()[0] == "failed"
        assert "--key env:NAME" in arm.standing()[1]
    monkeypatch.setenv("SOME_KEY", "s3cret-value")
    with aimed(server.url, key="env:SOME_KEY") as arm:
        arm.poll(0.0)
        assert "is the key right?" in arm.standing()[1]
        assert "s3cret" not in arm.standing()[1]


def test_something_that_is_not_sglang(server: Server) -> None:
    server.answers["/server_info"] = (200, b'{"hello": 1}')
    with aimed(server.url) as arm:
        arm.poll(0.0)
        state, trouble = arm.standing()
        assert state == "failed"
        assert "not an SGLang server" in trouble


def test_a_server_that_still_starts() -> None:
    arm = LiveArm("A", target=Target("x", url="http://127.0.0.1:1"), url="http://127.0.0.1:1")
    arm.error = StillStarting("it is loading", "http://127.0.0.1:1", "Wait")
    assert arm.standing() == ("starting", "starting: it is loading")


def test_one_that_answered_and_no_longer_does_has_died(server: Server) -> None:
    server.sglang()
    with aimed(server.url) as arm:
        arm.poll(0.0)
        server.httpd.shutdown()
        server.httpd.server_close()
        arm.poll(10.0)
        state, trouble = arm.standing()
        assert state == "gone"
        assert trouble.startswith("died: it answered until now")


def test_a_stopped_flow_of_tokens_is_suspect_and_a_failed_token_is_not_serving(server: Server) -> None:
    page = "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 3.0\n"
    page += "# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total 100.0\n"
    server.sglang(page)
    with aimed(server.url) as arm:
        arm.poll(0.0)
        assert arm.standing()[0] == "ready"
        arm.poll(10.0)
        server.answers["/generate"] = (500, b"{}")
        server.answers["/server_info"] = (200, json.dumps(INFO).encode())
        arm.poll(40.0)
        assert arm.standing()[0] in ("suspect", "failed")
        assert "not serving" in arm.standing()[1] or "no token came" in arm.standing()[1]
        assert not arm.ready


def test_idle_figures_are_those_of_before(server: Server) -> None:
    page = (
        "# TYPE sglang:num_running_reqs gauge\nsglang:num_running_reqs 0.0\n"
        "# TYPE sglang:spec_accept_length gauge\nsglang:spec_accept_length 2.87\n"
        "# TYPE sglang:generation_tokens_total counter\nsglang:generation_tokens_total 100.0\n"
    )
    server.sglang(page)
    with aimed(server.url) as arm:
        arm.poll(0.0)
        arm.poll(10.0)
        assert arm.idle.state == "idle"
        assert arm.idle.accept_length == "2.87"
        assert arm.idle.source == "/metrics, last window"
        assert arm.idle.tokens_per_s == 0.0


def test_without_metrics_it_says_which_option_is_missing(server: Server) -> None:
    server.sglang()
    with aimed(server.url) as arm:
        arm.poll(0.0)
        assert "--enable-metrics" in arm.idle.note
        assert arm.idle.accept_length == "n/a (fewer than 40 decode steps)"


def test_nothing_is_asked_of_a_server_while_it_is_measured(server: Server) -> None:
    server.sglang()
    with aimed(server.url) as arm:
        arm.poll(0.0)
        before = list(server.asked)
        arm.poll(100.0, measured=True)
        assert server.asked == before


def test_info_is_asked_at_most_every_five_seconds(server: Server) -> None:
    server.sglang()
    with aimed(server.url) as arm:
        for now in (0.0, 1.0, 2.0, 4.9, 5.0):
            arm.poll(now)
        assert sum("server_info" in path for path in server.asked) <= 2


def test_settings_that_cannot_be_read_are_said_to_be_so() -> None:
    from spectui.engines.sglang.info import unreadable_info

    arm = LiveArm("A", target=Target("x", url="http://127.0.0.1:1"), url="http://127.0.0.1:1")
    arm.info = unreadable_info(500, {"model_path": "m"})
    assert arm.standing() == ("ready", "serves, but its settings are not readable (HTTP 500)")


def test_a_busy_arm_is_left_alone() -> None:
    arm = LiveArm("A", busy="stopping the server")
    with pytest.raises(SessionError, match="A is busy: stopping the server"):
        arm.aim(None)


def test_an_info_body_of_no_speculation_is_off() -> None:
    info = read_info({**INFO, "speculative_algorithm": None})
    assert info.accept_length_in_force() == "off"
