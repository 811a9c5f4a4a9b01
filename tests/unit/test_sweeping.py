"""What a sweep is asked to do, what its journal tells, and what becomes of the best: without any server."""

from __future__ import annotations

import itertools
import json
from dataclasses import asdict
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from core_records import arm_head, head, record, row_of

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.result import fold as fold_run
from spectui.predict import tracking
from spectui.predict.settings_grid import Axes
from spectui.session import SessionError, sweep_best, sweep_saving, sweep_sources, sweep_spec, sweep_work, sweeping
from spectui.session.running import RunOptions
from spectui.session.sweep_best import MeasuredCell
from spectui.session.sweep_knowledge import Knowledge
from spectui.session.sweep_state import SweepState, fold
from spectui.store import journal, profiles

PROFILE = Profile(
    "mine",
    server=ServerPart(model_path="m", port=31999, args={"tp_size": 2}, api_key="env:SOME_KEY"),
    speculative=SpeculativePart("EAGLE3", {"draft_model_path": "head", "num_steps": 3, "eagle_topk": 1}),
)
OPTIONS = RunOptions(workload="json", requests=6, max_tokens=40, concurrency=(1, 4))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def make(*names: str, **values: Any) -> sweep_spec.SweepSpec:
    return sweep_spec.make(PROFILE, Axes(names, values.pop("knobs", {})), OPTIONS, **values)


# -- the spec


def test_a_spec_survives_the_disk(home: Path) -> None:
    spec = make("none", "ngram", knobs={"num_draft_tokens": (4, 8)}, keep_losers=True)
    assert spec.algorithms == ("none", "NGRAM")
    sweep_spec.save(spec)
    path = Path(spec.folder) / "spec.json"
    assert path.stat().st_mode & 0o777 == 0o600
    assert sweep_spec.load(path) == spec
    work = sweep_spec.work_of(sweep_spec.load(path))
    assert work.profile.server == PROFILE.server
    assert [s.name for s in work.settings] == ["none", "NGRAM 4 draft tokens", "NGRAM 8 draft tokens"]
    assert (work.requests, work.max_tokens, work.options.concurrency) == (6, 40, (1, 4))
    with pytest.raises(FileExistsError):
        sweep_spec.save(spec)


def test_profiles_of_the_settings(home: Path) -> None:
    work = sweep_spec.work_of(make("none", "EAGLE3", "NGRAM", knobs={"num_draft_tokens": (8,)}))
    none, eagle, ngram = (work.profile_for(s) for s in work.settings)
    assert none.speculative.algorithm == "none"
    assert none.server.args == {"tp_size": 2, "max_running_requests": 48}, "the limit that speculation brings"
    assert ngram.server.args == {"tp_size": 2}
    assert dict(ngram.speculative.knobs) == {"num_draft_tokens": 8}
    assert eagle.speculative.knobs["draft_model_path"] == "head"


@pytest.mark.parametrize(
    ("names", "knobs", "words"),
    [
        ((), {}, "at least one algorithm"),
        (("NGRAMM",), {}, "Did you mean NGRAM"),
        (("none",), {"num_draft_tokens": (4,)}, "without speculation"),
        (("NGRAM",), {"num_steps": (4,)}, "no|none of NGRAM has a knob 'num_steps'"),
        (("NGRAM",), {"num_draft_tokens": ()}, "no value"),
    ],
)
def test_what_cannot_be_swept(names: tuple[str, ...], knobs: dict[str, Any], words: str) -> None:
    with pytest.raises(SessionError, match=words) as caught:
        make(*names, knobs=knobs)
    assert caught.value.exit_code == 2


def test_ngram_without_a_flush_is_refused() -> None:
    with pytest.raises(SessionError, match="no-flush"):
        sweep_spec.make(PROFILE, Axes(("NGRAM",)), RunOptions(workload="json", flush="no"))


