"""Whole runs against a small server that speaks just enough of SGLang, and misbehaves where a test says so."""

from __future__ import annotations

import errno
import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from scripted_server import ScriptedServer, Talk

from spectui.core.gpu import GpuReading
from spectui.core.result import fold
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, Prompt, RunSpec, WorkloadRef
from spectui.hosts.gpus import GpuPanel
from spectui.runner.__main__ import Signals, run
from spectui.runner.counters import Sent, foreign_traffic, restarted
from spectui.runner.measure import Measurement
from spectui.runner.watch import Followed, Watch
from spectui.store import journal


@dataclass
class FakeSglang:
    """State and habits of the server. ``learn``: accept length grows with what it has generated, as NGRAM's does."""

    algorithm: str | None = None
    version: str = "0.5.15.post1"
    tokenizes: bool = True
    metrics: bool = True
    incremental: bool = False
    flush_answers: list[int] = field(default_factory=list)
    others: int = 0
    """Tokens of others that are counted with each of our requests."""
    running: int = 0
    refuse_native: bool = False
    threshold: float = 1.0
    key: str | None = None
    stream: Callable[[Talk, int, dict[str, Any]], None] | None = None
    calls: list[str] = field(default_factory=list)
    tokens: int = 0
    requests: int = 0
    generated: int = 0
    """Since the flush."""
    lock: threading.Lock = field(default_factory=threading.Lock)

    def __call__(self, talk: Talk) -> None:
        path = talk.path.partition("?")[0]
        with self.lock:
            self.calls.append(path)
        if self.key and talk.headers.get("authorization") != f"Bearer {self.key}" and path != "/metrics":
            talk.answer(401, b'{"error":"Unauthorized"}')
            return
        name = "on" + path.replace("/", "_").replace(".", "_")
        answer = getattr(self, name, None)
        if answer is None:
            talk.answer(404, b'{"detail":"Not Found"}')
        else:
            answer(talk)

    def json(self, talk: Talk, value: object, status: int = 200) -> None:
        talk.answer(status, json.dumps(value).encode(), "Content-Type: application/json")

    def on_server_info(self, talk: Talk) -> None:
        body = {
            "version": self.version,
            "model_path": "/m",
            "served_model_name": "m",
            "speculative_algorithm": self.algorithm,
            "speculative_num_draft_tokens": 8 if self.algorithm else None,
            "incremental_streaming_output": self.incremental,
            "speculative_accept_threshold_acc": self.threshold,
            "internal_states": [{}],
        }
        self.json(talk, body)

    def on_v1_models(self, talk: Talk) -> None:
        self.json(talk, {"data": [{"id": "m", "max_model_len": 4096}]})

    def on_v1_loads(self, talk: Talk) -> None:
        self.json(talk, {"loads": [{"dp_rank": 0, "num_running_reqs": self.running, "num_waiting_reqs": 0}]})

    def on_metrics(self, talk: Talk) -> None:
        if not self.metrics:
            talk.answer(404, b'{"detail":"Not Found"}')
            return
        lines = [f"sglang:generation_tokens_total {self.tokens}", f"sglang:num_requests_total {self.requests}", ""]
        talk.answer(200, "\n".join(lines).encode())

    def on_tokenize(self, talk: Talk) -> None:
        if not self.tokenizes:
            talk.answer(500, b"Internal Server Error")
            return
        words = json.dumps(json.loads(talk.body)["messages"])
        self.json(talk, {"tokens": [ord(c) for c in words][:40], "count": 40, "max_model_len": 4096})

    def on_flush_cache(self, talk: Talk) -> None:
        status = self.flush_answers.pop(0) if self.flush_answers else 200
        if status == 200:
            self.generated = 0
        talk.answer(status, b"Cache flushed." if status == 200 else b"busy")

    def on_generate(self, talk: Talk) -> None:
        asked = json.loads(talk.body)
        if self.refuse_native:
            talk.answer(404, b'{"detail":"Not Found"}')
            return
        number = self.requests
        limit = asked["sampling_params"]["max_new_tokens"]
        if self.stream is not None:
            self.stream(talk, number, asked)
            return
        self.answer(talk, limit)

    def answer(self, talk: Talk, limit: int) -> None:
        width = 1 if self.algorithm is None else 1 + min(3, self.generated // 200)
        talk.head()
        count, histogram = 1, [0] * 8
        ids = [0]
        talk.event(self.event(count, ids, None))
        while count < limit:
            step = min(width, limit - count)
            histogram[step - 1] += 1
            count += step
            ids = list(range(count))
            finish = {"type": "length", "length": limit} if count == limit else None
            with self.lock:
                if finish:
                    self.count(count)
            talk.event(self.event(count, ids, finish, histogram if self.algorithm else None))
        talk.done()

    def count(self, tokens: int) -> None:
        self.tokens += tokens + self.others
        self.requests += 1 + bool(self.others)
        self.generated += tokens

    def event(self, count: int, ids: list[int], finish: object, histogram: list[int] | None = None) -> dict[str, Any]:
        meta: dict[str, Any] = {"finish_reason": finish, "prompt_tokens": 9, "completion_tokens": count}
        if finish and histogram:
            meta |= {"spec_verify_ct": sum(histogram), "spec_correct_drafts_histogram": histogram}
        return {"text": "w " * count, "output_ids": ids, "meta_info": meta}

    def on_v1_chat_completions(self, talk: Talk) -> None:
        asked = json.loads(talk.body)
        limit = asked["max_tokens"]
        talk.head()
        talk.event({"choices": [{"index": 0, "delta": {"role": "assistant", "content": ""}}]})
        for count in range(1, limit + 1):
            usage = {"usage": {"completion_tokens": count, "prompt_tokens": 9}}
            more = usage if asked["stream_options"].get("continuous_usage_stats") else {}
            talk.event({"choices": [{"index": 0, "delta": {"content": "w "}}], **more})
        with self.lock:
            self.count(limit)
        talk.event({"choices": [{"index": 0, "delta": {}, "finish_reason": "length"}]})
        talk.event({"choices": [], "usage": {"completion_tokens": limit, "prompt_tokens": 9}})
        talk.done()


def prompts(name: str, count: int) -> tuple[Prompt, ...]:
    return tuple(
        Prompt(f"{name}{i}", "chat", messages=({"role": "user", "content": f"{name} {i}"},)) for i in range(count)
    )


def spec_of(folder: Path, *urls: str, **more: Any) -> RunSpec:
    values: dict[str, Any] = {
        "run_id": "r",
        "folder": str(folder),
        "arms": tuple(ArmSpec(name, url) for name, url in zip("AB", urls, strict=False)),
        "workload": WorkloadRef("test", "h"),
        "feeding": prompts("feed", 30),
        "measuring": prompts("measure", 6),
        "passes": ("cold",),
        "max_tokens": 20,
        "flush": "yes",
        "sample_gpus": False,
    }
    return RunSpec(**{**values, **more})


def carry_out(spec: RunSpec, signals: Signals | None = None) -> tuple[int, list[Row]]:
    folder = Path(spec.folder)
    path = folder / "spec.json"
    path.write_text(json.dumps(asdict(spec)))
    with journal.Writer(folder / "journal.jsonl") as writer:
        code = run(path, writer, signals or Signals())
    return code, list(journal.read(folder / "journal.jsonl"))


def of(rows: list[Row], kind: str, **values: object) -> list[Row]:
    return [row for row in rows if row["kind"] == kind and all(row.get(k) == v for k, v in values.items())]


def test_a_run_of_one_arm(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang()) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    assert rows[0]["kind"] == "head"
    assert rows[-1]["kind"] == "end"
    assert rows[-1]["status"] == "complete"
    head = rows[0]["arms"][0]
    assert head["algorithm"] == "none"
    assert head["route"] == "/generate with input_ids, cumulative"
    measured = of(rows, "request", phase="measure")
    assert [row["status"] for row in measured] == ["ok"] * 6
    assert {row["completion_tokens"] for row in measured} == {20}
    assert sorted(row["index"] for row in measured) == list(range(6))
    assert of(rows, "phase", phase="flush", state="end")[0]["detail"]["flushed"] is True
    assert not of(rows, "mark")
    client = of(rows, "client")[0]
    assert client["transport"] == "epoll"
    assert client["wall_s"] > 0
    result = fold(rows)
    assert result.passes[("A", 1, "cold")].output_tokens == 120
    states = {identity["state"] for identity in result.passes[("A", 1, "cold")].as_json()["identities"]}
    assert "broken" not in states
    warm_up = of(rows, "request", phase="warmup")
    assert {row["prompt_id"] for row in warm_up} == {"feed0"}, "a measured prompt must not be sent before"


def test_cold_and_warm_of_a_learning_arm(tmp_path: Path) -> None:
    fake = FakeSglang("NGRAM")
    with ScriptedServer(fake) as server:
        spec = spec_of(tmp_path, server.url, passes=("cold", "warm"), feeding=prompts("feed", 120), max_tokens=40)
        code, rows = carry_out(spec)
    assert code == 0, rows[-1]
    order = [(r["pass_name"], r["phase"]) for r in of(rows, "phase", state="begin")]
    cold = [("cold", phase) for phase in ("warmup", "flush", "measure")]
    assert order == [*cold, *(("warm", phase) for phase in ("warmup", "flush", "feed", "measure"))]
    feed = of(rows, "phase", phase="feed", state="end")[0]["detail"]
    assert feed["steady"] is True
    assert feed["ended"] == "steady"
    assert feed["requests"] < 120, "feeding ends when accept length is steady"
    assert feed["tokens"] >= feed["least"] == 2000
    result = fold(rows)
    one, two = (result.passes[("A", 1, name)].as_json()["accept_length"] for name in ("cold", "warm"))
    assert two > one
    assert fake.calls.count("/flush_cache") == 2


def test_feeding_ends_at_its_limit(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang("NGRAM")) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, passes=("warm",), feed_limit=5))
    assert code == 0
    detail = of(rows, "phase", phase="feed", state="end")[0]["detail"]
    assert (detail["requests"], detail["steady"], detail["ended"]) == (5, False, "requests")


