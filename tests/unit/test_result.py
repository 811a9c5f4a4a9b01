"""A journal folded: passes apart, failures outside, windows by block, torn runs kept."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from core_records import arm_head, flush, head, of_meta, record, recorded, row_of
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.metric import BY_KEY, METRICS, row, significant
from spectui.core.result import fold, record_of, run_json

KEYS = (
    "requests", "failed", "output_tokens", "wall_s", "output_tokens_per_s", "ttft_ms", "tpot_ms", "chunk_gap_ms",
    "e2e_ms", "step_time_ms", "verify_steps", "accept_length", "accept_length_sglang", "accept_rate", "histogram",
    "identities", "proposer_state", "route", "client", "marks", "by_group",
)  # fmt: skip


def journal(*rows: dict[str, Any], **values: Any) -> list[dict[str, Any]]:
    return [head(**values), *rows, {"t": 999.0, "kind": "end", "status": "complete", "reason": ""}]


def test_cold_and_warm_stay_apart_and_the_last_pass_is_on_top() -> None:
    metas = recorded()["ngram-8"]["workloads"]["short"]
    cold = [of_meta(m, i, pass_name="cold") for i, m in enumerate(metas[:2])]
    warm = [of_meta(m, 10 + i) for i, m in enumerate(metas[2:])]
    result = fold(journal(*map(row_of, [*cold, *warm])))
    assert list(result.passes) == [("A", 1, "cold"), ("A", 1, "warm")]
    said = json.loads(json.dumps(run_json(result)))
    assert not [k for k in KEYS if k not in said]
    assert said["passes"]["cold"]["verify_steps"] == 181 + 270
    assert said["passes"]["warm"]["verify_steps"] == said["verify_steps"] == 111 + 207 + 137
    assert said["requests"] == 3
    assert said["histogram"] == said["passes"]["warm"]["histogram"]
    assert sum(said["histogram"]) == said["verify_steps"]
    assert said["status"] == result.status == "complete"


def test_without_speculation() -> None:
    rows = [of_meta(m, i) for i, m in enumerate(recorded()["none"]["workloads"]["short"])]
    one = fold(journal(*map(row_of, rows), arms=[arm_head(algorithm="none", settings_in_force={})])).passes[
        "A", 1, "warm"
    ]
    said = one.as_json()
    assert said["output_tokens"] == 4 * 512 + 386
    assert said["verify_steps"] == said["output_tokens"] - 5
    assert said["histogram"] == [said["verify_steps"]]
    assert said["accept_length"] == 1.0
    assert said["accept_rate"] is None
    assert said["proposer_state"] == "stateless"


def test_failed_requests_count_neither_for_speed_nor_for_acceptance() -> None:
    good = [record(i, verify_steps=20) for i in range(7)]
    bad = record(7, status="failed", error="pool exhausted", completion_tokens=2, verify_steps=2)
    one = fold(journal(*map(row_of, [*good, bad]))).passes["A", 1, "warm"]
    assert (one.requests, one.failed, one.output_tokens) == (8, 1, 7 * 81)
    assert one.accept_length == 4.0
    assert one.wall_s == pytest.approx(8.0)


def test_the_window_of_alternating_blocks_is_the_sum_of_the_arms_own() -> None:
    mine = [record(i, block=b, start_s=100.0 * b + i, end_s=100.0 * b + i + 1) for b in (0, 2) for i in range(4)]
    one = fold(journal(*map(row_of, mine))).passes["A", 1, "warm"]
    assert one.wall_s == pytest.approx(8.0)
    assert one.output_tokens_per_s == pytest.approx(8 * 81 / 8.0)


def test_an_arm_alone_goes_from_block_to_block_without_a_pause_and_no_time_counts_twice() -> None:
    """Sixteen requests, four at a time, in blocks of four: a real EAGLE-3 run, whose blocks overlap."""
    spans = [
        (0.0, 1.119), (0.0, 0.687), (0.0, 1.194), (0.0, 1.029), (0.687, 1.421), (1.029, 1.396), (1.119, 1.79),
        (1.195, 2.281), (1.397, 2.529), (1.421, 1.704), (1.704, 2.679), (1.79, 2.553), (2.281, 3.088), (2.529, 3.528),
        (2.553, 2.741), (2.679, 3.731),
    ]  # fmt: skip
    rows = [
        record(i, block=i // 4, concurrency=4, start_s=low, first_s=low + 0.01, last_s=high, end_s=high)
        for i, (low, high) in enumerate(spans)
    ]
    one = fold([head(arm_head("A", "EAGLE3")), *map(row_of, rows)]).passes["A", 4, "warm"]
    assert one.wall_s == pytest.approx(3.731)
    assert one.output_tokens_per_s == pytest.approx(16 * 81 / 3.731)
    assert one.most_in_flight == 4
    assert one.in_flight == pytest.approx(sum(high - low for low, high in spans) / 3.731)
    apart = [replace(r, start_s=r.start_s + 10 * r.block, end_s=r.end_s + 10 * r.block) for r in rows]
    turns = fold([head(arm_head("A", "EAGLE3")), *map(row_of, apart)]).passes["A", 4, "warm"]
    assert turns.wall_s == pytest.approx(1.194 + (2.281 - 0.687) + (2.679 - 1.397) + (3.731 - 2.281))


def test_requests_that_share_a_batch_share_the_wall_clock() -> None:
    rows = [record(i, start_s=10.0, end_s=20.0 + i, concurrency=4) for i in range(4)]
    one = fold(journal(*map(row_of, rows))).passes["A", 4, "warm"]
    assert one.wall_s == pytest.approx(13.0)


def test_counters_span_warm_up_and_feeding_too() -> None:
    fed = record(0, phase="feed", verify_steps=20)
    mine = record(1, verify_steps=20)
    counters = {"t": 1.0, "kind": "metrics", "arm": "A"}
    name = "sglang:generation_tokens_total"
    rows = [
        {**counters, "at": "before", "counters": {name: 1000.0}},
        row_of(fed),
        row_of(mine),
        {**counters, "at": "during", "counters": {name: 1100.0}},
        {**counters, "at": "after", "counters": {name: 1162.0}},
    ]
    one = fold(journal(*rows)).passes["A", 1, "warm"]
    states = {i.name: i.state for i in one.identities}
    assert states["token counter"] == "ok"
    assert one.counters == {name: 162.0}
    assert len(one.records) == 1
    assert len(one.sent) == 2


def test_steps_from_counters_where_the_route_tells_none() -> None:
    mine = [record(i) for i in range(4)]
    rows = [
        {"t": 1.0, "kind": "metrics", "arm": "A", "at": "before", "counters": {"generation_tokens_total": 0.0}},
        *map(row_of, mine),
        {
            "t": 9.0, "kind": "metrics", "arm": "A", "at": "after",
            "counters": {"generation_tokens_total": 324.0, "spec_verify_calls_total": 80.0},
        },
    ]  # fmt: skip
    one = fold(journal(*rows)).passes["A", 1, "warm"]
    assert (one.verify_steps, one.accept_length, one.accept_length_sglang) == (80, 4.0, 4.05)
    assert one.histogram is None
    foreign = {**rows[-1], "counters": {"generation_tokens_total": 400.0, "spec_verify_calls_total": 100.0}}
    other = fold(journal(*rows[:-1], foreign)).passes["A", 1, "warm"]
    assert other.accept_length is None
    assert BY_KEY["accept_length"].of(other).text == "n/a (no verify steps on this route)"


def test_joined_streams_give_no_steps_from_events() -> None:
    mine = record(completion_tokens=9, increments=(1, 4, 4))
    mark = {"t": 1.0, "kind": "mark", "arm": "A", "name": "route_joined_steps", "detail": "an event holds 2 steps"}
    assert fold(journal(row_of(mine))).passes["A", 1, "warm"].accept_length == 4.0
    one = fold(journal(mark, row_of(mine))).passes["A", 1, "warm"]
    assert one.accept_length is None
    assert "join" in BY_KEY["accept_length"].of(one).reason
    told = fold(journal(mark, row_of(replace(mine, verify_steps=4)))).passes["A", 1, "warm"]
    assert told.accept_length == 2.0


def test_chunk_gaps_are_hidden_where_the_server_joins_steps_by_setting() -> None:
    mine = record(completion_tokens=9, increments=(1, 4, 4), event_s=(0.1, 0.2, 0.3), verify_steps=4)
    server = {"max_running_requests": 48, "stream_interval": 2}
    one = fold(journal(row_of(mine), arms=[arm_head(server=server)])).passes["A", 1, "warm"]
    assert one.chunk_gap_ms is None
    assert BY_KEY["chunk_gap_p50_ms"].of(one).text == "n/a (the server sends every 2 steps only)"


def test_joules_by_the_counters_of_the_arms_own_gpus() -> None:
    mine = record(start_s=100.0, end_s=110.0)
    gpus = [
        {"t": t, "kind": "gpu", "gpus": [
            {"uuid": "G", "energy_j": 100.0 * t, "power_w": 1.0, "temperature_c": 60, "sm_clock_mhz": 1900},
            {"uuid": "other", "energy_j": 9e9, "power_w": 700.0},
        ]}
        for t in (99.0, 103.0, 108.0, 112.0)
    ]  # fmt: skip
    one = fold(journal(*gpus, row_of(mine), arms=[arm_head(gpus=["G"])])).passes["A", 1, "warm"]
    assert one.joules_per_token == pytest.approx(1000.0 / 81)
    assert one.heat == {"temperature_c": 60.0, "clock_mhz": 1900.0, "slowed_share": 0.0, "readings": 2}
    for g in gpus:
        del g["gpus"][0]["energy_j"]  # type: ignore[attr-defined]
    by_power = fold(journal(*gpus, row_of(mine), arms=[arm_head(gpus=["G"])])).passes["A", 1, "warm"]
    assert by_power.joules_per_token == pytest.approx(10.0 / 81)
    unknown = fold(journal(*gpus, row_of(mine))).passes["A", 1, "warm"]
    assert unknown.joules_per_token is None
    assert BY_KEY["joules_per_token"].of(unknown).text == "n/a (the GPUs of this server are not known)"
    late = fold(journal(*gpus[2:], row_of(mine), arms=[arm_head(gpus=["G"])])).passes["A", 1, "warm"]
    assert "span" in late.joules_missing


def test_marks_hold_for_the_passes_they_were_set_in() -> None:
    rows = [
        {"t": 1.0, "kind": "mark", "arm": "A", "name": "simulated_acceptance", "detail": "SIMULATED acceptance"},
        flush(pass_name="cold"),
        row_of(record(0, pass_name="cold")),
        {"t": 2.0, "kind": "mark", "arm": None, "name": "foreign_traffic", "detail": "12 requests"},
        row_of(record(1)),
    ]
    result = fold(journal(*rows, workload={"name": "w", "marks": ["synthetic"]}))
    cold, warm = (result.passes["A", 1, p] for p in ("cold", "warm"))
    assert [m["name"] for m in cold.marks] == ["synthetic", "simulated_acceptance", "foreign_traffic"]
    assert [m["name"] for m in warm.marks] == ["synthetic", "simulated_acceptance"]
    assert len(result.marks) == 2


def test_the_block_size_of_dflash_is_its_number_of_draft_tokens() -> None:
    arm = arm_head("A", "DFLASH", settings_in_force={"dflash.block_size": 16})
    result = fold([head(arm), row_of(record())])
    assert result.passes[("A", 1, "warm")].draft_tokens == 16


def test_groups_share_the_window_and_split_the_rest() -> None:
    rows = [record(0, group="code", verify_steps=40), record(1, group="chat", verify_steps=80)]
    said = fold(journal(*map(row_of, rows))).passes["A", 1, "warm"].as_json()["by_group"]
    assert {g: v["accept_length"] for g, v in said.items()} == {"code": 2.0, "chat": 1.0}


def test_the_worst_client_speaks_for_the_run() -> None:
    def client(name: str, bound: bool) -> dict[str, Any]:
        return {
            "t": 5.0, "kind": "client", "arm": "A", "pass_name": name, "concurrency": 1, "cpu_s": 1.0,
            "lag_ms_p99": 9.0 if bound else 0.1, "bound": bound,
        }  # fmt: skip

    rows = [row_of(record(0, pass_name="cold")), client("cold", True), row_of(record(1)), client("warm", False)]
    result = fold(journal(*rows))
    assert result.client["bound"] is True
    assert result.passes["A", 1, "warm"].client["bound"] is False


def test_torn_interrupted_and_strange_journals_keep_what_was_measured() -> None:
    rows = journal(row_of(record(0, verify_steps=20)), row_of(record(1, status="stopped", end_s=500.0)))[:-1]
    strange: list[Any] = [
        {"kind": "request", "t": 1}, {"kind": 7}, {"t": 3}, {"kind": "phase"},
        {"kind": "metrics", "arm": "A", "at": "after"}, {"kind": "from the future", "t": 4},
        None, {"kind": "gpu"}, {**row_of(record(5)), "start_s": "soon"},
        {**row_of(record(3, verify_steps=20)), "new_key": 1},
    ]  # fmt: skip
    result = fold([*rows, *strange])
    assert result.status == "running"
    one = result.passes["A", 1, "warm"]
    assert (one.requests, one.stopped, one.accept_length) == (3, 1, 4.0)
    assert one.wall_s < 10
    assert result.skipped >= 3
    assert fold([]).passes == {}
    assert run_json(fold([]))["requests"] == 0


KINDS = (
    "head",
    "phase",
    "request",
    "metrics",
    "gpu",
    "mark",
    "client",
    "end",
    "restarted",
    "flush",
    "before",
    "after",
    "A",
)
NAMES = ("kind", "t", "arm", "pass_name", "state", "phase", "at", "counters", "gpus", "name", "detail", "concurrency")
values = st.one_of(
    st.none(),
    st.integers(),
    st.text(max_size=5),
    st.sampled_from(KINDS),
    st.lists(st.integers(), max_size=2),
    st.dictionaries(st.text(max_size=2), st.none(), max_size=2),
)


@given(st.lists(st.dictionaries(st.sampled_from(NAMES), values), max_size=12))
def test_no_row_can_break_a_fold(rows: list[dict[str, Any]]) -> None:
    run_json(fold([*rows, row_of(record())]))


def test_a_record_survives_its_row() -> None:
    r = record(3, histogram=(1, 2), increments=(1, 2), event_s=(0.1, 0.2), marks=("x",))
    assert record_of(json.loads(json.dumps(row_of(r)))) == r


def test_metrics_have_one_row_each_and_tell_why_there_is_none() -> None:
    one = fold(journal(row_of(record(verify_steps=20)))).passes["A", 1, "warm"]
    assert len(BY_KEY) == len(METRICS)
    assert row(one)["accept_length"] == 4.0
    assert row(one)["joules_per_token"] is None
    assert BY_KEY["step_time_ms"].of(one).text == "40.0 ms"
    assert BY_KEY["output_tokens_per_s"].of(one).text == "81.0"
    failed = fold(journal(row_of(record(status="failed")))).passes["A", 1, "warm"]
    assert BY_KEY["ttft_p50_ms"].of(failed).short == "n/a"
    assert BY_KEY["ttft_p50_ms"].of(failed).reason == "no request ended well"


@pytest.mark.parametrize(
    ("number", "text"),
    [(372.4, "372"), (25.34, "25.3"), (4.9, "4.90"), (0.01234, "0.0123"), (99.96, "100"), (9.999, "10.0"), (0, "0"),
     (12345.6, "12,346"), (-3.14159, "-3.14")],
)  # fmt: skip
def test_three_digits_that_mean_something(number: float, text: str) -> None:
    assert significant(number) == text


def test_arms_on_one_server_share_its_counters_and_its_store() -> None:
    name = "sglang:generation_tokens_total"

    def read(arm: str, at: str, value: float) -> dict[str, Any]:
        return {"t": 1.0, "kind": "metrics", "arm": arm, "at": at, "counters": {name: value}}

    mine = [record(i, completion_tokens=400, verify_steps=100) for i in range(8)]
    theirs = [replace(r, arm="B") for r in mine]
    rows = [
        *(read(arm, "before", 0.0) for arm in "AB"), flush(), *map(row_of, [*mine, *theirs]),
        *(read(arm, "after", 6400.0) for arm in "AB"),
    ]  # fmt: skip
    result = fold(journal(*rows, arms=[arm_head("A"), arm_head("B")]))
    for arm in "AB":
        states = {i.name: i.state for i in result.passes[arm, 1, "warm"].identities}
        assert states["token counter"] == "ok"
    assert result.passes["A", 1, "warm"].proposer_state.name == "cold"
    assert result.passes["B", 1, "warm"].proposer_state.name == "saturated"
