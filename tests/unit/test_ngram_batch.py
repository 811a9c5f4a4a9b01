"""Several requests at a time through the store, held against a real server step by step."""

from __future__ import annotations

import json
import lzma
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.ngram import Draft, NgramBatch, NgramRequest, NgramSettings, NgramStore
from spectui.predict.plain_replay import TAIL, plain_histograms
from spectui.predict.replay import Pair, Source, replay

RECORDED: list[dict[str, Any]] = json.loads(
    lzma.decompress((Path(__file__).parents[1] / "data" / "ngram" / "sglang-0.5.15-several.json.xz").read_bytes())
)
"""SGLang 0.5.15.post1 on an H200; prompts by their last 18 ids. ``timeline``, as the events told it: [requests] is a
prefill, [requests, tokens put out] a verify step; empty where the events of a step did not come together."""


def named(one: dict[str, Any]) -> str:
    return f"{one['workload']}-{one['num_draft_tokens']}-{one['pass']}-{one['at_once']}-{one['overlap']}"


def setting(one: dict[str, Any]) -> NgramSettings:
    return NgramSettings(num_draft_tokens=one["num_draft_tokens"], overlap=one["overlap"])


class Recorded:
    """Requests that are led the way the server went, while their drafts are counted that would have gone another."""

    def __init__(self, store: NgramStore, rows: Sequence[dict[str, Any]]) -> None:
        self._store, self._rows = store, rows
        self._width = store.settings.num_draft_tokens
        self._requests: dict[int, NgramRequest] = {}
        self._numbers: dict[int, int] = {}
        self._at = [1] * len(rows)
        self.steps = self.other = 0

    def follow(self, timeline: Sequence[Sequence[Sequence[int]]]) -> None:
        batch = NgramBatch()
        for numbers, *told in timeline:
            if not told:
                batch.join([(self._begin(number), False) for number in numbers])
                continue
            puts = dict(zip(numbers, told[0], strict=True))
            seen: set[int] = set()

            def verify(
                request: NgramRequest, draft: Draft, puts: dict[int, int] = puts, seen: set[int] = seen
            ) -> tuple[Sequence[int], bool]:
                number = self._numbers[id(request)]
                seen.add(number)
                return self._verify(number, draft, puts[number])

            batch.step(verify)
            assert seen == set(numbers)

    def _begin(self, number: int) -> NgramRequest:
        row = self._rows[number]
        request = self._requests[number] = NgramRequest(self._store, row["prompt_ids"], row["output_ids"][0])
        self._numbers[id(request)] = number
        return request

    def _verify(self, number: int, draft: Draft, put: int) -> tuple[Sequence[int], bool]:
        row, at = self._rows[number], self._at[number]
        output = row["output_ids"]
        text = [*output, *(range(TAIL, TAIL + self._width) if row["stopped"] else ())]
        self.steps += 1
        cut = at + put >= len(output)
        self.other += not cut and draft.accepted(text[at : at + self._width]) + 1 != put
        self._at[number] = at + put
        return text[at : at + put], cut


@pytest.mark.parametrize("one", [one for one in RECORDED if one["timeline"]], ids=named)
def test_each_step_of_a_real_batch_comes_out_as_the_server_took_it(one: dict[str, Any]) -> None:
    store = NgramStore(setting(one))
    for rows, timeline in ((one["fed"], one.get("fed_timeline", ())), (one["requests"], one["timeline"])):
        led = Recorded(store, rows)
        led.follow(timeline)
        assert led.steps == sum(row["verify_steps"] for row in rows)
        assert led.other <= max(2, 0.002 * led.steps)


def pairs_of(rows: Sequence[dict[str, Any]], at_once: int, block: int | None = None) -> list[Pair]:
    return [
        Pair(r["prompt_ids"], r["output_ids"], r["stopped"], at_once, r["block"] if block is None else block)
        for r in rows
    ]


