"""What may stand on a side of a comparison, comparing until sure, the noise floor, primed passes, and bad input."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_ports import own_port
from sim_process import SimProcess
from told import EAGLE, NGRAM, Told

from spectui.cli.progress import Progress
from spectui.store import journal

SMALL = ("--workload", "json", "--requests", "6", "--max-tokens", "40")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(tmp_path / "home", monkeypatch, capsys)


@pytest.fixture(scope="module")
def base() -> Iterator[str]:
    with SimProcess("--enable-metrics", speed=40) as server:
        yield f"http://127.0.0.1:{server.port}"


@pytest.fixture(scope="module")
def eagle() -> Iterator[str]:
    with SimProcess(*EAGLE, speed=40) as server:
        yield f"http://127.0.0.1:{server.port}"


def test_until_sure_ends_once_it_is_settled(told: Told) -> None:
    # At a pace that leaves time to look: at forty times it the last prompt may be out before the first look is done.
    with SimProcess(*EAGLE, speed=10) as a, SimProcess("--enable-metrics", speed=10) as b:
        eagle, base = (f"http://127.0.0.1:{server.port}" for server in (a, b))
        said = told("compare", eagle, base, "--workload", "json", "--max-tokens", "60", "--until-sure", "--flush")
    row = said["by_concurrency"][0]
    ended = row["until_sure"]
    folder = told.run_folder(said)
    asked = [r["prompt_id"] for r in journal.read(folder / "journal.jsonl")
             if r["kind"] == "request" and r["phase"] == "measure" and r["arm"] == "A"]  # fmt: skip
    assert len(asked) == len(set(asked))  # never a prompt twice
    assert ended["planned"] > 60  # stateless arms may be measured with the feeding prompts too
    if ended["settled"]:
        assert ended["units"] < ended["planned"]
        assert said["verdict"] in ("faster", "slower")
        assert len(asked) < ended["planned"]
        assert row["interval"][0] > 1 or row["interval"][1] < 1
    else:
        assert ended["ended_by"] == "the prompts ran out"
    assert any("settled" in note for note in said["notes"])


def test_until_sure_says_what_is_missing(told: Told, base: str) -> None:
    own = told.home / "own.jsonl"
    told.home.mkdir()
    own.write_text("\n".join(json.dumps({"prompt": f"Tell of the number {n} and of its friends."}) for n in range(6)))
    said = told("compare", base, base, "--file", str(own), "--max-tokens", "30", "--until-sure", "--max-minutes", "5")
    ended = said["by_concurrency"][0]["until_sure"]
    assert (ended["planned"], ended["units"]) == (6, 6)
    if said["verdict"] == "no difference shown":
        assert "more prompts" in said["reasons"][0] or "out of reach" in said["reasons"][0]
        assert ended["ended_by"] == "the prompts ran out"


def test_the_noise_floor_is_kept_and_used(told: Told, base: str, eagle: str) -> None:
    made = told("noise", base, "--times", "4", "--workload", "json", "--max-tokens", "20", "--concurrency", "1,2")
    floors = made["floors"]
    assert [f["concurrency"] for f in floors] == [1, 2]
    assert all(f["times"] == 4 and len(f["log_ratios"]) == 4 and f["sd"] >= 0 for f in floors)
    assert floors[0]["gpu"] == "simulated"
    said = told("compare", eagle, base, *SMALL, "--concurrency", "4", "--flush")
    used = said["by_concurrency"][0]["noise_floor"]
    assert used["concurrency"] == 2  # the nearest that was measured
    assert any("noise floor" in note and "nearest" in note for note in said["notes"])
    assert "noise floor" in told.text("noise", base, "--times", "3", "--workload", "json", "--max-tokens", "8")


def test_a_server_against_a_stored_run_and_an_arm_of_a_run_of_two(told: Told, eagle: str, base: str) -> None:
    both = told("compare", eagle, base, *SMALL, "--flush")
    run = told.run_folder(both).name
    again = told("compare", eagle, f"{run}:B")
    assert again["by_concurrency"][0]["units"] == 6
    assert [a["algorithm"] for a in again["arms"]] == ["EAGLE3", "none"]
    stored = told("compare", f"{run}:A", f"{run}:B")
    assert stored["by_concurrency"][0]["ratio"] == pytest.approx(both["by_concurrency"][0]["ratio"])
    read = told.text("compare", f"{run}:A", f"{run}:B")
    assert "what decides" in read
    assert max(map(len, read.splitlines())) <= 100
    code, line = told.refused("compare", run, base, "--workload", "json")
    assert code == 2
    assert f"name one as {run}:A" in line
    code, line = told.refused("compare", f"{run}:C", base, "--workload", "json")
    assert (code, "has no arm C; it has A, B" in line) == (2, True)


def test_profiles_are_started_for_it_and_stopped(told: Told, base: str, tmp_path: Path) -> None:
    profile = tmp_path / "ngram.toml"
    profile.write_text(
        'schema = 1\nname = "tried"\n[server]\n'
        f'command = "{sys.executable} -m spectui.engines.sim {{args}} --sim-speed 150 --sim-startup 0.05"\n'
        f'port = {own_port()}\nmodel_path = "sim"\n[server.args]\nenable_metrics = true\n'
        '[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = 8\n'
    )
    said = told("compare", str(profile), base, "--workload", "json", "--requests", "6", "--max-tokens", "100")
    assert said["arms"][0]["algorithm"] == "NGRAM"
    assert said["arms"][0]["owned"] is True  # so its store may be flushed unasked
    assert said["passes"]["A"]["warm"]["flush"]["flushed"] is True
    assert list((told.home / "state" / "servers").glob("*.json")) == []


def test_a_corpus_primes_a_store_where_the_server_heeds_it(told: Told, base: str, eagle: str) -> None:
    small = ("--workload", "json", "--requests", "6", "--max-tokens", "60", "--flush")
    source = told("run", base, "--workload", "json", "--seed", "1", "--max-tokens", "120")["run"]
    with SimProcess(*NGRAM, "--speculative-ngram-external-sam-budget", "4", speed=150) as server:
        at = f"http://127.0.0.1:{server.port}"
        cold = told("run", at, *small, "--pass", "cold")
        primed = told("run", at, *small, "--pass", "primed", "--corpus", source)
        assert primed["accept_length"] > cold["accept_length"]
        assert "external corpus of" in primed["proposer"]["detail"]
        assert server.json("/list_external_corpora")["corpus_token_counts"] == {}  # taken out again
    # What is measured is not in the corpus: of 32 answers and the warm-up's, 6 were left out.
    phase = next(r for r in journal.read(told.run_folder(primed) / "journal.jsonl")
                 if r["kind"] == "phase" and r["phase"] == "prime" and r["state"] == "end")  # fmt: skip
    assert phase["detail"]["documents"] == 33 - 6
    with SimProcess(*NGRAM, speed=150) as server:
        at = f"http://127.0.0.1:{server.port}"
        code, line = told.refused("run", at, *small, "--pass", "primed", "--corpus", source)
        assert code == 1
        assert "--speculative-ngram-external-sam-budget 0" in line
    code, line = told.refused("run", eagle, *small, "--pass", "primed", "--corpus", source)
    assert code == 2
    assert "EAGLE3 takes no corpus" in line


def test_near_ties_are_asked_for_only_where_wanted(told: Told, eagle: str, base: str) -> None:
    said = told("compare", eagle, base, *SMALL, "--flush", "--explain-differences", "--explain")
    assert said["differences"]["text"] == "no answer differs: there is nothing to explain"
    assert "differences" not in told("compare", eagle, base, *SMALL, "--flush")
    for differ, near, words in (("near", 3, "harmless rounding"), ("far", 0, "that is a real difference")):
        with SimProcess(*EAGLE, "--sim-differ", differ, speed=40) as server:
            other = told("compare", f"http://127.0.0.1:{server.port}", base, *SMALL, "--flush", "--explain-differences")
        found = other["differences"]
        assert (found["differing"], found["looked_at"], found["near_ties"]) == (3, 3, near)
        assert words in found["text"]
        assert other["answers"].startswith("same on 3 of 6; 3 differ from token")
    read = told.text("run", eagle, *SMALL, "--explain")
    assert "EAGLE3: good: it drafts from weights" in read
    assert "6 prompts are measured" in read
    assert max(len(line) for line in read.splitlines() if not line.startswith("kept in")) <= 100


def test_ngram_twice_on_one_server_and_its_noise_are_refused(told: Told) -> None:
    with SimProcess(*NGRAM) as server:
        at = f"http://127.0.0.1:{server.port}"
        code, line = told.refused("compare", at, at, "--workload", "json")
        assert (code, "same server, and NGRAM learns" in line) == (2, True)
        code, line = told.refused("noise", at)
        assert (code, "NGRAM learns from its answers" in line) == (1, True)


@pytest.mark.parametrize(
    ("words", "code", "part"),
    [
        (("compare", "http://127.0.0.1:1", "http://127.0.0.1:2"), 2, "name what to measure with"),
        (("compare", "http://127.0.0.1:1", "http://127.0.0.1:2", "--workload", "json"), 3, "connection refused"),
        (("compare", "nobody", "http://127.0.0.1:2", "--workload", "json"), 2, "neither a URL nor"),
        (("compare", "http://127.0.0.1:1", "http://127.0.0.1:2", "--workload", "jsn"), 2, "Did you mean json"),
        (("compare", "http://127.0.0.1:99999", "x", "--workload", "json"), 2, "http://127.0.0.1:99999"),
        (("compare", "a", "b", "--workload", "json", "--max-minutes", "0"), 2, "must be above 0"),
        (("compare", "http://h:1", "http://h:2", "--workload", "json", "--max-minutes", "3"), 2, "--until-sure"),
        (("compare", "http://h:1", "http://h:2", "--workload", "json", "--requests", "1000"), 2, "fewer than the 1000"),
        (("run", "http://127.0.0.1:1", "--workload", "json"), 3, "connection refused"),
        (("run", "http://h:1", "--workload", "json", "--pass", "primed"), 2, "needs a corpus"),
        (("run", "http://h:1", "--workload", "json", "--corpus", "x"), 2, "add --pass primed"),
        (("run", "http://h:1", "--workload", "json", "--pass", "primed", "--corpus", "x"), 2, "cannot be read"),
        (("run", "http://h:1", "--workload", "json", "--key", "secret-itself"), 2, "env:NAME"),
        (("noise", "http://127.0.0.1:1"), 3, "connection refused"),
        (("noise", "http://127.0.0.1:1", "--times", "0"), 2, "at least 1"),
    ],
)
def test_bad_input_is_one_clear_line(told: Told, words: tuple[str, ...], code: int, part: str) -> None:
    got, line = told.refused(*words)
    assert (got, part in line) == (code, True), line
    assert "secret-itself" not in line
    assert len(line.splitlines()) <= 2


@pytest.mark.parametrize("more", [(), ("--until-sure",)])
def test_interrupted_what_was_measured_is_compared_all_the_same(
    told: Told, base: str, eagle: str, monkeypatch: pytest.MonkeyPatch, more: tuple[str, ...]
) -> None:
    seen: set[str] = set()

    def row(self: Progress, one: dict[str, object]) -> None:
        if one.get("kind") == "request" and one.get("phase") == "measure":
            seen.add(str(one["arm"]))
            if len(seen) == 2:
                raise KeyboardInterrupt

    monkeypatch.setattr(Progress, "row", row)
    words = ("--workload", "json", "--max-tokens", "200", "--silence-limit", "77", *more)
    said = told("compare", base, eagle, *words, code=130)
    assert said["interrupted"] is True
    row_ = said["by_concurrency"][0]
    assert all(0 < row_["arms"][name]["requests"] < 32 for name in "AB")
    assert row_["arms"]["B"]["accept_length"] > 1
    assert json.loads((told.run_folder(said) / "spec.json").read_text())["request_timeout_s"] == 77
