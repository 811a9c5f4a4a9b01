"""Streams out of recordings and out of what went wrong for others, folded into records."""

from __future__ import annotations

import itertools
import json
from collections import Counter
from pathlib import Path

import msgspec
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.request import RequestRecord
from spectui.runner import payload
from spectui.runner.record import Ending, Identity, record_of
from spectui.runner.sse import EventSplitter
from spectui.runner.stream import StreamFold

DATA = Path(__file__).parent.parent / "data" / "streams"
WHO = Identity(0, "p", "code", "A", "cold", "measure", 1, 0, "rid-0")
START = 1_700_000_000_000_000_000


def sse(name: str) -> bytes:
    return (DATA / name).read_bytes()


def folded(pieces: list[bytes], state: str = "complete") -> tuple[StreamFold, RequestRecord]:
    fold = StreamFold()
    fold.sent(START)
    for i, piece in enumerate(pieces):
        fold.received(piece, START + (i + 1) * 1_000_000)
    fold.close()
    return fold, record_of(fold, WHO, Ending(state, START + (len(pieces) + 1) * 1_000_000))


def replayed(name: str) -> tuple[StreamFold, RequestRecord]:
    fold = StreamFold()
    fold.sent(START)
    at = 0
    for line in (DATA / name).read_text().splitlines():
        seconds, text = json.loads(line)
        at = START + round(seconds * 1e9)
        fold.received(text.encode() + b"\n", at)
    fold.close()
    return fold, record_of(fold, WHO, Ending("complete", at))


def timed(name: str) -> tuple[StreamFold, RequestRecord]:
    fold = StreamFold()
    fold.sent(START)
    given_ = json.loads((DATA / name).read_text())
    at = START
    for event in given_["events"]:
        at = START + event["t_ms"] * 1_000_000
        fold.received(b"data: " + json.dumps(event["data"]).encode() + b"\n\n", at)
    fold.received(b"data: [DONE]\n\n", at)
    return fold, record_of(fold, WHO, Ending("complete", at))


def ms(record: RequestRecord, at: float | None) -> float:
    assert at is not None
    return round((at - record.start_s) * 1000, 3)


@pytest.mark.parametrize("arm", ["ngram-8", "eagle3-3-1-4"])
def test_increments_of_the_native_stream_are_the_histogram(arm: str) -> None:
    fold, record = replayed(f"{arm}.generate_stream.edit.jsonl")
    assert record.status == "ok"
    assert record.finish in ("length", "stop")
    assert record.histogram is not None
    assert record.verify_steps == sum(record.histogram)
    assert record.increments[0] == 1
    accepted = Counter(tokens - 1 for tokens in record.increments[1:])
    # The last step may have been cut: what it accepted beyond the cut is in the histogram alone.
    moved = [abs(accepted[k] - n) for k, n in enumerate(record.histogram)]
    cut = sum(record.histogram) + sum(k * n for k, n in enumerate(record.histogram)) + 1 - record.completion_tokens
    assert sum(moved) <= (2 if cut else 0), (accepted, record.histogram)
    assert sum(record.increments) == record.completion_tokens == len(fold.output_ids)
    assert len(record.event_s) == len(record.increments) == record.verify_steps + 1
    assert record.first_s is not None
    assert not record.tokens_estimated
    assert fold.text.startswith("```python\ndef deposit")
    assert record.server_e2e_s is not None
    assert record.marks == ()


def test_without_speculation_each_event_is_a_token() -> None:
    _, record = replayed("none.generate_stream.edit.jsonl")
    assert record.status == "ok"
    assert set(record.increments) == {1}
    assert record.verify_steps is None
    assert record.histogram is None
    assert record.accepted_drafts is None


@pytest.mark.parametrize("arm", ["none", "ngram-8", "eagle3-3-1-4"])
def test_chat_stream_counts_by_usage(arm: str) -> None:
    fold, record = replayed(f"{arm}.chat_stream.jsonl")
    assert record.status == "ok"
    assert record.finish == "length"
    assert record.completion_tokens == sum(record.increments) == 200
    assert 0 not in record.increments, "the total after the last choice is no event that carried tokens"
    assert record.prompt_tokens == 39
    assert fold.text.startswith("A suspension bridge")