@pytest.mark.parametrize("one", RECORDED, ids=named)
def test_a_replay_of_several_at_a_time_is_near_the_server_and_nearer_than_one_by_one(one: dict[str, Any]) -> None:
    name, level = one["workload"], one["at_once"]
    source = Source({name: pairs_of(one["requests"], level)}, {name: pairs_of(one["fed"], level, -1)})
    grid = [setting(one)]
    [together], [apart] = replay(source, grid), replay(source.at_load(1), grid)
    server = sum(row["verify_steps"] for row in one["requests"])
    assert together.verify_steps == pytest.approx(server, rel=0.04 if one["overlap"] else 0.002)
    assert abs(together.verify_steps - server) <= abs(apart.verify_steps - server)


def test_the_step_after_a_prefill_drafts_from_a_text_whose_end_stands_there_twice() -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=4))
    first = NgramRequest(store, [1, 2], 3)
    batch = NgramBatch()
    batch.join([(first, False)])
    batch.step(lambda request, draft: ([4, 5], False))  # inserts 1 2 3
    assert store.draft([1, 2]).tokens == (2, 3)
    assert store.draft([3, 4]).tokens == (4,), "a step late"
    batch.join([(NgramRequest(store, [8], 9), False)])
    batch.step(lambda request, draft: ([6], False))  # drafts from, and inserts, 1 2 3 4 5 4 5; and 8 9
    assert store.draft([3, 4, 5]).tokens == (5, 4, 5), "as nobody ever wrote"
    batch.step(lambda request, draft: ([7], False))
    assert store.draft([3, 4, 5]).tokens[:2] == (5, 6), "the text itself, the step after"


@pytest.mark.parametrize(("version", "after"), [("0.5.12", (5, 6, 7)), ("0.5.15", (5, 6))])
def test_without_overlap_scheduling_no_text_is_doubled_and_no_end_goes_in(version: str, after: tuple[int, ...]) -> None:
    store = NgramStore(NgramSettings(num_draft_tokens=4, version=version, overlap=False))
    batch = NgramBatch()
    batch.join([(NgramRequest(store, [1, 2], 3), False)])
    batch.step(lambda request, draft: ([4, 5], False))
    batch.join([(NgramRequest(store, [8], 9), False)])
    batch.step(lambda request, draft: ([6], False))
    batch.step(lambda request, draft: ([7], True))
    batch.step(lambda request, draft: ([0], False))
    assert store.draft([3, 4, 5]).tokens == after


def test_an_ended_request_leaves_its_last_tokens_unless_a_prefill_comes_first() -> None:
    for prefill in (False, True):
        store = NgramStore(NgramSettings(num_draft_tokens=4))
        batch = NgramBatch()
        batch.join([(NgramRequest(store, [1, 2], 3), False)])
        batch.step(lambda request, draft: ([4, 5], True))
        if prefill:
            batch.join([(NgramRequest(store, [8], 9), False)])
        batch.step(lambda request, draft: ([7], False))
        assert store.draft([3, 4]).tokens == ((4,) if prefill else (4, 5))
    assert batch.busy


texts = st.lists(st.integers(0, 3), min_size=1, max_size=40)
several = st.lists(st.builds(Pair, texts, st.lists(st.integers(0, 3), max_size=40), st.booleans()), max_size=6)


@settings(max_examples=150, deadline=None)
@given(several, st.integers(1, 5), st.integers(1, 8), st.sampled_from(["0.5.5", "0.5.12", "0.5.15"]), st.integers(1, 3))
def test_every_token_is_put_out_once_however_many_run_together(
    pairs: list[Pair], level: int, width: int, version: str, each: int
) -> None:
    blocks = [replace(pair, at_once=level, block=number // each) for number, pair in enumerate(pairs)]
    found = plain_histograms(blocks, NgramSettings(num_draft_tokens=width, version=version))
    assert len(found) == len(pairs)
    for pair, histogram in zip(pairs, found, strict=True):
        put = sum((accepted + 1) * steps for accepted, steps in enumerate(histogram))
        # The last step counts the drafts that the text still holds; the token after them may lie beyond it.
        assert max(0, len(pair.output_ids) - 1) in (put, put - 1)


def test_a_load_of_none_is_refused() -> None:
    with pytest.raises(ValueError, match="at least one request at a time, not 0"):
        Source({"w": [Pair([1], [2])]}).at_load(0)
