"""History: listing through an index, search, notes, tags, pins, pruning, and an index that is torn or stale."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from spectui.store import run_marks, runs
from spectui.store.run_marks import Rule
from spectui.store.runs import Filter, HistoryError

NOW = 1_800_000_000.0


def request(index: int, tokens: int = 41) -> dict[str, Any]:
    return {
        "t": 3.0, "kind": "request", "index": index, "prompt_id": f"p{index}", "group": "g", "arm": "A",
        "pass_name": "warm", "phase": "measure", "concurrency": 1, "block": 0, "rid": f"r{index}",
        "start_s": 1.0 + index, "first_s": 1.1 + index, "last_s": 1.5 + index, "end_s": 1.5 + index,
        "status": "ok", "completion_tokens": tokens, "verify_steps": 20,
    }  # fmt: skip


def make(root: Path, name: str, *, when: float = NOW, ended: bool = True, algorithm: str = "NGRAM", **arm: Any) -> Path:
    folder = root / name
    folder.mkdir(parents=True)
    head = {
        "t": when, "kind": "head", "schema": 1, "run_id": name, "workload": {"name": "edit", "hash": "abc"},
        "arms": [{"name": "A", "algorithm": algorithm, "version": "0.5.15", "model": "org/Model-8B",
                  "label": "kimi", **arm}],
        "node": {"driver": "570", "gpus": [{"uuid": "u", "name": "NVIDIA H200"}]},
    }  # fmt: skip
    rows = [head, request(0), request(1)]
    if ended:
        rows.append({"t": when + 9, "kind": "end", "status": "complete", "reason": ""})
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def names(root: Path, **wanted: Any) -> list[str]:
    return [run.id for run in runs.list_runs(Filter(**wanted), root=root)]


def test_a_summary_tells_what_was_measured(tmp_path: Path) -> None:
    make(tmp_path, "one")
    (run,) = runs.list_runs(root=tmp_path)
    assert (run.status, run.workload, run.algorithms, run.versions) == ("complete", "edit", ("NGRAM",), ("0.5.15",))
    assert (run.models, run.gpus, run.driver) == (("org/Model-8B",), ("NVIDIA H200",), "570")
    assert run.results[0]["accept_length"] == pytest.approx(2.0)
    assert run.results[0]["pass"] == "warm"


def test_newest_first_and_every_filter(tmp_path: Path) -> None:
    make(tmp_path, "old", when=NOW - 100, algorithm="EAGLE3")
    make(tmp_path, "new", version="0.5.23", model="other/Big")
    assert names(tmp_path) == ["new", "old"]
    assert names(tmp_path, algorithm="eagle") == ["old"]
    assert names(tmp_path, version="0.5.23") == ["new"]
    assert names(tmp_path, model="model-8b") == ["old"]
    assert names(tmp_path, gpu="h200", workload="edit") == ["new", "old"]
    assert names(tmp_path, gpu="a100") == []
    assert names(tmp_path, text="kimi big") == ["new"]
    assert names(tmp_path, since=NOW - 50) == ["new"]


def test_journals_are_read_once(tmp_path: Path) -> None:
    for i in range(3):
        make(tmp_path, f"r{i}")
    read: list[int] = []
    runs.list_runs(root=tmp_path, on_read=read.append)
    assert read == [1, 2, 3]
    runs.list_runs(root=tmp_path, on_read=read.append)
    assert read == [1, 2, 3], "the index is enough"
    make(tmp_path, "r3")
    runs.list_runs(root=tmp_path, on_read=read.append)
    assert read == [1, 2, 3, 1]


def test_a_run_that_goes_on_is_read_again(tmp_path: Path) -> None:
    folder = make(tmp_path, "live", ended=False)
    assert runs.list_runs(root=tmp_path)[0].status == "running"
    with open(folder / "journal.jsonl", "a") as file:
        file.write(json.dumps({"t": 9.0, "kind": "end", "status": "failed", "reason": "it broke"}) + "\n")
    os.utime(folder / "journal.jsonl", (NOW, NOW + 5))
    (run,) = runs.list_runs(root=tmp_path)
    assert (run.status, run.reason) == ("failed", "it broke")


def test_a_removed_run_leaves_the_list(tmp_path: Path) -> None:
    make(tmp_path, "a")
    make(tmp_path, "b")
    assert len(names(tmp_path)) == 2
    run_marks.remove(runs.list_runs(root=tmp_path)[0], root=tmp_path)
    assert len(names(tmp_path)) == 1
    assert (tmp_path / runs.INDEX).read_text().count('"folder_ns"') == 1


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture], deadline=None)
@given(cut=st.integers(0, 400), junk=st.binary(max_size=12))
def test_a_torn_or_foreign_index_costs_only_time(tmp_path: Path, cut: int, junk: bytes) -> None:
    if not (tmp_path / "a").exists():
        make(tmp_path, "a")
    runs.list_runs(root=tmp_path)
    whole = (tmp_path / runs.INDEX).read_bytes()
    (tmp_path / runs.INDEX).write_bytes(whole[:cut] + junk)
    assert names(tmp_path) == ["a"]


@pytest.mark.parametrize(
    "content", ["[]", "3", '{"schema": 99}', '{"schema": 1, "runs": [{}]}', '{"schema": 1, "runs": 3}']
)
def test_an_index_of_another_shape(tmp_path: Path, content: str) -> None:
    make(tmp_path, "a")
    (tmp_path / runs.INDEX).write_text(content)
    assert names(tmp_path) == ["a"]


def test_an_index_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    make(tmp_path, "a")

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(runs.os, "replace", full)
    assert names(tmp_path) == ["a"]
    assert [path.name for path in tmp_path.iterdir()] == ["a"], "no half-written file stays"


def test_folders_that_are_no_runs(tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "file").write_text("x")
    make(tmp_path, "a")
    (tmp_path / "torn").mkdir()
    (tmp_path / "torn" / "journal.jsonl").write_bytes(b'{"t": 1, "kind": "he')
    found = {run.id: run for run in runs.list_runs(root=tmp_path)}
    assert set(found) == {"a", "torn"}
    assert found["torn"].status == "running"
    assert runs.list_runs(root=tmp_path / "nowhere") == []


def test_notes_tags_and_pins(tmp_path: Path) -> None:
    folder = make(tmp_path, "a")
    runs.list_runs(root=tmp_path)
    run_marks.mark(folder, note="after the driver update", add_tags=["best", "keep", "best", " "])
    run_marks.mark(folder, pinned=True, drop_tags=["keep"])
    (run,) = runs.list_runs(root=tmp_path)
    assert (run.note, run.tags, run.pinned) == ("after the driver update", ("best",), True)
    assert names(tmp_path, tag="best", pinned=True) == ["a"]
    assert names(tmp_path, text="driver") == ["a"]
    assert run_marks.mark(folder, note="").note == ""


def test_marks_that_cannot_be_read(tmp_path: Path) -> None:
    folder = make(tmp_path, "a")
    (folder / runs.MARKS).write_text('{"tags": "x", "pinned": "yes", "note": 3}')
    (run,) = runs.list_runs(root=tmp_path)
    assert (run.tags, run.pinned) == ((), False)


def test_pruning_by_rule_and_never_a_pinned_one(tmp_path: Path) -> None:
    for i in range(5):
        make(tmp_path, f"r{i}", when=NOW - 86400 * (10 - i))
    make(tmp_path, "live", ended=False)
    run_marks.mark(tmp_path / "r0", pinned=True)

    def gone(rule: Rule, **more: Any) -> list[str]:
        return sorted(run.id for run in run_marks.to_prune(rule, root=tmp_path, now=NOW, **more))

    assert gone(Rule(keep=2)) == ["r1", "r2"]
    assert gone(Rule(keep=2), protected={"r1"}) == ["r2"]
    assert gone(Rule(older_than_days=7.5)) == ["r1", "r2"]
    assert gone(Rule(failed=True)) == []
    run_marks.mark(tmp_path / "r3", add_tags=["junk"])
    assert gone(Rule(tag="junk")) == ["r3"]
    with pytest.raises(HistoryError, match="--keep"):
        gone(Rule())
    with pytest.raises(HistoryError, match="pinned"):
        run_marks.remove(runs.summary_of(tmp_path / "r0"), root=tmp_path)


def test_a_run_by_a_beginning_of_its_name(tmp_path: Path) -> None:
    make(tmp_path, "20260101-a")
    make(tmp_path, "20260102-b")
    assert runs.find("20260101", root=tmp_path).name == "20260101-a"
    with pytest.raises(HistoryError, match="fits 2 runs"):
        runs.find("2026", root=tmp_path)
    with pytest.raises(HistoryError, match="no run nothing"):
        runs.find("nothing", root=tmp_path)


def test_a_run_that_cannot_be_read_is_listed_with_the_reason_and_never_pruned(tmp_path: Path) -> None:
    folder = make(tmp_path, "odd", when=NOW - 86400 * 9)
    journal = folder / "journal.jsonl"
    whole = journal.read_text()
    journal.write_text(whole + json.dumps({"t": "x", "kind": "end", "status": 7}) + "\n")
    os.utime(folder, (1.0, 1.0))
    (found,) = runs.list_runs(root=tmp_path)
    assert (found.id, found.status, found.results) == ("odd", "unreadable", ())
    assert "line 5" in found.reason
    assert run_marks.to_prune(Rule(failed=True, older_than_days=1), root=tmp_path, now=NOW) == []
    with pytest.raises(HistoryError, match="line 5"):
        runs.summary_of(folder)
    journal.write_text(whole)
    assert runs.list_runs(root=tmp_path)[0].status == "complete"
    (tmp_path / "starting").mkdir()
    assert names(tmp_path) == ["odd"]