def test_feeding_ends_when_its_tokens_are_spent(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang("NGRAM")) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, passes=("warm",), feed_tokens=100))
    assert code == 0
    detail = of(rows, "phase", phase="feed", state="end")[0]["detail"]
    assert detail["ended"] == "tokens"
    assert 100 <= detail["tokens"] <= 120 + 20


def test_a_store_is_measured_as_it_is_found(tmp_path: Path) -> None:
    fake = FakeSglang("NGRAM")
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, passes=("as-found",), flush="no"))
    assert code == 0, rows[-1]
    assert "/flush_cache" not in fake.calls
    assert {(r["phase"], r["pass_name"]) for r in of(rows, "request")} == {("measure", "as-found")}
    result = fold(rows).passes[("A", 1, "as-found")]
    assert result.proposer_state.name == "unknown"
    assert result.flush is None


def test_a_warm_pass_on_top_of_what_is_there(tmp_path: Path) -> None:
    fake = FakeSglang("NGRAM", generated=5000)
    with ScriptedServer(fake) as server:
        spec = spec_of(tmp_path, server.url, passes=("warm",), flush="no", keep_store=True, feed_limit=25)
        code, rows = carry_out(spec)
    assert code == 0, rows[-1]
    assert "/flush_cache" not in fake.calls
    detail = of(rows, "phase", phase="feed", state="end")[0]["detail"]
    assert (detail["requests"], detail["ended"]) == (25, "requests"), "all of it, since steadiness tells nothing here"


