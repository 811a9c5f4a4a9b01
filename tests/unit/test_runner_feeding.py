"""When feeding is believed to be enough, and what others' flushes and routes mean: the small decisions of a run."""

from __future__ import annotations

import random
from dataclasses import replace

import pytest

from spectui.core.proposer import FED_TOKENS, LEAST_TOKENS
from spectui.core.request import RequestRecord
from spectui.core.spec import FedBefore, RunSpec, WorkloadRef
from spectui.runner.feeding import LEAST, Feeding, least_tokens
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


def test_no_fewer_tokens_than_this_text_was_seen_to_need() -> None:
    known = (FedBefore("m", "NGRAM: num_draft_tokens=8", 9000), FedBefore("other", "NGRAM: num_draft_tokens=8", 50))
    spec = RunSpec("r", "f", (), WorkloadRef("w", "h"), (), (), feed_known=known)
    settings = {"num_draft_tokens": 8, "draft_model_path": None}
    assert least_tokens(spec, "m", "NGRAM", settings) == 9000
    assert least_tokens(spec, "other", "NGRAM", settings) == LEAST_TOKENS, "history never goes below what is believed"
    assert least_tokens(spec, "m", "NGRAM", {**settings, "num_draft_tokens": 4}) == FED_TOKENS
    assert least_tokens(replace(spec, feed_least=70), "m", "NGRAM", settings) == 70
    feeding = Feeding(9000)
    for i in range(44):
        feeding.add(record(i, 200, 4.0))
    assert not feeding.enough, "steady, but on fewer tokens than were ever enough"
    feeding.add(record(44, 200, 4.0))
    assert feeding.steady


def test_a_used_store_that_rises_slowly_is_not_steady_at_once() -> None:
    """From 2.8 to 3.5, half of it within 4,000 tokens, on answers that differ by a third."""
    levels = []
    for seed in range(40):
        noise, feeding, level = random.Random(seed), Feeding(), 0.0
        for i in range(99):
            level = 3.5 - 0.7 * 2 ** (-feeding.tokens / 4000)
            feeding.add(record(i, 170, max(1.0, level * (1 + noise.gauss(0, 0.3)))))
            if feeding.steady:
                break
        levels.append(level)
    assert sorted(levels)[20] > 0.94 * 3.5
    assert sorted(levels)[4] > 0.87 * 3.5


def test_what_was_in_flight_does_not_take_steadiness_back() -> None:
    feeding = Feeding()
    i = 0
    while not feeding.steady:
        feeding.add(record(i, 200, 4.0))
        i += 1
    for more in range(4):
        feeding.add(record(i + more, 200, 8.0))
    detail = feeding.detail()
    assert (detail["steady"], detail["ended"], detail["rising"]) == (True, "steady", False)


def test_a_rise_at_the_limit_is_said() -> None:
    feeding = Feeding(limit=6000)
    for i in range(30):
        assert not feeding.enough
        feeding.add(record(i, 200, 1.0 + 0.1 * i))
    assert feeding.enough
    assert {k: feeding.detail()[k] for k in ("steady", "rising", "ended")} == {
        "steady": False,
        "rising": True,
        "ended": "tokens",
    }
    assert feeding.detail(limited=True)["ended"] == "tokens"


def test_failed_requests_tell_nothing() -> None:
    feeding = Feeding()
    for i in range(30):
        feeding.add(record(i, 200, 4.0, "failed"))
    assert not feeding.steady
    assert feeding.accept_length is None
    detail = feeding.detail()
    assert (detail["requests"], detail["tokens"], detail["steady"]) == (30, 6000, False)
    assert (detail["accept_length"], detail["rising"], detail["ended"]) == (None, False, "prompts")


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
