from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.algorithms import every
from spectui.core.launch_line import Arguments, arrange
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.engines.sglang.contract import KNOWN, NEWEST, SETTINGS, contract_for, spec_fields
from spectui.engines.sglang.routes import auth_level

DATA = Path(__file__).parent.parent / "data" / "sglang"


@pytest.mark.parametrize("version", KNOWN)
def test_known_versions_are_exact_and_post_releases_are_theirs(version: str) -> None:
    for spelled in (version, f"{version}.post1", f"v{version}", f"{version}+cu130"):
        contract = contract_for(spelled)
        assert (contract.version, contract.exact, contract.note) == (version, True, "")


@pytest.mark.parametrize(
    ("asked", "taken"),
    [
        ("0.5.14", "0.5.15"),
        ("0.5.13", "0.5.12"),
        ("0.5.6", "0.5.5"),
        ("0.5.99", "0.5.23"),
        ("0.4.1", "0.4.9"),
        ("0.6.0", "0.5.23"),
        ("1.0", "0.5.23"),
        ("0.3.0", "0.4.9"),
        ("0.0.5.dev0", NEWEST),
        ("main", NEWEST),
        ("", NEWEST),
    ],
)
def test_an_unknown_version_takes_the_nearest_known_one_and_says_so(asked: str, taken: str) -> None:
    contract = contract_for(asked)
    assert (contract.version, contract.exact) == (taken, False)
    assert taken in contract.note
    assert asked.rstrip(".") in contract.note


def test_algorithms_by_version() -> None:
    assert contract_for("0.4.9").algorithms == ("none", "EAGLE", "EAGLE3", "NEXTN")
    assert {"STANDALONE", "NGRAM"} <= set(contract_for("0.5.5").algorithms)
    assert "DFLASH" not in contract_for("0.5.10").algorithms
    assert "DFLASH" in contract_for("0.5.12").algorithms
    assert {"DSPARK", "UNO"} <= set(contract_for("0.5.23").algorithms)
    assert "UNO" not in contract_for("0.5.15").algorithms


def test_ngram_window_flags_and_trie_depth_exclude_each_other() -> None:
    old, new = contract_for("0.5.5"), contract_for("0.5.10")
    assert old.flag("ngram.branch_length") == "--speculative-ngram-branch-length"
    assert old.flag("ngram.max_trie_depth") is None
    assert new.flag("ngram.max_trie_depth") == "--speculative-ngram-max-trie-depth"
    assert new.flag("ngram.max_match_window_size") is None
    assert contract_for("0.4.9").flag("ngram.capacity") is None


@pytest.mark.parametrize(
    ("version", "flag"),
    [
        ("0.5.5", "--stream-output"),
        ("0.5.10", "--incremental-streaming-output"),
        ("0.5.23", "--incremental-streaming-output"),
    ],
)
def test_streaming_flag_was_renamed(version: str, flag: str) -> None:
    assert contract_for(version).flag("incremental_streaming") == flag


def words(version: str, algorithm: str, knobs: dict[str, object], args: dict[str, object]) -> Arguments:
    profile = Profile("p", server=ServerPart(args=args), speculative=SpeculativePart(algorithm, knobs))
    return arrange(profile, contract_for(version).flags())


def test_arguments_leave_out_what_is_unset_and_name_what_is_not_known() -> None:
    knobs = {"num_draft_tokens": 8, "num_steps": None, "ngram.max_trie_depth": 18}
    made = words(
        "0.5.5", "NGRAM", knobs, {"enable_metrics": True, "disable_radix_cache": False, "cuda_graph_bs": [1, 2, 4]}
    )
    assert made.words[2:] == (
        *("--enable-metrics", "--cuda-graph-bs", "1", "2", "4"),
        *("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8"),
    )
    assert [key for key, _ in made.left_out] == ["ngram.max_trie_depth"]


def test_graphs_are_switched_off_by_a_value_in_the_newest() -> None:
    assert words("0.5.15", "none", {}, {"disable_cuda_graph": True}).words[2:] == ("--disable-cuda-graph",)
    newest = contract_for("0.5.23")
    assert words("0.5.23", "none", {}, {"disable_cuda_graph": True}).words[2:] == (
        "--cuda-graph-backend-decode=disabled",
    )
    assert newest.settings_of({"cuda_graph_backend_decode": "disabled"}, spec=False)["disable_cuda_graph"] is True
    assert newest.settings_of({"cuda_graph_backend_decode": "full"}, spec=False)["disable_cuda_graph"] is False