def test_a_server_behind_a_proxy_is_measured_and_marked(tmp_path: Path) -> None:
    """Only the proxy knows the host's name; it is asked for absolute addresses."""
    fake = FakeSglang()
    asked: set[str] = set()

    def proxy(talk: Talk) -> None:
        scheme, _, rest = talk.path.partition("://")
        host, _, path = rest.partition("/")
        asked.add(f"{scheme}://{host}")
        talk.path = f"/{path}"
        fake(talk)

    with ScriptedServer(proxy) as server:
        arms = (ArmSpec("A", "http://gpu-node.invalid:30000", proxy=server.url),)
        code, rows = carry_out(spec_of(tmp_path, arms=arms, measuring=prompts("m", 2)))
    assert code == 0, rows[-1]["reason"]
    assert asked == {"http://gpu-node.invalid:30000"}
    assert of(rows, "client")[0]["transport"] == "httpx"
    assert of(rows, "client")[0]["stamps"] == "user"
    assert len(of(rows, "mark", name="proxy")) == 1


@pytest.mark.parametrize(
    ("version", "temperature", "sent"), [("0.5.15.post1", 0.7, 5), ("0.4.9.post4", 0.7, None), ("0.5.5", 0.0, 5)]
)
def test_a_seed_is_sent_where_the_version_knows_it(
    tmp_path: Path, version: str, temperature: float, sent: int | None
) -> None:
    texts = tuple(Prompt(f"t{i}", "text", text=f"Once {i}") for i in range(2))
    with ScriptedServer(FakeSglang(version=version)) as server:
        spec = spec_of(tmp_path, server.url, feeding=(), measuring=texts, seed=5, temperature=temperature)
        code, rows = carry_out(spec)
        bodies = [json.loads(talk.body) for talk in server.requests if talk.path == "/generate"]
    assert code == 0
    assert {body["sampling_params"].get("sampling_seed") for body in bodies} == {sent}
    marks = of(rows, "mark", name="seed_not_sent")
    assert bool(marks) == (sent is None)
    assert all("seed 5 was not sent" in mark["detail"] for mark in marks)


