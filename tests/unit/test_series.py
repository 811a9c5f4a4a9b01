"""Buckets of absolute time with gaps, and the live fold on top of them."""

from __future__ import annotations

from typing import Any

import pytest
from core_records import arm_head, flush, head, record, row_of
from hypothesis import given
from hypothesis import strategies as st

from spectui.core.live import LiveFold
from spectui.core.series import Series, span_of


def test_buckets_are_absolute_and_gaps_are_none() -> None:
    s = Series(1.0, 5)
    s.add(10.2, 4.0)
    s.add(10.9, 2.0)
    s.add(12.5, 9.0, 3.0)
    assert s.values(13.0, 5) == [None, 3.0, None, 3.0, None]
    assert s.latest() == 3.0
    assert span_of([s]) == (8.0, 13.0)
    assert span_of([Series()]) is None


def test_the_ring_forgets_and_a_long_gap_leaves_nothing_behind() -> None:
    s = Series(1.0, 3)
    for t in range(3):
        s.add(float(t), 1.0 + t)
    s.add(3.0, 9.0)
    assert s.values(3.0, 4) == [None, 2.0, 3.0, 9.0]
    s.add(0.0, 5.0)
    assert s.values(3.0, 4) == [None, 2.0, 3.0, 9.0]
    s.add(1e9, 7.0)
    assert s.values(1e9, 3) == [None, None, 7.0]


@pytest.mark.parametrize(("width", "size"), [(0.0, 3), (1.0, 0), (-1.0, 3)])
def test_a_series_without_room_is_refused(width: float, size: int) -> None:
    with pytest.raises(ValueError, match="width above 0"):
        Series(width, size)


@given(
    st.lists(st.tuples(st.floats(0.01, 3.0), st.integers(0, 500)), min_size=1, max_size=30),
    st.sampled_from([0.5, 1.0, 2.0]),
)
def test_spreading_keeps_the_sum(stretches: list[tuple[float, int]], width: float) -> None:
    s = Series(width, 1000)
    t = 1000.0
    for span, value in stretches:
        s.spread(t, t + span, value)
        t += span
    assert sum(s._over) == pytest.approx(sum(v for _, v in stretches), rel=1e-9, abs=1e-6)
    assert sum(s._under) == pytest.approx(t - 1000.0)


def sample(t: float, tokens: int, steps: int, step_tokens: int, **values: Any) -> dict[str, Any]:
    return {
        "t": t, "kind": "sample", "arm": "A", "pass_name": "warm", "phase": "measure", "concurrency": 1,
        "tokens": tokens, "steps": steps, "step_tokens": step_tokens, "running": 1, "done": 0, "failed": 0, **values,
    }  # fmt: skip


def phase(t: float, name: str, state: str, **values: Any) -> dict[str, Any]:
    return {
        "t": t, "kind": "phase", "arm": "A", "pass_name": "warm", "phase": name, "concurrency": 1, "block": 0,
        "state": state, "detail": {}, **values,
    }  # fmt: skip


def test_live_shows_speed_acceptance_phase_and_progress() -> None:
    live = LiveFold()
    assert live.status == "waiting"
    live.add(head(requests=4))
    live.add(flush(t=1.0))
    live.add(phase(2.0, "measure", "begin"))
    for i in range(1, 9):
        live.add(sample(2.0 + i * 0.25, 25 * i, 5 * i, 20 * i))
    arm = live.arms["A"]
    assert arm.tok_s.values(3.5, 2) == [pytest.approx(100.0), pytest.approx(100.0)]
    assert arm.accept.values(3.5, 2) == [pytest.approx(4.0), pytest.approx(4.0)]
    assert (arm.phase, arm.running, arm.tokens_since_flush, arm.accept_length) == ("measure", 1, 200, 4.0)
    assert arm.flushes == [1.0]
    live.add(row_of(record()))
    assert live.progress == 0.25
    live.add({"t": 9.0, "kind": "end", "status": "interrupted", "reason": "stopped"})
    assert (live.status, arm.running) == ("interrupted", 0)


def test_a_new_pass_counts_from_zero_and_idle_time_is_a_gap() -> None:
    live = LiveFold()
    live.add(phase(0.0, "measure", "begin"))
    live.add(sample(1.0, 100, 10, 50))
    live.add(phase(1.0, "measure", "end"))
    live.add(phase(20.0, "measure", "begin", concurrency=4))
    live.add(sample(21.0, 40, 10, 30, concurrency=4))
    arm = live.arms["A"]
    assert arm.tok_s.values(20.5, 21)[0] == pytest.approx(100.0)
    assert arm.tok_s.values(20.5, 20)[:-1] == [None] * 19
    assert arm.tok_s.values(20.5, 1) == [pytest.approx(40.0)]
    assert arm.accept.values(20.5, 1) == [pytest.approx(3.0)]


def test_live_keeps_gpus_marks_and_passes_over_what_it_cannot_read() -> None:
    live = LiveFold()
    live.add(head(arm_head("A"), arm_head("B", "EAGLE3")))
    live.add({"t": 1.0, "kind": "gpu", "gpus": [{"uuid": "G", "power_w": 5.0}]})
    live.add({"t": 2.0, "kind": "mark", "arm": "A", "name": "x", "detail": "y"})
    for row in ({"kind": "gpu", "t": 3}, {"kind": "sample", "t": "x"}, {"t": 1}, {"kind": "phase", "t": 1}):
        live.add(row)
    assert [t for t, _ in live.gpus["G"]] == [1.0]
    assert [m["name"] for m in live.marks] == ["x"]
    assert live.arms["B"].head["algorithm"] == "EAGLE3"
    assert LiveFold().progress is None


def test_a_warm_up_request_draws_no_accept_length() -> None:
    fold = LiveFold()
    row = {"kind": "sample", "arm": "A", "pass_name": "warm", "running": 0}
    fold.add({**row, "t": 10.2, "phase": "warmup", "tokens": 16, "steps": 2, "step_tokens": 15})
    assert all(value is None for value in fold.arms["A"].accept.values(10.2, 5))
    fold.add({**row, "t": 10.6, "phase": "feed", "tokens": 36, "steps": 12, "step_tokens": 35})
    assert [v for v in fold.arms["A"].accept.values(10.6, 5) if v is not None] == [2.0]
