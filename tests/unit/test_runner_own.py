"""What a run knows before and beside its requests: whose server it is, what text needed before, GPUs at the edges of a
window, and steps that only the server's counters tell."""

from __future__ import annotations

import socket
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
from core_records import record
from nvml_stand_in import Nvml, healthy

from spectui.core.accept import identities
from spectui.core.evidence import Evidence
from spectui.core.proposer import proposer_state
from spectui.core.request import RequestRecord
from spectui.core.spec import FedBefore, Prompt, settings_line
from spectui.engines.sglang.contract import contract_for
from spectui.hosts import discover
from spectui.hosts.discover import FoundServer
from spectui.hosts.gpus import GpuSampler
from spectui.runner.counters import joined_steps
from spectui.runner.watch import Watch
from spectui.session import arms, history_of_feeding, running
from spectui.store import journal


def found(pid: int, port: int, host: str = "127.0.0.1", **more: object) -> FoundServer:
    return FoundServer(pid, host, port, (), {}, **more)  # type: ignore[arg-type]


def test_a_server_that_was_only_found_is_tied_to_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    servers = [
        found(1, 30000, leftover=True),
        found(2, 30000, "10.0.0.5"),
        found(3, 30000, "0.0.0.0", listening=False),
        found(4, 30000, "0.0.0.0", listening=True),
        found(5, 30001, listening=None),
    ]
    monkeypatch.setattr(discover, "find", lambda: servers)
    assert arms.stranger("http://127.0.0.1:30000") == 4
    assert arms.stranger("http://localhost:30001") == 5
    assert arms.stranger("http://127.0.0.1:30002") is None
    monkeypatch.setattr(discover, "find", lambda: pytest.fail("another node's servers are not looked for here"))
    assert arms.stranger("http://10.0.0.5:30000") is None


