"""Field cases about measuring and judging, with their own inputs and others of the same kind."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from answering_server import AnsweringServer
from field_data import expected, table

from spectui import workloads
from spectui.core.accept import bound
from spectui.core.answers import compare_answers
from spectui.core.likeness import differences
from spectui.core.repeats import compare_repeats, forced_length, passes_of_stateful
from spectui.engines.sglang.client import SglangClient


def test_fc34_random_ids_are_marked() -> None:
    sources = [row["source"] for row in table("FC-34")["workloads"]]
    assert [bool(workloads.marks_of_source(source)) for source in sources] == expected("FC-34")["marks"]
    assert len(set(workloads.load(workloads.DEFAULT).kinds)) >= 3


def test_fc35_cold_and_warm_apart() -> None:
    case, want = table("FC-35"), expected("FC-35")
    found = passes_of_stateful(case["passes_tok_s"], case["baseline_tok_s"])
    assert (found.cold, found.warm) == (want["cold"], want["warm"])
    assert (round(found.cold_ratio or 0, 3), round(found.warm_ratio or 0, 3)) == (
        want["cold_ratio"],
        want["warm_ratio"],
    )
    assert want["mean"] not in (found.cold, found.warm)


@pytest.mark.parametrize(
    ("speeds", "flushed", "cold", "warm", "said"),
    [
        ([118.0, 119.0, 117.0], [True] * 3, 118.0, None, ""),
        ([118.0, 190.0, 230.0], [True, False, False], 118.0, 230.0, "passes 2 and 3 failed"),
        ([118.0, 190.0], None, 118.0, None, ""),
    ],
)
def test_fc35_with_flushes_between(
    speeds: list[float], flushed: list[bool | None] | None, cold: float, warm: float | None, said: str
) -> None:
    found = passes_of_stateful(speeds, flushed=flushed)
    assert (found.cold, found.warm) == (cold, warm)
    assert said in " ".join(found.notes)


@pytest.mark.parametrize("sequence", ["seq_1", "seq_2", "seq_3"])
def test_fc37_flushing(sequence: str) -> None:
    want: Any = expected("FC-37")[sequence]
    replies = [(row["status"], row["body"]) for row in table("FC-37")[sequence]]
    with AnsweringServer({"/flush_cache": replies}) as server, SglangClient(server.url) as client:
        outcome = client.flush(sleep=lambda _seconds: None)
    if isinstance(want, dict):
        assert (outcome.flushed, outcome.attempts) == (want["flushed"], want["attempts"])
    else:
        assert outcome.state == want
        assert not outcome.flushed
    assert ("administrator key" in outcome.reason) is (sequence == "seq_3")


def test_fc40_noise() -> None:
    runs, want = table("FC-40"), expected("FC-40")
    ab, ac = compare_repeats(runs["A"], runs["B"]), compare_repeats(runs["A"], runs["C"])
    assert [ab.median_a, ab.median_b, ac.median_b] == want["median"]
    assert (round(100 * ab.change, 2), round(100 * ac.change, 2)) == (want["ab_pct"], want["ac_pct"])
    assert round(100 * ab.spread_a, 1) == want["spread_a_pct"]
    assert [ab.word, ac.word] == ["no clear difference", want["verdict"][1]]
    assert compare_repeats(runs["A"][:1], runs["C"]).word == "one run, no verdict"


@pytest.mark.parametrize(
    ("a", "b", "word"),
    [
        ([100, 101, 102], [104, 104.5, 105], "no clear difference"),
        ([100, 120, 110], [119, 140, 150], "no clear difference"),
        ([100, 120], [90, 80], "slower"),
        ([100.0], [200.0], "one run, no verdict"),
    ],
)
def test_fc40_other_repeats(a: list[float], b: list[float], word: str) -> None:
    assert compare_repeats(a, b).word == word


def test_fc42_what_was_not_alike() -> None:
    a, b = table("FC-42")["a"], table("FC-42")["b"]
    assert differences(a, b) == ["temperature 0.0 / 1.0", "address chat / native"]
    assert [text.split()[0] for text in differences(a, b)] == expected("FC-42")["differences"]
    assert differences(a, a) == []
    assert differences(a, {**a, "algorithm": "none", "accept": None}) == [], "what is under test is no difference"
    assert differences(a, {**a, "temperature": None}) == ["temperature 0.0 / server default"]
    assert differences({**a, "max_tokens": 64}, {**a, "max_tokens": 128}) == ["output limit 64 / 128"]


def test_fc44_a_forced_length() -> None:
    case, want = table("FC-44"), expected("FC-44")
    natural, tail = ((case[part]["completion"], case[part]["verify"]) for part in ("natural", "tail"))
    found = forced_length(natural, tail, ignore_eos=case["ignore_eos"])
    assert (found.natural, found.tail, round(found.pooled or 0, 3)) == (want["natural"], want["tail"], want["pooled"])
    assert found.mark == "length forced: acceptance too high"
    free = forced_length(natural, tail, ignore_eos=False)
    assert (free.pooled, free.mark) == (want["natural"], None)


@pytest.mark.parametrize(
    ("row", "want"), list(zip(table("FC-45")["rows"], expected("FC-45")["want"], strict=True)), ids=str
)
def test_fc45_the_bound(row: dict[str, Any], want: str) -> None:
    found = bound(row["completion"], row["verify"], row["draft_tokens"])
    assert found.state == ("ok" if want == "ok" else "broken")
    assert found.detail.startswith("impossible") is (want == "impossible")


@pytest.mark.parametrize(("tokens", "steps", "requests", "fits"), [(1, 0, 1, True), (2, 0, 1, False), (18, 4, 2, True)])
def test_fc45_at_the_edges(tokens: int, steps: int, requests: int, fits: bool) -> None:
    assert (bound(tokens, steps, 4, requests).state == "ok") is fits


@pytest.mark.parametrize(
    ("pair", "want"), list(zip(table("FC-47")["pairs"], expected("FC-47")["want"], strict=True)), ids=str
)
def test_fc47_harmless_or_broken(pair: dict[str, str], want: str) -> None:
    found = compare_answers(pair["base"], pair["spec"])
    assert found.state == {"pass": "same", "pass_note": "differs", "fail": "broken"}[want]
    assert "wrong" not in found.detail
    if want == "pass_note":
        assert found.detail == f"differs from word {expected('FC-47')['first_diff_word']}"


@pytest.mark.parametrize(
    ("answer", "state"),
    [
        ("哈" * 30, "broken"),
        ("the " * 20, "broken"),
        ("  \n", "broken"),
        ("Sort\ufffding it", "broken"),
        ("no no no", "differs"),
        ("-" * 40 + "\n| a | b |", "differs"),
        ("Sorting takes n log n", "differs"),
    ],
)
def test_fc47_other_answers(answer: str, state: str) -> None:
    assert compare_answers("Sorting takes n log n steps on average.", answer).state == state


def test_fc47_a_repetition_of_the_model_itself_is_no_fault_of_the_setting() -> None:
    assert compare_answers("ab " * 30, "ab " * 31).state == "differs"
    assert compare_answers("fine words", "", thoughts="hm").detail == "broken: no answer text"
    found = compare_answers("a b c", "a b x")
    assert replace(found, at=None).passed