@pytest.mark.parametrize("arm", ["none", "ngram-8", "eagle3-3-1-4"])
def test_completions_stream_takes_the_total_from_usage(arm: str) -> None:
    _, record = replayed(f"{arm}.completions_stream.jsonl")
    assert record.status == "ok"
    assert record.completion_tokens == 120
    assert not record.tokens_estimated
    assert record.increments == ()
    assert record.event_s == ()
    assert record.first_s is not None


def test_fc38_time_between_chunks_is_not_time_between_tokens() -> None:
    case = json.loads((DATA / "FC-38.json").read_text())
    fold = StreamFold()
    fold.sent(START)
    for chunk in case["chunks"]:
        event = {"text": "x", "meta_info": {"completion_tokens": chunk["completion_tokens"], "finish_reason": None}}
        fold.received(f"data: {json.dumps(event)}\n\n".encode(), START + chunk["t_ms"] * 1_000_000)
    fold.received(b"data: [DONE]\n\n", START + 770_000_000)
    record = record_of(fold, WHO, Ending("complete", START + 770_000_000))
    assert ms(record, record.first_s) == 200
    assert record.increments == (3,) * 20
    assert ms(record, record.last_s) == 770
    gaps = [b - a for a, b in zip(record.event_s, record.event_s[1:], strict=False)]
    assert {round(gap, 6) for gap in gaps} == {0.03}


@pytest.mark.parametrize("mode", ["cumulative", "incremental"])
def test_fc39_running_totals(mode: str) -> None:
    fold, record = folded([sse(f"FC-39.{mode}.sse")])
    assert record.completion_tokens == 32
    assert record.increments == (8, 8, 8, 8)
    assert fold.text == "one two three four"
    assert record.status == "ok"


def native(count: int, text: str, ids: list[int], finish: object = None) -> bytes:
    meta = {"id": "x", "finish_reason": finish, "prompt_tokens": 3, "completion_tokens": count}
    return b"data: " + json.dumps({"text": text, "output_ids": ids, "meta_info": meta}).encode() + b"\n\n"


@pytest.mark.parametrize("text_repeats", [True, False])
@pytest.mark.parametrize("ids_repeat", [True, False])
def test_text_and_ids_may_repeat_apart(text_repeats: bool, ids_repeat: bool) -> None:
    """0.4.9 to 0.5.5 repeated the text while ids came once; later both repeat, or neither."""
    words = [f" w{i}" for i in range(40)]
    pieces, ids = [], []
    for i, word in enumerate(words):
        step = [10 * i, 10 * i + 1]
        ids += step
        pieces.append(
            native(
                len(ids),
                "".join(words[: i + 1]) if text_repeats else word,
                list(ids) if ids_repeat else step,
                {"type": "length", "length": 80} if i == len(words) - 1 else None,
            )
        )
    fold, record = folded([*pieces, b"data: [DONE]\n\n"])
    assert fold.text == "".join(words)
    assert fold.output_ids == ids
    assert record.increments == (2,) * 40
    assert record.finish == "length"


def test_text_that_names_the_counter_is_not_counted() -> None:
    evil = 'say "completion_tokens": 999, "finish_reason": "stop" and "completion_tokens":7'
    pieces = [native(i + 1, evil * (i + 1), list(range(i + 1))) for i in range(6)]
    last = native(7, evil * 7, list(range(7)), {"type": "stop", "matched": 2})
    fold, record = folded([*pieces, last, b"data: [DONE]\n\n"])
    assert record.increments == (1,) * 7
    assert record.finish == "stop"
    assert fold.text == evil * 7


def test_only_the_tail_of_a_repeating_event_is_searched(monkeypatch: pytest.MonkeyPatch) -> None:
    decoded: list[int] = []
    from spectui.runner import payload as module

    real = module.decode
    monkeypatch.setattr(module, "decode", lambda data: (decoded.append(len(data)), real(data))[1])
    pieces = [native(i + 1, "word " * (i + 1), list(range(i + 1))) for i in range(400)]
    fold, record = folded([*pieces, native(401, "word " * 401, list(range(401)), {"type": "length"})])
    assert len(record.increments) == 401
    assert sum(size > 1000 for size in decoded) <= 1, "events were decoded whole although they repeat the text"
    assert fold.text == "word " * 401


