"""What the simulated server does: state that moves, queue, keys, dropped clients, the end."""

from __future__ import annotations

import json
import os
import signal
import socket
import threading
from collections.abc import Iterator
from typing import Any

import psutil
import pytest
from sim_process import SimProcess

NGRAM = ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8", "--enable-metrics"]
RECORDS = "Write a long list of cities, one a line, as JSON records."


@pytest.fixture(scope="module")
def ngram() -> Iterator[SimProcess]:
    sam = ["--speculative-ngram-external-sam-budget", "6"]
    with SimProcess(*NGRAM, *sam, "--decode-log-interval", "10", "--max-running-requests", "3") as sim:
        yield sim


def _slow_stream(sim: SimProcess, text: str, tokens: int = 4000, rid: str | None = None) -> socket.socket:
    """A stream that has begun: its first event has been read."""
    body = json.dumps(
        {"text": text, "stream": True, "rid": rid, "sampling_params": {"max_new_tokens": tokens, "ignore_eos": True}}
    ).encode()
    s = socket.create_connection(("127.0.0.1", sim.port), timeout=20)
    s.sendall(b"POST /generate HTTP/1.1\r\nhost: x\r\ncontent-length: %d\r\n\r\n" % len(body) + body)
    seen = b""
    while b"data: " not in seen:
        seen += s.recv(4096)
    return s


def _rest(s: socket.socket) -> bytes:
    parts = []
    with s:
        while part := s.recv(65536):
            parts.append(part)
            if part.endswith(b"0\r\n\r\n"):
                break
    return b"".join(parts)


def test_the_store_learns_and_a_flush_empties_it(ngram: SimProcess) -> None:
    ngram.call("/flush_cache", {})
    steps = [ngram.generate(RECORDS, 200)["meta_info"]["spec_verify_ct"] for _ in range(2)]
    assert steps[1] < steps[0] / 2
    assert ngram.json("/server_info")["internal_states"][0]["avg_spec_accept_length"] > 1
    ngram.call("/flush_cache", {})
    assert "avg_spec_accept_length" not in ngram.json("/server_info")["internal_states"][0]
    assert ngram.generate(RECORDS, 200)["meta_info"]["spec_verify_ct"] == steps[0]


def test_fed_accepts_more_than_cold(ngram: SimProcess) -> None:
    prompts = [f"Write JSON records of sensors, set {i}." for i in range(12)]
    measured, feeding = prompts[:3], prompts[3:]

    def steps() -> int:
        return sum(int(ngram.generate(p, 150)["meta_info"]["spec_verify_ct"]) for p in measured)

    ngram.call("/flush_cache", {})
    cold = steps()
    ngram.call("/flush_cache", {})
    for prompt in feeding:
        ngram.generate(prompt, 150)
    assert steps() < cold


def test_counters_are_the_sum_of_requests(ngram: SimProcess) -> None:
    names = ("sglang:spec_verify_calls_total", "sglang:generation_tokens_total", "sglang:num_requests_total")
    before = [ngram.counter(n) for n in names]
    metas = [ngram.generate(f"Explain thing {i}.", 40 + i)["meta_info"] for i in range(3)]
    after = [ngram.counter(n) for n in names]
    assert after[0] - before[0] == sum(m["spec_verify_ct"] for m in metas)
    assert after[1] - before[1] == sum(m["completion_tokens"] for m in metas)
    assert after[2] - before[2] == 3


def test_loads_and_models(ngram: SimProcess) -> None:
    ngram.generate("Explain kites.", 60)
    said = ngram.json("/v1/loads?include=all")
    (row,) = said["loads"]
    assert (row["num_running_reqs"], row["num_waiting_reqs"], row["max_running_requests"]) == (0, 0, 3)
    assert row["speculative"]["accept_length"] > 1
    assert row["memory"]["token_capacity"] == row["max_total_num_tokens"]
    assert "speculative" not in ngram.json("/v1/loads")["loads"][0]


