"""The story that the project began with, told right: who is tried, on what, and when a verdict may be given."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from sim_process import SimProcess
from told import EAGLE, NGRAM, Told

from spectui.workloads import load


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(tmp_path / "home", monkeypatch, capsys)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with SimProcess("--enable-metrics", speed=40) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def ngram() -> Iterator[str]:
    with SimProcess(*NGRAM, speed=150) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def eagle() -> Iterator[str]:
    with SimProcess(*EAGLE, speed=40) as server:
        yield f"http://127.0.0.1:{server.port}"


def as_file(name: str, folder: Path) -> Path:
    """The very prompts of a workload, without its name."""
    path = folder / "prompts.jsonl"
    rows = [json.dumps({"messages": list(p.messages or ())}) for p in load(name).measuring(0)]
    path.write_text("\n".join(rows))
    return path


@pytest.mark.parametrize("from_file", [False, True], ids=["by name", "from a file"])
def test_short_and_cold_is_no_fair_trial(told: Told, ngram: str, base: str, tmp_path: Path, from_file: bool) -> None:
    what = ["--file", str(as_file("short", tmp_path))] if from_file else ["--workload", "short"]
    said = told("compare", ngram, base, *what, "--pass", "cold", "--flush", "--max-tokens", "100")
    assert said["verdict"] == "not a fair trial"
    assert "A's store is cold" in said["reasons"][0]
    assert "5 requests measured" in said["reasons"][0]
    assert "feed at least 2,000 more tokens" in said["reasons"][0]
    assert said["fit"][0]["fit"] == "poor"
    assert "cold pass" in said["fit"][0]["detail"]


def test_records_on_a_fed_store_get_a_verdict(told: Told, ngram: str, base: str) -> None:
    said = told("compare", ngram, base, "--workload", "json", "--flush", "--requests", "10", "--max-tokens", "120")
    assert said["verdict"] in ("faster", "slower", "no difference shown"), said["reasons"]
    assert said["passes"]["A"]["warm"]["proposer_state"] == "fed"
    assert said["passes"]["B"]["warm"]["proposer_state"] == "stateless"
    row = said["by_concurrency"][0]
    assert row["accept_length_ratio"] > 1.2
    assert any("each prompt counts once" in note for note in said["notes"])


def test_stateless_arms_get_a_verdict(told: Told, eagle: str, base: str) -> None:
    said = told("compare", eagle, base, "--workload", "json", "--flush", "--requests", "10", "--max-tokens", "80")
    assert said["verdict"] in ("faster", "slower", "no difference shown"), said["reasons"]
    row = said["by_concurrency"][0]
    assert row["interval"][0] <= row["ratio"] <= row["interval"][1]
    assert row["accept_length_ratio"] > 1.5  # drafting decides, and is told apart from verifying
    assert row["step_time_ratio"] > 0
    assert "same on 10 of 10" in said["answers"]


def test_one_prompt_again_and_again_is_saturated(told: Told, ngram: str, base: str) -> None:
    said = told("compare", ngram, base, "--workload", "repeat", "--flush", "--requests", "10", "--max-tokens", "80")
    assert said["verdict"] == "not a fair trial"
    assert said["passes"]["A"]["warm"]["proposer_state"] == "saturated"
    assert any("has seen these answers" in reason for reason in said["reasons"])
    assert "sent again" in said["fit"][0]["detail"]


def test_cold_and_warm_are_told_apart_with_the_curve_between(told: Told, ngram: str) -> None:
    said = told(
        "run", ngram, "--workload", "json", "--pass", "both", "--flush", "--requests", "8", "--max-tokens", "120"
    )
    cold, warm = said["passes"]["cold"], said["passes"]["warm"]
    assert (cold["proposer_state"], warm["proposer_state"]) == ("cold", "fed")
    assert warm["accept_length"] > cold["accept_length"]
    tokens = said["curve"]["tokens"]
    assert tokens[0]["accept_length"] < tokens[-1]["accept_length"]
    assert sum(b["steps"] for b in said["curve"]["position"]) == warm["verify_steps"]
    assert said["curve"]["turn"] == []  # one turn each: there is no course to show


def test_steady_acceptance_is_remembered_by_the_prompts(told: Told, ngram: str, tmp_path: Path) -> None:
    """What one run was fed until it was steady is the yardstick of the next, by name or from a file."""
    options = ("--requests", "8", "--max-tokens", "120", "--flush")
    first = told("run", ngram, "--workload", "json", *options)
    assert first["proposer_state"] == "fed"
    again = told("run", ngram, "--file", str(as_file("json", tmp_path)), "--pass", "cold", *options)
    assert again["proposer_state"] == "cold"
    assert "steady acceptance was reached after" in again["proposer"]["detail"]