@pytest.mark.parametrize("text", ["", "{", "[]", '{"sweep_id": 3}', '{"sweep_id": "a", "folder": "b", "profile": 3}'])
def test_a_file_that_is_no_spec(home: Path, text: str) -> None:
    path = home / "spec.json"
    path.write_text(text)
    with pytest.raises(SessionError, match="is not the spec of a sweep"):
        sweep_spec.load(path)
    assert sweeping.main([str(path)]) == 2
    last = list(journal.read(home / "journal.jsonl"))[-1]
    assert (last["kind"], last["status"]) == ("end", "failed")


def test_finding_a_sweep(home: Path) -> None:
    spec = make("none")
    sweep_spec.save(spec)
    assert sweeping.find(spec.sweep_id) == sweeping.find(spec.sweep_id[-4:]) == Path(spec.folder)
    with pytest.raises(SessionError, match=f"no sweep 'nothing'.*{spec.sweep_id}"):
        sweeping.find("nothing")
    assert sweeping.in_progress() == []
    assert not sweeping.handle_of(Path(spec.folder)).alive()


def test_a_sweep_without_a_setting_that_can_run_is_refused_before_it_starts() -> None:
    with pytest.raises(SessionError, match=r"(?s)no setting of this sweep can run.*draft model"):
        sweeping.start(make("DFLASH"))


def test_a_plan_alone_writes_and_starts_nothing(home: Path) -> None:
    said = sweeping.plan_only(make("none", "NGRAM", knobs={"num_draft_tokens": (4,)}), now=0.0).as_json()
    assert said["status"] == "planned"
    assert said["plan"]["clock"]["restarts"] == 2
    assert said["plan"]["clock"]["guessed"] is True
    assert [s["status"] for s in said["settings"]] == ["open", "open"]
    assert "step time" in said["settings"][0]["by_concurrency"][0]["not_predicted"]
    assert list((home / "data" / "sweeps").glob("*")) == []


# -- the state


HEAD = {
    "t": 100.0, "kind": "head", "sweep_id": "s", "folder": "/s", "profile": "mine", "concurrency": [1, 4],
    "workload": {"name": "json"}, "texts": ["2 of 3 settings are the same"],
    "settings": [
        {"name": "none", "algorithm": "none", "width": 1, "same_as": None, "refused": None},
        {"name": "N4", "algorithm": "NGRAM", "width": 4, "same_as": None, "refused": None},
        {"name": "N8", "algorithm": "NGRAM", "width": 8, "same_as": "N4", "refused": None},
        {"name": "D", "algorithm": "DFLASH", "width": 8, "same_as": None, "refused": "needs a draft"},
        {"name": "N16", "algorithm": "NGRAM", "width": 16, "same_as": None, "refused": None},
    ],
}  # fmt: skip


def guess(setting: str, level: int, speed: float) -> dict[str, Any]:
    return {"setting": setting, "concurrency": level, "accept_length": 2.0, "tokens_per_s": speed,
            "interval": [speed - 1, speed + 1], "kind": "other text"}  # fmt: skip


def end(setting: str, level: int, status: str = "measured", **values: Any) -> dict[str, Any]:
    found = {"tokens_per_s": 50.0, "interval": [45.0, 55.0], "accept_length": 1.9}
    return {"t": 150.0, "kind": "cell", "state": "end", "setting": setting, "concurrency": level, "status": status,
            "reason": "", "measured": found, "predicted": None, **values}  # fmt: skip


def test_states_of_settings() -> None:
    skipped = [["N16", 1, "predicted to lose"], ["N16", 4, "too"]]
    plan = {"t": 101.0, "kind": "plan", "skipped": skipped, "predicted": [guess("N4", 1, 60.0)], "clock": {}}
    state = fold([HEAD, plan, end("none", 1), {"t": 151.0, "kind": "cell", "state": "begin", "setting": "none",
                  "concurrency": 4}])  # fmt: skip
    assert {name: state.state_of(name)[0] for name in state.settings} == {
        "none": "running", "N4": "open", "N8": "merged", "D": "refused", "N16": "dropped"}  # fmt: skip
    assert state.state_of("N16")[1] == "predicted to lose"
    state.add(end("none", 4, "stopped early", reason="cannot win"))
    assert state.state_of("none") == ("measured", "cannot win")
    state.add({"t": 160.0, "kind": "failed", "setting": "N4", "cause": "out of memory"})
    assert state.state_of("N4") == ("failed", "out of memory")
    assert state.status == "running"


