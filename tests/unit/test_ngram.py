from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from ngram_by_contract import ContractStore, replay_by_contract

from spectui.core.ngram import Draft, MatchState, NgramRequest, NgramSettings, NgramSettingsError, NgramStore
from spectui.predict.plain_replay import plain_histograms
from spectui.predict.replay_source import Pair

RECORDING = Path(__file__).parents[1] / "data" / "ngram" / "sglang-0.5.15-ngram-8.json"

tokens = st.integers(0, 3)
text = st.lists(tokens, min_size=1, max_size=30)
pairs = st.lists(
    st.tuples(st.lists(tokens, min_size=1, max_size=12), st.lists(tokens, max_size=40)), min_size=1, max_size=3
)


def paths(draft: Draft) -> list[tuple[int, ...]]:
    """Each proposal as the tokens from below the root to it."""
    found: list[tuple[int, ...]] = [()]
    for slot in range(1, len(draft.tokens)):
        found.append((*found[draft.parents[slot]], draft.tokens[slot]))
    return found[1:]


def test_a_real_server_took_just_these_steps() -> None:
    off = 0
    for rows in json.loads(RECORDING.read_text()).values():
        given_ids = [Pair(r["prompt_ids"], r["output_ids"]) for r in rows]
        mine = plain_histograms(given_ids, NgramSettings(num_draft_tokens=8))
        for row, histogram in zip(rows, mine, strict=True):
            assert sum(histogram) == row["spec_verify_ct"]
            moved = sum(abs(a - b) for a, b in zip(histogram, row["histogram"], strict=True))
            # A request that was cut counts in its last step what it accepted beyond the cut.
            assert moved <= (2 if row["finish"] == "length" else 0)
            off += moved
    assert off <= 4


def test_the_recording_tells_that_a_step_goes_in_a_step_late() -> None:
    rows = json.loads(RECORDING.read_text())["edit"]
    given_ids = [Pair(r["prompt_ids"], r["output_ids"]) for r in rows]
    [without] = plain_histograms(given_ids, NgramSettings(num_draft_tokens=8, version="0.5.12"))
    assert sum(without) != rows[0]["spec_verify_ct"]


@settings(max_examples=60, deadline=None)
@given(st.lists(text, max_size=4), text, st.integers(2, 6), st.integers(1, 3), st.integers(0, 6), st.integers(1, 9))
def test_trees_are_those_of_the_contract(
    windows: list[list[int]], context: list[int], depth: int, low: int, more: int, width: int
) -> None:
    store = NgramStore(
        NgramSettings(num_draft_tokens=width, max_trie_depth=depth, min_bfs_breadth=low, max_bfs_breadth=low + more)
    )
    slow = ContractStore(depth, low, low + more, width)
    for window in windows:
        store.insert(window)
        slow.insert(window)
    assert paths(store.draft(context)) == slow.tree(context)


@settings(max_examples=60, deadline=None)
@given(st.lists(text, min_size=2, max_size=5), text, st.integers(2, 4), st.integers(1, 30))
def test_eviction_is_that_of_the_contract(windows: list[list[int]], context: list[int], depth: int, spare: int) -> None:
    capacity = depth + spare
    store = NgramStore(NgramSettings(max_trie_depth=depth, capacity=capacity))
    slow = ContractStore(depth, capacity=capacity)
    for window in windows:
        store.insert(window)
        slow.insert(window)
        assert store.nodes == len(slow.paths) <= capacity - 1
    assert paths(store.draft(context)) == slow.tree(context)


@settings(max_examples=60, deadline=None)
@given(pairs, st.integers(2, 6), st.integers(1, 8), st.sampled_from(["0.5.10", "0.5.12", "0.5.15"]), st.booleans())
def test_replays_are_those_of_the_contract(
    requests: list[tuple[list[int], list[int]]], depth: int, width: int, version: str, overlap: bool
) -> None:
    chosen = NgramSettings(
        num_draft_tokens=width, max_trie_depth=depth, max_bfs_breadth=4, version=version, overlap=overlap
    )
    slow = replay_by_contract(
        requests,
        lagging=chosen.lagging,
        overlapping=chosen.overlapping,
        stateful=chosen.stateful,
        depth=depth,
        high=4,
        draft_tokens=width,
    )
    assert plain_histograms([Pair(*ids) for ids in requests], chosen) == slow


def test_slot_0_is_the_last_token_and_leaves_one_proposal_fewer() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=4))
    store.insert([1, 2, 3, 4, 5, 6])
    draft = store.draft([1])
    assert draft == Draft((1, 2, 3, 4), (-1, 0, 1, 2), 0)
    assert NgramStore(NgramSettings(num_draft_tokens=1)).draft([1]) == Draft((1,), (-1,), 0)


def test_an_empty_store_drafts_padding_only_and_token_0_hits_it() -> None:
    draft = NgramStore(NgramSettings(num_draft_tokens=4)).draft([7])
    assert draft == Draft((7,), (-1,), 3)
    assert draft.accepted([8, 0]) == 0
    assert draft.accepted([0, 0]) == 1


