"""Field cases about speculative settings: each with its own input, and with others of the same kind."""

from __future__ import annotations

from typing import Any

import pytest
from field_data import DATA, expected, table, text

from spectui import algorithms
from spectui.core.changes import algorithm_match, distinct, queueing
from spectui.core.marks import environment_marks
from spectui.core.notices import never_accepted, without_graphs
from spectui.core.pairing import check_pair
from spectui.core.repeats import crossing_of_speeds
from spectui.engines.sglang.info import algorithm_matches, read_info
from spectui.engines.sglang.log import read_log
from spectui.store import profiles

DECODE = (
    "[2026-01-01 00:00:00 {rank}] Decode batch, #running-req: {n}, #token: 9, token usage: 0.01, accept len: {length}, "
    "accept rate: 0.00, cuda graph: {graph}, gen throughput (token/s): 50.00, #queue-req: 0\n"
)


def window(length: str = "1.00", rank: str = "TP0", n: int = 1, graph: str = "True") -> str:
    return DECODE.format(rank=rank, n=n, length=length, graph=graph)


def test_fc01_drafts_that_are_never_accepted() -> None:
    want = expected("FC-01")
    log = read_log(text("FC-01.log"))
    assert (log.never_accepted or "").startswith("drafts are never accepted")
    assert "chat template" in (log.never_accepted or "")
    assert [line.throughput for line in log.decode_lines] == want["throughput"]
    assert {line.accept_length for line in log.decode_lines} == {want["accept"]}
    assert all(line.graph for line in log.decode_lines)


@pytest.mark.parametrize(
    ("lines", "found"),
    [
        (window() * 2, False),
        (window("1.05") * 3, True),
        (window("1.06") * 9, False),
        (window() * 2 + window("2.00") + window() * 2, False),
        (window(rank="DP1 TP0") * 3 + window("2.50", rank="DP0 TP0") * 3, True),
        ("[2025-07-02 01:02:03 TP0] Decode batch. #running-req: 7, #token: 4, token usage: 0.01, accept len: 1.00, "
         "cuda graph: True, gen throughput (token/s): 71.30, #queue-req: 0, \n" * 3, True),
    ],
)  # fmt: skip
def test_fc01_other_logs(lines: str, found: bool) -> None:
    assert (read_log(lines).never_accepted is not None) is found


def test_fc01_a_measured_run_says_it_too() -> None:
    assert "drafts are never accepted (accept length 1.02 over 400 verify steps)" in (never_accepted(1.02, 400) or "")
    assert "store" in (never_accepted(1.0, 400, learns=True) or "")
    assert never_accepted(1.0, 119) is None
    assert never_accepted(1.06, 400) is None
    assert never_accepted(None, 400) is None


@pytest.mark.parametrize("pair", table("FC-03")["pairs"], ids=lambda pair: str(pair["name"]))
def test_fc03_vocabularies(pair: dict[str, Any]) -> None:
    found = check_pair(pair["target"], pair["draft"])
    assert found.state == expected("FC-03")[pair["name"]] == pair["want"]
    assert str(pair["target"]["vocab_size"]) in found.text
    assert str(pair["draft"]["vocab_size"]) in found.text


@pytest.mark.parametrize("draft", [None, {}, {"vocab_size": None}, {"hidden_size": 4096}])
def test_fc03_what_cannot_be_read_is_not_checked(draft: dict[str, Any] | None) -> None:
    assert check_pair({"vocab_size": 32000, "tokenizer": "t"}, draft).state == "not checked"


@pytest.mark.parametrize(("name", "want"), list(expected("FC-04").items()))
def test_fc04_a_missing_draft(name: str, want: str) -> None:
    profile = profiles.load(DATA / "FC-04.toml")
    knobs = dict(profile.speculative.knobs) if name != "DFLASH" else {}
    plan = algorithms.resolve(name, knobs, profile.server.arguments(), "0.5.15")
    if want == "error":
        assert any("draft_model_path" in finding.text for finding in plan.refusals)
    else:
        assert plan.ok
        assert any("MTP layers" in finding.text for finding in plan.notes)