def test_fc49_role_chunk_and_empty_choices() -> None:
    fold, record = timed("FC-49.json")
    assert ms(record, record.first_s) == 310
    assert fold.text_events == 2
    assert record.completion_tokens == 7
    assert not record.tokens_estimated
    assert fold.text == "blue whale"
    assert record.prompt_tokens == 12
    assert record.status == "ok"


def test_a_stop_token_without_text_is_a_step_at_the_finish() -> None:
    """A real server at a natural end: the last usage of a text chunk is one below the total, the stop token's."""

    def chunk(text: str | None, tokens: int | None, finish: str | None = None) -> bytes:
        delta: dict[str, object] = {"reasoning_content": None} | ({} if text is None else {"content": text})
        event: dict[str, object] = {"choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}
        if tokens is not None:
            event["usage"] = {"prompt_tokens": 9, "completion_tokens": tokens}
        return b"data: " + json.dumps(event).encode() + b"\n\n"

    total = {"choices": [], "usage": {"prompt_tokens": 9, "completion_tokens": 4}}
    _, record = folded(
        [
            chunk("blue", 1),
            chunk(" whale", 3),
            chunk(None, None, "stop"),
            b"data: " + json.dumps(total).encode() + b"\n\n",
            b"data: [DONE]\n\n",
        ]
    )
    assert record.completion_tokens == sum(record.increments) == 4
    assert record.increments == (1, 2, 1)
    assert record.event_s[2] > record.event_s[1]
    assert record.finish == "stop"


def test_without_usage_the_count_is_marked_estimated() -> None:
    _, record = folded([sse("FC-68.sse")])
    assert record.completion_tokens == 3
    assert record.tokens_estimated


def test_fc75_thoughts_in_a_field_of_their_own() -> None:
    fold, record = timed("FC-75.json")
    assert ms(record, record.first_s) == 220
    assert ms(record, record.first_answer_s) == 900
    assert fold.thoughts == "First add. Then check."
    assert fold.text == "17 it is"
    assert record.completion_tokens == 31
    assert record.marks == ()


def test_thoughts_alone_are_output_but_no_answer() -> None:
    events = [{"choices": [{"delta": {"content": "", "reasoning_content": "Hm."}}]}, {"choices": [{"delta": {}}]}]
    fold, record = folded(
        [b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n"]
    )
    assert record.status == "ok"
    assert record.marks == ("no_answer_text",)
    assert fold.thoughts == "Hm."


def every_cut(data: bytes) -> list[list[bytes]]:
    cuts = [[data[:i], data[i:]] for i in range(len(data) + 1)]
    return [*cuts, [bytes([byte]) for byte in data]]


def test_fc68_a_character_cut_in_half() -> None:
    data = sse("FC-68.sse")
    for pieces in every_cut(data):
        fold, record = folded(pieces)
        assert fold.text == "déjà vu 你好 🚀 ok"
        assert fold.text_events == 3
        assert record.status == "ok"


def test_fc68_a_stream_that_ends_inside_a_character() -> None:
    data = sse("FC-68.sse")
    cut = data.index("好".encode()) + 1
    fold, record = folded([data[:cut]])
    assert fold.text == "déjà vu 你�"
    assert record.status == "cut off"
    for size in (1, 2, 3):
        fold, record = folded([data[: data.index("🚀".encode()) + size]], "reset")
        assert fold.text == "déjà vu 你好 �"
        assert record.status == "cut off"


@pytest.mark.parametrize("repeats", [True, False])
def test_a_native_stream_that_ends_inside_a_character(repeats: bool) -> None:
    steps = ["é"] * 6
    pieces = [native(i + 1, "".join(steps[: i + 1]) if repeats else "é", [i]) for i in range(5)]
    last = json.dumps({"text": "".join(steps) if repeats else "é", "meta_info": {}}, ensure_ascii=False).encode()
    cut = last.rindex("é".encode()) + 1
    fold, record = folded([*pieces, b"data: " + last[:cut]])
    assert fold.text == "ééééé\ufffd"
    assert record.status == "cut off"
    assert record.completion_tokens == 5


def test_fc69_three_line_endings() -> None:
    data = sse("FC-69.sse")
    assert b"\r\n" in data
    for ending in (b"\r\n", b"\r", b"\n"):
        given_ = data.replace(b"\r\n", ending)
        for pieces in every_cut(given_):
            fold, record = folded(pieces)
            assert fold.text == "ab"
            assert record.status == "ok"
            assert fold.unreadable == 0
            splitter = EventSplitter()
            events = [event for piece in pieces for event in splitter.feed(piece)] + splitter.finish()
            assert len(events) == 4
            assert events[-1] == b"[DONE]"


@pytest.mark.parametrize(
    ("name", "words", "tokens"),
    [
        ("FC-71.1.sse", "pool exhausted", 2),
        ("FC-71.2.sse", "aborted by operator", 2),
        ("FC-71.3.sse", "bad schema", None),
    ],
)
def test_fc71_an_error_inside_a_stream(name: str, words: str, tokens: int | None) -> None:
    for pieces in every_cut(sse(name)):
        _, record = folded(pieces)
        assert record.status == "failed"
        assert record.error == words
        assert record.completion_tokens == tokens


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (b'data: {"error": "gone"}\n\n', "gone"),
        (b'event: error\ndata: {"message": "named"}\n\n', "named"),
        (b"event: error\ndata: plain words\n\n", "plain words"),
        (b'data: {"detail": "x", "error": {"code": 3}}\n\n', '{"code": 3}'),
        (b'data: {"text":"","meta_info":{"finish_reason":{"type":"abort","message":"x"}}}\n\ndata: [DONE]\n\n', "x"),
    ],
)  # fmt: skip
def test_other_shapes_of_an_error(event: bytes, words: str) -> None:
    _, record = folded([native(3, "abc", [1, 2, 3]) + event])
    assert record.status == "failed"
    assert record.error == words
    assert record.completion_tokens == 3