def test_predicted_stays_as_it_was_before_the_run() -> None:
    plan = {"t": 101.0, "kind": "plan", "predicted": [guess("N4", 1, 60.0)]}
    later = {"t": 170.0, "kind": "plan", "predicted": [guess("N4", 1, 99.0), guess("N4", 4, 70.0)]}
    state = fold([HEAD, plan, end("N4", 1, predicted=guess("N4", 1, 60.0)), later])
    said = state.as_json()
    (row,) = [s for s in said["settings"] if s["name"] == "N4"]
    assert [p["tokens_per_s"] for p in row["predicted"]] == [60.0, 70.0]
    assert row["measured"][0]["tokens_per_s"] == 50.0
    assert [(r["concurrency"], r["predicted"]["tokens_per_s"], r["measured"] is None) for r in said["map"]] == [
        (1, 60.0, False), (4, 70.0, True)]  # fmt: skip


def test_intervals_follow_the_noise_that_all_runs_show() -> None:
    rows = {"t": 199.0, "kind": "intervals", "cells": [["none", 1, 40.0, 60.0], ["N4", 1, 1.0, 2.0]]}
    state = fold([HEAD, end("none", 1), rows])
    assert state.cells["none", 1]["measured"]["interval"] == [40.0, 60.0]
    assert ("N4", 1) not in state.cells


def test_time_without_the_breaks() -> None:
    stop = {"t": 200.0, "kind": "end", "status": "interrupted", "reason": "ended"}
    again = {"t": 1000.0, "kind": "resumed", "before": None}
    state = fold([HEAD, stop, again])
    assert state.status == "running"
    state.add({"t": 1050.0, "kind": "end", "status": "complete", "reason": ""})
    assert state.as_json()["time"] == {"started": 100.0, "ended": 1050.0, "seconds": 150.0}
    killed = fold([HEAD, end("none", 1), {"t": 1000.0, "kind": "resumed", "before": 150.0}])
    killed.add({"t": 1010.0, "kind": "end", "status": "complete"})
    assert killed.spent_s == 60.0


def test_an_empty_or_foreign_journal_is_a_state_too() -> None:
    assert fold([]).as_json()["settings"] == []
    assert fold([{"kind": "whatever"}, {"t": 1.0}]).status == "running"


# -- the best


_starts = itertools.count(1000.0, 1000.0)
"""Runs one after another: two at the same moment would be no fair trial."""


def cell(
    name: str, seconds: float, home: Path, *, level: int = 1, algorithm: str = "none", **more: Any
) -> MeasuredCell:
    rows = [head(arm_head(algorithm=algorithm, settings_in_force={}), run_id=name, concurrency=[level])]
    drafts: dict[str, Any] = {} if algorithm == "none" else {"verify_steps": 50, "histogram": (1, 49)}
    start, took = next(_starts), 0.0
    for i in range(12):
        start, took = start + took, seconds * (1 + 0.01 * (i % 4))
        times = {"start_s": start, "first_s": start + 0.1, "last_s": start + took, "end_s": start + took}
        rows.append(row_of(record(i, concurrency=level, completion_tokens=100, **times, **drafts)))
    result = fold_run([*rows, {"t": 1.0, "kind": "end", "status": "complete"}])
    (one,) = result.passes.values()
    return MeasuredCell(name, level, home / "data" / "runs" / name, result, one, **more)


def test_one_best_a_concurrency_and_ties_by_name(home: Path) -> None:
    rows = [cell("fast", 1.0, home), cell("near", 1.002, home), cell("slow", 2.0, home),
            cell("slow", 1.0, home, level=4), cell("fast", 3.0, home, level=4)]  # fmt: skip
    one, four, none = sweep_best.best(rows, (1, 4, 9), 0.0)
    assert (one["setting"], one["tied_with"]) == ("fast", ["near"])
    assert (four["setting"], four["tied_with"]) == ("slow", [])
    assert {row["setting"]: row["verdict"] for row in one["against"]} == {
        "near": "no difference shown",
        "slow": "faster",
    }
    assert one["interval"][0] < one["tokens_per_s"] < one["interval"][1]
    assert (none["setting"], none["tied_with"], none["interval"]) == (None, [], None)


