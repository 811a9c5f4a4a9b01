"""Step times from runs, break-even, predicted throughput; how far predictions were off."""

from __future__ import annotations

from dataclasses import asdict
from math import isclose, log
from pathlib import Path

import pytest
from core_records import arm_head, head, record, row_of
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.core.result import fold
from spectui.predict import step_times, tracking
from spectui.predict.breakeven import Length, Setup, StepSample, StepTime, StepTimeModel, predict, ratio_spread
from spectui.predict.tracking import Miss
from spectui.store import journal

SETUP = Setup(model="m", simulated=False, version="0.5.15", tp_size=1)


def sample(algorithm: str, width: int, concurrency: int, ms: float, **values: object) -> StepSample:
    base = {"setup": SETUP, "draft_steps": 0, "log_error": 0.01, "tokens": 101.0, "overhead_s": 0.5}
    return StepSample(algorithm=algorithm, width=width, concurrency=concurrency, step_ms=ms, **{**base, **values})


def model(*rows: StepSample) -> StepTimeModel:
    return StepTimeModel.of(rows, SETUP)


GRID = model(
    sample("none", 1, 1, 10.0),
    sample("none", 1, 16, 14.0),
    sample("NGRAM", 4, 1, 12.0),
    sample("NGRAM", 16, 1, 18.0),
    sample("NGRAM", 4, 16, 20.0),
    sample("NGRAM", 16, 16, 44.0),
)


def test_a_measured_point_is_itself_and_no_guess() -> None:
    found = GRID.at("NGRAM", 16, 16)
    assert found is not None
    assert isclose(found.ms, 44.0)
    assert not found.extrapolated
    assert found.why == ""
    low, high = found.interval
    assert 40 < low < 44 < high < 49


def test_between_widths_along_a_line() -> None:
    found = GRID.at("NGRAM", 10, 1)
    assert found is not None
    assert isclose(found.ms, 15.0)
    assert not found.extrapolated
    exact = GRID.at("NGRAM", 16, 1)
    assert exact is not None


def test_between_concurrencies_along_their_logarithm() -> None:
    found = GRID.at("NGRAM", 4, 4)
    assert found is not None
    assert isclose(found.ms, 16.0)
    assert not found.extrapolated


@pytest.mark.parametrize(("width", "level", "words"), [(32, 1, "32 draft tokens"), (16, 64, "64 at a time")])
def test_beyond_what_was_measured_is_said_and_wider(width: int, level: int, words: str) -> None:
    found, inside = GRID.at("NGRAM", width, level), GRID.at("NGRAM", 10, 1)
    assert found is not None
    assert inside is not None
    assert found.extrapolated
    assert words in found.why
    assert "extrapolated" in found.why
    assert found.log_error > inside.log_error
    near = GRID.at("NGRAM", 16, min(level, 16))
    assert near is not None
    assert found.ms > near.ms


def test_of_one_concurrency_the_batch_slows_a_step_as_it_does_without_speculation() -> None:
    found = model(sample("none", 1, 1, 10.0), sample("none", 1, 8, 15.0), sample("NGRAM", 8, 1, 20.0)).at("NGRAM", 8, 8)
    assert found is not None
    assert isclose(found.ms, 30.0)
    assert found.extrapolated


def test_narrower_than_measured_lies_between_no_speculation_and_the_narrowest() -> None:
    found = model(sample("none", 1, 1, 10.0), sample("NGRAM", 16, 1, 20.0)).at("NGRAM", 4, 1)
    assert found is not None
    assert found.extrapolated
    assert "no speculation" in found.why
    low, high = found.interval
    assert 11.0 < low < 12.5, "on the line from 10 to 20"
    assert 19.0 < high < 22.5, "as dear as the wide one"
    blind = model(sample("NGRAM", 16, 1, 20.0)).at("NGRAM", 4, 1)
    assert blind is not None
    assert isclose(blind.ms, 20.0)
    assert blind.log_error > found.log_error


def test_an_algorithm_that_never_ran_has_no_step_time() -> None:
    assert GRID.at("EAGLE3", 4, 1) is None
    assert GRID.break_even("EAGLE3", 4, 1) is None
    assert model(sample("NGRAM", 4, 1, 12.0)).break_even("NGRAM", 4, 1) is None


def test_trees_of_other_draft_steps_are_a_guess() -> None:
    rows = [sample("EAGLE3", 16, 1, 20.0, draft_steps=3), sample("EAGLE3", 16, 1, 30.0, draft_steps=6)]
    same, other = model(*rows).at("EAGLE3", 16, 1, draft_steps=6), model(rows[0]).at("EAGLE3", 16, 1, draft_steps=6)
    assert same is not None
    assert other is not None
    assert isclose(same.ms, 30.0)
    assert not same.extrapolated
    assert other.extrapolated
    assert "draft steps" in other.why