def test_equal_prompts_get_equal_answers_at_temperature_0(ngram: SimProcess) -> None:
    first, second = (ngram.generate("What is a tide?", 80) for _ in range(2))
    assert first["output_ids"] == second["output_ids"]
    sampled = [ngram.generate("What is a tide?", 80, sampling={"temperature": 0.8})["text"] for _ in range(2)]
    assert len({first["text"], *sampled}) == 3


def test_a_chat_prompt_goes_through_tokenize_to_the_same_answer(ngram: SimProcess) -> None:
    messages = [{"role": "user", "content": "Explain kites – schön!"}]
    said = ngram.json("/tokenize", {"model": "sim", "messages": messages})
    assert said["count"] == len(said["tokens"])
    assert said["max_model_len"] == 8192
    by_ids = ngram.json(
        "/generate", {"input_ids": said["tokens"], "sampling_params": {"temperature": 0, "max_new_tokens": 30}}
    )
    chat = ngram.json("/v1/chat/completions", {"messages": messages, "temperature": 0, "max_tokens": 30})
    assert chat["choices"][0]["message"]["content"] == by_ids["text"]
    assert ngram.json("/detokenize", {"tokens": by_ids["output_ids"]})["text"] == by_ids["text"]
    plain = ngram.json("/v1/tokenize", {"prompt": "Grüße, 世界"})
    assert ngram.json("/detokenize", {"tokens": plain["tokens"]}) == {"text": "Grüße, 世界"}
    assert ngram.call("/tokenize", {})[0] == 400


def test_a_batch_is_answered_in_order(ngram: SimProcess) -> None:
    body = {"text": ["Explain kites.", "Explain ropes."], "sampling_params": {"temperature": 0, "max_new_tokens": 20}}
    rows = ngram.json("/generate", body)
    assert [r["text"] for r in rows] == [ngram.generate(t, 20)["text"] for t in body["text"]]
    events = ngram.events("/generate", body)
    assert events[-1] == "[DONE]"
    assert {e["index"] for e in events[:-1]} == {0, 1}


def test_bad_requests_are_refused_and_name_the_fault(ngram: SimProcess) -> None:
    assert ngram.call("/generate", b"{no json")[0] == 422
    status, text = ngram.call("/generate", {"text": "x", "sampling_params": {"temperature": -1}})
    assert status == 400
    assert "temperature" in text
    status, text = ngram.call("/generate", {"text": "x", "sampling_params": {"max_new_tokens": "many"}})
    assert status == 400
    assert "many" in text
    assert ngram.call("/v1/chat/completions", {"messages": []})[0] == 400
    assert ngram.call("/generate", method="GET")[0] == 405
    assert ngram.call("/v1/loads?include=nonsense")[0] == 400
    assert ngram.call("/pause_generation", method="POST")[0] == 422


def test_more_than_max_running_requests_wait(ngram: SimProcess) -> None:
    started = len(ngram.log)
    texts: list[Any] = []
    endless = {"ignore_eos": True}
    threads = [
        threading.Thread(target=lambda i=i: texts.append(ngram.generate(f"Explain rope {i}.", 400, sampling=endless)))
        for i in range(8)
    ]  # fmt: skip
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(texts) == 8
    running = [int(x.split("#running-req: ")[1].split(",")[0]) for x in ngram.log[started:] if "Decode batch" in x]
    queued = [int(x.split("#queue-req: ")[1].split(",")[0]) for x in ngram.log[started:] if "Decode batch" in x]
    assert max(running) == 3
    assert max(queued) > 0


