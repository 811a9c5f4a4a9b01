"""Field cases about what servers say of themselves, with their own inputs and others of the same kind."""

from __future__ import annotations

from typing import Any

import pytest
from answering_server import AnsweringServer
from field_data import expected, table, text

from spectui.core.accept import accept_length, accept_length_sglang
from spectui.core.request import RequestRecord
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.contract import spec_fields
from spectui.engines.sglang.info import memory_of, own_accept_rate, read_info
from spectui.engines.sglang.log import read_log
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable, difference, live, parse_metrics


def finished(completion_tokens: int, **more: Any) -> RequestRecord:
    head = (0, "p", "chat", "A", "warm", "measure", 1, 0, "r")
    return RequestRecord(*head, 0.0, 0.1, 1.0, 1.1, "ok", completion_tokens=completion_tokens, **more)


def test_fc21_the_run_not_the_life() -> None:
    want = expected("FC-21")
    before, after = (parse_metrics(text(f"FC-21.{when}.txt")) for when in ("before", "after"))
    run = difference(before, after, want["finished_requests"])
    assert run.accept_length == want["run"]
    assert run.accept_length_decode == want["run_minus_first"]
    assert after.gauge_accept_length == want["gauge"]
    nothing = difference(after, after)
    assert (nothing.accept_length, nothing.reason) == (None, "no data: no request finished in between")
    assert difference(after, before).reset


def test_fc21_counters_without_their_label_or_with_many() -> None:
    def reading(tokens: list[float], steps: float) -> MetricsReading:
        lines = [f'sglang:generation_tokens_total{{model_name="m",r="{i}"}} {n}' for i, n in enumerate(tokens)]
        return parse_metrics("\n".join([*lines, f"sglang:spec_verify_calls_total {steps:e}", "sglang:odd{x=\n"]))

    run = difference(reading([10, 20, 30], 10), reading([40, 50, 60], 50))
    assert (run.finished_tokens, run.accept_length) == (90, 2.25)
    assert difference(parse_metrics(""), parse_metrics("")).reason == "no token counter"


def test_fc22_a_fresh_server_has_none_yet() -> None:
    want, case = expected("FC-22"), table("FC-22")
    fresh, off, warm = (read_info(case[name]) for name in ("fresh", "off", "warm"))
    assert fresh.accept_length is want["fresh"]
    assert fresh.accept_length_in_force() == "n/a (fewer than 40 decode steps)"
    assert off.accept_length_in_force() == want["off"]
    assert warm.accept_length == want["warm"]
    short = finished(case["short_request"]["completion_tokens"], verify_steps=case["short_request"]["spec_verify_ct"])
    assert round(accept_length_sglang([short]) or 0, 3) == want["short_request"]


@pytest.mark.parametrize("value", [0.0, None, float("nan"), "2.7", True])
def test_fc22_what_is_no_length_is_no_data(value: object) -> None:
    body = {"speculative_algorithm": "NGRAM", "internal_states": [{"avg_spec_accept_length": value}]}
    assert read_info(body).accept_length is None
    assert "0.00" not in read_info(body).accept_length_in_force()


def test_fc23_an_idle_server() -> None:
    want = expected("FC-23")
    one, two, three = (parse_metrics(part) for part in text("FC-23.txt").split("## scrape")[1:])
    idle = live(one, two, speculates=True)
    assert (idle.state, idle.throughput) == (want["scrape2"], want["scrape2_throughput"])
    assert (idle.shown_accept_length, idle.accept_length, idle.counts) == ("last 2.87", None, False)
    assert live(two, three, speculates=False).shown_accept_length == want["scrape3_accept"]
    assert live(two, three, speculates=False).state == "busy"


def test_fc24_every_rank_counts() -> None:
    want, info = expected("FC-24"), read_info(table("FC-24"))
    assert info.throughput == want["total"]
    assert round(info.accept_length or 0, 3) == want["weighted"]
    assert [rank.index for rank in info.ranks if rank.outlier] == want["outliers"]
    assert [rank.accept_length for rank in info.ranks] == [2.35, 1.49, 2.31, 2.40]


