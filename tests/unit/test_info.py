from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engines.sglang.contract import spec_fields
from spectui.engines.sglang.info import (
    algorithm_matches,
    looks_like_sglang,
    memory_of,
    own_accept_rate,
    read_info,
    unreadable_info,
)

DATA = Path(__file__).parent.parent / "data" / "sglang"


def load(name: str) -> Any:
    return json.loads((DATA / name).read_text())


@pytest.mark.parametrize(
    ("folder", "algorithm", "limit", "in_force"),
    [
        ("none", "none", 4096, "off"),
        ("ngram-8", "NGRAM", 48, "n/a (fewer than 40 decode steps)"),
        ("eagle3-3-1-4", "EAGLE3", 48, "n/a (fewer than 40 decode steps)"),
    ],
)
def test_recorded_servers(folder: str, algorithm: str, limit: int, in_force: str) -> None:
    info = read_info(load(f"{folder}/server_info.json"), context_len=8192)
    assert info.algorithm == algorithm
    assert info.version == "0.5.15.post1"
    assert info.contract.exact
    assert (info.served_name, info.model_path) == ("lab-model", "/models/smol")
    assert info.server["max_running_requests"] == limit
    assert info.server["mem_fraction_static"] == 0.4
    assert info.server["attention_backend"] == "triton"
    assert info.server["context_len"] == 8192
    assert info.server["overlap_schedule"] is True
    assert info.server["decode_log_interval"] == 20
    assert info.server["incremental_streaming"] is False
    assert info.server["cuda_graph_max_bs"] == 32
    assert info.server["cuda_graph_bs"][0] == 1
    assert info.accept_length_in_force() == in_force
    assert info.memory.weights == 0.27
    assert info.memory.graphs is not None
    assert not info.simulated


def test_settings_in_force_of_the_recorded_servers() -> None:
    ngram = read_info(load("ngram-8/server_info.json"))
    assert ngram.draft_tokens == 8
    assert ngram.settings["ngram.max_trie_depth"] == 18
    assert ngram.settings["ngram.match_type"] == "BFS"
    eagle = read_info(load("eagle3-3-1-4/server_info.json"))
    assert [eagle.settings[key] for key in ("num_steps", "eagle_topk", "num_draft_tokens")] == [3, 1, 4]
    assert eagle.settings["draft_model_path"] == "/models/smol-eagle3"
    assert read_info(load("none/server_info.json")).settings == {}


def test_states_after_a_workload_give_the_lifetime_value() -> None:
    body = load("ngram-8/server_info.json")
    body["internal_states"] = load("ngram-8/internal_states.after_edit.json")
    info = read_info(body)
    assert info.accept_length_in_force() == "1.95"
    assert info.accept_rate == pytest.approx(0.95 / 7)


def test_thresholds_are_those_of_the_schedulers_not_of_the_launch() -> None:
    body = load("eagle3-3-1-4/server_info.json")
    body["internal_states"][0]["speculative_accept_threshold_single"] = 0.8
    assert read_info(body).settings["accept_threshold_single"] == 0.8


def test_keys_never_leave() -> None:
    body = {
        **load("none/server_info.json"),
        "api_key": "sk-one",
        "admin_api_key": "two-secret",
        "launch_command": "python -m sglang.launch_server --api-key sk-one --port 1",
        "nested": [{"hf_token": "hf-three"}],
    }
    shown = repr(read_info(body))
    assert not any(secret in shown for secret in ("sk-one", "two-secret", "hf-three"))
    assert "--port 1" in shown


def test_simulated_server_says_so() -> None:
    assert read_info({**load("none/server_info.json"), "spectui_simulated": True}).simulated


def test_fc10_effective_limit_counts_all_ranks() -> None:
    body = load("none/server_info.json")
    body["dp_size"] = 2
    body["internal_states"] = [{"effective_max_running_requests_per_dp": 24}] * 2
    assert read_info(body).server["max_running_requests"] == 48


def test_fc12_match_rule() -> None:
    for row in load("FC-12.json")["rows"]:
        assert algorithm_matches(row["asked"], row["reported"]).state == row["want"], row
    shown = algorithm_matches("NEXTN", "EAGLE", "/m", "/m")
    assert shown.shown == "NEXTN (MTP, server calls it EAGLE)"
    assert "OFF" in algorithm_matches("NEXTN", None).shown
    assert not algorithm_matches(None, "EAGLE").ok
    assert not algorithm_matches("EAGLE3", "FROZEN_KV_MTP").ok
    assert algorithm_matches("ngram", "NGRAM").ok