def test_an_absent_error_is_none() -> None:
    body = b'data: {"error": null, "choices": [{"delta": {"content": "x"}}]}\n\ndata: [DONE]\n\n'
    _, record = folded([body])
    assert record.status == "ok"


def test_fc73_noise_is_ignored() -> None:
    for pieces in every_cut(sse("FC-73.sse")):
        fold, record = folded(pieces)
        assert fold.text == "no space two"
        assert fold.text_events == 3
        assert record.status == "ok"


def test_a_line_separator_inside_text_is_text() -> None:
    words = "a\u2028b\u0085c\u000b\x1cd"
    event = {"choices": [{"delta": {"content": words}}]}
    fold, _ = folded([b"data: " + json.dumps(event, ensure_ascii=False).encode() + b"\n\ndata: [DONE]\n\n"])
    assert fold.text == words


def test_lone_surrogates_become_replacement_signs() -> None:
    body = b'data: {"choices":[{"delta":{"content":"a\\ud83d"}}]}\n\ndata: {"choices":[{"delta":{"content":"b"}}]}\n\n'
    fold, _ = folded([body + b"data: [DONE]\n\n"])
    assert fold.text == "a�b"
    fold.text.encode()


@pytest.mark.parametrize(
    ("state", "begun", "status"),
    [
        ("complete", True, "cut off"), ("closed", True, "cut off"), ("reset", True, "cut off"),
        ("silent", True, "cut off"), ("stopped", True, "stopped"), ("complete", False, "cut off"),
        ("closed", False, "failed"), ("refused", False, "failed"), ("stopped", False, "stopped"),
    ],
)  # fmt: skip
def test_endings_without_the_end_mark(state: str, begun: bool, status: str) -> None:
    _, record = folded([native(3, "abc", [1, 2, 3])] if begun else [], state)
    assert record.status == status
    assert record.completion_tokens == (3 if begun else None)
    assert status == "stopped" or record.error


