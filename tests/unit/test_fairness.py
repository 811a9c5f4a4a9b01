"""The state of a drafter's memory from evidence, and every reason for which a verdict is withheld."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest
from core_records import arm_head, fed, flush, generated, head, of_meta, recorded, row_of

from spectui.core.compare import compare
from spectui.core.evidence import Evidence, repetition
from spectui.core.fairness import (
    evidence_from,
    fit,
    proposer_state,
    side_of,
)
from spectui.core.result import fold
from spectui.core.trend import rise, steady, warm_up

KEY = ("A", 1, "warm")
COLD = ("A", 1, "cold")


def ngram_warm(seed: int = 3, fed_requests: int = 30, measured: int = 16, tokens: int = 200) -> list[dict[str, Any]]:
    rng = random.Random(seed)
    lengths = [4.0 * rng.uniform(0.9, 1.1) for _ in range(fed_requests + measured)]
    feed = generated(fed_requests, tokens, lengths, phase="feed", arm="A")
    mine = generated(measured, tokens, lengths[fed_requests:], first=fed_requests)
    end = fed(fed_requests, fed_requests * tokens, True)
    return [flush(), *map(row_of, feed), end, *map(row_of, mine)]


def state_of(rows: list[dict[str, Any]], key: tuple[str, int, str] = KEY, **values: Any) -> Any:
    return fold([head(**values), *rows]).passes[key].proposer_state


def test_five_unrelated_short_prompts_on_an_empty_store_are_cold() -> None:
    rows = [of_meta(m, i, pass_name="cold") for i, m in enumerate(recorded()["ngram-8"]["workloads"]["short"])]
    said = state_of([flush(pass_name="cold"), *map(row_of, rows)], COLD)
    assert said.name == "cold"
    assert "5 requests measured (2,560 tokens)" in said.detail
    assert "2,000 more tokens" in said.needs[0]


def test_the_story_of_the_benchmark_that_judged_an_empty_store() -> None:
    """The same whatever the workload is called: a name is never read."""
    mine = generated(5, 150, [1.3] * 5, pass_name="cold")
    base = [replace(r, arm="B", verify_steps=None) for r in mine]
    for name in ("short", "json", "prompts.jsonl"):
        top = head(arm_head(), arm_head("B", "none"), workload={"name": name, "hash": name, "marks": []})
        result = fold([top, flush(pass_name="cold"), *map(row_of, [*mine, *base])])
        a, b = side_of(result, COLD), side_of(result, ("B", 1, "cold"))
        said = compare(a, b).verdict
        assert said.word == "not a fair trial"
        assert "A's store is cold" in said.reasons[0]
        assert "at least 2,000 more tokens" in said.reasons[0]


def test_a_fill_that_is_too_small_says_how_much_is_missing() -> None:
    feed = generated(5, 500, [2.0] * 5, phase="feed")
    mine = generated(8, 500, [2.0] * 8, first=5)
    result = fold([head(), flush(), *map(row_of, [*feed, *mine])])
    said = proposer_state(evidence_from(result, KEY, steady_tokens=6000))
    assert said.name == "cold"
    assert "5 requests have fed the store 2,500 tokens; steady acceptance was reached after 6,000" in said.detail
    assert said.needs == ("feed at least 3,500 more tokens before measuring, about 7 requests of this size",)


def test_records_of_one_shape_after_feeding_are_fed() -> None:
    said = state_of(ngram_warm())
    assert (said.name, said.fair) == ("fed", True)
    assert "6,000 tokens of other answers" in said.detail


def test_a_store_with_a_past_that_we_did_not_see_is_unknown_until_we_filled_it() -> None:
    rows = ngram_warm()[1:]
    assert state_of(rows).name == "fed"
    few = [r for r in rows if r.get("phase") == "measure"]
    said = state_of(few)
    assert said.name == "unknown"
    assert "no flush was seen" in said.detail
    refused = state_of([flush(flushed=False), *few])
    assert refused.name == "unknown"


def test_acceptance_that_still_rises_is_warming_with_a_half_life() -> None:
    rng = random.Random(5)
    lengths = [5.0 - 3.5 * 2 ** (-(i * 200 + 100) / 3000) + rng.gauss(0, 0.08) for i in range(40)]
    feed, mine = generated(12, 200, lengths, phase="feed"), generated(28, 200, lengths[12:], first=12)
    said = state_of([flush(), *map(row_of, feed), fed(12, 2400, False), *map(row_of, mine)])
    assert said.name == "warming"
    assert said.half_life == pytest.approx(3000, rel=0.4)
    assert "more tokens before measuring" in said.needs[0]
    assert not said.fair


def test_the_same_prompt_three_times_is_saturated() -> None:
    feed = generated(15, 200, [2.4] * 15, phase="feed")
    mine = [replace(r, prompt_id="same") for r in generated(3, 400, [2.4, 4.0, 7.1], first=15)]
    said = state_of([flush(), *map(row_of, [*feed, *mine])])
    assert said.name == "saturated"
    assert "2 of 3 measured prompts had been sent before" in said.detail
    assert "from 2.4 to 7.1" in said.detail
    alone = state_of([flush(), *map(row_of, mine)])
    assert alone.name == "saturated"


def test_measuring_again_without_a_flush_is_contamination_and_a_flush_ends_it() -> None:
    mine = generated(8, 400, [3.0] * 8, pass_name="cold")
    again = [replace(r, pass_name="warm", phase="measure") for r in mine]
    dirty = state_of([flush(pass_name="cold"), *map(row_of, [*mine, *again])])
    assert dirty.name == "saturated"
    clean = state_of([flush(pass_name="cold"), *map(row_of, mine), flush(), *map(row_of, again)])
    assert clean.name == "cold"
    restarted = {"t": 1.0, "kind": "mark", "arm": "A", "name": "restarted", "detail": "d"}
    assert state_of([flush(pass_name="cold"), *map(row_of, mine), restarted, *map(row_of, again)]).name == "cold"


def test_later_passes_do_not_colour_earlier_ones() -> None:
    mine = generated(8, 400, [3.0] * 8, pass_name="cold")
    rows = [flush(pass_name="cold"), *map(row_of, mine), *ngram_warm()]
    result = fold([head(), *rows])
    assert result.passes[COLD].proposer_state.name == "cold"
    assert result.passes[KEY].proposer_state.name == "fed"
    assert result.passes[COLD].evidence.tokens_measured == 3200


def answer(index: int, ids: list[int], phase: str = "measure") -> dict[str, Any]:
    return {"arm": "A", "pass_name": "warm", "phase": phase, "concurrency": 1, "index": index, "output_ids": ids}


def test_answers_that_the_store_has_seen_whole_are_saturated_whatever_the_prompts() -> None:
    rng = random.Random(1)
    rows = ngram_warm()
    fresh = [answer(i, [rng.randrange(9000) for _ in range(200)], "feed" if i < 30 else "measure") for i in range(46)]
    result = fold([head(), *rows])
    seen = proposer_state(evidence_from(result, KEY, fresh))
    assert seen.name == "fed"
    copied = fresh[:30] + [answer(30 + i, list(fresh[i]["output_ids"])) for i in range(16)]
    said = proposer_state(evidence_from(result, KEY, copied))
    assert said.name == "saturated"
    assert "16 of 16 answers were known" in said.detail
    loops = fresh[:30] + [answer(30 + i, [i, 7, 8, 9] * 50) for i in range(16)]
    circles = proposer_state(evidence_from(result, KEY, loops))
    assert circles.name == "saturated"
    assert "repeat themselves" in circles.detail


def test_repetition_of_text_without_ids_goes_by_words() -> None:
    line = "one two three four five six seven eight nine ten"
    found = repetition([{"text": line}], [{"text": line}, {"text": line.upper()}, {"text": "short"}])
    assert found is not None
    assert (found.answers, found.whole, found.across) == (2, 0.5, 0.5)
    assert repetition([], [{"text": "short"}]) is None


@pytest.mark.parametrize("algorithm", ["none", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "eagle3"])
def test_drafts_from_weights_never_withhold(algorithm: str) -> None:
    said = proposer_state(Evidence(algorithm, repeated_prompts=5, requests_measured=5))
    assert (said.name, said.fair) == ("stateless", True)


def test_a_corpus_primes_a_store() -> None:
    mine = generated(10, 200, [4.0, 4.1] * 5, pass_name="primed")
    prime = {**flush(pass_name="primed"), "phase": "prime", "detail": {"tokens": 50_000}}
    rows = [flush(pass_name="primed"), prime, *map(row_of, mine)]
    assert state_of(rows, ("A", 1, "primed")).name == "fed"


def test_too_few_measured_requests_show_no_steadiness() -> None:
    rows = [r for r in ngram_warm(measured=3) if (r.get("detail") or {}).get("steady") is None]
    said = state_of(rows)
    assert said.name == "unknown"
    assert "too few" in said.detail
    assert state_of(ngram_warm(measured=3)).name == "fed"


def test_fit_is_judged_once_the_state_lets_it_count() -> None:
    base = Evidence(
        "NGRAM",
        True,
        tokens_before=9000,
        requests_before=30,
        fed_steady=True,
        requests_measured=10,
        tokens_measured=2000,
    )
    assert fit(replace(base, zero_share=0.9)).name == "poor"
    assert fit(replace(base, zero_share=0.4)).name == "good"
    starved = fit(replace(base, zero_share=0.9, tokens_before=0))
    assert starved.name == "unknown"
    assert "cold" in starved.detail
    assert fit(base).name == "unknown"


def test_trends_are_seldom_seen_where_there_are_none() -> None:
    """5 % by construction of the test, less since a rise must also matter; 2,000 draws, seed fixed."""
    rng = random.Random(20)
    metas = recorded()["ngram-8"]["concurrency"]["16"]["requests"]
    lengths = [(m["completion_tokens"] - 1) / m["spec_verify_ct"] for m in metas]
    seen = 0
    for _ in range(2000):
        y = [rng.choice(lengths) for _ in range(16)]
        seen += rise([i * 256.0 for i in range(16)], y, [255 / v for v in y]).shown
    assert seen <= 2000 * 0.05 + 2.33 * (2000 * 0.05 * 0.95) ** 0.5
    x = [float(i * 200) for i in range(24)]
    curve = [4.0 - 2.0 * 2 ** (-v / 1500) for v in x]
    assert rise(x, curve, [50] * 24).shown
    fitted = warm_up(x, curve, [50] * 24)
    assert fitted is not None
    assert fitted.half_life == pytest.approx(1500, rel=0.15)
    assert warm_up(x, [3.0, 3.1] * 12, [50] * 24) is None
    assert steady(x, [3.0, 3.1] * 12, [50] * 24)
    assert not steady(x, curve, [50] * 24)