def test_two_arms_alternate(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang()) as a, ScriptedServer(FakeSglang("NGRAM")) as b:
        code, rows = carry_out(spec_of(tmp_path, a.url, b.url, block=2))
    assert code == 0
    begun = of(rows, "phase", phase="measure", state="begin")
    assert "".join(row["arm"] for row in begun) == "ABBAAB"
    assert [row["block"] for row in begun] == [0, 0, 1, 1, 2, 2]
    for arm in "AB":
        assert sorted(r["index"] for r in of(rows, "request", arm=arm, phase="measure")) == list(range(6))


def test_concurrency_is_kept(tmp_path: Path) -> None:
    most = []

    def stream(talk: Talk, number: int, asked: dict[str, Any]) -> None:
        with fake.lock:
            fake.running += 1
            most.append(fake.running)
        fake.answer(talk, asked["sampling_params"]["max_new_tokens"])
        with fake.lock:
            fake.running -= 1

    fake = FakeSglang(stream=stream)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, concurrency=(3,), measuring=prompts("m", 12)))
    assert code == 0
    assert max(most) <= 4, "three, and one that has ended but is not yet taken off the server's list"
    assert {row["concurrency"] for row in of(rows, "request", phase="measure")} == {3}


def test_nothing_listens_there(tmp_path: Path) -> None:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    code, rows = carry_out(spec_of(tmp_path, f"http://127.0.0.1:{port}"))
    assert code == 3
    assert rows[-1]["status"] == "failed"
    assert "refused" in rows[-1]["reason"]
    assert rows[-1]["exit_code"] == 3


def test_what_answers_is_not_sglang(tmp_path: Path) -> None:
    with ScriptedServer(lambda talk: talk.answer(200, b'{"hello": 1}')) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 3
    assert "not an SGLang server" in rows[-1]["reason"]


def test_a_missing_key_is_named_and_never_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with ScriptedServer(FakeSglang(key="sesame-key")) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
        assert code == 1
        assert "key" in rows[-1]["reason"]
        monkeypatch.setenv("SPEC_TEST_KEY", "sesame-key")
        again = tmp_path / "again"
        again.mkdir()
        spec = spec_of(again, server.url)
        spec = replace(spec, arms=(replace(spec.arms[0], key="env:SPEC_TEST_KEY"),))
        code, rows = carry_out(spec)
        assert code == 0
    for file in again.iterdir():
        assert b"sesame-key" not in file.read_bytes()


@pytest.mark.parametrize(
    ("fake", "flush", "owned", "flushed", "words"),
    [
        (FakeSglang("NGRAM"), "no", False, None, "--flush"),
        (FakeSglang("NGRAM"), "idle", False, True, ""),
        (FakeSglang("NGRAM"), "no", True, True, ""),
        (FakeSglang("NGRAM", running=2), "idle", False, False, "2 requests of others"),
        (FakeSglang("NGRAM", others=50), "idle", False, False, "others"),
        (FakeSglang("NGRAM", metrics=False), "idle", False, True, ""),
        (FakeSglang("NGRAM", flush_answers=[403]), "yes", False, False, "administrator key"),
        (FakeSglang(running=2), "idle", False, False, ""),
    ],
    ids=["forbidden", "idle", "owned", "busy", "foreign", "loads alone", "admin", "stateless"],
)
def test_a_flush_needs_permission(
    tmp_path: Path, fake: FakeSglang, flush: str, owned: bool, flushed: bool | None, words: str
) -> None:
    with ScriptedServer(fake) as server:
        spec = spec_of(tmp_path, server.url, flush=flush)
        code, rows = carry_out(replace(spec, arms=(replace(spec.arms[0], owned=owned),)))
    details = [row["detail"] for row in of(rows, "phase", phase="flush", state="end")]
    assert [detail["flushed"] for detail in details] == ([] if flushed is None else [flushed])
    assert code == (1 if words else 0)
    assert words in rows[-1]["reason"]
    if not flushed and (flushed is None or "403" not in str(details)):
        assert "/flush_cache" not in fake.calls


