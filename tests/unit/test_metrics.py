from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engines.sglang.metrics import MetricsReading, difference, live, parse_metrics

DATA = Path(__file__).parent.parent / "data" / "sglang"


def read(name: str) -> MetricsReading:
    return parse_metrics((DATA / name).read_text())


@pytest.mark.parametrize(
    ("folder", "tokens", "verify", "gauge"),
    [("none", 12120.0, None, None), ("ngram-8", 12246.0, 2947.0, 1.15), ("eagle3-3-1-4", 11858.0, 6781.0, 1.9)],
)
def test_recorded_pages(folder: str, tokens: float, verify: float | None, gauge: float | None) -> None:
    after = read(f"{folder}/metrics.after_edit.txt")
    assert after.counters["generation_tokens_total"] == tokens
    assert after.counters.get("spec_verify_calls_total") == verify
    assert after.gauge_accept_length == pytest.approx(gauge)
    assert (after.running, after.queued) == (1, 0)
    assert after.counters["num_requests_total"] == 14
    fresh = read(f"{folder}/metrics.fresh.txt")
    run = difference(fresh, after)
    assert not run.reset
    assert run.realtime_tokens is not None
    assert run.realtime_tokens > 11000
    if verify is None:
        assert run.accept_length is None
        assert "verify" in run.reason
    else:
        assert run.accept_length == pytest.approx(run.finished_tokens / run.verify_steps)  # type: ignore[operator]


def test_fc21_the_run_not_the_life_nor_the_window() -> None:
    before, after = read("FC-21.before.txt"), read("FC-21.after.txt")
    run = difference(before, after, finished_requests=8)
    assert (run.finished_tokens, run.verify_steps) == (5600, 2000)
    assert run.accept_length == pytest.approx(2.80)
    assert run.accept_length_decode == pytest.approx(2.796)
    assert after.gauge_accept_length == 2.64
    nothing = difference(after, after, finished_requests=0)
    assert nothing.accept_length is None
    assert "no data" in nothing.reason


def test_counters_that_went_down_mean_a_restart() -> None:
    run = difference(read("FC-21.after.txt"), read("FC-21.before.txt"))
    assert run.reset
    assert run.accept_length is None


def test_fc23_idle_is_quiet_and_off_is_off() -> None:
    parts = (DATA / "FC-23.txt").read_text().split("## scrape")[1:]
    first, second, third = (parse_metrics(part.split("\n", 1)[1]) for part in parts)
    assert live(None, first, speculates=True).state == "unknown"
    idle = live(first, second, speculates=True)
    assert (idle.state, idle.throughput, idle.accept_length, idle.counts) == ("idle", 0.0, None, False)
    assert idle.shown_accept_length == "last 2.87"
    plain = live(second, third, speculates=False)
    assert (plain.state, plain.shown_accept_length, plain.throughput) == ("busy", "off", 95.1)
    assert live(second, third, speculates=True).shown_accept_length == "n/a"


def test_gauges_are_kept_by_rank_and_summed_or_weighted() -> None:
    page = "".join(
        f'sglang:gen_throughput{{dp_rank="{rank}"}} {rate}\nsglang:spec_accept_length{{dp_rank="{rank}"}} {length}\n'
        for rank, (rate, length) in enumerate([(210, 2.35), (118, 1.49), (205, 2.31), (214, 2.4)])
    )
    reading = parse_metrics(page)
    assert reading.total("gen_throughput") == 747
    assert reading.gauges["spec_accept_length"]["1"] == 1.49
    assert reading.gauge_accept_length == pytest.approx(2.156, abs=1e-3)


def test_one_broken_line_costs_only_itself() -> None:
    page = 'sglang:num_running_reqs{a="b"} 2\nsglang:gen_throughput{a="b 7\nsglang:num_queue_reqs what\n# x\nother 1\n'
    reading = parse_metrics(page)
    assert reading.running == 2
    assert reading.queued is None


def test_not_a_number_is_no_value() -> None:
    assert parse_metrics("sglang:gen_throughput NaN\nsglang:utilization +Inf\n").gauges == {}
    assert parse_metrics("<html>no metrics</html>").counters == {}


LINES = st.lists(
    st.tuples(
        st.sampled_from(
            ["sglang:gen_throughput", "sglang:generation_tokens_total", "sglang:realtime_tokens_total", "x"]
        ),
        st.text(max_size=24),
    ).map(lambda pair: pair[0] + pair[1]),
    max_size=5,
)


@settings(max_examples=80, deadline=None)
@given(LINES)
def test_no_page_is_too_odd(lines: list[str]) -> None:
    reading = parse_metrics("\n".join(lines))
    difference(reading, reading)
    assert live(reading, reading, speculates=True).state in ("busy", "idle")