def test_an_answer_other_than_200_is_told_in_the_servers_words() -> None:
    fold = StreamFold()
    fold.sent(START)
    fold.close()
    record = record_of(fold, WHO, Ending("status", START + 5, 401, "", b'{"error":"Unauthorized"}'))
    assert record.status == "failed"
    assert record.error == "HTTP 401: Unauthorized"


def test_an_end_mark_without_a_token_is_no_success() -> None:
    _, record = folded([b"data: [DONE]\n\n"])
    assert record.status == "failed"
    assert "without a token" in (record.error or "")


def test_an_end_mark_without_its_blank_line_counts() -> None:
    _, record = folded([native(1, "a", [1]), b"data: [DONE]"])
    assert record.status == "ok"


def test_details_of_the_chat_route() -> None:
    """0.5.23 sends the speculative details in an event of their own, before the usage."""
    sglext = {
        "spec_tokens_details": {
            "spec_verify_ct": 4,
            "spec_num_correct_drafts": 5,
            "spec_correct_drafts_histogram": [1, 1, 2],
        }
    }
    events = [
        {"choices": [{"delta": {"content": "x"}}], "usage": {"completion_tokens": 10, "prompt_tokens": 2}},
        {"choices": [{"delta": {}, "finish_reason": "stop"}]},
        {"choices": [], "sglext": sglext},
        {
            "choices": [],
            "usage": {"completion_tokens": 10, "prompt_tokens": 2, "prompt_tokens_details": {"cached_tokens": 1}},
        },
    ]
    _, record = folded([b"".join(b"data: " + json.dumps(e).encode() + b"\n\n" for e in events) + b"data: [DONE]\n\n"])
    assert (record.verify_steps, record.accepted_drafts, record.histogram) == (4, 5, (1, 1, 2))
    assert record.completion_tokens == 10
    assert record.cached_tokens == 1
    assert record.marks == ("route_joined_steps",)


@pytest.mark.parametrize("repeats", [True, False])
def test_live_pieces_are_tokens_and_text_by_event(repeats: bool) -> None:
    fold = StreamFold()
    fold.sent(START)
    fold.live = []
    pieces = []
    for i in range(8):
        text = "ab" * (i + 1) if repeats else "ab"
        ids = list(range(2 * i + 2)) if repeats else [2 * i, 2 * i + 1]
        fold.received(native(2 * i + 2, text, ids), START + i + 1)
        if i % 3 == 2:
            pieces += fold.take_live()
    pieces += fold.take_live()
    assert pieces == [(2, "ab")] * 8
    assert fold.text == "ab" * 8


TEXT = st.text(alphabet=st.sampled_from('aé你🚀\\"\u2028:{}\n data'), max_size=6)


@settings(max_examples=60, deadline=None)
@given(
    texts=st.lists(TEXT.filter(bool), min_size=1, max_size=6),
    ending=st.sampled_from([b"\n", b"\r\n", b"\r"]),
    cuts=st.lists(st.integers(0, 600), max_size=8),
    comments=st.booleans(),
)
def test_any_text_any_cut_any_line_ending(texts: list[str], ending: bytes, cuts: list[int], comments: bool) -> None:
    lines = []
    for text in texts:
        event = {"choices": [{"delta": {"content": text}}]}
        lines += [b": noise", b""] if comments else []
        lines += [b"data: " + json.dumps(event, ensure_ascii=False).encode(), b""]
    data = ending.join([*lines, b"data: [DONE]", b"", b""])
    edges = sorted({0, len(data), *(cut for cut in cuts if cut < len(data))})
    fold, record = folded([data[a:b] for a, b in itertools.pairwise(edges)])
    assert fold.text == "".join(texts)
    assert fold.text_events == len(texts)
    assert record.status == "ok"


