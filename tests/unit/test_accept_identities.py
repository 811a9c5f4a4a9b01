"""Each identity holds on a real server's answers, has its allowance, and breaks when a number is wrong."""

from __future__ import annotations

from dataclasses import replace

import pytest
from core_records import DRAFT_TOKENS, VERSION, all_recorded, record, recorded
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.accept import identities
from spectui.core.request import RequestRecord


def states(
    requests: list[RequestRecord], draft_tokens: int | None = 8, version: str = VERSION, **more: object
) -> dict[str, str]:
    said = identities(requests, draft_tokens=draft_tokens, version=version, **more)  # type: ignore[arg-type]
    assert all(i.detail for i in said)
    return {i.name: i.state for i in said}


@pytest.mark.parametrize("setting", ["none", "ngram-8", "eagle3-3-1-4"])
def test_all_hold_on_a_real_server(setting: str) -> None:
    rows = [r for r, _ in all_recorded(setting)]
    grown = {"sglang:generation_tokens_total": float(sum(r.completion_tokens or 0 for r in rows))}
    if setting != "none":
        grown["sglang:spec_verify_calls_total"] = float(sum(r.verify_steps or 0 for r in rows))
    said = states(rows, DRAFT_TOKENS[setting], counters=grown)
    assert "broken" not in said.values()
    assert said["histogram sum"] == said["bound"] == said["token counter"] == said["step counter"] == "ok"
    assert said["tokens from histogram"] == ("ok" if setting == "none" else "within allowance")


@pytest.mark.parametrize("setting", ["ngram-8", "eagle3-3-1-4"])
def test_a_real_stream_agrees_with_its_histogram(setting: str) -> None:
    told = recorded()[setting]["stream"]
    r = record(
        completion_tokens=told["completion_tokens"],
        increments=tuple(told["increments"]),
        verify_steps=told["spec_verify_ct"],
        histogram=tuple(told["spec_correct_drafts_histogram"]),
    )
    assert states([r], DRAFT_TOKENS[setting])["events"] == "ok"
    swapped = list(r.increments)
    big = swapped.index(max(swapped))
    swapped[big - 1 : big + 1] = [swapped[big - 1] + 1, swapped[big] - 1]
    assert states([replace(r, increments=tuple(swapped))], DRAFT_TOKENS[setting])["events"] == "broken"


@pytest.mark.parametrize(
    ("version", "more", "state"),
    [
        ("0.5.10.post1", 1, "within allowance"),
        ("0.5.12", 1, "within allowance"),
        ("0.5.12", 2, "broken"),
        ("0.5.12", -1, "broken"),
        ("0.5.15.post1", 1, "broken"),
        ("0.5.23", 1, "broken"),
        ("0.5.23", 0, "ok"),
    ],
)
def test_one_step_more_a_request_is_allowed_to_two_versions(version: str, more: int, state: str) -> None:
    r = record(completion_tokens=1 + 6 + 3, verify_steps=6 + more, histogram=(3, 3, 0, 0))
    assert states([r], 4, version)["histogram sum"] == state


@pytest.mark.parametrize(("cut", "state"), [(0, "ok"), (3, "within allowance"), (4, "broken"), (-1, "broken")])
def test_only_the_last_step_may_be_cut(cut: int, state: str) -> None:
    counts = (5, 2, 1, 2)
    made = sum(n * (k + 1) for k, n in enumerate(counts))
    r = record(completion_tokens=made + 1 - cut, verify_steps=10, histogram=counts)
    assert states([r], 4)["tokens from histogram"] == state


def test_what_a_version_does_not_tell_is_unavailable_and_breaks_nothing() -> None:
    said = states([record(verify_steps=20)], version="0.5.5")
    assert said["histogram sum"] == said["tokens from histogram"] == said["events"] == "unavailable on this version"
    assert said["token counter"] == "unavailable on this version"
    assert "broken" not in said.values()


def test_joined_events_are_allowed_while_tokens_agree() -> None:
    joined = record(completion_tokens=9, verify_steps=4, increments=(1, 4, 4))
    assert states([joined])["events"] == "within allowance"
    assert states([replace(joined, increments=(1, 4, 3))])["events"] == "broken"
    assert states([replace(joined, increments=(1, 2, 2, 1, 1, 2))])["events"] == "broken"


@pytest.mark.parametrize(
    ("theirs", "state"),
    [(810, "ok"), (818, "within allowance"), (1200, "broken"), (809, "broken"), (-5, "unavailable on this version")],
)
def test_own_count_against_the_servers_counter(theirs: int, state: str) -> None:
    rows = [record(i, verify_steps=20) for i in range(10)]
    assert states(rows, counters={"sglang:generation_tokens_total": float(theirs)})["token counter"] == state


def test_requests_that_ended_badly_may_hold_tokens_we_did_not_see() -> None:
    rows = [record(verify_steps=20), record(1, status="stopped", completion_tokens=3)]
    assert states(rows, counters={"generation_tokens": 300.0})["token counter"] == "within allowance"


@pytest.mark.parametrize(
    ("theirs", "state"), [(41, "within allowance"), (60, "within allowance"), (40, "broken"), (61, "ok")]
)
def test_tokens_of_a_request_that_was_stopped_may_not_be_booked_yet(theirs: int, state: str) -> None:
    sent = [record(completion_tokens=41), record(1, completion_tokens=20, status="stopped")]
    said = states(sent, counters={"generation_tokens_total": float(theirs)})
    assert said["token counter"] == state


def test_the_bound_names_the_first_request_at_fault() -> None:
    rows = [record(verify_steps=20), record(1, rid="bad", completion_tokens=530, verify_steps=100)]
    found = {i.name: i for i in identities(rows, draft_tokens=5, version=VERSION)}
    assert found["bound"].state == "broken"
    assert "bad" in found["bound"].detail


@given(st.lists(st.integers(0, 30), min_size=2, max_size=8), st.integers(1, 5), st.data())
def test_a_wrong_number_never_passes(counts: list[int], wrong: int, data: st.DataObject) -> None:
    if not sum(counts):
        counts[0] = 1
    draft_tokens = len(counts)
    cut = data.draw(st.integers(0, draft_tokens - 1))
    made = sum(n * (k + 1) for k, n in enumerate(counts))
    cut = min(cut, made - 1)
    r = record(completion_tokens=made + 1 - cut, verify_steps=sum(counts), histogram=tuple(counts))
    assert "broken" not in (states([r], draft_tokens)[n] for n in ("histogram sum", "tokens from histogram"))
    assert states([replace(r, verify_steps=sum(counts) + wrong)], draft_tokens)["histogram sum"] == "broken"
    many = replace(r, completion_tokens=made + 1 + wrong)
    assert states([many], draft_tokens)["tokens from histogram"] == "broken"