def test_fc05_up_is_not_ready() -> None:
    want = expected("FC-05")
    log = read_log(text("FC-05.log"))
    assert log.states == [state.replace("_", "-") for state in want["states"]]
    assert log.failure is not None
    assert log.failure.cause == want["cause"]


def test_fc05_other_endings_of_a_warm_up() -> None:
    up = "INFO:     Application startup complete.\nINFO:     Uvicorn running on http://0.0.0.0:1\n"
    died = "[2026-01-01 00:00:00 TP1] Scheduler hit an exception: Traceback (most recent call last):\n  File x\n"
    log = read_log(up + died + "AssertionError: no draft extend here\n")
    assert log.states == ["loading", "http-up", "failed"]
    assert (log.failure.cause if log.failure else "") == "AssertionError: no draft extend here"
    assert read_log(up).state == "http-up"
    assert read_log(up + "The server is fired up and ready to roll!\n").state == "ready"


def test_fc07_settings_that_collapse() -> None:
    want = expected("FC-07")
    asked = [
        {"draft_model_path": "/d", "num_steps": p["steps"], "eagle_topk": p["topk"], "num_draft_tokens": p["draft"]}
        for p in table("FC-07")["points"]
    ]
    found = distinct(algorithms.load("EAGLE3"), asked, {}, "0.5.15")
    assert [plan.in_force["num_draft_tokens"] for plan in found.plans] == want["resolved"]
    assert len(found.points) == want["distinct"]
    assert found.texts == ("3 of 5 settings are the same once the server has applied steps + 1",)


def test_fc09_dflash_and_its_block() -> None:
    want = expected("FC-09")
    profile = profiles.load(DATA / "FC-09.toml")
    refused = algorithms.plan_of(profile, "0.5.15").refusals
    assert any("16" in finding.text and "8" in finding.text for finding in refused)
    knobs = {key: value for key, value in profile.speculative.knobs.items() if key != "num_draft_tokens"}
    plan = algorithms.resolve("DFLASH", knobs, {}, "0.5.15")
    assert plan.ok
    keys = ("num_steps", "eagle_topk", "num_draft_tokens")
    assert [plan.in_force[key] for key in keys] == list(want["without_draft_tokens"].values())
    assert any("ignored" in finding.text for finding in plan.notes)
    old = algorithms.resolve("DFLASH", knobs, {}, "0.5.10.post1").refusals
    assert any("not in this release" in finding.text for finding in old)


def test_fc10_what_queues() -> None:
    both = table("FC-10")
    a, b = (read_info(both[name]).server["max_running_requests"] for name in ("baseline", "spec"))
    for concurrency in both["plan"]:
        said = queueing(concurrency, a, b, "the baseline", "the speculative server")
        if expected("FC-10")[str(concurrency)] == "comparable":
            assert said is None
        else:
            assert said == "16 of 64 requests queue on the speculative server (limit 48)"
    row = algorithms.resolve("NGRAM", {}, {}, "0.5.15").row("max_running_requests")
    assert (row.in_force, row.by_text) == (48, "set by the server, not by you")


@pytest.mark.parametrize(
    ("row", "want"),
    list(zip(table("FC-11")["rows"], expected("FC-11")["want"], strict=True)),
    ids=[f"{row['version']}-{row['algorithm']}-{row['backend']}" for row in table("FC-11")["rows"]],
)
def test_fc11_trees_with_pages(row: dict[str, Any], want: str) -> None:
    wide = "ngram.max_bfs_breadth" if row["algorithm"] == "NGRAM" else "eagle_topk"
    knobs = {wide: row["topk"]}
    if wide == "eagle_topk":
        knobs |= {"draft_model_path": "/d", "num_steps": 3, "num_draft_tokens": 8}
    server = {"page_size": row["page_size"], "attention_backend": row["backend"]}
    assert algorithms.resolve(row["algorithm"], knobs, server, row["version"]).verdict == want


