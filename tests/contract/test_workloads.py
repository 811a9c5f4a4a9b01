"""What holds for every workload file."""

from __future__ import annotations

from pathlib import Path

import pytest

from spectui import workloads
from spectui.workloads._table import markdown

NAMES = workloads.names()
OPEN_ENDED = [name for name in NAMES if name not in {"short", "repeat"}]
SEEDS = (0, 1, 7)


def test_the_built_in_ones_are_found_without_any_list() -> None:
    assert set(NAMES) >= {"short", "long", "chat", "edit", "json", "repeat", "mixed"}


@pytest.mark.parametrize("name", NAMES)
def test_declares_what_a_chooser_needs(name: str) -> None:
    workload = workloads.load(name)
    assert workload.name == name
    assert workload.title
    assert workload.help.endswith(".")
    assert workload.max_tokens >= 64
    assert all(mark in workloads.MARKS for mark in workload.marks)
    assert workload.source == "builtin"


@pytest.mark.parametrize("name", NAMES)
def test_feeding_and_measuring_share_no_prompt_under_any_seeds(name: str) -> None:
    workload = workloads.load(name)
    fed = {prompt.id for seed in SEEDS for prompt in workload.feeding(seed)}
    measured = {prompt.id for seed in SEEDS for prompt in workload.measuring(seed)}
    assert fed
    assert measured
    assert not fed & measured


@pytest.mark.parametrize("name", NAMES)
def test_both_sets_are_of_the_same_kinds(name: str) -> None:
    workload = workloads.load(name)
    assert {p.group for p in workload.feeding()} == set(workload.kinds)
    assert {p.group for p in workload.measuring()} == set(workload.kinds)


@pytest.mark.parametrize("name", NAMES)
def test_is_the_same_for_the_same_seed_and_another_order_for_another(name: str) -> None:
    workload = workloads.load(name)
    assert workload.measuring(5) == workload.measuring(5)
    assert workload.hash(5) == workload.hash(5)
    assert workload.ref(5).hash == workload.hash(5)
    assert len(workload.hash()) == 16
    if name != "repeat":
        assert workload.hash(5) != workload.hash(6)
        assert len(workload.measuring(5)) == len(workload.measuring(6))


@pytest.mark.parametrize("name", NAMES)
def test_ids_tell_contents_apart_and_are_16_hex_digits(name: str) -> None:
    workload = workloads.load(name)
    by_id = {p.id: (p.messages, p.text) for p in (*workload.feeding(), *workload.measuring())}
    assert len(set(map(repr, by_id.values()))) == len(by_id)
    assert all(len(i) == 16 and int(i, 16) >= 0 for i in by_id)


@pytest.mark.parametrize("name", NAMES)
def test_prompts_are_chats_that_end_with_the_user_and_have_no_open_slot(name: str) -> None:
    workload = workloads.load(name)
    for prompt in (*workload.feeding(), *workload.measuring()):
        assert prompt.messages is not None
        roles = [message["role"] for message in prompt.messages]
        assert roles == ["user", "assistant"] * (len(roles) // 2) + ["user"]
        assert all(message["content"].strip() for message in prompt.messages)


@pytest.mark.parametrize("name", OPEN_ENDED)
def test_has_enough_different_prompts(name: str) -> None:
    workload = workloads.load(name)
    assert len({p.id for p in workload.measuring()}) >= 32
    assert len({p.id for p in workload.feeding()}) >= (32 if name == "long" else 64)


@pytest.mark.parametrize("name", [name for name in NAMES if name != "repeat"])
def test_no_prompt_is_measured_twice(name: str) -> None:
    measured = [p.id for p in workloads.load(name).measuring()]
    assert len(set(measured)) == len(measured)


def test_no_workload_feeds_what_another_measures() -> None:
    loaded = [workloads.load(name) for name in NAMES]
    fed = {p.id for w in loaded for p in w.feeding()}
    assert not fed & {p.id for w in loaded for p in w.measuring()}


def test_the_table_of_the_docs_is_what_the_files_say() -> None:
    page = Path(__file__).parents[2] / "docs" / "workloads.md"
    assert page.read_text(encoding="utf-8") == markdown() + "\n", (
        "python -m spectui.workloads._table > docs/workloads.md"
    )