@settings(max_examples=60, deadline=None)
@given(
    sizes=st.lists(st.integers(1, 4), min_size=4, max_size=14),
    cuts=st.lists(st.integers(0, 4000), max_size=12),
    groups=st.lists(st.integers(1, 5), max_size=8),
)
def test_reads_taken_together_give_what_they_give_one_by_one(
    sizes: list[int], cuts: list[int], groups: list[int]
) -> None:
    events, count = [], 0
    for size in sizes:
        count += size
        events.append(native(count, f" w{count}é", list(range(count - size, count))))
    last = native(count, "", [], {"type": "length", "length": count})
    data = b"".join([*events, last, b"data: [DONE]\n\n"])
    ends = itertools.accumulate(len(event) for event in events)
    # Chunks end where events do, as SGLang's, and anywhere, as a gateway's.
    edges = sorted({0, len(data), *ends, *(cut for cut in cuts if cut < len(data))})
    heard = [(data[a:b], START + i + 1) for i, (a, b) in enumerate(itertools.pairwise(edges))]
    one_by_one, together = StreamFold(), StreamFold()
    for fold in (one_by_one, together):
        fold.sent(START)
    ended = [one_by_one.received(piece, t_ns) for piece, t_ns in heard]
    at = 0
    while at < len(heard):
        size = groups.pop() if groups else 7
        end = together.take(heard[at : at + size])
        at += size
    assert end == heard[ended.index(True)][1]
    for fold in (one_by_one, together):
        fold.close()
    ending = Ending("complete", START + 10_000)
    assert record_of(together, WHO, ending) == record_of(one_by_one, WHO, ending)
    assert (together.text, together.output_ids) == (one_by_one.text, one_by_one.output_ids)
    assert together.output_ids == list(range(count))


@settings(max_examples=60, deadline=None)
@given(st.binary(max_size=300))
def test_any_bytes_give_a_record(data: bytes) -> None:
    for pieces in ([data], [bytes([b]) for b in data]):
        _, record = folded([b'data: {"choices":[{"delta":{"content":"a"}}]}\n\n', *pieces])
        assert record.status in ("ok", "failed", "cut off")


@pytest.mark.parametrize("begin", [b"data: x", b"data: {}\n\ndata: x"])
def test_an_event_without_an_end_fails_and_is_not_kept(monkeypatch: pytest.MonkeyPatch, begin: bytes) -> None:
    """A server that sends one endless line must not fill the memory of the client."""
    monkeypatch.setattr("spectui.runner.sse.EVENT_LIMIT", 4 * 1024**2)
    fold = StreamFold()
    fold.sent(START)
    assert not fold.received(begin, START + 1)
    taken = 0
    while not fold.received(b"x" * 65536, START + 2):
        taken += 65536
        assert taken <= 4 * 1024**2
    record = record_of(fold, WHO, Ending("complete", START + 3))
    assert record.status == "failed"
    assert "4 MiB without an end" in (record.error or "")
    assert fold.received(b"x" * 65536, START + 4)  # nothing more is taken


def test_many_events_together_are_no_large_event(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("spectui.runner.sse.EVENT_LIMIT", 1000)
    splitter = EventSplitter()
    found = [payload for _ in range(100) for payload in splitter.feed(b"data: " + b"y" * 300 + b"\n\ndata: z")]
    assert len(found) == 100


def test_an_error_that_is_no_json_is_an_error_all_the_same() -> None:
    begun = b'data: {"text":"a","output_ids":[1],"meta_info":{"id":"r","completion_tokens":1,"finish_reason":null}}\n\n'
    told = b'data: {"error": {"message": "CUDA error: \x1b[31mdevice-side assert"}}\n\ndata: [DONE]\n\n'
    _, record = folded([begun, told])
    assert record.status == "failed"
    assert "device-side assert" in str(record.error)
    assert folded([begun, b'data: {"error": null, \x1b}\n\n', b"data: [DONE]\n\n"])[1].status == "ok"


@pytest.mark.parametrize("count", [10**30, -1, 2**40, 1e300, float("inf")])
def test_a_count_of_tokens_that_no_answer_has_is_not_believed(count: float) -> None:
    body = json.dumps({"text": "a", "output_ids": [5], "meta_info": {"completion_tokens": count}}).encode()
    event = payload.decode(body)
    assert event is not None
    assert event.meta_info is not None
    assert event.meta_info.completion_tokens is None
    with pytest.raises(msgspec.MsgspecError):
        payload.decode_step(body)
