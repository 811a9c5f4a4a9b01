"""Greedy answers of two arms: same, parted ways, or broken."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.answers import LONGEST_PHRASE, compare_all, compare_answers, compare_rows, fault, first_difference

LAKE = "The lake lies north of the town and freezes in most winters."
SORT = "Sorting takes n log n steps on average."


@pytest.mark.parametrize(
    ("base", "other", "state", "detail"),
    [
        (LAKE, LAKE, "same", "same"),
        (LAKE, "The lake lies north of the town and freezes nearly every year.", "differs", "differs from word 10"),
        (SORT, "!" * 40, "broken", "broken: repetition"),
        (SORT, "", "broken", "broken: empty"),
        (
            SORT,
            "Sorting \ufffd\ufffd takes \ufffd\ufffd\ufffd steps \ufffd\ufffd",
            "broken",
            "broken: undecodable characters",
        ),
        (SORT, SORT[:20], "differs", "differs from word 5"),
        (SORT, SORT + " ", "differs", "differs in blanks only"),
    ],
)
def test_fc47(base: str, other: str, state: str, detail: str) -> None:
    said = compare_answers(base, other)
    assert (said.state, said.detail) == (state, detail)
    assert said.passed == (state != "broken")


@pytest.mark.parametrize(
    "text",
    [
        "no no no",
        "| a | b |\n|------------------------------|----|\n| 1 | 2 |",
        "def f():\n    return 1\n" + "# " + "-" * 70,
        "0, 1, 1, 2, 3, 5, 8, 13, 21, 34, 55, 89, 144",
        '{"id": 1, "name": "Ada"}\n{"id": 2, "name": "Ben"}\n{"id": 3, "name": "Cy"}\n{"id": 4, "name": "Di"}',
        "Answer: 你好 🚀",
        "cut inside a character \ufffd",
    ],
)
def test_ordinary_text_has_no_fault(text: str) -> None:
    assert fault(text) is None


@pytest.mark.parametrize(
    ("text", "what"),
    [
        ("  \n ", "empty"),
        ("\ufffd\ufffd", "undecodable characters"),
        ("the the the the the the the the the the the the the the", "repetition"),
        ("Good start, then it is it is it is it is it is it is it is it is", "repetition"),
        ("a" * 30, "repetition"),
        ("0" * 12 + " " + "0" * 12, "repetition"),
    ],
)
def test_broken_text_is_named(text: str, what: str) -> None:
    assert fault(text) == what


def test_thoughts_alone_are_no_answer() -> None:
    assert fault("", "First add. Then check.") == "no answer text"


@pytest.mark.parametrize(
    ("text", "what"),
    [
        (
            "It begins well. "
            + "The bridge is designed to carry its own load, which is typically that of a wall. " * 6,
            "repetition",
        ),
        ("今日は" + "私は学生です。" * 12, "repetition"),
        ("fine so far \x00\x01\x02\x00", "undecodable characters"),
    ],
)
def test_loops_of_whole_sentences_and_of_signs_without_blanks_are_broken(text: str, what: str) -> None:
    assert fault(text, longest=LONGEST_PHRASE) == what
    assert compare_answers("a sensible answer", text).detail == f"broken: {what}"


@pytest.mark.parametrize(
    "text",
    [
        "".join(f'{{"id": {n}, "name": "Ana {n * n}", "active": true}}\n' for n in range(40)),
        "".join(f"| {n} | ok | {n % 3} |\n" for n in range(40)),
        "def f(x):\n" + "".join(f"    if x == {n}:\n        return {n * 3}\n" for n in range(20)),
        "".join(f"第{n}章、河の話が続きます。" for n in range(20)),
        "https://example.org/a/very/long/address/without/any/blank/in/it/at/all",
    ],
)
def test_lists_tables_and_code_of_one_shape_are_sensible(text: str) -> None:
    assert fault(text, longest=LONGEST_PHRASE) is None


def test_what_both_arms_repeat_is_the_models_own() -> None:
    loop = "so it goes on and on " * 8
    assert compare_answers(loop, loop).state == "same"
    assert compare_answers(loop, loop + "and on").state == "differs"
    assert compare_answers("fine text", loop).state == "broken"
    assert "so is the other arm's" in compare_answers("", "").detail


def row(index: int, ids: list[int] | None, text: str, **values: Any) -> dict[str, Any]:
    return {"prompt_id": f"p{index}", "phase": "measure", "output_ids": ids, "text": text, **values}


def test_ids_are_compared_where_both_arms_have_them() -> None:
    assert compare_rows(row(0, [1, 2, 3], "a b"), row(0, [1, 2, 4], "a c")).detail == "differs from token 3"
    assert compare_rows(row(0, [1, 2], "a b"), row(0, [1, 2], "a b")).state == "same"
    assert compare_rows(row(0, None, "a b"), row(0, [1], "a c")).detail == "differs from word 2"
    assert compare_rows(row(0, [5] * 40, SORT), row(0, [5] * 40, "!" * 40)).state == "broken"


def test_all_answers_in_one_sentence() -> None:
    base = [row(i, [i, 1, 2, 3], LAKE) for i in range(5)]
    other = [row(i, [i, 1, 2, 3], LAKE) for i in range(3)] + [row(3, [3, 1, 9], "The lake"), row(4, [], "")]
    said = compare_all(base, [*other, row(9, [1], "unpaired"), row(0, [7], "fed", phase="feed")])
    assert said is not None
    assert (said.same, said.differ, said.broken) == (3, 1, 1)
    assert said.detail == "same on 3 of 5; 1 differs from token 3; 1 broken: empty (1)"
    assert compare_all(base, []) is None


def test_ids_of_another_vocabulary_are_not_compared_and_it_is_told() -> None:
    base = {"prompt_id": "p", "phase": "measure", "prompt_ids": [1, 2], "output_ids": [5, 6], "text": LAKE}
    other = {**base, "prompt_ids": [9, 8, 7], "output_ids": [50, 60, 70]}
    assert compare_rows(base, other).state == "same"
    said = compare_all([base], [other])
    assert said is not None
    assert said.unlike == 1
    assert said.detail.endswith("1 prompts were other tokens on each side: another vocabulary or chat template")
    assert (compare_all([base], [base]) or said).unlike == 0


def test_broken_answers_of_either_arm_are_told_with_its_name() -> None:
    def row(prompt: int, text: str) -> dict[str, object]:
        return {"prompt_id": f"p{prompt}", "phase": "measure", "text": text}

    fine = [row(n, f"a sensible answer number {n}") for n in range(4)]
    bad = [fine[0], row(1, ""), row(2, "no no " * 40), fine[3]]
    said = compare_all(bad, fine, ("B", "A"))
    assert said is not None
    assert (said.same, said.differ, said.broken, said.broken_base, said.pairs) == (2, 0, 0, 2, 4)
    assert said.detail == "same on 2 of 4; 2 of B's broken: empty (1), repetition (1)"
    turned = compare_all(fine, bad, ("B", "A"))
    assert turned is not None
    assert turned.detail == "same on 2 of 4; 2 of A's broken: empty (1), repetition (1)"
    assert (turned.broken, turned.broken_base) == (2, 0)


@given(st.lists(st.integers(0, 3), max_size=12), st.lists(st.integers(0, 3), max_size=12))
def test_the_first_difference_is_one(a: list[int], b: list[int]) -> None:
    at = first_difference(a, b)
    if at is None:
        assert a == b
    else:
        assert a[: at - 1] == b[: at - 1]
        assert a[at - 1 : at] != b[at - 1 : at]