@pytest.mark.parametrize(
    ("algorithm", "passes", "order"),
    [
        ("none", "warm", ["flush", "warmup", "measure"]),  # what all prompts begin with is cached, as feeding leaves it
        ("none", "cold", ["warmup", "flush", "measure"]),
        ("NGRAM", "warm", ["warmup", "flush", "feed", "measure"]),
    ],
)
def test_a_flush_leaves_both_kinds_of_arms_with_prefix_caches_alike(
    tmp_path: Path, algorithm: str, passes: str, order: list[str]
) -> None:
    with ScriptedServer(FakeSglang(algorithm)) as server:
        _, rows = carry_out(spec_of(tmp_path, server.url, passes=(passes,)))
    assert [row["phase"] for row in of(rows, "phase", state="end")] == order


def test_a_refused_flush_is_tried_again(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang("NGRAM", flush_answers=[400, 200])) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    detail = of(rows, "phase", phase="flush", state="end")[0]["detail"]
    assert (detail["flushed"], detail["attempts"]) == (True, 2)


def test_without_tokenize_the_chat_route_serves(tmp_path: Path) -> None:
    fake = FakeSglang(tokenizes=False)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    assert rows[0]["arms"][0]["route"] == "/v1/chat/completions with usage in every event"
    assert of(rows, "mark", name="route")
    assert {row["completion_tokens"] for row in of(rows, "request", phase="measure")} == {20}
    assert {len(row["increments"]) for row in of(rows, "request", phase="measure")} == {20}


def test_a_route_that_fails_gives_way(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang(refuse_native=True)) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    assert "chat" in rows[0]["arms"][0]["route"]


def test_an_old_server_gives_totals_at_the_end(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang(version="0.4.9.post4")) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    assert "total at the end" in rows[0]["arms"][0]["route"]
    request = of(rows, "request", phase="measure")[0]
    assert request["completion_tokens"] == 20
    assert request["increments"] == []


def test_completion_prompts_go_as_text(tmp_path: Path) -> None:
    texts = tuple(Prompt(f"t{i}", "text", text=f"Once {i}") for i in range(3))
    with ScriptedServer(FakeSglang()) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, feeding=(), measuring=texts))
        bodies = [json.loads(talk.body) for talk in server.requests if talk.path == "/generate"]
    assert code == 0
    assert rows[0]["arms"][0]["route"] == "/generate with text, cumulative"
    assert [body["text"] for body in bodies[-3:]] == ["Once 0", "Once 1", "Once 2"]
    assert all("input_ids" not in body for body in bodies)


def test_a_server_default_temperature_is_not_sent(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang()) as server:
        carry_out(spec_of(tmp_path, server.url, temperature=None))
        bodies = [json.loads(talk.body) for talk in server.requests if talk.path == "/generate"]
    assert all("temperature" not in body["sampling_params"] for body in bodies)


def test_traffic_of_others_is_marked(tmp_path: Path) -> None:
    with ScriptedServer(FakeSglang(others=100)) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    marks = of(rows, "mark", name="foreign_traffic")
    assert len(marks) == 1
    assert "600 tokens" in marks[0]["detail"]


