"""What an idle server is shown to accept, and which of its sources says so."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from spectui.engines.sglang.batchlines import DecodeLine
from spectui.engines.sglang.info import read_info
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable
from spectui.session.live_idle import GAUGE, LAST_GAUGE, LIFETIME, LOG, STILL, Idle, idle_of, idle_words
from spectui.session.live_log import log_tail
from spectui.session.table import when_idle

OFF = MetricsUnavailable("off", "metrics are off: launch the server with --enable-metrics")
LINE = DecodeLine(1.0, 0, 2, 0, 140.0, True, 2.4, 0.3, 0.01, 200)


def info(**state: Any) -> Any:
    body = {"version": "0.5.15", "speculative_algorithm": "EAGLE3", "speculative_num_draft_tokens": 4}
    return read_info({**body, "internal_states": [state]})


def reading(running: float, tokens: float, length: float | None = 2.87) -> MetricsReading:
    gauges = {"num_running_reqs": {"0": running}, "gen_throughput": {"0": 140.0}}
    if length is not None:
        gauges["spec_accept_length"] = {"0": length}
    return MetricsReading({"realtime_decode_tokens_total": tokens, "generation_tokens_total": tokens}, gauges)


def test_the_gauge_is_used_while_tokens_flow_and_is_of_before_afterwards() -> None:
    busy = idle_of(info(), reading(2, 100), reading(2, 180), (), 5.0)
    assert (busy.accept_length, busy.source, busy.state) == ("2.87", GAUGE, "busy")
    idle = idle_of(info(), reading(0, 180), reading(0, 180), (), 5.0)
    assert (idle.accept_length, idle.source, idle.tokens_per_s) == ("2.87", LAST_GAUGE, 0.0)
    assert idle_words(idle, 6.0) == "idle, accept length 2.87 (/metrics, last window)"
    assert idle_words(idle, 45.0).endswith("40 s ago")


def test_a_gauge_that_holds_its_last_window_is_not_taken_for_running() -> None:
    held = idle_of(info(), reading(1, 180), reading(1, 180), (), 5.0)
    assert (held.state, held.source, held.tokens_per_s) == (STILL, LAST_GAUGE, 0.0)
    assert "its gauge holds 1 running" in idle_words(held, 5.0)


def test_without_metrics_the_log_then_the_lifetime_figure_says_it() -> None:
    """FC-28."""
    with_log = idle_of(info(avg_spec_accept_length=2.31), None, OFF, (LINE, replace(LINE, accept_length=None)), 5.0)
    assert (with_log.accept_length, with_log.source, with_log.metrics_off) == ("2.40", LOG, True)
    without = idle_of(info(avg_spec_accept_length=2.31), None, OFF, (), 5.0)
    assert (without.accept_length, without.source) == ("2.31", LIFETIME)
    assert "--enable-metrics" in without.note


def test_the_table_names_the_source_of_each_arm() -> None:
    rows = when_idle({"A": idle_of(info(), None, reading(0, 1), (), 1.0), "B": Idle(note="no metrics", state="idle")})
    assert [(r.name, r.a or r.note) for r in rows if r.name.strip() in ("accept length", "of A by", "B")] == [
        ("accept length", "2.87"),
        ("  of A by", LAST_GAUGE),
        ("  B", "no metrics"),
    ]


@pytest.mark.parametrize("path", ["/metrics", "/server_info", "/get_server_info", "/v1/loads?include=core"])
def test_looking_at_a_server_does_not_fill_its_log_on_the_screen(tmp_path: Any, path: str) -> None:
    log = tmp_path / "a.log"
    log.write_text(f'kept\n\n[x] INFO:  127.0.0.1:5 - "GET {path} HTTP/1.1" 200 OK\n"GET {path} HTTP/1.1" 500\n')
    assert log_tail(str(log)) == ("kept", f'"GET {path} HTTP/1.1" 500')


def test_a_busy_server_with_none_running_is_between_requests() -> None:
    assert idle_words(Idle(0, 3, "", None, "busy"), 0.0) == "between requests, 3 queued"
    assert idle_words(Idle(1, 3, "", None, "busy"), 0.0) == "1 request running, 3 queued"
    assert idle_words(Idle(0, 0, "", None, "busy"), 0.0) == "idle"
