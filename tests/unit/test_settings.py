from __future__ import annotations

import math

import pytest
from hypothesis import given as forall
from hypothesis import settings as limits
from hypothesis import strategies as st

from spectui import algorithms
from spectui.core.settings import Knob, Ref, Test, above, equal, fill, holds, move, none_of, off, unset, value_of
from spectui.core.versions import KNOWN, parse, spell, standing, within


@pytest.mark.parametrize("value", [0, 65, -3, True, 3.0, "3", float("nan"), [3]])
def test_a_whole_number_out_of_its_range_or_kind_is_named(value: object):
    fault = Knob("num_steps", "int", "steps", "Help.", minimum=1, maximum=64).fault(value)
    assert fault is not None
    assert "an integer from 1 to 64" in fault


def test_other_kinds():
    share = Knob("t", "float", "t", "Help.", minimum=0, maximum=1)
    assert share.fault(1) is None
    assert share.fault(0.5) is None
    assert share.fault(math.nan)
    assert share.fault(math.inf)
    assert Knob("f", "flag", "f", "Help.").fault(1)
    assert Knob("f", "flag", "f", "Help.").fault(False) is None
    assert Knob("c", "choice", "c", "Help.", choices=("BFS", "PROB")).fault("bfs")
    assert Knob("p", "path", "p", "Help.").fault("  ")
    assert Knob("p", "path", "p", "Help.").fault("/models/my model") is None
    assert Knob("p", "path", "p", "Help.").fault("a\nb")


def test_typed_text_becomes_a_value_or_a_sentence():
    steps = Knob("num_steps", "int", "steps", "Help.", minimum=1)
    assert steps.read(" 5 ") == 5
    assert steps.read("") is None
    assert Knob("f", "flag", "f", "Help.").read("off") is False
    with pytest.raises(ValueError, match=r'steps must be an integer of at least 1, not "many"'):
        steps.read("many")
    with pytest.raises(ValueError, match="not 0"):
        steps.read("0")


def test_an_unset_key_fails_every_comparison_but_two():
    at = {"a": None, "b": 3}
    for test in (equal("a", None), above("a", 1), none_of("a", 1), Test("a", "differs", 1), Test("a", "given")):
        assert not holds(test, at)
    assert holds(unset("a"), at)
    assert holds(off("a"), at)
    assert not holds(above("b", Ref("a")), at)
    assert not holds(above("b", "2"), at), "words are not above numbers"


def test_references_compute():
    at = {"num_steps": 4, "num_draft_tokens": 12, "eagle_topk": 10}
    assert value_of(Ref("num_steps", add=1), at) == 5
    assert value_of(Ref("num_draft_tokens", over="eagle_topk"), at) == 1
    assert value_of(Ref("num_draft_tokens", over="none"), at) is None
    assert value_of(Ref("none", add=1), at) is None
    assert fill("{num_steps} of {x.y}", at) == "4 of unset"


def test_brackets_move_what_the_algorithm_names():
    eagle = algorithms.load("EAGLE3")
    chain = {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
    assert move(eagle, chain, chain, +1) == {"num_steps": 4, "eagle_topk": 1, "num_draft_tokens": 5}
    tree = {"num_steps": 5, "eagle_topk": 4, "num_draft_tokens": 8}
    assert move(eagle, tree, tree, +1) == {"num_steps": 5, "eagle_topk": 4, "num_draft_tokens": 12}
    # from what the server chose by itself: all three are asked for then
    assert move(eagle, {"draft_model_path": "/d"}, tree, -1) == {
        **tree,
        "num_draft_tokens": 6,
        "draft_model_path": "/d",
    }
    block = {"dflash.block_size": 16, "num_draft_tokens": 16}
    assert move(algorithms.load("DFLASH"), block, block, -1) == {"dflash.block_size": 12}
    assert move(algorithms.load("none"), {}, {}, +1) == {}
    # between two steps, in both directions
    assert move(algorithms.load("NGRAM"), {}, {"num_draft_tokens": 9}, +1) == {"num_draft_tokens": 12}
    assert move(algorithms.load("NGRAM"), {}, {"num_draft_tokens": 9}, -1) == {"num_draft_tokens": 8}


@pytest.mark.parametrize(
    ("text", "version"),
    [("0.5.15.post1", (0, 5, 15)), ("v0.5.5", (0, 5, 5)), ("0.6", (0, 6, 0)), ("main", None), (None, None), ("", None)],
)
def test_versions_are_read(text: str | None, version: tuple[int, ...] | None):
    assert parse(text) == version


def test_where_a_version_stands():
    assert standing("0.5.12.post1").known
    assert standing("0.5.12.post1").text == ""
    assert standing("0.5.13").taken == (0, 5, 12)
    assert "0.5.13 is not known" in standing("0.5.13").text
    assert standing("0.5.14").taken == (0, 5, 15), "the nearest known one"
    assert standing("0.6.0").taken == KNOWN[-1]
    assert standing("0.4.1").taken == KNOWN[0]
    assert "version is not known" in standing(None).text


def test_what_is_settled_between_known_releases():
    assert within(standing("0.5.13"), (0, 5, 12), None) is True
    assert within(standing("0.5.13"), (0, 5, 15), None) is None
    assert within(standing("0.5.13"), (0, 5, 23), None) is False
    assert within(standing("0.6.0"), None, None) is None, "a newer release may be otherwise"
    assert within(standing("0.6.0"), None, (0, 5, 5)) is False
    assert within(standing("0.4.1"), (0, 5, 5), None) is False
    assert within(standing(None), None, None) is True
    assert within(standing(None), (0, 5, 12), None) is None


@limits(max_examples=60, deadline=None)
@forall(st.sampled_from(KNOWN), st.sampled_from([None, *KNOWN]), st.sampled_from([None, *KNOWN]))
def test_a_known_release_is_always_settled(release, since, until):
    inside = (since is None or release >= since) and (until is None or release <= until)
    assert within(standing(spell(release)), since, until) is inside
