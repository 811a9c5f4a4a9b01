"""Evidence out of a run: what a profile keeps, that it can be read back, and that nothing secret is in it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.result import fold
from spectui.predict import tracking
from spectui.session import SessionError, evidence, profile_from
from spectui.store import model_files, profiles

KEY = "sk-planted0123456789abcdef"


def rows(**arm: Any) -> list[dict[str, Any]]:
    head = {
        "t": 1_800_000_000.0, "kind": "head", "schema": 1, "run_id": "run", "spectui": "0.1.0",
        "workload": {"name": "edit", "hash": "abc"}, "max_tokens": 64, "temperature": 0.0, "requests": 12,
        "arms": [{
            "name": "A", "url": f"http://me:{KEY}@s:1", "algorithm": "NGRAM", "version": "0.5.15", "model": "org/m",
            "settings_in_force": {"num_draft_tokens": 8, "ngram.capacity": 1000, "num_steps": None},
            "server": {"page_size": 1, "max_total_num_tokens": 5000, "random_seed": 7, "odd": KEY}, **arm}],
        "node": {"driver": "570", "gpus": [{"uuid": "u", "name": "NVIDIA H200"}]},
    }  # fmt: skip
    found = [head]
    for name in ("cold", "warm"):
        for i in range(12):
            found.append({
                "t": 3.0, "kind": "request", "index": i, "prompt_id": f"p{i}", "group": "g", "arm": "A",
                "rid": f"{name}{i}",
                "pass_name": name, "phase": "measure", "concurrency": 1, "block": 0, "status": "ok",
                "start_s": 1.0 * i, "first_s": 0.1 + i, "last_s": 0.5 + i, "end_s": 0.5 + i,
                "completion_tokens": 41 + i, "verify_steps": 20 if name == "cold" else 12})  # fmt: skip
    return [*found, {"t": 9.0, "kind": "end", "status": "complete", "reason": ""}]


def stored(root: Path, name: str = "run", **arm: Any) -> Path:
    folder = root / "data" / "runs" / name
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows(**arm)))
    said = [
        {"arm": "A", "pass_name": "cold", "concurrency": 1, "phase": "measure", "prompt_id": f"p{i}", "text": text}
        for i, text in enumerate(["one answer", f"my key is {KEY}", "  ", "another"])
    ]
    (folder / "answers.jsonl").write_text("".join(json.dumps(row) + "\n" for row in said))
    return folder


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def test_an_entry_says_where_when_how_and_how_sure() -> None:
    entry = evidence.entry_of(fold(rows()), "A", "run")
    assert (entry["run"], entry["sglang"], entry["algorithm"], entry["driver"]) == ("run", "0.5.15", "NGRAM", "570")
    assert entry["date"] == "2027-01-15T08:00:00Z"
    assert entry["gpus"] == ["NVIDIA H200"]
    assert entry["token_capacity"] == 5000
    assert entry["settings_in_force"] == {"num_draft_tokens": 8, "ngram.capacity": 1000}
    assert "random_seed" not in entry["server"]
    assert entry["workload"]["hash"] == "abc"
    cold, warm = entry["result"]
    assert (cold["pass"], warm["pass"], cold["requests"]) == ("cold", "warm", 12)
    for name in ("accept_length", "step_time_ms", "output_tokens_per_s"):
        value, low, high = cold[name]
        assert low < value < high or (name == "step_time_ms" and low <= value <= high)
    assert warm["accept_length"][0] > cold["accept_length"][0]
    assert cold["first"] == 8
    assert cold["accept_length_first"][0] < cold["accept_length"][0], "the first answers are the shorter ones here"


def test_what_tells_one_model_from_another(tmp_path: Path) -> None:
    commit = "c0ffee" * 6
    folder = tmp_path / "hub" / "models--a--b" / "snapshots" / commit
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    facts = model_files.identity(str(folder))
    assert facts is not None
    assert facts["revision"] == commit
    assert len(facts["config_hash"]) == 16
    place = {"HF_HOME": str(tmp_path)}
    assert model_files.identity("a/b", cached=True, environ=place) == {"path": "a/b"}, "no ref says which revision"
    (tmp_path / "hub" / "models--a--b" / "refs").mkdir()
    (tmp_path / "hub" / "models--a--b" / "refs" / "main").write_text(commit)
    assert model_files.identity("a/b", cached=True, environ=place) == {**facts, "path": "a/b"}
    assert model_files.identity("a/b", environ=place) == {"path": "a/b"}, "the server is on another node"
    assert model_files.identity("") is None


def test_a_profile_made_of_a_run_can_be_read_back(home: Path) -> None:
    stored(home)
    tracking.note(tracking.Miss("chain", "accept length", 2.4, 2.2, "4 drafts", "run"))
    tracking.note(tracking.Miss("chain", "accept length", 9.0, 2.2, "4 drafts", "another run"))
    saved = profile_from.save("mine", "run")
    again = profiles.load("mine")
    assert again.speculative.algorithm == "NGRAM"
    assert [(row["predicted"], row["measured"]) for row in again.evidence[0]["prediction"]] == [(2.4, 2.2)]
    assert again.speculative.knobs["num_draft_tokens"] == 8
    assert [dict(row)["pass"] for row in again.evidence[0]["result"]] == ["cold", "warm"]
    assert [row["prompt"] for row in again.evidence[0]["greedy"]] == ["p0", "p3"]
    assert KEY not in Path(str(saved.path)).read_text()


def test_more_evidence_keeps_comments_and_replaces_the_same_run(home: Path) -> None:
    stored(home)
    stored(home, "run2")
    own = home / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text(
        'schema = 1\nname = "mine"  # ours\nmood = "good"\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = 8\n'
    )
    profile_from.save("mine", "run")
    profile_from.save("mine", "run2")
    profile_from.save("mine", "run")
    text = own.read_text()
    assert "# ours" in text
    assert 'mood = "good"' in text
    kept = profiles.load("mine").evidence
    assert [entry["run"] for entry in kept] == ["run2", "run"]
    assert kept[0]["settings_asked"] == {"num_draft_tokens": 8}


def test_two_runs_that_end_at_once_are_both_kept(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stored(home)
    stored(home, "run2")
    own = home / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text('schema = 1\nname = "mine"\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = 8\n')
    added, others = evidence.added, ["run2"]

    def meanwhile(*values: Any) -> Any:
        if others:
            profile_from.save("mine", others.pop())
        return added(*values)

    monkeypatch.setattr(evidence, "added", meanwhile)
    profile_from.save("mine", "run")
    assert [entry["run"] for entry in profiles.load("mine").evidence] == ["run2", "run"]


def test_a_run_of_another_setting_is_no_evidence(home: Path) -> None:
    stored(home)
    own = home / "config" / "profiles" / "mine.toml"
    own.parent.mkdir(parents=True)
    own.write_text('schema = 1\nname = "mine"\n[speculative]\nalgorithm = "NGRAM"\nnum_draft_tokens = 16\n')
    before = own.read_bytes()
    with pytest.raises(SessionError, match="num_draft_tokens 16, the run measured 8"):
        profile_from.save("mine", "run")
    assert own.read_bytes() == before
    assert len(profile_from.save("mine", "run", any_setting=True).evidence) == 1


def test_a_starter_is_never_written_to(home: Path) -> None:
    stored(home)
    saved = profile_from.save("ngram", "run")
    assert Path(str(saved.path)).is_relative_to(home)


def test_algorithms_are_held_together_by_meaning() -> None:
    entry = {"algorithm": "EAGLE", "settings_in_force": {"num_draft_tokens": 4}}
    knobs = {"num_draft_tokens": 9, "eagle_topk": 1}
    assert evidence.fits(Profile("p", speculative=SpeculativePart("NEXTN", knobs)), entry) is None
    assert evidence.fits(Profile("p", speculative=SpeculativePart("EAGLE3", knobs)), entry) is not None
    assert evidence.fits(Profile("p", speculative=SpeculativePart("none")), {"algorithm": "none"}) is None


def test_a_run_without_results_and_names_that_lead_nowhere(home: Path) -> None:
    folder = home / "data" / "runs" / "empty"
    folder.mkdir(parents=True)
    (folder / "journal.jsonl").write_text(json.dumps(rows()[0]) + "\n")
    with pytest.raises(SessionError, match="measured nothing"):
        profile_from.save("mine", "empty")
    with pytest.raises(SessionError, match="neither a URL"):
        profile_from.save("mine", "nothing-of-that-name")
    with pytest.raises(SessionError, match="is a profile"):
        profile_from.save("mine", "ngram")


def test_the_entry_of_a_run_gives_way_to_itself() -> None:
    profile = Profile("p", server=ServerPart())
    one = {"run": "a", "algorithm": "NGRAM", "date": "1"}
    twice = evidence.added(evidence.added(profile, one), {**one, "date": "2"})
    assert [entry["date"] for entry in twice.evidence] == ["2"]
    assert len(evidence.added(replace(twice), {**one, "run": "b"}).evidence) == 2