@pytest.mark.parametrize(
    ("row", "want"), list(zip(table("FC-12")["rows"], expected("FC-12")["want"], strict=True)), ids=str
)
def test_fc12_names(row: dict[str, Any], want: str) -> None:
    assert algorithm_matches(row["asked"], row["reported"]).state == want
    assert algorithm_match(algorithms.for_name(row["asked"]), row["reported"]).state == want


def test_fc12_the_alias_is_shown_with_both_names() -> None:
    assert algorithm_matches("nextn", "eagle").shown == "NEXTN (MTP, server calls it EAGLE)"
    assert "OFF" in algorithm_matches("NEXTN", "none").shown


def test_fc15_faster_alone_slower_in_a_crowd() -> None:
    case, want = table("FC-15"), expected("FC-15")
    found = crossing_of_speeds(
        case["levels"], case["baseline_tok_s"], case["spec_tok_s"], floor=case["floor_pct"] / 100
    )
    assert [round(ratio, 3) for ratio in found.speedups] == want["speedup"]
    assert [word.replace("no clear difference", "tie") for word in found.words] == want["verdict"]
    assert found.text == "between {} and {} (64 is a tie)".format(*want["crossing"])


@pytest.mark.parametrize(
    ("speeds", "said"),
    [
        ([150, 400, 1000], "none within 1 to 16: faster wherever there is a difference"),
        ([101, 299, 901], "none seen: no difference shown at 1 to 16"),
        ([150, 200, 1000], "between 1 and 4; between 4 and 16"),
        ([150, 300, 700], "between 1 and 16 (4 is a tie)"),
    ],
)
def test_fc15_other_curves(speeds: list[float], said: str) -> None:
    assert crossing_of_speeds([1, 4, 16], [100, 300, 900], speeds).text == said


@pytest.mark.parametrize(("name", "fraction"), list(zip("ABC", expected("FC-16")["fractions"], strict=True)))
def test_fc16_out_of_memory(name: str, fraction: float) -> None:
    failure = read_log("\n".join(table("FC-16")[name]) + "\n").failure
    assert failure is not None
    assert (failure.direction, failure.fraction) == (expected("FC-16")[name], fraction)
    assert f"{fraction:g} in force" in failure.hint


def test_fc18_faked_acceptance() -> None:
    marks = environment_marks(table("FC-18")["env"])
    assert bool(marks) is expected("FC-18")["simulated"]
    assert marks[0].text.startswith("SIMULATED acceptance")
    assert environment_marks({"SGLANG_SIMULATE_ACC_LEN": "0"}) == ()
    assert "not checked" in environment_marks(None)[0].text


def test_fc19_batches_outside_the_graphs() -> None:
    want = expected("FC-19")
    log = read_log(text("FC-19.log"))
    assert (log.windows_without_graph, log.windows) == (want["eager_windows"], want["windows"])
    assert log.first_running_without_graph == want["first_eager_batch"]
    assert "partly without graphs: 2 of 4 windows (50 %)" in (log.without_graph or "")
    assert [line.accept_length for line in log.decode_lines] == [2.80, 2.81, 2.79, 2.80]


def test_fc19_a_measured_run_says_it_too() -> None:
    counters = {
        "passes_decode_none_total": 30.0,
        "passes_decode_cuda_graph_total": 90.0,
        "passes_prefill_none_total": 9,
    }
    said = without_graphs(counters, 16)
    assert said == "partly without graphs: 30 of 120 decode passes (25 %); graphs are captured up to 16 at a time"
    assert (without_graphs({"passes_decode_none_total": 30.0}) or "").startswith("without graphs: 30 of 30")
    assert without_graphs({"passes_decode_cuda_graph_total": 90.0, "passes_prefill_none_total": 9}) is None
    assert without_graphs(None) is None