def misbehaving(habit: Callable[[FakeSglang, Talk], None], number: int = 4) -> FakeSglang:
    """Good but for one request."""

    def stream(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        if seen == number and not done:
            done.append(seen)
            with fake.lock:
                fake.requests += 1
            habit(fake, talk)
        else:
            fake.answer(talk, asked["sampling_params"]["max_new_tokens"])

    done: list[int] = []
    fake = FakeSglang(stream=stream)
    return fake


def die(fake: FakeSglang, talk: Talk) -> None:
    talk.head()
    talk.event(fake.event(3, [1, 2, 3], None))
    talk.hang_up()


def error(fake: FakeSglang, talk: Talk) -> None:
    talk.head()
    talk.event(fake.event(3, [1, 2, 3], None))
    talk.event({"error": {"message": "pool exhausted"}})
    talk.done()


def no_end_mark(fake: FakeSglang, talk: Talk) -> None:
    talk.head()
    talk.event(fake.event(20, list(range(20)), {"type": "length", "length": 20}))
    talk.chunk(b"")


def half_a_character(fake: FakeSglang, talk: Talk) -> None:
    talk.head()
    talk.chunk(b'data: {"text": "\xe4\xbd')
    talk.chunk(b"")


@pytest.mark.parametrize(
    ("habit", "status", "words"),
    [
        (die, "cut off", "after 3 tokens"),
        (error, "failed", "pool exhausted"),
        (no_end_mark, "cut off", "without its end mark"),
        (half_a_character, "cut off", "inside an event"),
        (lambda _, talk: talk.answer(400, b'{"error":{"message":"too long"}}'), "failed", "HTTP 400: too long"),
    ],
    ids=["dies", "error event", "no end mark", "half a character", "refused"],
)
def test_one_bad_request_is_named_and_the_run_goes_on(
    tmp_path: Path, habit: Callable[[FakeSglang, Talk], None], status: str, words: str
) -> None:
    with ScriptedServer(misbehaving(habit)) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    measured = of(rows, "request", phase="measure")
    bad = [row for row in measured if row["status"] != "ok"]
    assert len(measured) == 6
    assert [row["status"] for row in bad] == [status]
    assert words in bad[0]["error"]
    assert of(rows, "phase", phase="measure", state="end")[0]["detail"] == {"requests": 6, "failed": 1}
    assert fold(rows).passes[("A", 1, "cold")].output_tokens == 100, "a failed request's tokens do not count"


def test_a_stream_that_stops_is_not_said_to_have_given_no_token(tmp_path: Path) -> None:
    def two_tokens(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        talk.head()
        talk.event({"text": "w w", "output_ids": [0, 1], "meta_info": {"completion_tokens": 2, "finish_reason": None}})
        talk.wait_for_hang_up()

    with ScriptedServer(FakeSglang(stream=two_tokens)) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, request_timeout_s=0.3))
    assert code == 1
    assert "nothing received for 0.3 s after 2 tokens" in rows[-1]["reason"]
    assert "No token" not in rows[-1]["reason"]


def test_where_all_requests_fail_the_run_says_how_many_and_why(tmp_path: Path) -> None:
    def refuse(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        if asked["sampling_params"]["max_new_tokens"] == 20:
            talk.answer(400, b'{"error":{"message":"too long"}}')
        else:
            fake.answer(talk, asked["sampling_params"]["max_new_tokens"])

    fake = FakeSglang(stream=refuse)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 1
    assert rows[-1]["reason"] == "arm A, cold pass: all 6 requests failed: HTTP 400: too long"


@pytest.mark.parametrize(("threshold", "temperature"), [(0.9, 0.7), (0.9, 0.0), (1.0, 0.7)])
def test_loosened_acceptance_is_marked(tmp_path: Path, threshold: float, temperature: float) -> None:
    fake = FakeSglang(algorithm="EAGLE3", threshold=threshold)
    with ScriptedServer(fake) as server:
        _, rows = carry_out(spec_of(tmp_path, server.url, temperature=temperature, measuring=prompts("m", 1)))
    marks = [row["detail"] for row in of(rows, "mark", name="lossy")]
    assert len(marks) == (threshold < 1)
    if marks:
        assert "accept_threshold_acc 0.9" in marks[0]
        assert ("changes nothing" in marks[0]) == (temperature == 0.0)


def test_a_server_that_dies_ends_the_run_and_keeps_what_there_is(tmp_path: Path) -> None:
    def stream(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        if seen == 4:
            server.stop_listening()
            talk.hang_up()
        else:
            fake.answer(talk, asked["sampling_params"]["max_new_tokens"])

    fake = FakeSglang(stream=stream)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url, measuring=prompts("m", 40)))
    assert code == 1
    assert rows[-1]["status"] == "failed"
    assert "not there any more" in rows[-1]["reason"]
    assert len(of(rows, "request", phase="measure", status="ok")) == 2
    assert len(of(rows, "request", phase="measure")) < 40