def test_external_corpora(ngram: SimProcess) -> None:
    prompt = "Describe a windmill by the sea."
    truth = ngram.generate(prompt, 120)["text"]
    ngram.call("/flush_cache", {})
    cold = ngram.generate(prompt, 120)["meta_info"]["spec_verify_ct"]
    added = ngram.json("/add_external_corpus", {"corpus_id": "mill", "documents": [truth]})
    assert added["success"] is True
    assert added["loaded_token_count"] > 50
    assert ngram.json("/list_external_corpora")["corpus_token_counts"] == {"mill": added["loaded_token_count"]}
    ngram.call("/flush_cache", {})
    assert ngram.generate(prompt, 120)["meta_info"]["spec_verify_ct"] < cold / 2, "a flush leaves corpora"
    assert ngram.call("/add_external_corpus", {"corpus_id": "mill", "documents": ["x"]})[0] == 400
    assert ngram.json("/remove_external_corpus", {"corpus_id": "mill"})["success"] is True
    assert ngram.call("/remove_external_corpus", {"corpus_id": "mill"})[0] == 400


@pytest.fixture(scope="module")
def paced() -> Iterator[SimProcess]:
    """Slow enough that a request is still running when the next call comes."""
    with SimProcess("--enable-metrics", "--decode-log-interval", "1", speed=0.3) as sim:
        yield sim


def test_a_flush_is_refused_while_a_request_runs_and_a_dropped_one_is_aborted(paced: SimProcess) -> None:
    stream = _slow_stream(paced, "Explain tides.")
    assert paced.call("/flush_cache", {})[0] == 400
    assert paced.json("/get_load")[0]["num_reqs"] == 1
    stream.close()
    assert paced.call("/flush_cache?timeout=10", {})[0] == 200
    assert paced.json("/get_load")[0]["num_reqs"] == 0


def test_abort_by_the_beginning_of_the_id(paced: SimProcess) -> None:
    kept, ended = (
        _slow_stream(paced, "Explain tides.", rid="other-1"),
        _slow_stream(paced, "Explain ropes.", rid="mine-1"),
    )
    assert paced.call("/abort_request", {"rid": "mine"})[0] == 200
    assert b'"finish_reason":{"type":"abort"' in _rest(ended)
    assert paced.json("/get_load")[0]["num_reqs"] == 1
    assert paced.call("/abort_request", {"abort_all": True})[0] == 200
    assert b"[DONE]" in _rest(kept)


def test_pause_holds_tokens_back_and_continue_lets_them_go(paced: SimProcess) -> None:
    stream = _slow_stream(paced, "Explain tides.", tokens=30)
    assert paced.call("/pause_generation", {"mode": "in_place"})[0] == 200
    assert paced.json("/get_load")[0]["num_reqs"] == 1
    assert paced.json("/server_info")["internal_states"][0]["last_gen_throughput"] == 0.0
    held = [paced.counter("sglang:realtime_tokens_total") for _ in range(5)]
    assert len(set(held)) == 1
    assert paced.call("/continue_generation", {})[0] == 200
    assert b"[DONE]" in _rest(stream)


def test_keys_are_needed_where_sglang_needs_them() -> None:
    with SimProcess("--api-key", "normal", "--admin-api-key", "admin", "--enable-metrics") as sim:
        normal, admin = ({"Authorization": f"Bearer {k}"} for k in ("normal", "admin"))
        assert sim.call("/server_info") == (401, '{"error":"Unauthorized"}')
        assert sim.call("/server_info", headers=admin)[0] == 401
        assert sim.call("/server_info", headers=normal)[0] == 200
        assert sim.call("/flush_cache", {}, headers=normal)[0] == 401
        assert sim.call("/flush_cache", {}, headers=admin)[0] == 200
        assert sim.call("/health")[0] == 200
        assert sim.call("/metrics")[0] == 200
        assert "normal" not in sim.text


def test_increments_when_asked_for() -> None:
    with SimProcess("--incremental-streaming-output") as sim:
        body = {"text": "Explain tides.", "sampling_params": {"temperature": 0, "max_new_tokens": 50}}
        events = sim.events("/generate", body)[:-1]
        whole = sim.json("/generate", body)
        assert "".join(e["text"] for e in events) == whole["text"]
        assert [t for e in events for t in e["output_ids"]] == whole["output_ids"]
        assert sim.call("/metrics")[0] == 404, "only with --enable-metrics"


