"""When feeding is believed to be enough, and what others' flushes and routes mean: the small decisions of a run."""

from __future__ import annotations

import random

import pytest

from spectui.core.request import RequestRecord
from spectui.runner.feeding import LEAST, Feeding
from spectui.runner.transport import Lag


def record(index: int, tokens: int, length: float | None, status: str = "ok") -> RequestRecord:
    return RequestRecord(
        index=index,
        prompt_id=str(index),
        group="g",
        arm="A",
        pass_name="warm",
        phase="feed",
        concurrency=1,
        block=0,
        rid=str(index),
        start_s=0.0,
        first_s=0.1,
        last_s=1.0,
        end_s=1.0,
        status=status,
        completion_tokens=tokens,
        verify_steps=None if length is None else max(1, round((tokens - 1) / length)),
    )


def fed(lengths: list[float], tokens: int = 200) -> int | None:
    """After how many requests feeding is steady; None: never."""
    feeding = Feeding()
    for i, length in enumerate(lengths):
        feeding.add(record(i, tokens, length))
        if feeding.steady:
            return i + 1
    return None


def test_a_level_that_does_not_move_is_steady() -> None:
    noise = random.Random(1)
    found = fed([4.0 + noise.uniform(-0.1, 0.1) for _ in range(60)])
    assert found is not None
    assert found <= 2 * LEAST


def test_a_level_that_rises_is_not() -> None:
    assert fed([1.0 + 0.1 * i for i in range(60)]) is None


def test_after_the_rise_it_is_steady() -> None:
    lengths = [5.0 - 3.5 * 0.8**i for i in range(100)]
    found = fed(lengths)
    assert found is not None
    assert lengths[found - 1] > 4.8, "feeding ended in the middle of the rise"


def test_few_tokens_are_never_enough() -> None:
    assert fed([4.0] * 60, tokens=10) is None


def test_failed_requests_tell_nothing() -> None:
    feeding = Feeding()
    for i in range(30):
        feeding.add(record(i, 200, 4.0, "failed"))
    assert not feeding.steady
    assert feeding.accept_length is None
    assert feeding.detail() == {"requests": 30, "tokens": 6000, "steady": False, "accept_length": None}


def test_the_detail_tells_the_level_at_the_end() -> None:
    feeding = Feeding()
    for i in range(40):
        feeding.add(record(i, 201, 2.0 if i < 20 else 4.0))
    assert feeding.detail()["accept_length"] == pytest.approx(4.0)
    assert feeding.detail()["requests"] == 40


def test_a_lag_before_its_bytes_counts_as_none() -> None:
    lag = Lag()
    lag.add(-5_000)
    assert lag.p99_ms() == pytest.approx(0.016, abs=0.001)
    assert lag.late_share() == 0.0