def test_stopping_keeps_what_was_measured(tmp_path: Path) -> None:
    signals = Signals()
    hung_up = []

    def stream(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        if seen < 4:
            fake.answer(talk, asked["sampling_params"]["max_new_tokens"])
            return
        talk.head()
        talk.event(fake.event(2, [1, 2], None))
        signals.seen = 1
        talk.wait_for_hang_up()
        hung_up.append(seen)

    fake = FakeSglang(stream=stream)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url), signals)
    assert code == 130
    assert rows[-1]["status"] == "interrupted"
    assert [row["status"] for row in of(rows, "request", phase="measure")] == ["ok", "ok", "stopped"]
    assert hung_up == [4], "the request in flight is ended at the server too"
    assert of(rows, "phase", phase="measure", state="end")
    assert fold(rows).passes[("A", 1, "cold")].output_tokens == 40


def test_texts_are_kept_privately_or_not_at_all(tmp_path: Path) -> None:
    for keep in (True, False):
        folder = tmp_path / str(keep)
        folder.mkdir()
        with ScriptedServer(FakeSglang()) as server:
            carry_out(spec_of(folder, server.url, keep_text=keep))
        names = {"answers.jsonl", "live.jsonl"}
        assert names <= {f.name for f in folder.iterdir()} if keep else not names & {f.name for f in folder.iterdir()}
    for keep in (True, False):
        kept = (tmp_path / str(keep) / "spec.json").read_text()
        assert ("measure 3" in kept, "feed 0" in kept) == (keep, keep)
        assert "measure3" in kept, "ids stay"
    bare = tmp_path / "False"
    assert stat.S_IMODE((bare / "spec.json").stat().st_mode) == 0o600
    assert "measure 3" not in (bare / "journal.jsonl").read_text()
    assert {f.name for f in bare.iterdir()} == {"spec.json", "journal.jsonl"}
    answers = list(journal.read(tmp_path / "True" / "answers.jsonl"))
    assert [a["text"] for a in answers if a["phase"] == "measure"] == ["w " * 20] * 6
    assert {len(a["output_ids"]) for a in answers if a["phase"] == "measure"} == {20}
    assert all(a["prompt_ids"] for a in answers)
    assert stat.S_IMODE((tmp_path / "True" / "answers.jsonl").stat().st_mode) == 0o600
    assert stat.S_IMODE((tmp_path / "True" / "live.jsonl").stat().st_mode) == 0o600


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"measuring": ()}, "no prompts"), ({"passes": ("hot",)}, "hot"), ({"concurrency": (0,)}, "concurrency"),
        ({"max_tokens": 0}, "max_tokens"), ({"flush": "perhaps"}, "perhaps"), ({"arms": ()}, "arm"),
        ({"measuring": (Prompt("x", "g"),)}, "cannot be repeated"),
    ],
)  # fmt: skip
def test_a_spec_that_makes_no_run(tmp_path: Path, change: dict[str, Any], words: str) -> None:
    code, rows = carry_out(spec_of(tmp_path, "http://127.0.0.1:9", **change))
    assert code == 1
    assert words in rows[-1]["reason"]


def test_a_fault_of_ours_still_ends_the_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fail(self: Measurement) -> None:
        raise KeyError("oops")

    monkeypatch.setattr(Measurement, "run", fail)
    code, rows = carry_out(spec_of(tmp_path, "http://127.0.0.1:9"))
    assert code == 1
    assert rows[-1]["status"] == "failed"
    assert "fault in spectui" in rows[-1]["reason"]
    assert "KeyError" in capsys.readouterr().err