def test_break_even_is_step_time_with_over_without_at_the_same_concurrency() -> None:
    alone, crowd = GRID.break_even("NGRAM", 16, 1), GRID.break_even("NGRAM", 16, 16)
    assert alone is not None
    assert crowd is not None
    assert isclose(alone.accept_length, 1.8)
    assert isclose(crowd.accept_length, 44 / 14)
    assert alone.low < alone.accept_length < alone.high
    assert GRID.break_even("none", 1, 1) is None
    # both spreads are in it
    lone = GRID.at("NGRAM", 16, 1)
    assert lone is not None
    assert log(alone.high / alone.low) > log(lone.interval[1] / lone.interval[0])


def test_runs_that_disagree_widen_what_is_expected_of_the_next() -> None:
    alike = model(*(sample("none", 1, 1, 10.0) for _ in range(6)))
    apart = model(*(sample("none", 1, 1, ms) for ms in (8.0, 12.0, 9.0, 11.0, 8.5, 11.5)))
    assert apart.run_to_run > 2 * alike.run_to_run
    one, two = alike.at("none", 1, 1), apart.at("none", 1, 1)
    assert one is not None
    assert two is not None
    assert two.log_error > one.log_error


def test_another_model_or_version_tells_nothing() -> None:
    rows = [sample("none", 1, 1, 10.0), sample("none", 1, 1, 99.0, setup=Setup(model="other"))]
    assert len(StepTimeModel.of(rows, SETUP).samples) == 1
    assert Setup(model="m").matches(SETUP)
    assert not Setup(version="0.5.10").matches(SETUP)
    quantized = Setup(model="m", details=(("quantization", "fp8"),))
    assert not quantized.matches(Setup(model="m", details=(("quantization", "awq"),)))
    assert quantized.matches(SETUP)


def test_throughput_is_accept_length_over_step_time_times_concurrency() -> None:
    found = predict(Length(2.0, 0.1, "chain"), StepTime(10.0, 0.0), 4)
    assert isclose(found.tokens_per_s, 4 * 200.0)
    assert isclose(found.low, 800 * 0.822, rel_tol=0.01)
    assert isclose(found.high, 800 * 1.2165, rel_tol=0.01)
    both = predict(Length(2.0, 0.1, "chain"), StepTime(10.0, 0.1), 4)
    assert isclose(both.log_error, 0.1 * 2**0.5)


def test_what_no_step_explains_counts_and_is_not_unsure() -> None:
    found = predict(Length(2.0, 0.1, "chain"), StepTime(10.0, 0.0), 1, tokens=101.0, overhead_s=0.5)
    assert isclose(found.tokens_per_s, 101.0)  # 100 tokens in 50 steps of 10 ms, and half a second before
    assert isclose(found.log_error, 0.05)


@settings(max_examples=40, deadline=None)
@given(st.integers(1, 64), st.integers(1, 64), st.floats(1.0, 9.0), st.floats(0.0, 0.4))
def test_any_point_has_an_interval_around_it(width: int, level: int, length: float, error: float) -> None:
    step = GRID.at("NGRAM", width, level)
    assert step is not None
    assert step.ms > 0
    found = predict(Length(length, error, "chain"), step, level)
    assert 0 < found.low <= found.tokens_per_s <= found.high


@settings(max_examples=40, deadline=None)
@given(st.floats(1.0, 4.0), st.floats(4.1, 9.0))
def test_a_longer_accept_length_is_never_slower(less: float, more: float) -> None:
    step = StepTime(10.0, 0.02)
    speeds = [predict(Length(v, 0.1, "chain"), step, 4, tokens=50.0, overhead_s=0.1).tokens_per_s for v in (less, more)]
    assert speeds[0] < speeds[1]


def test_ratio_spread() -> None:
    assert ratio_spread([], []) is None
    assert ratio_spread([1.0, 1.0], [0.0, 0.0]) is None
    ratio, error = ratio_spread([2.0, 4.0, 6.0], [1.0, 2.0, 3.0]) or (0, 0)
    assert (ratio, error) == (2.0, 0.0)
    assert (ratio_spread([2.0], [1.0]) or (0, 0))[1] == 0.5


# -- out of journals