def test_a_starved_store_is_not_ranked(home: Path) -> None:
    found = sweep_best.best([cell("N8", 0.2, home, algorithm="NGRAM"), cell("none", 1.0, home)], (1,), 0.0)[0]
    assert found["setting"] == "none"
    assert found["tied_with"] == []
    (withheld,) = found["withheld"]
    assert withheld["setting"] == "N8"
    assert "store" in withheld["reasons"][0]


def test_what_was_stopped_early_neither_wins_nor_ties(home: Path) -> None:
    cells = [cell("a", 1.5, home, stopped_early=True, why="cannot win: 0.6×"), cell("b", 1.0, home)]
    found = sweep_best.best(cells, (1,), 0.0)[0]
    assert (found["setting"], found["tied_with"]) == ("b", [])
    # That we cut it off, which breaks its counts against the server's, is no reason to call it unfair.
    (against,) = found["against"]
    assert (against["verdict"], against["reasons"]) == ("faster", ["cannot win: 0.6×"])


def test_held_against_the_baseline_prompt_by_prompt(home: Path) -> None:
    plain, quick = cell("none", 2.0, home), cell("quick", 1.0, home)
    said = quick.as_json(0.0, plain)["over_none"]
    assert said["ratio"] == pytest.approx(2.0, rel=0.01)
    assert said["interval"][0] < 2.0 < said["interval"][1]
    assert said["verdict"] == "faster"
    assert plain.as_json(0.0, plain)["over_none"] is None
    near = cell("near", 1.99, home).as_json(0.0, plain)["over_none"]
    assert near["verdict"] == "no difference shown"
    assert near["reasons"], "it says what would narrow it"


def test_the_noise_of_the_node_widens_the_interval(home: Path) -> None:
    one = cell("a", 1.0, home)
    calm, loud = one.figures(0.0), one.figures(0.1)
    assert calm is not None
    assert loud is not None
    assert loud.high / loud.low > 1.4 > calm.high / calm.low


# -- saved


def saved_sweep(best: list[dict[str, Any]], **knobs: Any) -> Path:
    spec = make("none", "NGRAM", knobs={"num_draft_tokens": (4, 8)})
    sweep_spec.save(spec)
    folder = Path(spec.folder)
    with journal.Writer(folder / "journal.jsonl") as file:
        file.write({**HEAD, "settings": []})
        file.row("best", best=best)
        file.row("end", status="complete", reason="")
    return folder


def winner(level: int, name: str) -> dict[str, Any]:
    return {"concurrency": level, "setting": name, "tokens_per_s": 100.0, "interval": [90.0, 110.0],
            "accept_length": 2.0, "run": "r", "tied_with": ["none"]}  # fmt: skip


def test_one_profile_where_one_setting_is_best_at_all_loads(home: Path) -> None:
    folder = saved_sweep([winner(1, "NGRAM 8 draft tokens"), winner(4, "NGRAM 8 draft tokens")])
    (made,) = sweep_saving.save_best(folder, "best")
    again = profiles.load(str(made.path))
    assert again.name == "best"
    assert again.speculative.knobs["num_draft_tokens"] == 8
    assert [e["result"][0]["concurrency"] for e in again.evidence] == [1, 4]
    assert again.evidence[0]["result"][0]["output_tokens_per_s"] == [100.0, 90.0, 110.0]
    assert again.evidence[0]["settings_in_force"]["num_draft_tokens"] == 8, "asked and resolved are both kept"
    assert again.evidence[0]["tied_with"] == ["none"]
    assert again.workload["name"] == "json"
    with pytest.raises(profiles.ProfileConflict):
        sweep_saving.save_best(folder, "best")


