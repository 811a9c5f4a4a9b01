"""What the live session notes by itself: lost GPUs, who else holds one, the usual time of a run, a prediction kept."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from spectui.core.gpu import GpuReading
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.result import fold
from spectui.hosts.gpu_facts import LocalProcess
from spectui.hosts.gpus import GpuPanel
from spectui.session import changing, table
from spectui.session.arms import Target
from spectui.session.live import Live
from spectui.session.live_flip import AFTER_THE_RUN
from spectui.session.live_history import seconds_of_last
from spectui.session.showing_gpu import arms_of, holders, mean_words
from spectui.session.status import change_in_short, staged_words
from spectui.session.view import Prediction, TableRow

GIB = 1024**3


def gpu(index: int, *pids: int, lost: bool = False, used: int = 0) -> GpuReading:
    return GpuReading(
        f"u{index}", index, "NVIDIA H200", None if lost else 90.0 + index, used or len(pids) * 40 * GIB, 141 * GIB,
        pids=None if lost else pids, lost=lost, processes=tuple((pid, 40 * GIB) for pid in pids),
    )  # fmt: skip


def with_server(live: Live, *pids: int) -> None:
    arm = live.arms["A"]
    arm.target, arm.url, arm.pids = Target("a", url="http://127.0.0.1:1"), "http://127.0.0.1:1", pids


def test_two_servers_on_one_gpu_are_both_told() -> None:
    live = Live(gpus=False)
    with_server(live, 7)
    other = live.arms["B"]
    other.target, other.url, other.pids = Target("b", url="http://127.0.0.1:2"), "http://127.0.0.1:2", (8,)
    live.gpu_panel = GpuPanel((gpu(0, 7, 8), gpu(1, 8), gpu(2)), "ok")
    assert arms_of(live) == {"u0": "AB", "u1": "B"}


def test_the_arm_whose_gpu_is_lost_says_so() -> None:
    live = Live(gpus=False)
    with_server(live, 7)
    live.gpu_panel = GpuPanel((gpu(0, 7), gpu(1, 7), gpu(2)), "ok")
    live._note_gpus()
    assert live.arms["A"].lost_gpus == ()
    assert arms_of(live) == {"u0": "A", "u1": "A"}
    live.gpu_panel = GpuPanel((gpu(0, 7), gpu(1, lost=True), gpu(2, lost=True)), "ok")
    live._note_gpus()
    assert live.arms["A"].lost_gpus == (1,)  # GPU 2 was never its own
    assert mean_words(live).startswith("90 % (1 of 3 GPUs) now")


def test_holders_beside_the_arms_are_named() -> None:
    local = {7: LocalProcess("python3", 1.0), 8: LocalProcess("vim", 1.0)}
    found = holders((gpu(0, 7), gpu(1, 8), gpu(2, 9), gpu(3, used=38 * GIB)), local, {7})
    assert found == {
        "u1": "40 GiB held by vim (pid 8), no model server",
        "u2": "40 GiB held from outside this container",
        "u3": "38 GiB used by processes that cannot be seen from here",
    }


def _run(folder: Path, began: float, ended: float | None, **head: Any) -> Path:
    folder.mkdir(parents=True)
    first = {"t": began, "kind": "head", "workload": {"hash": "h"}, "arms": [{"algorithm": "NGRAM"}], **head}
    rows = [first, {"t": began + 1, "kind": "sample"}]
    if ended is not None:
        rows.append({"t": ended, "kind": "end", "status": "complete"})
    (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return folder


def test_the_usual_time_is_that_of_the_last_complete_run_like_it(tmp_path: Path) -> None:
    assert seconds_of_last(_run(tmp_path / "1", 0.0, 50.0, passes=["warm"])) is None
    _run(tmp_path / "2", 0.0, 90.0, passes=["cold"])
    _run(tmp_path / "3", 0.0, None, passes=["warm"])
    assert seconds_of_last(_run(tmp_path / "4", 0.0, None, passes=["warm"])) == 50.0


def test_what_was_predicted_stands_below_what_was_measured() -> None:
    rows = [TableRow("output tok/s", "540"), TableRow("accept length", "4.00"), TableRow("step time", "12 ms")]
    guess = {"A": Prediction(4.2, 560.0)}
    found = table.with_predictions(rows, guess, {})
    assert [(r.name.strip(), r.a, r.against) for r in found[2:3]] == [
        ("predicted · tok/s", "4.20 · 560", "not run yet")
    ]
    assert table.with_predictions(rows, {}, {}) == rows
    assert fold([]).passes == {}


def test_what_is_staged_during_a_run_is_predicted_once_it_has_ended(monkeypatch: Any) -> None:
    live = Live(gpus=False)
    with_server(live)
    arm = live.arms["A"]
    arm.profile = Profile("a", None, ServerPart(model_path="m"), SpeculativePart("NGRAM", {"num_draft_tokens": 8}))
    monkeypatch.setattr(live.measuring, "measured_letters", lambda: ("A",))
    live.stage_step(1)
    assert arm.staged is not None
    assert arm.staged.prediction == AFTER_THE_RUN
    monkeypatch.setattr(live.measuring, "measured_letters", tuple)
    live.predict_again()
    assert arm.staged.prediction is not None
    assert "r measures" in arm.staged.prediction.text


def test_metrics_are_staged_for_the_next_relaunch() -> None:
    live = Live(gpus=False)
    with_server(live)
    arm = live.arms["A"]
    arm.profile = Profile("a", None, ServerPart(model_path="m"), SpeculativePart("NGRAM", {"num_draft_tokens": 8}))
    live.stage_knobs({"num_draft_tokens": 8}, metrics=True)
    assert arm.staged is not None
    assert (arm.staged.words, arm.staged.hot) == ("metrics off → on", False)
    assert arm.staged.profile.server.arguments()["enable_metrics"] is True


def test_two_profiles_without_a_port_get_two(monkeypatch: Any) -> None:
    asked: list[set[int]] = []
    monkeypatch.setattr("spectui.hosts.ports.free_port", lambda start, taken: asked.append(set(taken)) or 30010)
    monkeypatch.setattr("spectui.hosts.servers.records", list)
    assert changing.port_for("b") == 30010
    assert asked == [set()]


def test_another_algorithm_is_said_in_few_words(monkeypatch: Any) -> None:
    live = Live(gpus=False)
    with_server(live)
    arm = live.arms["A"]
    arm.profile = Profile("a", None, ServerPart(model_path="m"), SpeculativePart("none", {}))
    live.stage_algorithm("NGRAM")
    assert arm.staged is not None
    assert change_in_short(arm.staged) == "algorithm none → NGRAM, draft tokens 8"
    assert "relaunch" in staged_words(arm, "")