@pytest.mark.parametrize(("number", "code"), [(signal.SIGTERM, 130), (signal.SIGINT, 130)])
def test_signals_end_the_process(tmp_path: Path, number: int, code: int) -> None:
    def stream(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        if seen < 3:
            fake.answer(talk, asked["sampling_params"]["max_new_tokens"])
            return
        talk.head()
        talk.event(fake.event(2, [1, 2], None))
        reached.set()
        talk.wait_for_hang_up()

    reached = threading.Event()
    fake = FakeSglang(stream=stream)
    with ScriptedServer(fake) as server:
        path = tmp_path / "spec.json"
        path.write_text(json.dumps(asdict(spec_of(tmp_path, server.url))))
        process = subprocess.Popen([sys.executable, "-m", "spectui.runner", str(path)], start_new_session=True)
        try:
            assert reached.wait(30)
            os.kill(process.pid, signal.SIGHUP)
            os.kill(process.pid, number)
            assert process.wait(30) == code
        finally:
            process.kill()
            process.wait()
    rows = list(journal.read(tmp_path / "journal.jsonl"))
    assert rows[-1]["status"] == "interrupted"
    assert of(rows, "request", phase="measure", status="ok")


@pytest.mark.parametrize("text", ["{", '{"run_id": 3}', "[]"])
def test_a_file_that_is_no_spec(tmp_path: Path, text: str) -> None:
    path = tmp_path / "spec.json"
    path.write_text(text)
    with journal.Writer(tmp_path / "journal.jsonl") as writer:
        assert run(path, writer, Signals()) == 1
    rows = list(journal.read(tmp_path / "journal.jsonl"))
    assert "is not the spec of a run" in rows[-1]["reason"]


def test_what_counts_as_traffic_of_others() -> None:
    def counters(tokens: float, requests: float) -> dict[str, float]:
        return {"generation_tokens_total": tokens, "num_requests_total": requests}

    ours = Sent(requests=4, tokens=400)
    before = counters(1000, 10)
    assert foreign_traffic(before, counters(1400, 14), ours) == ""
    assert foreign_traffic(before, counters(1402, 16), ours) == "", "probes of health make a token each"
    assert "60 tokens" in foreign_traffic(before, counters(1460, 15), ours)
    assert "5 tokens" in foreign_traffic(before, counters(1405, 15), ours), "a request of five tokens is no probe"
    assert foreign_traffic(before, counters(1300, 13), ours) == "", "a counter may come late"
    assert foreign_traffic(before, counters(2000, 20), replace(ours, unsure=True)) == ""
    assert "1 requests more" in foreign_traffic({"num_requests_total": 1}, {"num_requests_total": 6}, ours)
    assert restarted(before, counters(3, 1))
    assert not restarted(before, counters(1000, 11))


class Panels:
    """A GPU sampler whose GPUs are too hot."""

    def __init__(self) -> None:
        hot = GpuReading("GPU-1", 0, "H", utilization=90.0, throttle=("power-capped", "thermal"))
        self.panel = GpuPanel((hot, replace(hot, uuid="GPU-2", index=1)), "ok", "580")

    def latest(self) -> GpuPanel:
        return self.panel

    def start(self) -> None: ...
    def stop(self) -> None: ...
    def wait_first(self, timeout_s: float) -> bool:
        return True


def test_a_hot_gpu_of_the_measured_arm_is_marked_once(tmp_path: Path) -> None:
    with journal.Writer(tmp_path / "journal.jsonl") as writer:
        watch = Watch(writer, gpus=False)
        watch._sampler = Panels()  # type: ignore[assignment]
        watch.follow(Followed("A", lambda: {"unavailable": "off"}, frozenset({"GPU-3"})))
        watch._beat(1)
        watch.follow(Followed("B", lambda: {"counters": {"x": 1.0}, "gauges": {}}, frozenset({"GPU-2"})))
        watch._beat(4)
        watch._beat(5)
    rows = list(journal.read(tmp_path / "journal.jsonl"))
    assert [(row["arm"], row["name"], row["detail"]) for row in of(rows, "mark")] == [
        ("B", "throttled", "GPU 1 was slowed down: thermal")
    ]
    assert len(of(rows, "gpu")) == 3
    assert of(rows, "gpu")[0]["gpus"][0]["utilization"] == 90.0
    assert [(row["arm"], row["at"]) for row in of(rows, "metrics")] == [("B", "during")]


def test_a_full_disk_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(self: Measurement) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(Measurement, "run", fail)
    code, rows = carry_out(spec_of(tmp_path, "http://127.0.0.1:9"))
    assert code == 1
    assert rows[-1]["reason"].startswith("the run's folder cannot be written: No space left on device; ")
    assert "spectui runs prune" in rows[-1]["reason"]


def test_settings_that_changed_meanwhile_are_marked(tmp_path: Path) -> None:
    def stream(talk: Talk, seen: int, asked: dict[str, Any]) -> None:
        fake.algorithm = "EAGLE3" if seen > 4 else None
        fake.answer(talk, asked["sampling_params"]["max_new_tokens"])

    fake = FakeSglang(stream=stream)
    with ScriptedServer(fake) as server:
        code, rows = carry_out(spec_of(tmp_path, server.url))
    assert code == 0
    assert "none before, EAGLE3 after" in of(rows, "mark", name="restarted")[0]["detail"]
