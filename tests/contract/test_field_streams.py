"""Field cases about streams and proxies, with their own inputs and others of the same kind."""

from __future__ import annotations

import json
from typing import Any

import pytest
from answering_server import AnsweringServer
from field_data import DATA, expected, table

from spectui.core.accept import chunk_gaps, tokens_per_event, tpot
from spectui.core.request import RequestRecord
from spectui.engines.sglang.address import dialled
from spectui.engines.sglang.client import SglangClient
from spectui.runner.record import Ending, Identity, record_of
from spectui.runner.sse import EventSplitter
from spectui.runner.stream import StreamFold

WHO = Identity(0, "p", "chat", "A", "cold", "measure", 1, 0, "rid-0")
START = 1_700_000_000_000_000_000


def fed(pieces: list[tuple[float, bytes]], state: str = "complete") -> tuple[StreamFold, RequestRecord]:
    fold = StreamFold()
    fold.sent(START)
    at = START
    for t_ms, piece in pieces:
        at = START + round(t_ms * 1e6)
        fold.received(piece, at)
    fold.close()
    return fold, record_of(fold, WHO, Ending(state, at))


def event(body: object, ending: str = "\n\n") -> bytes:
    return f"data: {json.dumps(body, ensure_ascii=False)}{ending}".encode()


def timed(case: str) -> tuple[StreamFold, RequestRecord]:
    rows = table(case)["events"]
    return fed([*((row["t_ms"], event(row["data"])) for row in rows), (rows[-1]["t_ms"], b"data: [DONE]\n\n")])


def after_ms(record: RequestRecord, at: float | None) -> float:
    assert at is not None
    return round((at - record.start_s) * 1000, 3)


def cuts(data: bytes) -> list[list[tuple[float, bytes]]]:
    """At every byte, and one byte at a time."""
    halves = [[(1.0, data[:i]), (2.0, data[i:])] for i in range(len(data) + 1)]
    return [*halves, [(float(i), data[i : i + 1]) for i in range(len(data))]]


def native(count: int, text: str, finish: object = None) -> bytes:
    return event({"text": text, "meta_info": {"completion_tokens": count, "finish_reason": finish}})


@pytest.mark.parametrize(("chunks", "size"), [(20, 3), (12, 5), (30, 1)])
def test_fc38_time_between_chunks_is_not_time_between_tokens(chunks: int, size: int) -> None:
    rows: list[dict[str, int]] = table("FC-38")["chunks"]
    if (chunks, size) != (20, 3):
        rows = [{"t_ms": 200 + 30 * i, "completion_tokens": size * (i + 1)} for i in range(chunks)]
    pieces = [(float(row["t_ms"]), native(row["completion_tokens"], "x" * (i + 1))) for i, row in enumerate(rows)]
    _, record = fed([*pieces, (rows[-1]["t_ms"], b"data: [DONE]\n\n")])
    last, tokens = rows[-1]["t_ms"], rows[-1]["completion_tokens"]
    assert after_ms(record, record.first_s) == 200
    assert {round(gap, 4) for gap in chunk_gaps([record])} == {0.03}
    assert tokens_per_event([record]) == size
    assert tpot([record])[0] * 1000 == pytest.approx((last - 200) / (tokens - 1), abs=1e-3)
    if (chunks, size) == (20, 3):
        want = expected("FC-38")
        assert round(1000 * tpot([record])[0], 3) == want["tpot_ms"]
        speed = (record.completion_tokens or 0) / (record.end_s - record.start_s)
        assert round(speed, 2) == want["req_tok_s"]


@pytest.mark.parametrize("mode", ["cumulative", "incremental"])
def test_fc39_running_totals(mode: str) -> None:
    want = expected("FC-39")
    fold, record = fed([(1.0, (DATA / f"FC-39.{mode}.sse").read_bytes())])
    assert (record.completion_tokens, fold.text) == (want["tokens"], want["text"])


@pytest.mark.parametrize("repeats", [True, False])
def test_fc39_words_that_repeat_themselves(repeats: bool) -> None:
    words = ["na", "na", "na na", " ba"]
    texts = ["".join(words[: i + 1]) if repeats else word for i, word in enumerate(words)]
    pieces = [(float(i), native(4 * (i + 1), text)) for i, text in enumerate(texts)]
    fold, record = fed([*pieces, (9.0, native(20, texts[-1] if repeats else "", {"type": "stop"}))])
    assert (fold.text, record.completion_tokens) == ("nanana na ba", 20)


def test_fc49_the_first_token_is_the_first_text() -> None:
    want = expected("FC-49")
    fold, record = timed("FC-49")
    assert after_ms(record, record.first_s) == want["ttft_ms"]
    assert (record.completion_tokens, fold.text, fold.text_events) == (want["completion_tokens"], want["text"], 2)
    assert (record.status, record.tokens_estimated) == ("ok", False)