def test_fc24_idle_ranks_and_ranks_without_a_value() -> None:
    states = [(0.0, 4.0), (100.0, 2.0), (100.0, None)]
    body = {
        "speculative_algorithm": "EAGLE",
        "internal_states": [{"last_gen_throughput": t, "avg_spec_accept_length": a} for t, a in states],
    }
    assert (read_info(body).throughput, read_info(body).accept_length) == (200.0, 2.0)


def test_fc26_one_share_for_all_versions() -> None:
    want, case = expected("FC-26"), table("FC-26")
    lines = [read_log(row["line"] + "\n").decode_lines[0] for row in case["lines"]]
    assert [line.accept_rate for line in lines] == want["raw"]
    shares = {round(own_accept_rate(line.accept_length, case["draft_tokens"]) or 0, 4) for line in lines}
    assert shares == {want["uniform"]}
    assert own_accept_rate(1.0, 8) == 0.0
    assert own_accept_rate(3.0, None) is None
    assert own_accept_rate(3.0, 1) is None


@pytest.mark.parametrize("response", table("FC-27")["responses"], ids=lambda row: str(row["version"]))
def test_fc27_fields_of_any_release(response: dict[str, Any]) -> None:
    want, found = expected("FC-27"), spec_fields(response["meta_info"])
    record = finished(response["meta_info"]["completion_tokens"], verify_steps=found.verify_steps)
    assert accept_length_sglang([record]) == want["reported"]
    assert accept_length([record]) == want["decode_only"]
    if response["version"] in ("0.4.9", "0.5.5"):
        assert (found.accepted_drafts, found.proposed_drafts, found.histogram) == (None, None, None)
    else:
        assert (found.accepted_drafts, found.proposed_drafts) == (want["correct"], want["proposed"])
        assert sum(found.histogram or ()) == want["hist_sum"]
        assert sum(k * n for k, n in enumerate(found.histogram or ())) == want["hist_weighted"]


def test_fc28_why_there_are_no_metrics() -> None:
    kinds = {"metrics_off": "off", "auth": "unauthorized", "down": "down"}
    said = set()
    for variant in table("FC-28")["variants"]:
        with AnsweringServer({"/metrics": (variant["status"] or 200, table("FC-28")["metrics"]["body"])}) as server:
            client = SglangClient(server.url)
            if variant["status"] is not None:
                answer = client.metrics()
        if variant["status"] is None:
            answer = client.metrics()
        client.close()
        assert isinstance(answer, MetricsUnavailable)
        assert answer.kind == kinds[variant["want"]]
        assert ("--enable-metrics" in answer.reason) is (variant["want"] == "metrics_off")
        said.add(answer.reason)
    assert len(said) == 3
    done = table("FC-28")["finished"]
    record = finished(done["completion_tokens"], verify_steps=done["spec_verify_ct"])
    assert accept_length_sglang([record]) == expected("FC-28")["fallback"]


@pytest.mark.parametrize(
    ("row", "path"), list(zip(table("FC-30")["servers"], expected("FC-30")["chosen"], strict=True)), ids=str
)
def test_fc30_the_address_of_this_release(row: dict[str, Any], path: str) -> None:
    body = {"speculative_algorithm": None, "version": row["version"], "model_path": "/m", "internal_states": []}
    with AnsweringServer(dict.fromkeys(row["ok"], (200, body))) as server, SglangClient(server.url) as client:
        client.probe()
        client.info(force=True)
        client.loads()
        assert client.address_of("info") == path
        asked = [one for one in server.paths() if one.endswith("server_info")]
        assert asked[-1] == path
        assert asked.count("/server_info") == (2 if path == "/server_info" else 1)


def test_fc32_parts_that_change_their_shape() -> None:
    assert [memory_of(shape).graphs for shape in table("FC-32")["shapes"]] == expected("FC-32")["graph_gb"]
    for odd in ({"graph": {"decode": 0.9, "prefill": "n/a"}}, {"graph": True}, {"graph": float("inf")}, {"graph": []}):
        assert memory_of({"memory_usage": odd}).graphs is None
    assert memory_of({}).graphs is None


def test_fc32_alive_although_its_settings_cannot_be_read() -> None:
    answers = {"/server_info": (500, "x"), "/model_info": (200, {"model_path": "/m"})}
    with AnsweringServer(answers) as server, SglangClient(server.url) as client:
        info = client.probe()
    assert (info.unreadable, info.model_path) == ("not readable (HTTP 500)", "/m")
