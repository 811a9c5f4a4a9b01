"""Every reason for which a verdict is withheld, and what is no reason."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from core_records import arm_head, generated, head, record, row_of

from spectui.core.fairness import Side, against_best, reasons, side_of
from spectui.core.likeness import differences, queueing
from spectui.core.result import RunResult, fold

KEY = ("A", 1, "warm")


def pair(**arms: Any) -> tuple[RunResult, Side, Side]:
    mine = generated(8, 200, [3.0] * 8)
    other = [replace(r, arm="B", verify_steps=None) for r in mine]
    tops = [arm_head("A", "EAGLE3", **arms.get("a", {})), arm_head("B", "none", **arms.get("b", {}))]
    rows = arms.get("rows", [])
    result = fold([head(*tops, **arms.get("head", {})), *rows, *map(row_of, [*mine, *other])])
    return result, side_of(result, KEY), side_of(result, ("B", 1, "warm"))


def test_stateless_arms_asked_alike_are_a_fair_trial() -> None:
    _, a, b = pair()
    assert reasons(a, b) == []


def mark(name: str, arm: str | None = "A") -> dict[str, Any]:
    return {"t": 1.0, "kind": "mark", "arm": arm, "name": name, "detail": "42 of something"}


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("foreign_traffic", "A: traffic that is not ours (42 of something)"),
        ("both_arms_loaded", "loaded at the same moment"),
        ("throttled", "throttled"),
        ("simulated_acceptance", "SIMULATED acceptance"),
        ("synthetic", "synthetic data: acceptance not representative"),
        ("length_forced", "A: length forced: acceptance too high"),
    ],
)
def test_marks_withhold(name: str, words: str) -> None:
    _, a, b = pair(rows=[mark(name)])
    said = reasons(a, b)
    assert len(said) == 1
    assert words in said[0]
    assert words in " ".join(against_best(a.result))


def test_fc44_a_forced_length_is_in_the_head() -> None:
    _, a, b = pair(head={"ignore_eos": True})
    assert reasons(a, b) == ["A: length forced: acceptance too high; let answers end by themselves (no --ignore-eos)"]


def test_a_simulated_server_is_marked_and_still_judged() -> None:
    _, a, b = pair(a={"simulated": True})
    assert [m["name"] for m in a.result.marks] == ["simulated"]
    assert reasons(a, b) == []


def test_different_routes_are_not_like_for_like() -> None:
    _, a, b = pair(b={"route": "/v1/chat/completions with usage in every event"})
    assert reasons(a, b) == ["not like for like: address native / chat: ask both sides alike"]


def test_other_prompts_are_told_by_name_and_hash() -> None:
    _, a, b = pair()
    other = replace(b, asked={**b.asked, "workload": "79f2", "named": "edit"})
    assert reasons(a, other) == ["not like for like: workload w (h) / edit (79f2): ask both sides alike"]
    assert reasons(a, replace(b, asked={**b.asked, "named": "the same prompts from a file"})) == []


def test_fc10_a_request_limit_that_only_one_side_has() -> None:
    mine = [replace(r, concurrency=64) for r in generated(8, 200, [3.0] * 8)]
    other = [replace(r, arm="B", verify_steps=None) for r in mine]
    tops = arm_head("A", "EAGLE"), arm_head("B", "none", server={"max_running_requests": 2048})
    result = fold([head(*tops), *map(row_of, [*mine, *other])])
    said = reasons(side_of(result, ("A", 64, "warm")), side_of(result, ("B", 64, "warm")))
    assert said == [
        "16 of 64 requests queue on A (limit 48): give both servers --max-running-requests 64 or more, or measure at "
        "48 at a time"
    ]


def test_prefix_cache_help_failures_client_and_counts() -> None:
    mine = [replace(r, prompt_tokens=100, cached_tokens=80) for r in generated(8, 200, [3.0] * 8)]
    other = [replace(r, arm="B", verify_steps=None, cached_tokens=5) for r in mine]
    other[0] = replace(other[0], status="failed", error="HTTP 500: out of pages")
    other[1] = replace(other[1], tokens_estimated=True)
    client = {
        "t": 9.0,
        "kind": "client",
        "arm": "A",
        "pass_name": "warm",
        "concurrency": 1,
        "bound": True,
        "lag_ms_p99": 7.5,
    }
    result = fold([head(arm_head("A", "EAGLE3"), arm_head("B", "none")), *map(row_of, [*mine, *other]), client])
    said = reasons(side_of(result, KEY), side_of(result, ("B", 1, "warm")))
    assert said == [
        "A: the load generator was the limit, not the server (lag 7.5 ms at p99): measure from a machine with a free "
        "core",
        "B: 1 of 8 requests failed (at most 5 %), the first one: HTTP 500: out of pages",
        "B: the server gave no token counts, so its throughput is an estimate",
        "the prefix cache held 80 % of A's prompt tokens, 5 % of B's, which may be worth up to 7 % of the time: empty "
        "both caches first (--flush)",
    ]
    assert not [
        r for r in reasons(side_of(result, KEY), side_of(result, ("B", 1, "warm")), failure_limit=0.2) if "fail" in r
    ]


def test_a_prefix_cache_that_can_be_worth_next_to_nothing_withholds_nothing() -> None:
    """Half of a prompt known, where the first token takes 2 % of the time."""
    mine = [replace(r, prompt_tokens=100, cached_tokens=50) for r in generated(8, 200, [3.0] * 8)]
    mine = [replace(r, first_s=r.start_s + 0.02) for r in mine]
    other = [replace(r, arm="B", verify_steps=None, cached_tokens=0) for r in mine]
    result = fold([head(arm_head("A", "EAGLE3"), arm_head("B", "none")), *map(row_of, [*mine, *other])])
    assert reasons(side_of(result, KEY), side_of(result, ("B", 1, "warm"))) == []


def test_where_nothing_ended_well_that_alone_is_told() -> None:
    """What is seen beside it (an empty store, counts that do not hold, cached prompts) follows from it."""
    mine = [
        replace(r, status="failed", error="HTTP 503: no worker", completion_tokens=None, verify_steps=None)
        for r in generated(8, 200, [3.0] * 8)
    ]
    other = [replace(r, arm="B", status="ok", completion_tokens=200, error=None) for r in mine]
    rows = [mark("foreign_traffic"), *map(row_of, [*mine, *other])]
    result = fold([head(arm_head("A", "NGRAM"), arm_head("B", "none")), *rows])
    sides = side_of(result, KEY), side_of(result, ("B", 1, "warm"))
    assert reasons(*sides) == ["A: all 8 requests failed: HTTP 503: no worker"]


def test_thresholds_below_one_are_another_answer_where_it_is_sampled() -> None:
    loose = {"num_draft_tokens": 4, "accept_threshold_single": 0.5, "accept_threshold_acc": 1.0}
    _, a, b = pair(a={"settings_in_force": loose}, head={"temperature": 0.7})
    said = reasons(a, b)
    assert len(said) == 1
    assert said[0].startswith("A accepts drafts that the model would not have written (accept_threshold_single 0.5,")
    assert reasons(*pair(a={"settings_in_force": loose})[1:]) == []  # greedy verification asks no threshold
    exact = {**loose, "accept_threshold_single": 1.0}
    assert reasons(*pair(a={"settings_in_force": exact}, head={"temperature": None})[1:]) == []


def test_every_reason_says_what_to_do() -> None:
    names = ("foreign_traffic", "restarted", "both_arms_loaded", "throttled", "simulated_acceptance", "clock_drift")
    for name in (*names, "synthetic", "length_forced"):
        said = reasons(*pair(rows=[mark(name)])[1:])
        assert len(said) == 1
        assert any(
            word in said[0] for word in ("measure again", "take turns", "restart", "let answers", "measure with")
        )


def test_broken_identities_withhold() -> None:
    _, a, b = pair()
    broken = replace(a.result, records=(*a.result.records, record(99, completion_tokens=900, verify_steps=10)))
    assert any("A: bound is broken: 1 of 9 requests" in r for r in reasons(replace(a, result=broken), b))


def test_a_hot_or_slowed_gpu_withholds_and_a_power_cap_does_not() -> None:
    def gpus(heat: int, clock: int, *why: str) -> list[dict[str, Any]]:
        both = [
            {"uuid": "G", "temperature_c": heat, "sm_clock_mhz": clock, "throttle": list(why)},
            {"uuid": "H", "temperature_c": 60, "sm_clock_mhz": 1980, "throttle": []},
        ]
        return [{"t": 100.5 + i, "kind": "gpu", "gpus": both} for i in range(8)]

    def said(*args: Any) -> list[str]:
        _, a, b = pair(a={"gpus": ["G"]}, b={"gpus": ["H"]}, rows=gpus(*args))
        return reasons(a, b)

    assert said(62, 1980) == []
    assert said(64, 1700, "power-capped") == []
    assert said(85, 1980) == []
    assert said(85, 1700, "power-capped") == [
        "A's GPU was 25 °C hotter and ran at 1700 against 1980 MHz: let both reach the same heat, then measure again"
    ]
    assert said(62, 1980, "thermal") == [
        "A's GPU was slowed by heat or hardware in 100 % of the readings (at most 10 %): let it cool, then measure "
        "again"
    ]


def test_fc10_text_by_level() -> None:
    limits: dict[str, int | None] = {"the baseline": 2048, "the speculative server": 48}
    assert queueing(8, limits) == queueing(48, limits) == []
    assert queueing(64, limits) == ["16 of 64 requests queue on the speculative server (limit 48)"]
    assert queueing(64, {"A": None}) == []


def test_fc42_exactly_what_differs() -> None:
    a = {"algorithm": "EAGLE3", "temperature": 0.0, "address": "/v1/chat/completions", "workload": "w1", "accept": 3.4}
    b = {"algorithm": "NGRAM", "temperature": 1.0, "address": "/generate", "workload": "w1", "accept": 2.3}
    assert differences(a, b) == ["temperature 0.0 / 1.0", "address chat / native"]
    assert differences(a, {**a, "algorithm": "none"}) == []
    assert differences({"temperature": None}, {"temperature": 0.0}) == ["temperature server default / 0.0"]
    assert differences({}, {"temperature": 0.5, "seed": 3}) == [
        "temperature server default / 0.5",
        "seed not known / 3",
    ]
    assert differences({"model": "/models/x/"}, {"model": "x"}) == []
    assert differences({"ignore_eos": None}, {"ignore_eos": True}) == ["length forced no / yes"]