def run_rows(run: str, algorithm: str, step_s: float, status: str = "complete") -> list[dict[str, object]]:
    records = [
        record(i, start_s=100.0 + i, first_s=100.1 + i, last_s=100.1 + i + 20 * step_s, end_s=100.1 + i + 20 * step_s,
               completion_tokens=41, verify_steps=20, histogram=(10, 0, 10))
        for i in range(4)
    ]  # fmt: skip
    if algorithm == "none":
        records = [
            record(i, start_s=100.0 + i, first_s=100.1 + i, last_s=100.1 + i + 40 * step_s,
                   end_s=100.1 + i + 40 * step_s, completion_tokens=41)
            for i in range(4)
        ]  # fmt: skip
    arm = arm_head(algorithm=algorithm, settings_in_force={"num_draft_tokens": 8} if algorithm == "NGRAM" else {})
    return [head(arm, run_id=run), *(row_of(r) for r in records), {"t": 1.0, "kind": "end", "status": status}]


def write(folder: Path, rows: list[dict[str, object]]) -> None:
    folder.mkdir(parents=True)
    with journal.Writer(folder / "journal.jsonl") as file:
        for row in rows:
            file.write(row)


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def test_samples_of_stored_runs(home: Path) -> None:
    runs = home / "data" / "runs"
    write(runs / "1-none", run_rows("1-none", "none", 0.010))
    write(runs / "2-ngram", run_rows("2-ngram", "NGRAM", 0.015))
    (runs / "3-empty").mkdir()
    (runs / "3-empty" / "journal.jsonl").write_text("not json\n")
    found = step_times.samples()
    assert [(s.algorithm, s.width, s.concurrency, round(s.step_ms, 3)) for s in found] == [
        ("none", 1, 1, 10.0), ("NGRAM", 8, 1, 15.0)]  # fmt: skip
    assert found[0].tokens == 41
    assert found == step_times.samples(), "read again from what was kept"
    (home / "state" / "known" / "step-times.json").write_text('{"1-none": 3}')
    assert found == step_times.samples(), "a damaged cache is made anew"
    even = StepTimeModel.of(found, Setup(model="m")).break_even("NGRAM", 8, 1)
    assert even is not None
    assert isclose(even.accept_length, 1.5, rel_tol=1e-6)


def test_a_disturbed_pass_tells_no_step_time() -> None:
    rows = run_rows("x", "NGRAM", 0.015)
    mark = {"t": 1.0, "kind": "mark", "arm": "A", "name": "foreign_traffic", "detail": "others"}
    assert len(step_times.samples_of(fold(rows))) == 1
    assert step_times.samples_of(fold([rows[0], mark, *rows[1:]])) == ()


def test_a_chain_runs_its_draft_once_a_step_and_a_block_draft_once() -> None:
    assert step_times.draft_steps_of("EAGLE3", 5) == 5
    assert step_times.draft_steps_of("DFLASH", 15) == 1
    assert step_times.draft_steps_of("NGRAM", 1) == 0


# -- how far off


def test_spreads_begin_assumed_and_follow_what_was_seen(home: Path) -> None:
    first = tracking.spreads()[tracking.CHAIN]
    assert first.count == 0
    assert "assumed" in first.text
    for _ in range(20):
        tracking.note(Miss(tracking.CHAIN, "accept length", 2.4, 2.0, "EAGLE3", "run"))
        tracking.note(Miss(tracking.CHAIN, "tokens a second", 9.0, 1.0))
    seen = tracking.spreads()[tracking.CHAIN]
    assert seen.count == 20
    assert isclose(seen.bias, log(1.2))
    assert isclose(seen.largest, 0.2)
    assert 0.15 < seen.log_error < 0.19
    assert "20 times" in seen.text
    assert tracking.spreads()[tracking.EXACT].count == 0
    assert tracking.misses()[0] == Miss(tracking.CHAIN, "accept length", 2.4, 2.0, "EAGLE3", "run")


def test_a_torn_or_foreign_row_is_passed_over(home: Path) -> None:
    tracking.note(Miss(tracking.EXACT, "accept length", 2.0, 2.0))
    with open(home / "state" / "known" / "predictions.jsonl", "a") as file:
        file.write('{"kind": "chain", "predicted": "much"}\n{"kind": ')
    tracking.note(Miss(tracking.EXACT, "accept length", 3.0, 3.0))
    assert [m.predicted for m in tracking.misses()] == [2.0, 3.0]


def test_start_times_by_the_most_like(home: Path) -> None:
    assert tracking.start_s("p|a", "p") is None
    for seconds in (60.0, 90.0, 70.0):
        tracking.note_start("p", seconds)
    assert tracking.start_s("p|a", "p") == 70.0
    tracking.note_start("p|a", 33.0)
    assert tracking.start_s("p|a", "p") == 33.0


def test_samples_can_be_stored() -> None:
    one = sample("NGRAM", 8, 4, 12.0, setup=Setup(model="m", gpus=("H",), details=(("dtype", "auto"),)))
    import json

    assert step_times._sample(json.loads(json.dumps(asdict(one)))) == one
    assert step_times._sample({"setup": {}}) is None
