from __future__ import annotations

import contextlib
import json
import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from answering_server import AnsweringServer, Asked

from spectui.engines.sglang.client import SglangClient, read_loads
from spectui.engines.sglang.errors import (
    BadAddress,
    Broken,
    EngineError,
    NotReachable,
    NotSglang,
    NotThere,
    Refused,
    StillStarting,
    TimedOut,
    Unauthorized,
)
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable

DATA = Path(__file__).parent.parent / "data" / "sglang"
MISSING = (404, {"detail": "Not Found"})


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text())


def token(tokens: int = 1) -> tuple[int, Any]:
    return 200, {"text": "x", "meta_info": {"completion_tokens": tokens, "finish_reason": {"type": "length"}}}


@pytest.fixture
def server() -> Iterator[AnsweringServer]:
    folder = "ngram-8"
    with AnsweringServer(
        {
            "/server_info": (200, load(f"{folder}/server_info.json")),
            "/model_info": (200, load(f"{folder}/model_info.json")),
            "/v1/models": (200, load(f"{folder}/v1_models.json")),
            "/get_load": (200, load(f"{folder}/get_load.json")),
            "/list_external_corpora": (200, load(f"{folder}/list_external_corpora.json")),
            "/generate": token(),
            "/metrics": (200, (DATA / folder / "metrics.fresh.txt").read_text()),
        }
    ) as running:
        yield running


@pytest.fixture
def client(server: AnsweringServer) -> Iterator[SglangClient]:
    with SglangClient(server.url) as made:
        yield made


def free_port() -> int:
    with socket.create_server(("127.0.0.1", 0)) as held:
        return int(held.getsockname()[1])


# -- who is there


def test_probe_of_a_recorded_server(client: SglangClient, server: AnsweringServer) -> None:
    info = client.probe()
    assert (info.algorithm, info.version, info.server["context_len"]) == ("NGRAM", "0.5.15.post1", 8192)
    assert client.address_of("info") == "/server_info"
    assert "/get_server_info" not in server.paths()


def test_nothing_there() -> None:
    with SglangClient(f"127.0.0.1:{free_port()}") as client, pytest.raises(NotReachable) as caught:
        client.probe()
    assert "refused" in caught.value.what
    assert "127.0.0.1" in str(caught.value)
    assert caught.value.next


def test_https_where_http_is_served_is_named(server: AnsweringServer) -> None:
    with SglangClient(server.url.replace("http:", "https:")) as client, pytest.raises(NotReachable) as caught:
        client.probe()
    assert "no TLS there (https); perhaps it serves http" in str(caught.value)


def test_unknown_host() -> None:
    with SglangClient("http://no-such-host.invalid:1", timeout=3) as client, pytest.raises(NotReachable):
        client.probe()


@pytest.mark.parametrize("status", [401, 403])
def test_probe_without_the_key(client: SglangClient, server: AnsweringServer, status: int) -> None:
    server.replies["/server_info"] = (status, {"error": "Unauthorized"})
    with pytest.raises(Unauthorized) as caught:
        client.probe()
    assert "--key" in caught.value.next


@pytest.mark.parametrize(
    "reply",
    [
        (200, {"hello": "world"}),
        (200, "<html><body>hi</body></html>", {"Content-Type": "text/html"}),
        (200, b"\xff\xfe\x00"),
        (200, [1, 2]),
        (404, "<html>404</html>"),
        (405, ""),
    ],
)
def test_something_else_is_there(reply: Any) -> None:
    with AnsweringServer({"/server_info": reply}) as other, SglangClient(other.url) as client, pytest.raises(NotSglang):
        client.probe()


def raw_server(answer: bytes) -> tuple[socket.socket, threading.Thread]:
    listener = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        for _ in range(2):
            try:
                wire, _ = listener.accept()
            except OSError:
                return
            with wire:
                wire.recv(65536)
                wire.sendall(answer)

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()
    return listener, thread