def test_every_algorithm_knob_has_a_spelling() -> None:
    for algorithm in every():
        for knob in algorithm.knobs:
            assert knob.key in SETTINGS, (algorithm.name, knob.key)


def test_addresses_by_version() -> None:
    assert not contract_for("0.5.5").has("/server_info")
    assert contract_for("0.5.10").has("/server_info")
    assert contract_for("0.5.15").has("/get_load")
    assert not contract_for("0.5.23").has("/get_load")
    assert not contract_for("0.5.10").has("/list_external_corpora")
    assert contract_for("0.4.9").has("/generate")
    assert not contract_for("0.4.9").has("/tokenize")


def test_key_levels() -> None:
    assert auth_level("/health_generate") == auth_level("/metrics") == "open"
    assert auth_level("/flush_cache") == auth_level("/abort_request") == "admin"
    assert auth_level("/server_info") == auth_level("/generate") == "normal"


def test_fc26_accept_rate_has_three_meanings_by_version() -> None:
    meanings = [
        contract_for(version).accept_rate_meaning for version in ("0.5.5", "0.5.10", "0.5.12", "0.5.15", "0.5.23")
    ]
    assert len(set(meanings)) == 3
    assert meanings[2] == meanings[3] == meanings[4]


def test_fc27_the_same_request_reads_the_same_in_five_releases() -> None:
    case = json.loads((DATA / "FC-27.json").read_text())
    for response in case["responses"]:
        details = spec_fields(response["meta_info"], response["version"])
        assert details.accept_length_sglang(97) == pytest.approx(3.03125)
        assert details.accept_length(97) == 3.0
        if response["version"] in ("0.4.9", "0.5.5"):
            assert (details.accepted_drafts, details.proposed_drafts, details.histogram) == (None, None, None)
            assert details.accept_rate is None
        else:
            assert (details.accepted_drafts, details.proposed_drafts) == (64, 96)
            assert details.accept_rate == pytest.approx(0.667, abs=1e-3)
            assert details.histogram == (2, 6, 14, 10)


@pytest.mark.parametrize("setting", ["none", "ngram-8", "eagle3-3-1-4"])
def test_recorded_answers_give_their_details(setting: str) -> None:
    meta = json.loads((DATA / setting / "generate.json").read_text())["meta_info"]
    chat = json.loads((DATA / setting / "chat_return_meta_info.json").read_text())["choices"][0]["meta_info"]
    for info in (meta, chat):
        details = spec_fields(info)
        if setting == "none":
            assert details.verify_steps is None
            continue
        assert details.histogram is not None
        assert details.verify_steps == info["spec_verify_ct"] == sum(details.histogram)
        assert details.accepted_drafts == sum(k * count for k, count in enumerate(details.histogram))
        assert details.accept_length_sglang(info["completion_tokens"]) == pytest.approx(info["spec_accept_length"])


@pytest.mark.parametrize(
    "odd",
    [
        None,
        [],
        "text",
        {"spec_verify_ct": None},
        {"spec_verify_ct": "12"},
        {"spec_verify_ct": -1},
        {"spec_verify_ct": float("nan")},
        {"spec_verify_ct": True},
        {"spec_correct_drafts_histogram": [1, None]},
        {"spec_correct_drafts_histogram": {"0": 1}},
    ],
)
def test_odd_fields_are_not_there(odd: object) -> None:
    details = spec_fields(odd)  # type: ignore[arg-type]
    assert details.verify_steps is None
    assert details.histogram is None
    assert details.accept_length(10) is None


def test_null_new_name_falls_back_to_the_alias() -> None:
    details = spec_fields({"spec_num_correct_drafts": None, "spec_accepted_drafts": 5, "spec_accept_histogram": [1, 2]})
    assert details.accepted_drafts == 5
    assert details.histogram == (1, 2)


@settings(max_examples=60, deadline=None)
@given(st.text(max_size=40))
def test_any_version_text_has_a_contract(text: str) -> None:
    contract = contract_for(text)
    assert contract.version in KNOWN
    assert contract.exact != bool(contract.note)
