"""A stored run's curve beside a live one."""

from __future__ import annotations

from pathlib import Path

from spectui.session import stored_curve
from spectui.store.journal import Writer


def written(folder: Path) -> Path:
    """Fed for 10 s at 100 tok/s, then measured for 20 s at 200 tok/s, two tokens a step."""
    folder.mkdir()
    with Writer(folder / "journal.jsonl") as journal:
        place = {"arm": "A", "pass_name": "warm", "concurrency": 1, "block": 0}
        journal.write({"t": 1000.0, "kind": "head", "arms": [{"name": "A"}]})
        journal.write({"t": 1000.0, "kind": "phase", "phase": "feed", "state": "begin", **place})
        tokens = 0
        for second in range(1, 31):
            if second == 11:
                journal.write({"t": 1010.0, "kind": "phase", "phase": "measure", "state": "begin", **place})
            tokens += 100 if second <= 10 else 200
            journal.write(
                {
                    "t": 1000.0 + second, "kind": "sample", "phase": "feed" if second <= 10 else "measure",
                    "tokens": tokens, "steps": tokens // 2, "step_tokens": tokens, "running": 1, **place,
                }
            )  # fmt: skip
        journal.write({"t": 1030.0, "kind": "end", "status": "complete"})
    return folder


def test_it_begins_when_the_live_one_began(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    found = stored_curve.points(run, "A", "tok_s", now=5012.0, begun=5000.0)
    assert found
    assert min(t for t, _ in found) >= 5000.0  # nothing of the feeding before it
    assert max(t for t, _ in found) <= 5013.0  # and nothing that the live one has not reached yet
    assert {round(v) for _, v in found if v is not None} == {200}
    lengths = stored_curve.points(run, "A", "accept", now=5012.0, begun=5000.0)
    assert {round(v, 3) for _, v in lengths if v is not None} == {2.0}


def test_alone_it_ended_when_it_was_chosen(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    assert stored_curve.begin_if_ended(run, "A", 9000.0) == 8980.0


def test_an_arm_that_was_not_measured_has_no_curve(tmp_path: Path) -> None:
    run = written(tmp_path / "run")
    assert stored_curve.begin_if_ended(run, "B", 9000.0) is None
    assert stored_curve.points(run, "B", "tok_s", 9000.0, 8990.0) == ()