def test_nextn_is_recognised_by_its_draft_path_or_by_what_was_asked() -> None:
    body = {"speculative_algorithm": "EAGLE", "model_path": "/m", "version": "0.5.15", "internal_states": []}
    assert read_info({**body, "speculative_draft_model_path": "/m"}).algorithm == "NEXTN"
    assert read_info({**body, "speculative_draft_model_path": "/draft"}).algorithm == "EAGLE"
    assert read_info({**body, "speculative_draft_model_path": "/draft"}, asked="NEXTN").algorithm == "NEXTN"
    told = {**body, "launch_command": "sglang serve --speculative-algorithm=NEXTN --port 1"}
    assert read_info(told).algorithm == "NEXTN"
    assert read_info(told).reported_algorithm == "EAGLE"


def test_fc22_no_data_off_and_a_value() -> None:
    case = load("FC-22.json")
    assert read_info(case["fresh"]).accept_length_in_force() == "n/a (fewer than 40 decode steps)"
    assert read_info(case["off"]).accept_length_in_force() == "off"
    assert read_info(case["warm"]).accept_length_in_force() == "2.71"
    short = case["short_request"]
    assert spec_fields(short).accept_length_sglang(short["completion_tokens"]) == pytest.approx(2.667, abs=1e-3)


def test_fc24_ranks_are_weighted_and_the_slow_one_is_flagged() -> None:
    info = read_info(load("FC-24.json"))
    assert info.throughput == 747.0
    assert [rank.accept_length for rank in info.ranks] == [2.35, 1.49, 2.31, 2.4]
    assert [rank.index for rank in info.ranks if rank.outlier] == [1]
    assert info.accept_length == pytest.approx(2.156, abs=1e-3)


def test_ranks_without_a_value_do_not_count() -> None:
    body = load("FC-24.json")
    del body["internal_states"][1]["avg_spec_accept_length"]
    info = read_info(body)
    assert info.accept_length == pytest.approx(629 / (210 / 2.35 + 205 / 2.31 + 214 / 2.4))
    assert not any(rank.outlier for rank in info.ranks)


def test_fc26_one_share_for_all_versions() -> None:
    case = load("FC-26.json")
    assert own_accept_rate(3.0, case["draft_tokens"]) == pytest.approx(0.2857, abs=1e-4)
    assert own_accept_rate(None, 8) is None
    assert own_accept_rate(3.0, 1) is None
    assert own_accept_rate(3.0, None) is None


def test_fc32_memory_shapes() -> None:
    found = [memory_of(shape).graphs for shape in load("FC-32.json")["shapes"]]
    assert found == [1.2, 1.2, pytest.approx(1.2), None]
    assert memory_of({"memory_usage": {"graph": {"decode": 0.9, "prefill": "?"}}}).graphs is None
    assert memory_of({}).weights is None


def test_unreadable_info_says_why() -> None:
    info = unreadable_info(500, {"model_path": "/m"})
    assert info.accept_length_in_force() == "not readable (HTTP 500)"
    assert info.model_path == "/m"


def test_a_router_answer_is_read_through() -> None:
    body = {"prefill": [], "decode": [{"internal_states": [{"last_gen_throughput": 5.0}]}]}
    assert looks_like_sglang(body)
    assert read_info(body).throughput == 5.0


def test_old_states_with_a_number_for_the_algorithm() -> None:
    body = {
        "version": "0.4.9.post4",
        "speculative_algorithm": "EAGLE",
        "internal_states": [{"speculative_algorithm": 2, "load": 3, "memory_usage": {"cuda_graph": 1.5}}],
    }
    info = read_info(body)
    assert (info.algorithm, info.memory.graphs) == ("EAGLE", 1.5)


@pytest.mark.parametrize(
    "body", [None, [], "x", {}, {"version": "1"}, {"model_path": "/m"}, {"object": "list", "data": []}]
)
def test_others_are_not_sglang(body: object) -> None:
    assert not looks_like_sglang(body)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=6),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=6,
)
NAMES = st.sampled_from(
    [
        *(
            "internal_states",
            "version",
            "speculative_algorithm",
            "model_path",
            "dp_size",
            "cuda_graph_config",
            "context_length",
        ),
        *("served_model_name", "speculative_draft_model_path", "launch_command", "decode", "cuda_graph_bs"),
    ]
)
STATES = st.lists(
    st.dictionaries(
        st.sampled_from(
            ["avg_spec_accept_length", "last_gen_throughput", "memory_usage", "effective_max_running_requests_per_dp"]
        ),
        JSON,
    ),
    max_size=3,
)


@settings(max_examples=80, deadline=None)
@given(st.dictionaries(NAMES, JSON), STATES | JSON)
def test_no_body_is_too_odd(body: dict[str, Any], states: Any) -> None:
    info = read_info({**body, "internal_states": states})
    info.accept_length_in_force()
    assert info.algorithm