@pytest.mark.parametrize(
    ("answer", "kind"),
    [
        (b"SSH-2.0-OpenSSH_9.6\r\nInvalid identification string.\r\n\r\n", NotSglang),
        (b"", Broken),
        (b"HTTP/1.1 200 OK\r\nContent-Length: 500\r\n\r\n{", Broken),
    ],
)
def test_what_does_not_speak_http_or_hangs_up(answer: bytes, kind: type[EngineError]) -> None:
    listener, thread = raw_server(answer)
    try:
        where = f"127.0.0.1:{listener.getsockname()[1]}"
        with SglangClient(where, timeout=3) as client, pytest.raises(kind) as caught:
            client.probe()
        assert ("or it serves https" in str(caught.value)) is (kind is Broken)
    finally:
        listener.shutdown(socket.SHUT_RDWR)
        listener.close()
        thread.join()


def test_headers_that_come_byte_by_byte_end_with_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """The limit holds for the whole call, not for each reading."""
    now = [1000.0]
    monkeypatch.setattr(time, "monotonic", lambda: now[0])
    listener = socket.create_server(("127.0.0.1", 0))

    def drip() -> None:
        wire, _ = listener.accept()
        with wire, contextlib.suppress(OSError):  # once the client has hung up
            wire.recv(65536)
            for byte in b"HTTP/1.1 200 OK\r\nX-Filler: " + 600 * b"x":
                now[0] += 0.5
                wire.sendall(bytes([byte]))

    thread = threading.Thread(target=drip, daemon=True)
    thread.start()
    try:
        with (
            SglangClient(f"127.0.0.1:{listener.getsockname()[1]}", timeout=5) as client,
            pytest.raises(TimedOut),
        ):
            client.model_info()
    finally:
        listener.close()
        thread.join()


def test_a_silent_server_is_given_up() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        with (
            SglangClient(f"127.0.0.1:{listener.getsockname()[1]}", timeout=0.1) as client,
            pytest.raises(TimedOut) as caught,
        ):
            client.probe()
        assert "within 0.1 s" in caught.value.what


def test_still_starting(client: SglangClient, server: AnsweringServer) -> None:
    server.replies["/server_info"] = (503, "")
    server.replies["/health"] = (503, "")
    with pytest.raises(StillStarting):
        client.probe()
    assert client.health() == 503


def test_fc32_info_500_and_the_model_answers(client: SglangClient, server: AnsweringServer) -> None:
    server.replies["/server_info"] = (500, "Internal Server Error")
    info = client.probe()
    assert info.unreadable == "not readable (HTTP 500)"
    assert info.model_path == "/models/smol"
    server.replies["/model_info"] = (500, "")
    assert client.probe().unreadable == "not readable (HTTP 500)"
    server.replies["/generate"] = (500, "")
    with pytest.raises(Broken) as caught:
        client.probe()
    assert "HTTP 500" in caught.value.what


def test_fc30_new_address_first_old_one_only_on_404() -> None:
    wanted = ["/get_server_info", "/get_server_info", "/server_info", "/server_info"]
    bodies = {"info": load("none/server_info.json"), "load": [], "model": load("none/model_info.json")}
    for row, address in zip(load("FC-30.json")["servers"], wanted, strict=True):
        replies = {
            path: (200, bodies["load" if "load" in path else "model" if "model" in path else "info"])
            for path in row["ok"]
        }
        with AnsweringServer(replies) as server, SglangClient(server.url) as client:
            client.probe()
            client.info(force=True)
            client.info(force=True)
            assert client.address_of("info") == address
            asked = [path for path in server.paths() if "server_info" in path]
            old_first_contact = ["/server_info", "/get_server_info", "/get_server_info", "/get_server_info"]
            assert asked == (["/server_info"] * 3 if address == "/server_info" else old_first_contact)
            client.loads()
            assert client.address_of("loads") == ("/v1/loads" if "/v1/loads" in row["ok"] else "/get_load")