def test_children_come_in_the_order_of_the_last_insert() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=3))
    store.insert([1, 2])
    store.insert([1, 3])
    assert store.draft([1]).tokens == (1, 3, 2)
    store.insert([1, 2])
    assert store.draft([1]).tokens == (1, 2, 3)


def test_breadth_grows_as_the_match_gets_shorter() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=30, max_trie_depth=4, min_bfs_breadth=1, max_bfs_breadth=4))
    for last in (5, 6, 7, 8):
        store.insert([9, 1, 2, last])
    assert store.draft([9, 1, 2]).tokens[1:] == (8, 7, 6), "one for three tokens, two for two, three for one"


def test_requests_share_the_store_and_a_prompts_body_never_enters() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=4, max_trie_depth=4))
    first = NgramRequest(store, [50, 51, 52, 53, 54, 55, 56], 1)
    first.commit([2])
    first.commit([3])
    first.finish()
    assert store.draft([50]).padding == 3, "the prompt's body"
    assert store.accepted([1], [2, 3]) == 2
    store.reset()
    assert store.nodes == 0
    assert store.accepted([1], [2, 3]) == 0


def test_from_0_5_15_on_a_step_goes_in_one_step_later() -> None:
    for version, overlap, known in (("0.5.15", True, 0), ("0.5.15", False, 0), ("0.5.12", True, 1)):
        store = NgramStore(NgramSettings(version=version, overlap=overlap))
        request = NgramRequest(store, [9], 1)
        request.draft()
        request.commit([2])
        assert store.accepted([1], [2]) == known
        request.draft()
        request.commit([3])
        assert store.accepted([1], [2]) == 1


def test_a_suffix_unknown_at_the_last_step_stays_unmatched_from_0_5_12_on() -> None:
    for version, tokens_of_draft in (("0.5.10", (5, 6)), ("0.5.12", (5, 6))):
        store = NgramStore(NgramSettings(version=version))
        state = MatchState()
        store.draft([4], state, 1)
        store.insert([4, 5, 6])
        assert store.draft([4, 5], state, 2).tokens == tokens_of_draft
        assert state._anchors[1:] == ([None] if version == "0.5.12" else [])


def test_prob_takes_the_most_frequent_first() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=4, match_type="PROB"))
    for path in ([1, 2], [1, 2], [1, 4], [1, 3], [1, 2, 8]):
        store.insert(path)
    draft = store.draft([1])
    assert draft.tokens[1] == 2
    assert draft.tokens[2] == 8, "3 of 5 times all of it comes before 1 of 5"
    assert draft.tokens[3] == 4, "equal shares come in the order of a binary heap that sinks the hole first"
    recent = NgramStore(NgramSettings(num_draft_tokens=4))
    for path in ([1, 2], [1, 2], [1, 4], [1, 3]):
        recent.insert(path)
    assert recent.draft([1]).tokens[1] == 3


def test_0_5_5_matches_in_windows_and_leaves_the_last_starts_out() -> None:
    store = NgramStore(
        NgramSettings(version="0.5.5", min_match_window=2, max_match_window=3, max_trie_depth=5, match_type="PROB")
    )
    store.insert([1, 2, 3, 4, 5])
    assert store.draft([1]).padding == 11, "shorter than the smallest window"
    assert store.draft([1, 2]).tokens == (2, 3, 4, 5)
    store.insert([6, 7, 8])
    assert store.draft([7, 8]).padding == 11
    assert store.draft([6, 7]).tokens[1:] == (8,)
    assert 7 not in store._root.children, "the last two starts are left out"


@pytest.mark.parametrize(
    ("knobs", "said"),
    [
        ({"num_draft_tokens": 0}, "num_draft_tokens must be at least 1, not 0"),
        ({"num_draft_tokens": "8"}, "num_draft_tokens must be a whole number, not '8'"),
        ({"max_trie_depth": 1}, "max_trie_depth must be at least 2, not 1"),
        ({"min_bfs_breadth": 0}, "min_bfs_breadth must be at least 1, not 0"),
        ({"min_bfs_breadth": 5, "max_bfs_breadth": 4}, "must not exceed max_bfs_breadth (4), not 5"),
        ({"match_type": "bfs"}, "match_type must be BFS or PROB, not 'bfs'"),
        ({"capacity": 18}, "capacity must be more than max_trie_depth (18), or no path fits, not 18"),
        ({"external_sam_budget": 12}, "external_sam_budget must be 0 to num_draft_tokens - 1 (11), not 12"),
        ({"version": "0.4.9.post4"}, "has no NGRAM; it came with 0.5.5"),
        ({"version": "latest"}, "version must look like 0.5.15"),
        ({"version": "0.5.5", "max_match_window": 18}, "<= max < branch length (18), not 18"),
    ],
)
def test_settings_that_sglang_refuses_say_why(knobs: dict[str, object], said: str) -> None:
    with pytest.raises(NgramSettingsError, match=r"must|no NGRAM") as error:
        NgramSettings(**knobs)  # type: ignore[arg-type]
    assert said in str(error.value)


def test_no_context_no_draft() -> None:
    with pytest.raises(ValueError, match="at least one token"):
        NgramStore().draft([])