@pytest.mark.parametrize("version", ["0.4.9", "0.5.5", "0.5.10", "0.5.23"])
def test_other_versions_speak_their_own_dialect(version: str) -> None:
    eagle = ["--speculative-algorithm", "EAGLE", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
             "--speculative-num-draft-tokens", "4"]  # fmt: skip
    with SimProcess("--sglang-version", version, *eagle) as sim:
        old = version in ("0.4.9", "0.5.5")
        assert sim.json("/get_server_info")["version"] == version
        assert sim.call("/server_info")[0] == (404 if old else 200)
        assert sim.call("/v1/loads")[0] == (404 if old else 200)
        assert sim.call("/get_load")[0] == (404 if version == "0.5.23" else 200)
        assert sim.call("/tokenize", {"prompt": "x"})[0] == (404 if version == "0.4.9" else 200)
        body = {"text": "Explain tides.", "sampling_params": {"temperature": 0, "max_new_tokens": 30}}
        events = sim.events("/generate", body)[:-1]
        assert ("output_ids" in events[0]) is (version != "0.4.9")
        if version == "0.5.5":
            assert sum(len(e["output_ids"]) for e in events) == 30, "ids are increments there, the text is not"
            assert events[-1]["text"].startswith(events[0]["text"])
        chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 20, "return_spec_tokens_details": True}
        details = [e for e in sim.events("/v1/chat/completions", chat) if e != "[DONE]" and "sglext" in e]
        assert len(details) == (1 if version == "0.5.23" else 0)


def test_the_worker_has_the_schedulers_name_and_dies_with_its_parent() -> None:
    with SimProcess() as sim:
        parent = psutil.Process(sim.process.pid)
        (worker,) = parent.children()
        assert worker.cmdline()[0] == "sglang::scheduler"
        assert os.getpgid(worker.pid) == os.getpgid(parent.pid)
        parent.kill()
        assert sim.ended() == -signal.SIGKILL
        psutil.wait_procs([worker], timeout=10)
        assert not worker.is_running()


def test_a_killed_worker_takes_the_server_down() -> None:
    with SimProcess() as sim:
        psutil.Process(sim.process.pid).children()[0].kill()
        assert sim.ended() == -signal.SIGKILL
        assert "crashed with exit code -9. Triggering SIGQUIT for cleanup..." in sim.text
        assert "SIGQUIT received. signum=None, frame=None. It usually means one child failed." in sim.text


def test_interrupt_ends_without_a_traceback() -> None:
    with SimProcess() as sim:
        sim.process.send_signal(signal.SIGINT)
        assert sim.ended() == 130
        assert "Traceback" not in sim.text


@pytest.mark.parametrize(("version", "code"), [("0.5.15.post1", -signal.SIGKILL), ("0.5.23", 0)])
def test_sigterm_drains_and_ends(version: str, code: int) -> None:
    with SimProcess("--sglang-version", version, speed=2) as sim:
        stream = _slow_stream(sim, "Explain tides.", tokens=200)
        sim.process.terminate()
        sim.until("SIGTERM received. signum=None frame=None. Draining requests and shutting down...")
        assert sim.call("/health")[0] == 503
        assert b"[DONE]" in _rest(stream), "what runs is finished first"
        assert sim.ended() == code


def test_a_server_that_has_just_ended_its_requests_is_idle_whatever_its_gauge_still_says(ngram: SimProcess) -> None:
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.metrics import MetricsReading
    from spectui.hosts import traffic

    url = f"http://127.0.0.1:{ngram.port}"
    ngram.generate(RECORDS, 200)
    with SglangClient(url) as client:
        reading = client.metrics()
        assert isinstance(reading, MetricsReading)
        assert reading.running == 1, "the gauge keeps the last log interval's value, as the recorded server's does"
        assert traffic.requests_now(client, reading) == (0, 0)
        assert reading.with_requests(0, 0).running == 0
    told = traffic.look(url)
    assert (told.busy, told.text) == (False, "idle")
    with _slow_stream(ngram, RECORDS):
        assert traffic.look(url).text == "1 running"