def test_an_arm_of_a_found_server_carries_its_process(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(arms, "managed", lambda url: None)
    monkeypatch.setattr(discover, "find", lambda: [found(7, 30000)])
    spec = arms.arm_spec("A", arms.resolve("127.0.0.1:30000"))
    assert (spec.server_pid, spec.owned) == (7, False)


@pytest.mark.parametrize(("given", "used"), [(None, "env:OF_RECORD"), ("env:GIVEN", "env:GIVEN")])
def test_a_managed_server_is_asked_with_the_keys_of_its_record(
    monkeypatch: pytest.MonkeyPatch, given: str | None, used: str
) -> None:
    for name in ("OF_RECORD", "OF_ADMIN", "GIVEN"):
        monkeypatch.setenv(name, "secret")
    record = SimpleNamespace(pid=9, key="env:OF_RECORD", admin_key="env:OF_ADMIN")
    monkeypatch.setattr(arms, "managed", lambda url: record)
    spec = arms.arm_spec("A", arms.resolve("127.0.0.1:30000"), key=given)
    assert (spec.key, spec.admin_key, spec.owned) == (used, "env:OF_ADMIN", True)


def test_what_runs_of_such_text_needed_goes_with_the_spec(monkeypatch: pytest.MonkeyPatch) -> None:
    here = socket.gethostname()
    line = settings_line("NGRAM", {"num_draft_tokens": 8, "token_map": None})
    rows = [
        {"host": here, "model": "m", "settings": line, "groups": ["json"], "prompts": ["x"], "tokens": 5000},
        {"host": here, "model": "m", "settings": line, "groups": ["code"], "prompts": ["y"], "tokens": 1},
        {"host": "elsewhere", "model": "m", "settings": line, "groups": ["json"], "prompts": ["x"], "tokens": 2},
        {"run": "told nothing"},
    ]
    monkeypatch.setattr(history_of_feeding, "recall", lambda: rows)
    prompts = (Prompt("p1", "json", text="a"), Prompt("p2", "json", text="b"))
    assert running._fed_before(prompts) == (FedBefore("m", line, 5000),)
    assert line == "NGRAM: num_draft_tokens=8"


def test_the_line_of_settings_is_the_one_that_history_keeps() -> None:
    from spectui.core.result import fold

    head = {"name": "A", "url": "u", "algorithm": "NGRAM", "model": "m", "settings_in_force": {"b": None, "a": 1}}
    row = {
        **{name: getattr(record(), name) for name in RequestRecord.__dataclass_fields__},
        "kind": "request",
        "t": 1.0,
    }
    result = fold([{"kind": "head", "t": 0.0, "arms": [head]}, row])
    key = next(iter(result.passes))
    assert history_of_feeding.kind_of(result, key).settings == settings_line("NGRAM", head["settings_in_force"])  # type: ignore[arg-type]


def test_gpus_are_read_at_both_edges_of_a_window(tmp_path: Path) -> None:
    device = healthy(energy=12_000)
    with journal.Writer(tmp_path / "journal.jsonl") as writer:
        watch = Watch(writer, gpus=False)
        watch.edge()
        with GpuSampler(60.0, Nvml([device])) as sampler:
            assert sampler.wait_first(10)
            watch._sampler = sampler
            watch.edge()
            device["energy"] = 15_000
            watch.edge()
    rows = list(journal.read(tmp_path / "journal.jsonl"))
    assert [row["gpus"][0]["energy_j"] for row in rows] == [12.0, 15.0], "the second is no copy of the first"


def test_a_sampler_that_has_ended_gives_what_it_has() -> None:
    sampler = GpuSampler(60.0, Nvml([healthy()]))
    assert sampler.fresh(10.0).readings == ()
    with sampler:
        assert sampler.wait_first(10)
    assert len(sampler.fresh(10.0).readings) == 1


def chat(index: int, *increments: int, **more: object) -> RequestRecord:
    one = record(index, rid=f"r{index}", concurrency=4, completion_tokens=sum(increments), increments=increments)
    return replace(one, **more)  # type: ignore[arg-type]


ROWS = [chat(0, 1, 3, 2, 4), chat(1, 1, 1, 1)]
"""Five events after the first ones, 13 tokens."""


@pytest.mark.parametrize(
    ("tokens", "steps", "expected"),
    [
        (13.0, 5.0, ["ok", "ok", "ok", "ok", "ok", "ok"]),
        (13.0, 8.0, ["unavailable", "unavailable", "within allowance", "ok", "ok", "within allowance"]),
        (13.0, 4.0, ["broken", "broken", "broken", "ok", "ok", "broken"]),
        (13.0, 1.0, ["broken", "broken", "broken", "broken", "ok", "broken"]),
        (14.0, 5.0, ["unavailable", "unavailable", "ok", "unavailable", "within allowance", "ok"]),
        (14.0, 6.0, ["unavailable", "unavailable", "ok", "unavailable", "within allowance", "unavailable"]),
        (None, None, ["unavailable", "unavailable", "ok", "unavailable", "unavailable", "unavailable"]),
    ],
)
def test_steps_that_only_the_counter_tells(tokens: float | None, steps: float | None, expected: list[str]) -> None:
    counters = {"generation_tokens_total": tokens, "spec_verify_calls_total": steps}
    grown = {name: value for name, value in counters.items() if value is not None}
    said = identities(ROWS, draft_tokens=8, version="0.5.15", counters=grown or None, speculative=True)
    assert [one.state.removesuffix(" on this version") for one in said] == expected


def test_one_at_a_time_events_are_steps_though_nothing_proves_it() -> None:
    rows = [replace(row, concurrency=1) for row in ROWS]
    said = {i.name: i for i in identities(rows, draft_tokens=8, version="0.5.10", speculative=True)}
    assert said["histogram sum"].state == said["bound"].state == "within allowance"
    assert "one at a time" in said["histogram sum"].detail
    few = {i.name: i.state for i in identities(rows, draft_tokens=3, version="0.5.10", speculative=True)}
    assert few["histogram sum"].startswith("unavailable"), "an event of four tokens is no step of three"


@pytest.mark.parametrize(
    ("rows", "tokens", "steps", "draft", "joined"),
    [
        (ROWS, 13, 8, 8, True), (ROWS, 13, 5, 8, False), (ROWS, 15, 8, 8, False), (ROWS, 13, 0, 3, True),
        (ROWS, 13, 8, None, True), ([replace(ROWS[0], status="failed"), ROWS[1]], 13, 8, 8, False),
        ([replace(ROWS[0], marks=("route_joined_steps",))], 0, 0, 8, True),
        ([replace(row, verify_steps=3) for row in ROWS], 13, 8, 8, False),
    ],
)  # fmt: skip
def test_joined_steps_show_by_the_counter_or_by_their_size(
    rows: list[RequestRecord], tokens: int, steps: int, draft: int | None, joined: bool
) -> None:
    before = {"counters": {"generation_tokens_total": 100.0, "spec_verify_calls_total": 50.0}}
    after = {"counters": {"generation_tokens_total": 100.0 + tokens, "spec_verify_calls_total": 50.0 + steps}}
    assert bool(joined_steps(rows, before, after, draft)) == joined


def test_a_feed_that_ended_in_the_middle_of_a_rise_is_told_with_the_state() -> None:
    levels = (3.0, 4.2, 2.5, 5.0, 2.8, 4.4)
    evidence = Evidence(
        "NGRAM",
        history_known=True,
        tokens_before=9000,
        tokens_measured=1200,
        requests_measured=6,
        fed_steady=False,
        positions=tuple(9100.0 + 200 * i for i in range(6)),
        lengths=levels,
        steps=tuple(round(200 / n) for n in levels),
    )
    assert "still rose" not in proposer_state(evidence).detail
    said = proposer_state(replace(evidence, fed_rising=True))
    assert said.name == "fed", "what was measured decides"
    assert "still rose when feeding ended" in said.detail


def test_versions_that_take_a_seed() -> None:
    told = {v: (contract_for(v).native_seed, contract_for(v).chat_seed) for v in ("0.4.9.post4", "0.5.5", "0.5.10")}
    assert told == {"0.4.9.post4": (False, False), "0.5.5": (True, False), "0.5.10": (True, True)}