def test_a_profile_each_where_loads_differ(home: Path) -> None:
    folder = saved_sweep([winner(1, "NGRAM 4 draft tokens"), winner(4, "none")])
    assert [p.name for p in sweep_saving.save_best(folder, "best")] == ["best-c1", "best-c4"]


def test_nothing_to_save(home: Path) -> None:
    with pytest.raises(SessionError, match="nothing to save"):
        sweep_saving.save_best(saved_sweep([{"concurrency": 1, "setting": None}]), "best")


# -- what stored runs tell


def store_run(home: Path, spec: sweep_spec.SweepSpec, name: str, *, ids: bool = True, model: str = "m") -> Path:
    work = sweep_spec.work_of(spec)
    folder = home / "data" / "runs" / name
    folder.mkdir(parents=True)
    arm = arm_head(algorithm="none", settings_in_force={}, model=model)
    ref = {"name": "json", "hash": work.workload.hash(0)}
    with journal.Writer(folder / "journal.jsonl") as file, journal.Writer(folder / "answers.jsonl") as answers:
        file.write(head(arm, run_id=name, workload=ref, requests=6, max_tokens=40, temperature=0.0, thinking=None))
        for i in range(6):
            file.write(row_of(record(i, prompt_id=f"p{i}")))
            answers.write({"arm": "A", "pass_name": "warm", "phase": "measure", "concurrency": 1, "index": i,
                           "prompt_ids": [1, 2, i] if ids else [], "output_ids": [5, 6, 7, 8] * 10})  # fmt: skip
        file.write({"t": 1.0, "kind": "end", "status": "complete"})
    return folder


def test_a_stored_run_of_this_workload_predicts_ngram(home: Path) -> None:
    spec = make("none", "NGRAM", knobs={"num_draft_tokens": (4, 8)})
    store_run(home, spec, "1")
    store_run(home, spec, "2", model="another")
    know = Knowledge(sweep_spec.work_of(spec))
    assert [folder.name for folder, _ in know.runs] == ["1"]
    assert know.needs_feeding_text, "the baseline fed nothing"
    found, missing = know.predict(know.model())
    assert {name for name, _ in found} == {"none"}
    assert all("step time" in why for (name, _), why in missing.items() if name != "none")
    recording = know.recording
    assert recording is not None
    assert not recording.exact
    assert len(recording.measured) == 6


def test_runs_without_ids_or_of_other_work_are_no_recording(home: Path) -> None:
    spec = make("none", "NGRAM", knobs={"num_draft_tokens": (4,)})
    folder = store_run(home, spec, "1", ids=False)
    work = sweep_spec.work_of(spec)
    assert sweep_sources.best_recording(work, sweep_sources.stored(work)) is None
    first = next(iter(journal.read(folder / "journal.jsonl")))
    assert sweep_sources.usable(first, work, "m")
    for key, value in (("requests", 7), ("max_tokens", 41), ("temperature", 0.7), ("workload", {"hash": "x"})):
        assert not sweep_sources.usable({**first, key: value}, work, "m")


def test_states_are_plain_json() -> None:
    state = fold([HEAD, end("none", 1)])
    assert json.loads(json.dumps(state.as_json()))["settings"][0]["name"] == "none"
    assert isinstance(state, SweepState)
    assert asdict(make("none"))["keep_losers"] is False


def test_what_a_prediction_missed_is_kept_by_kind_but_of_no_simulated_server() -> None:
    one = SimpleNamespace(accept_length=2.5, output_tokens_per_s=None)
    kept: Any = SimpleNamespace(one=one, setting="NGRAM 8", folder=Path("/runs/a"))
    guessed: Any = SimpleNamespace(kind=tracking.CHAIN, accept_length=2.4, tokens_per_s=900.0)
    miss = tracking.Miss(tracking.CHAIN, "accept length", 2.4, 2.5, "NGRAM 8", "a")
    assert sweep_work.misses_of(kept, guessed, simulated=False) == [miss]
    assert sweep_work.misses_of(kept, guessed, simulated=True) == []
    guessed.kind = "no prediction"
    assert sweep_work.misses_of(kept, guessed, simulated=False) == []