def test_fc30_info_is_not_polled_faster_than_every_five_seconds(server: AnsweringServer) -> None:
    now = [100.0]
    with SglangClient(server.url, clock=lambda: now[0]) as client:
        client.probe()
        for second in (100.5, 102, 104.9):
            now[0] = second
            client.info()
        assert server.paths().count("/server_info") == 1
        now[0] = 105.1
        assert client.info().server["context_len"] == 8192
        assert server.paths().count("/server_info") == 2


def test_a_server_without_any_load_address_still_works(server: AnsweringServer, client: SglangClient) -> None:
    del server.replies["/get_load"]
    assert client.loads() is None
    assert isinstance(client.metrics(), MetricsReading)


def test_a_failing_load_address_is_no_reason_to_ask_the_old_one(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/v1/loads"] = (500, "Internal Server Error")
    assert client.loads() is None
    assert "/get_load" not in server.paths()


def test_load_answers_of_all_versions() -> None:
    assert read_loads({"load": 12}) == read_loads([{"num_tokens": 12}])
    listed = read_loads([{"dp_rank": 1, "num_reqs": 5, "num_waiting_reqs": 2, "num_tokens": 9}])
    assert listed is not None
    assert (listed[0].rank, listed[0].running, listed[0].waiting) == (1, 3, 2)
    new = read_loads(
        {"loads": [{"dp_rank": 0, "num_running_reqs": 4, "num_waiting_reqs": 0, "speculative": {"accept_length": 2.5}}]}
    )
    assert new is not None
    assert (new[0].running, new[0].accept_length) == (4, 2.5)
    assert read_loads("?") is None
    assert read_loads({"loads": None}) is None
    recorded = read_loads(load("none/get_load.json"))
    assert recorded is not None
    assert recorded[0].running == 0


# -- keys and addresses


def test_keys_by_route(server: AnsweringServer) -> None:
    server.replies["/flush_cache"] = (200, "")
    with SglangClient(server.url, key="normal", admin_key="boss") as client:
        client.probe()
        client.flush()
    keys = {asked.path: asked.headers.get("Authorization") for asked in server.asked}
    assert keys["/server_info"] == "Bearer normal"
    assert keys["/flush_cache"] == "Bearer boss"


def test_a_server_without_admin_key_takes_the_normal_one(server: AnsweringServer) -> None:
    def flush(asked: Asked) -> tuple[int, Any]:
        return (200, "") if asked.headers["Authorization"] == "Bearer normal" else (401, {"error": "Unauthorized"})

    server.replies["/flush_cache"] = flush
    with SglangClient(server.url, key="normal", admin_key="boss") as client:
        assert client.flush().flushed


def test_a_key_that_the_server_repeats_is_not_shown(server: AnsweringServer) -> None:
    server.replies["/generate"] = (400, {"error": {"message": "bad key sk-very-secret given"}})
    with SglangClient(server.url, key="sk-very-secret") as client, pytest.raises(Refused) as caught:
        client.generate_one()
    assert "sk-very-secret" not in str(caught.value)
    assert "bad key" in str(caught.value)


def test_a_key_with_a_line_break_is_refused_without_being_shown() -> None:
    with pytest.raises(BadAddress) as caught:
        SglangClient("http://127.0.0.1:1", key="secret\r\nX: y")
    assert "secret" not in str(caught.value)


# -- metrics


@pytest.mark.parametrize(
    ("reply", "kind", "words"),
    [
        ((404, {"detail": "Not Found"}), "off", "--enable-metrics"),
        ((401, ""), "unauthorized", "key"),
        ((500, ""), "broken", "500"),
    ],
)
def test_fc28_why_there_are_no_metrics(
    server: AnsweringServer, client: SglangClient, reply: Any, kind: str, words: str
) -> None:
    server.replies["/metrics"] = reply
    answer = client.metrics()
    assert isinstance(answer, MetricsUnavailable)
    assert answer.kind == kind
    assert words in answer.reason


def test_fc28_a_server_that_is_down_has_another_message() -> None:
    with SglangClient(f"127.0.0.1:{free_port()}") as client:
        answer = client.metrics()
    assert isinstance(answer, MetricsUnavailable)
    assert answer.kind == "down"
    assert "refused" in answer.reason


# -- flush


@pytest.mark.parametrize(
    ("sequence", "state", "attempts"),
    [("seq_1", "flushed", 3), ("seq_2", "unknown", 10), ("seq_3", "needs_admin_key", 1)],
)
def test_fc37_flush(server: AnsweringServer, client: SglangClient, sequence: str, state: str, attempts: int) -> None:
    server.replies["/flush_cache"] = [(row["status"], row["body"]) for row in load("FC-37.json")[sequence]]
    slept: list[float] = []
    outcome = client.flush(sleep=slept.append)
    assert (outcome.state, outcome.attempts, outcome.flushed) == (state, attempts, state == "flushed")
    assert len(slept) == attempts - 1
    assert sum(slept) <= 30
    assert bool(outcome.reason) != outcome.flushed


def test_flush_gives_up_at_its_time_limit(server: AnsweringServer) -> None:
    server.replies["/flush_cache"] = (400, "pending requests")
    now = [0.0]

    def sleep(seconds: float) -> None:
        now[0] += seconds

    with SglangClient(server.url, clock=lambda: now[0]) as client:
        outcome = client.flush(attempts=1000, limit_s=5, sleep=sleep)
    assert not outcome.flushed
    assert now[0] <= 5
    assert "pending requests" in outcome.reason


@pytest.mark.parametrize("status", [404, 500])
def test_flush_does_not_insist_where_it_is_broken(server: AnsweringServer, client: SglangClient, status: int) -> None:
    server.replies["/flush_cache"] = (status, "")
    outcome = client.flush(sleep=lambda _: None)
    assert (outcome.attempts, outcome.status, outcome.state) == (1, status, "unknown")


# -- tokens


def test_one_token_proves_it(client: SglangClient) -> None:
    assert client.generate_one().tokens == 1


@pytest.mark.parametrize(
    "reply",
    [
        (200, {"text": "", "meta_info": {"completion_tokens": 0}}),
        (200, {"text": "x"}),
        (200, {"text": "", "meta_info": {"completion_tokens": 1, "finish_reason": {"type": "abort", "message": "no"}}}),
        (200, "nothing"),
        (500, ""),
    ],
)
def test_no_token_is_no_proof(server: AnsweringServer, client: SglangClient, reply: Any) -> None:
    server.replies["/generate"] = reply
    with pytest.raises(Broken):
        client.generate_one()


def test_recorded_refusals_keep_their_words(server: AnsweringServer, client: SglangClient) -> None:
    for name, words in (("bad_request", "Either text, input_ids"), ("too_long", "longer than the model's context")):
        answer = load("answers.json")[name]
        server.replies["/generate"] = (answer["status"], answer["body"])
        with pytest.raises(Refused) as caught:
            client.generate(text="x")
        assert words in caught.value.what


def test_tokenize_or_not(server: AnsweringServer, client: SglangClient) -> None:
    assert client.tokenize(text="hi") is None
    server.replies["/tokenize"] = (200, {"tokens": [1, 2], "count": 2, "max_model_len": 9})
    assert client.tokenize(text="hi") == [1, 2]
    assert client.tokenize(messages=[{"role": "user", "content": "hi"}], thinking=False) == [1, 2]
    body = server.asked[-1].body
    assert body["messages"] == [{"role": "user", "content": "hi"}]
    assert body["chat_template_kwargs"]["enable_thinking"] is False
    assert "prompt" not in body
    server.replies["/tokenize"] = (500, "Internal Server Error")
    assert client.tokenize(text="hi") is None
    server.replies["/tokenize"] = (200, {"tokens": []})
    assert client.tokenize(text="hi") is None


def test_detokenize_or_not(server: AnsweringServer, client: SglangClient) -> None:
    assert client.detokenize([1]) is None
    server.replies["/detokenize"] = (200, {"text": "hi"})
    assert client.detokenize([1, 2]) == "hi"


def test_chat_sends_what_it_is_given(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/v1/chat/completions"] = (200, load("ngram-8/chat_return_meta_info.json"))
    found = client.chat([{"role": "user", "content": "hi"}], response_format={"type": "json_object"})
    assert found["object"] == "chat.completion"
    assert server.asked[-1].body["response_format"] == {"type": "json_object"}


def test_abort_never_by_accident(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/abort_request"] = (200, "")
    with pytest.raises(ValueError, match="everyone"):
        client.abort("")
    assert client.abort("spectui-1-")
    assert server.asked[-1].body == {"rid": "spectui-1-", "abort_all": False}
    assert client.abort(everything=True)


# -- hot changes


def states(value: float) -> tuple[int, Any]:
    body = load("ngram-8/server_info.json")
    body["internal_states"][0]["speculative_accept_threshold_single"] = value
    return 200, body


def test_a_threshold_is_in_force_only_when_read_back(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/set_internal_state"] = (200, [True])
    server.replies["/server_info"] = [states(1.0), states(0.9)]
    outcome = client.set_internal_state({"accept_threshold_single": 0.9})
    assert (outcome.applied, outcome.in_force) == (True, {"accept_threshold_single": 0.9})
    assert [asked.body for asked in server.asked if asked.body] == [
        {"server_args": {"speculative_accept_threshold_single": 0.9}}
    ]


def test_a_server_that_says_true_and_does_nothing(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/set_internal_state"] = (200, [True])
    server.replies["/server_info"] = states(1.0)
    outcome = client.set_internal_state({"accept_threshold_single": 0.5})
    assert outcome.applied is False
    assert outcome.in_force == {"accept_threshold_single": 1.0}


def test_the_oldest_answers_500_after_applying(server: AnsweringServer, client: SglangClient) -> None:
    server.replies["/set_internal_state"] = (500, "")
    server.replies["/server_info"] = [states(1.0), states(0.7)]
    assert client.set_internal_state({"accept_threshold_single": 0.7}).applied is True


def test_other_knobs_are_not_hot(server: AnsweringServer, client: SglangClient) -> None:
    with pytest.raises(Refused) as caught:
        client.set_internal_state({"num_steps": 3})
    assert "Relaunch" in caught.value.next
    assert "/set_internal_state" not in server.paths()


# -- corpora


def test_corpora(server: AnsweringServer, client: SglangClient) -> None:
    assert client.corpora() == {}
    server.replies["/list_external_corpora"] = (200, load("none/list_external_corpora.json"))
    assert client.corpora() is None
    server.replies["/add_external_corpus"] = (
        200,
        {"success": True, "corpus_id": "a", "message": "", "loaded_token_count": 7},
    )
    added = client.add_corpus(documents=["one", "two"])
    assert (added.ok, added.corpus_id, added.tokens) == (True, "a", 7)
    server.replies["/add_external_corpus"] = (
        400,
        {"success": False, "message": "Another corpus load is already in progress."},
    )
    again = client.add_corpus(documents=["one"], corpus_id="b")
    assert not again.ok
    assert "already in progress" in again.message
    with pytest.raises(NotThere) as caught:
        client.remove_corpus("a")
    assert "0.5.12" in caught.value.what


def test_a_file_of_certificates_that_is_not_there_stops_no_plain_server(
    server: AnsweringServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    from spectui.engines.sglang.connection import certificates

    certificates.cache_clear()
    monkeypatch.setenv("SSL_CERT_FILE", "/nowhere/ca.pem")
    with SglangClient(server.url, timeout=3) as plain:
        assert plain.probe().version
    certificates.cache_clear()
