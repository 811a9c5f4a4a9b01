"""Definitions against what a real server said, to the last digit, and against each other on made-up records."""

from __future__ import annotations

import math

import pytest
from core_records import DRAFT_TOKENS, VERSION, all_recorded, record, recorded
from hypothesis import given
from hypothesis import strategies as st

from spectui.core import accept

SPECULATIVE = ("ngram-8", "eagle3-3-1-4")


@pytest.mark.parametrize("setting", SPECULATIVE)
def test_every_recorded_request_gives_the_servers_own_figures(setting: str) -> None:
    rows = all_recorded(setting)
    assert len(rows) == 48
    for r, meta in rows:
        assert accept.verify_steps([r]) == meta["spec_verify_ct"]
        assert accept.accept_length_sglang([r]) == meta["spec_accept_length"]
        assert accept.histogram([r]) == meta["spec_correct_drafts_histogram"]
        assert accept.accept_rate([r], draft_tokens=DRAFT_TOKENS[setting]) == meta["spec_accept_rate"]
        assert accept.accept_rate([r]) == meta["spec_accept_rate"]
        assert accept.accept_length([r]) == (meta["completion_tokens"] - 1) / meta["spec_verify_ct"]


@pytest.mark.parametrize("setting", SPECULATIVE)
def test_a_run_is_weighted_by_steps_and_is_no_mean_of_ratios(setting: str) -> None:
    rows = [r for r, _ in all_recorded(setting)]
    steps = sum(r.verify_steps or 0 for r in rows)
    assert accept.accept_length(rows) == (sum(r.completion_tokens or 0 for r in rows) - len(rows)) / steps
    mean = sum(accept.accept_length([r]) or 0 for r in rows) / len(rows)
    assert not math.isclose(accept.accept_length(rows) or 0, mean, rel_tol=1e-3)


def test_without_speculation_every_decode_token_is_a_step() -> None:
    rows = [r for r, _ in all_recorded("none")]
    tokens = sum(r.completion_tokens or 0 for r in rows)
    assert accept.verify_steps(rows) == tokens - len(rows)
    assert accept.accept_length(rows) == 1.0
    assert accept.histogram(rows) == [tokens - len(rows)]
    assert accept.accept_rate(rows) is None


@pytest.mark.parametrize("setting", SPECULATIVE)
def test_a_real_stream_shows_one_step_an_event(setting: str) -> None:
    told = recorded()[setting]["stream"]
    at = told["at"]
    r = record(
        completion_tokens=told["completion_tokens"],
        increments=tuple(told["increments"]),
        event_s=tuple(at),
        start_s=0.0,
        first_s=at[0],
        last_s=at[-1],
        end_s=at[-1],
    )
    assert accept.verify_steps([r]) == told["spec_verify_ct"]
    assert accept.accept_length_sglang([r]) == told["spec_accept_length"]
    grown = accept.histogram([r]) or []
    assert grown == told["spec_correct_drafts_histogram"][: len(grown)]
    assert accept.step_time_ms([r]) == pytest.approx(1000 * (at[-1] - at[0]) / told["spec_verify_ct"])


def test_fc38_time_between_chunks_is_not_time_between_tokens() -> None:
    at = tuple(0.2 + 0.03 * i for i in range(20))
    r = record(
        start_s=0.0, first_s=0.2, last_s=at[-1], end_s=0.77, completion_tokens=60, increments=(3,) * 20, event_s=at
    )
    assert accept.ttft([r]) == [pytest.approx(0.2)]
    assert accept.spread(accept.chunk_gaps([r]), 1000) == pytest.approx({"p50": 30, "p90": 30, "p99": 30, "mean": 30})
    assert accept.tokens_per_event([r]) == 3.0
    assert 1000 * accept.tpot([r])[0] == pytest.approx(9.66, abs=0.005)


def test_failed_requests_count_for_nothing() -> None:
    good, bad = record(verify_steps=20), record(1, status="failed", completion_tokens=2, verify_steps=1)
    cut = record(2, status="cut off", completion_tokens=50, verify_steps=10)
    assert accept.output_tokens([good, bad, cut]) == 81
    assert accept.accept_length([good, bad, cut]) == 4.0
    assert len(accept.e2e([good, bad, cut])) == 1
    assert accept.accept_length([bad]) is None
    assert accept.histogram([bad]) is None


def test_a_request_without_steps_is_left_out_of_both_sums() -> None:
    known, silent = record(verify_steps=20), record(1, completion_tokens=500)
    assert accept.accept_length([known, silent], speculative=True) == 4.0
    assert accept.verify_steps([silent], speculative=True) is None


@pytest.mark.parametrize(
    ("completion", "verify", "draft_tokens", "state"),
    [
        (300, 100, 4, "ok"),
        (9, 2, 4, "ok"),
        (10, 2, 4, "broken"),
        (530, 100, 5, "broken"),
        (80, 100, 4, "broken"),
        (1101, 100, 12, "ok"),
    ],
)
def test_fc45_bound(completion: int, verify: int, draft_tokens: int, state: str) -> None:
    said = accept.bound(completion, verify, draft_tokens)
    assert said.state == state
    assert said.detail.startswith("impossible") == (state == "broken")


def test_fc21_counters_of_the_window_and_no_lifetime_average() -> None:
    before = {"sglang:generation_tokens_total": 120_000.0, "sglang:spec_verify_calls_total": 40_000.0}
    after = {"sglang:generation_tokens_total": 125_600.0, "sglang:spec_verify_calls_total": 42_000.0}
    said = accept.from_counters(before, after, requests=8)
    assert said.accept_length_sglang == 2.8
    assert said.accept_length == 2.796
    nothing = accept.from_counters(before, before)
    assert nothing.accept_length_sglang is None
    assert (nothing.reason or "").startswith("no data")
    assert "restarted" in (accept.from_counters(after, before).reason or "")
    assert "no such counters" in (accept.from_counters({}, {"x": 1.0}).reason or "")


def test_percentiles_lie_between_neighbours() -> None:
    assert accept.spread([1, 2, 3, 4, 5]) == {
        "p50": 3,
        "p90": pytest.approx(4.6),
        "p99": pytest.approx(4.96),
        "mean": 3,
    }
    assert accept.spread([]) is None


steps = st.lists(st.integers(1, 8), min_size=1, max_size=60)


@given(st.lists(steps, min_size=1, max_size=8))
def test_events_and_details_tell_the_same(runs: list[list[int]]) -> None:
    """A server that gives details and one that only streams counts lead to the same figures."""
    streamed, told = [], []
    for i, sizes in enumerate(runs):
        total = 1 + sum(sizes)
        counts = tuple(sum(n == k + 1 for n in sizes) for k in range(8))
        streamed.append(record(i, completion_tokens=total, increments=(1, *sizes)))
        told.append(record(i, completion_tokens=total, verify_steps=len(sizes), histogram=counts))
    for figure in (accept.verify_steps, accept.accept_length, accept.accept_length_sglang):
        assert figure(streamed, speculative=True) == figure(told, speculative=True)
    a, b = accept.histogram(streamed, speculative=True) or [], accept.histogram(told, speculative=True) or []
    assert a == b[: len(a)]
    assert not any(b[len(a) :])
    length = accept.accept_length(told) or 0
    assert 1 <= length <= 8
    assert length == pytest.approx(1 + sum(accept.accepted_by_position(b)))
    said = accept.identities(
        [x for pair in zip(streamed, told, strict=True) for x in pair],
        draft_tokens=8,
        version=VERSION,
        speculative=True,
    )
    assert [i.name for i in said if i.state == "broken"] == []