def test_fc49_without_usage_it_is_an_estimate() -> None:
    rows = [row for row in table("FC-49")["events"] if "usage" not in row["data"]]
    _, record = fed([*((row["t_ms"], event(row["data"])) for row in rows), (400, b"data: [DONE]\n\n")])
    assert (record.completion_tokens, record.tokens_estimated) == (2, True)


def test_fc68_characters_cut_in_half() -> None:
    want, data = expected("FC-68"), (DATA / "FC-68.sse").read_bytes()
    assert len(data) == want["bytes"]
    for pieces in cuts(data):
        fold, record = fed(pieces)
        assert (fold.text, fold.text_events, record.status) == (want["text"], want["text_chunks"], "ok")
    fold, record = fed([(1.0, data[: data.index("🚀".encode()) + 2])], "closed")
    assert (fold.text, record.status) == ("déjà vu 你好 \ufffd", "cut off")


@pytest.mark.parametrize("ending", ["\r\n", "\r", "\n"])
def test_fc69_line_endings(ending: str) -> None:
    want = expected("FC-69")
    data = (DATA / "FC-69.sse").read_bytes().replace(b"\r\n", ending.encode())
    for pieces in cuts(data):
        splitter = EventSplitter()
        found = [one for _, piece in pieces for one in splitter.feed(piece)] + splitter.finish()
        assert len(found) == want["events"]
        assert fed(pieces)[0].text == want["text"]


@pytest.mark.parametrize(("number", "message"), list(enumerate(expected("FC-71")["messages"], 1)))
def test_fc71_errors_inside_a_stream(number: int, message: str) -> None:
    for pieces in cuts((DATA / f"FC-71.{number}.sse").read_bytes()):
        _, record = fed(pieces)
        assert (record.status, record.error) == (expected("FC-71")["status"], message)
        assert record.completion_tokens == (None if number == 3 else 2)


@pytest.mark.parametrize(
    ("late", "message"),
    [
        (b'data: {"error": "gone"}\n\n', "gone"),
        (b'event: error\ndata: {"message": "named"}\n\n', "named"),
        (b'data: {"object":"error","message":"flat","type":"x","code":500}\n\ndata: [DONE]\n\n', "flat"),
        (b'data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"away"}}}\n\n', "away"),
    ],
)
def test_fc71_other_errors(late: bytes, message: str) -> None:
    _, record = fed([(1.0, native(4, "some")), (2.0, late)])
    assert (record.status, record.error, record.ok) == ("failed", message, False)


def test_fc73_noise_of_gateways() -> None:
    want = expected("FC-73")
    for pieces in cuts((DATA / "FC-73.sse").read_bytes()):
        fold, record = fed(pieces)
        assert (fold.text, fold.text_events, record.status) == (want["text"], want["text_chunks"], "ok")


def test_fc73_a_keep_alive_is_no_first_token() -> None:
    choice = {"choices": [{"index": 0, "delta": {"content": "x"}}]}
    _, record = fed([(5.0, b": wait\n\ndata:\n\n"), (90.0, event(choice)), (91.0, b"data:[DONE]\n\n")])
    assert after_ms(record, record.first_s) == 90


def test_fc75_thoughts_apart() -> None:
    want = expected("FC-75")
    fold, record = timed("FC-75")
    assert after_ms(record, record.first_s) == want["ttft_ms"]
    assert after_ms(record, record.first_answer_s) == want["answer_ttft_ms"]
    assert (fold.thoughts, fold.text, record.completion_tokens) == (want["thought"], want["answer"], want["tokens"])


@pytest.mark.parametrize("name", ["reasoning", "reasoning_content"])
def test_fc75_thoughts_alone_are_no_answer(name: str) -> None:
    body = {"choices": [{"index": 0, "delta": {"content": None, name: "hm"}}]}
    fold, record = fed([(1.0, event(body) + b"data: [DONE]\n\n")])
    assert (fold.thoughts, fold.text, record.status) == ("hm", "", "ok")
    assert "no_answer_text" in record.marks


@pytest.mark.parametrize(
    ("row", "host"), list(zip(table("FC-76")["urls"], expected("FC-76")["dial"], strict=True)), ids=str
)
def test_fc76_what_is_dialled(row: dict[str, str], host: str) -> None:
    assert dialled(row["url"]) == f"http://{f'[{host}]' if ':' in host else host}:30000"


@pytest.mark.parametrize(
    "environment",
    [
        table("FC-76")["env"],
        {"http_proxy": "http://127.0.0.1:1", "ALL_PROXY": "http://127.0.0.1:1", "no_proxy": ""},
        {"http_proxy": "socks9://[bad", "all_proxy": "::::"},
    ],
    ids=str,
)
def test_fc76_no_proxy_is_used(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    body: dict[str, Any] = {"speculative_algorithm": None, "version": "0.5.15", "model_path": "/m"}
    with AnsweringServer({"/server_info": (200, body), "/flush_cache": (200, "")}) as server:
        for host in ("0.0.0.0", "localhost", "127.0.0.1"):
            with SglangClient(f"http://{host}:{server.port}") as client:
                assert client.probe().version == "0.5.15"
                assert client.flush().flushed
