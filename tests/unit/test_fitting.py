"""Does a workload suit a drafter: judged from the prompts before anything is sent."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.core.spec import ArmSpec, Prompt, RunSpec, WorkloadRef
from spectui.engines.sglang.contract import contract_for
from spectui.engines.sglang.info import ServerInfo
from spectui.session import SessionError, fitting
from spectui.workloads import load


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))


def info(algorithm: str, **settings: Any) -> ServerInfo:
    return ServerInfo("0.5.15", contract_for("0.5.15"), "m", "m", algorithm, algorithm, settings)


def spec(measuring: tuple[Prompt, ...], feeding: tuple[Prompt, ...] = (), **values: Any) -> RunSpec:
    base = RunSpec("r", "/r", (ArmSpec("A", "http://h:1"),), WorkloadRef("w", "h"), feeding, measuring)
    return replace(base, **values)


def prompts(count: int, words: str = "tell of number", first: int = 0) -> tuple[Prompt, ...]:
    return tuple(Prompt(f"p{n}", "g", text=f"{words} {n}") for n in range(first, first + count))


def judged(run: RunSpec, server: ServerInfo, steady: int | None = None) -> fitting.FitBefore:
    return fitting.fit_before("A", server, run, fitting.asked_of(run), steady)


def test_a_cold_pass_never_suits_a_drafter_that_learns() -> None:
    said = judged(spec(prompts(32), prompts(64, first=100), passes=("cold",)), info("NGRAM"))
    assert said.fit == "poor"
    assert "nothing has fed" in said.detail


def test_too_little_to_feed_with_is_told_with_what_was_needed() -> None:
    run = spec(prompts(8), prompts(5, first=100), max_tokens=500)
    assert judged(run, info("NGRAM"), steady=6000).detail == (
        "feeding can give its store 2,500 tokens at most; steady acceptance was reached after 6,000"
    )
    assert judged(run, info("NGRAM"), steady=6000).fit == "poor"
    assert judged(run, info("NGRAM"), steady=1500).fit == "good"


def test_one_prompt_again_and_again_is_seen_without_a_name() -> None:
    said = judged(spec(prompts(1) * 32, prompts(64, first=100)), info("NGRAM"))
    assert (said.fit, "31 of 32 prompts are sent again" in said.detail) == ("poor", True)


@pytest.mark.parametrize("algorithm", ["none", "EAGLE3", "STANDALONE"])
def test_any_text_tries_what_learns_nothing(algorithm: str) -> None:
    assert judged(spec(prompts(8), passes=("cold",)), info(algorithm)).fit == "good"
    few = judged(spec(prompts(3)), info(algorithm))
    assert (few.fit, few.needs) == ("poor", ("2 more prompts at least: an interval takes 5",))


def test_shared_text_is_measured_in_windows_of_words() -> None:
    shape = "write a record with the fields name and age and city for person"
    alike = fitting.asked_of(spec(prompts(8, shape), prompts(8, shape, first=100)))
    assert alike.shared > 0.7
    unlike = tuple(Prompt(f"u{n}", "g", text=" ".join(f"word{n}x{i}" for i in range(20))) for n in range(8))
    assert fitting.asked_of(spec(unlike)).shared == 0.0
    assert (alike.measuring, alike.distinct, alike.feeding) == (8, 8, 8)


@pytest.mark.parametrize(("name", "fit"), [("json", "good"), ("edit", "good"), ("repeat", "poor")])
def test_of_the_workloads_that_come_along(name: str, fit: str) -> None:
    workload = load(name)
    run = spec(workload.measuring(0), workload.feeding(0), max_tokens=workload.max_tokens)
    assert judged(run, info("NGRAM")).fit == fit


def test_a_primed_pass_is_refused_before_anything_is_sent() -> None:
    run = spec(prompts(8), passes=("primed",), corpus="c")
    with pytest.raises(SessionError, match="external-sam-budget 0"):
        fitting.refuse(run, {"A": info("NGRAM", **{"ngram.external_sam_budget": 0})})
    with pytest.raises(SessionError, match="takes no external corpus"):
        fitting.refuse(run, {"A": info("NGRAM")})
    with pytest.raises(SessionError, match="needs NGRAM: EAGLE3 and none take no corpus"):
        fitting.refuse(run, {"A": info("EAGLE3"), "B": info("none")})
    fitting.refuse(run, {"A": info("NGRAM", **{"ngram.external_sam_budget": 4}), "B": info("none")})
    fitting.refuse(replace(run, passes=("warm",)), {"A": info("EAGLE3")})


def test_history_is_of_the_same_model_settings_and_text() -> None:
    from spectui.session.history_of_feeding import Kind, steady_tokens

    kind = Kind("n", "m", "NGRAM: num_draft_tokens=8", ("json",), frozenset({"p1", "p2", "p3", "p4"}))
    row = {"host": "n", "model": "m", "settings": kind.settings, "groups": ["json"], "prompts": ["x"], "tokens": 6000}
    assert steady_tokens(kind, [row]) == 6000
    assert steady_tokens(kind, [row, {**row, "tokens": 4000}]) == 4000
    for other in ({"model": "z"}, {"host": "z"}, {"settings": "NGRAM: num_draft_tokens=4"}, {"groups": ["chat"]}):
        assert steady_tokens(kind, [{**row, **other}]) is None
    unnamed = replace(kind, groups=("file",))
    assert steady_tokens(unnamed, [{**row, "groups": ["file"]}]) is None  # another file is another text
    assert steady_tokens(unnamed, [{**row, "prompts": ["p1", "p2", "z"]}]) == 6000
