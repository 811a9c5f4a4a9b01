from __future__ import annotations

import json
from pathlib import Path

import pytest

from spectui import algorithms
from spectui.core.changes import (
    algorithm_match,
    changes,
    differences,
    distinct,
    fair_baseline,
    needs_relaunch,
    queueing,
    unequal,
)
from spectui.core.marks import environment_marks
from spectui.core.pairing import check_pair
from spectui.store import profiles

DATA = Path(__file__).parents[1] / "data" / "profiles"
CHAIN = {"draft_model_path": "/d", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
TREE = {"draft_model_path": "/d", "num_steps": 3, "eagle_topk": 4, "num_draft_tokens": 8}


def case(name: str):
    return json.loads((DATA / name).read_text())


def names(findings) -> set[str]:
    return {finding.name for finding in findings}


# -- FC-04 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", [None, "0.5.15", "0.5.23", "0.9.0"])
@pytest.mark.parametrize("algorithm", ["EAGLE3", "STANDALONE", "DFLASH"])
def test_a_missing_draft_is_refused_by_name_whatever_the_version(algorithm: str, version: str | None):
    plan = algorithms.resolve(algorithm, {}, {"model_path": "/m"}, version)
    refusal = next(finding for finding in plan.refusals if finding.name == "draft path")
    assert "draft_model_path" in refusal.text
    assert algorithm in refusal.text
    assert "draft path" not in names(algorithms.resolve(algorithm, {"draft_model_path": "/d"}, {}, version).refusals)


@pytest.mark.parametrize("algorithm", ["NEXTN", "EAGLE"])
def test_a_built_in_draft_is_allowed_with_a_note(algorithm: str):
    plan = algorithms.resolve(algorithm, {}, {"model_path": "/m"}, "0.5.15")
    assert plan.ok
    assert any("MTP layers" in note.text for note in plan.notes)


def test_the_draft_comes_from_the_target_where_the_release_does_so():
    model = {"architecture": "Glm4MoeForCausalLM"}
    server = {"model_path": "/models/glm"}
    new = algorithms.resolve("NEXTN", {}, server, "0.5.15", model=model)
    assert new.row("draft_model_path").in_force == "/models/glm"
    assert new.row("draft_model_path").by == "server"
    old = algorithms.resolve("NEXTN", {}, server, "0.4.9", model=model)
    assert "draft_model_path" not in old.in_force
    assert "built-in draft" in names(old.warnings)


def test_the_profile_without_a_draft():
    plan = algorithms.plan_of(profiles.load(DATA / "FC-04.toml"), "0.5.15.post1")
    assert names(plan.refusals) == {"draft path"}


# -- FC-07 ------------------------------------------------------------------------------------------------------------


def test_a_sweep_of_five_is_three():
    points = case("FC-07.json")["points"]
    asked = [
        {"draft_model_path": "/d", "num_steps": p["steps"], "eagle_topk": p["topk"], "num_draft_tokens": p["draft"]}
        for p in points
    ]
    found = distinct(algorithms.load("EAGLE3"), asked, {}, "0.5.15")
    assert [plan.in_force["num_draft_tokens"] for plan in found.plans] == [5, 5, 5, 8, 6]
    assert found.points == (0, 3, 4)
    assert found.texts == ("3 of 5 settings are the same once the server has applied steps + 1",)
    row = found.plans[0].row("num_draft_tokens")
    assert (row.asked, row.in_force, row.by, row.changed) == (24, 5, "server", True)
    assert any(note.name == "steps + 1" for note in found.plans[0].notes)
    assert not any(note.name == "steps + 1" for note in found.plans[2].notes), "5 was asked and 5 is in force"


def test_settings_that_differ_stay_apart():
    asked = [{"num_draft_tokens": width} for width in (4, 8, 12)] + [{}]
    found = distinct(algorithms.load("NGRAM"), asked, {}, "0.5.15")
    assert found.groups == ((0,), (1,), (2, 3)), "left out, draft tokens are 12"


# -- all three or none ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["EAGLE", "EAGLE3", "NEXTN", "STANDALONE"])
@pytest.mark.parametrize(
    "part",
    [
        {"eagle_topk": 4},
        {"num_draft_tokens": 8},
        {"eagle_topk": 4, "num_draft_tokens": 8},
        {"num_steps": 3},
        {"num_steps": 3, "num_draft_tokens": 4},
        {"num_steps": 3, "eagle_topk": 4},
    ],
)
def test_half_given_numbers_are_refused(algorithm: str, part: dict[str, int]):
    plan = algorithms.resolve(algorithm, {"draft_model_path": "/d", **part}, {}, "0.5.15")
    assert "all three or none" in names(plan.refusals)


def test_a_chain_needs_no_draft_tokens():
    plan = algorithms.resolve("EAGLE3", {"draft_model_path": "/d", "num_steps": 3, "eagle_topk": 1}, {}, "0.5.15")
    assert plan.ok
    assert plan.in_force["num_draft_tokens"] == 4


@pytest.mark.parametrize(
    ("algorithm", "architecture", "version", "triple"),
    [
        ("EAGLE3", "LlamaForCausalLM", "0.5.15", (5, 4, 8)),
        ("EAGLE3", "LlamaForCausalLM", "0.4.9", (5, 4, 8)),
        ("EAGLE", "DeepseekV3ForCausalLM", "0.4.9", (3, 1, 4)),
        ("EAGLE", "GptOssForCausalLM", "0.4.9", (5, 4, 8)),
        ("EAGLE", "GptOssForCausalLM", "0.5.5", (3, 1, 4)),
        ("EAGLE3", "Qwen3ForCausalLM", "0.5.5", (5, 4, 8)),
        ("EAGLE3", "Qwen3ForCausalLM", "0.5.10", (3, 1, 4)),
        ("EAGLE3", "Grok1VForCausalLM", "0.5.23", (5, 4, 8)),
        ("STANDALONE", "LlamaForCausalLM", "0.5.15", (3, 1, 4)),
        ("STANDALONE", None, "0.5.5", (3, 1, 4)),
    ],
)
def test_automatic_numbers(algorithm, architecture, version, triple):
    model = {"architecture": architecture} if architecture else None
    plan = algorithms.resolve(algorithm, {"draft_model_path": "/d"}, {}, version, model=model)
    got = tuple(plan.in_force[key] for key in ("num_steps", "eagle_topk", "num_draft_tokens"))
    assert got == triple
    assert plan.row("num_steps").by == "server"


def test_automatic_numbers_of_an_unknown_architecture_are_not_guessed():
    plan = algorithms.resolve("EAGLE3", {"draft_model_path": "/d"}, {}, "0.5.15")
    assert plan.row("num_steps").by == "unknown"
    assert "num_steps" not in plan.in_force
    assert "automatic" in names(plan.notes)


def test_more_draft_tokens_than_the_tree_has():
    plan = algorithms.resolve("EAGLE3", {**TREE, "num_steps": 1, "num_draft_tokens": 8}, {}, "0.5.15")
    assert any("5 nodes" in warning.text for warning in plan.warnings)
    assert "tree too small" not in names(algorithms.resolve("EAGLE3", TREE, {}, "0.5.15").warnings)


# -- FC-09 ------------------------------------------------------------------------------------------------------------


def test_dflash_insists_on_its_block():
    profile = profiles.load(DATA / "FC-09.toml")
    plan = algorithms.plan_of(profile, "0.5.15")
    assert [finding.name for finding in plan.refusals] == ["block size"]
    assert "16" in plan.refusals[0].text
    assert "8" in plan.refusals[0].text
    asked = {key: value for key, value in profile.speculative.knobs.items() if key != "num_draft_tokens"}
    plan = algorithms.resolve("DFLASH", asked, {}, "0.5.15")
    assert plan.ok
    assert [plan.in_force[key] for key in ("num_steps", "eagle_topk", "num_draft_tokens")] == [1, 1, 16]
    assert (plan.row("num_steps").asked, plan.row("num_steps").by) == (3, "server")
    assert sum("ignored" in note.text for note in plan.notes) >= 2


@pytest.mark.parametrize("version", ["0.4.9.post4", "0.5.5", "0.5.9", "0.5.10.post1"])
def test_dflash_is_not_in_older_releases(version: str):
    plan = algorithms.resolve("DFLASH", {"draft_model_path": "/d"}, {}, version)
    assert any("not in this release" in refusal.text for refusal in plan.refusals)


@pytest.mark.parametrize("algorithm", ["NGRAM", "STANDALONE"])
def test_what_is_missing_in_the_oldest(algorithm: str):
    refusals = algorithms.resolve(algorithm, {"draft_model_path": "/d"}, {}, "0.4.9.post4").refusals
    assert any("not in this release" in refusal.text for refusal in refusals)
    assert algorithms.resolve(algorithm, {"draft_model_path": "/d"}, {}, "0.5.5").ok


@pytest.mark.parametrize(
    ("asked", "model", "width"),
    [
        ({}, {}, 16),
        ({}, {"draft_block_size": 8}, 8),
        ({"num_draft_tokens": 10}, {"draft_block_size": 8}, 10),
        ({"dflash.block_size": 4}, {"draft_block_size": 8}, 4),
        ({"dflash.block_size": 4, "num_draft_tokens": 4}, {}, 4),
    ],
)
def test_where_dflash_has_its_block_from(asked, model, width):
    plan = algorithms.resolve("DFLASH", {"draft_model_path": "/d", **asked}, {}, "0.5.15", model=model)
    assert plan.ok
    assert plan.in_force["num_draft_tokens"] == plan.in_force["dflash.block_size"] == width


def test_dflash_window_and_parallelism():
    asked = {"draft_model_path": "/d", "draft_window_size": 8, "dflash.block_size": 16}
    assert names(algorithms.resolve("DFLASH", asked, {}, "0.5.15").refusals) == {"draft window"}
    asked["draft_window_size"] = 16
    assert algorithms.resolve("DFLASH", asked, {}, "0.5.15").ok
    assert not algorithms.resolve("DFLASH", asked, {"pp_size": 2}, "0.5.15").ok
    assert not algorithms.resolve("DFLASH", asked, {"enable_dp_attention": True}, "0.5.15").ok
    assert not algorithms.resolve("DFLASH", asked, {"attn_dp_size": 2}, "0.5.23").ok
    assert algorithms.resolve("DFLASH", asked, {"attn_dp_size": 2, "enable_dp_lm_head": True}, "0.5.23").ok


# -- FC-10 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("algorithm", ["EAGLE3", "NGRAM", "STANDALONE", "DFLASH"])
def test_an_unset_limit_becomes_48_by_the_server(algorithm: str):
    row = algorithms.resolve(algorithm, CHAIN, {}, "0.5.15").row("max_running_requests")
    assert (row.asked, row.in_force, row.by_text) == (None, 48, "set by the server, not by you")
    assert "both servers" in row.why
    asked = algorithms.resolve(algorithm, CHAIN, {"max-running-requests": 64}, "0.5.15").row("max_running_requests")
    assert (asked.in_force, asked.by) == (64, "you")
    assert algorithms.resolve("none", {}, {}, "0.5.15").row("max_running_requests").by == "unknown"


def test_uno_sets_no_limit():
    asked = {"uno.lora_path": "/l", "num_draft_tokens": 8}
    assert algorithms.resolve("UNO", asked, {}, "0.5.23").row("max_running_requests").in_force is None


def test_what_queues():
    both = case("FC-10.json")
    a, b = both["baseline"]["max_running_requests"], both["spec"]["max_running_requests"]
    said = [queueing(n, a, b, "the baseline", "the speculative server") for n in both["plan"]]
    assert said == [None, None, "16 of 64 requests queue on the speculative server (limit 48)"]
    assert queueing(64, 48, 48) is None, "both queue alike"
    assert queueing(64, None, 48) == "16 of 64 requests queue on B (limit 48)"
    assert queueing(64, 32, 48) == "32 of 64 requests queue on A (limit 32); 16 of 64 requests queue on B (limit 48)"


def test_a_baseline_gets_the_limits_of_the_speculative_server():
    server = {"model_path": "/m", "page_size": 1, "mem-fraction-static": 0.8, "speculative_algorithm": "EAGLE3"}
    plan = algorithms.resolve("EAGLE3", CHAIN, server, "0.5.15")
    baseline = fair_baseline(plan, server)
    assert baseline.args == {"model_path": "/m", "page_size": 1, "mem_fraction_static": 0.8, "max_running_requests": 48}
    assert any("graph" in note for note in baseline.notes)
    assert not any("mem_fraction" in note for note in baseline.notes)
    bare = algorithms.resolve("EAGLE3", CHAIN, {}, "0.5.15")
    assert any("mem_fraction" in note for note in fair_baseline(bare, {}).notes)
    assert "disable_overlap_schedule" not in fair_baseline(algorithms.resolve("NGRAM", {}, {}, "0.5.12"), {}).args


# -- FC-11 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", case("FC-11.json")["rows"], ids=lambda row: f"{row['version']}-{row['backend']}")
def test_tree_with_pages(row):
    key = "ngram.max_bfs_breadth" if row["algorithm"] == "NGRAM" else "eagle_topk"
    asked = {**TREE, key: row["topk"]} if key == "eagle_topk" else {key: row["topk"]}
    server = {"page_size": row["page_size"], "attention_backend": row["backend"]}
    plan = algorithms.resolve(row["algorithm"], asked, server, row["version"])
    assert plan.verdict == row["want"]
    if row["want"] == "danger":
        assert "known wrong output, not checked by the server" in plan.dangers[0].text


@pytest.mark.parametrize("version", ["0.5.5", "0.5.10", "0.5.12", "0.5.15", "0.5.23"])
def test_ngram_is_a_tree_without_being_told(version: str):
    server = {"page_size": 16, "attention_backend": "triton"}
    assert algorithms.resolve("NGRAM", {}, server, version).verdict == "refuse"
    assert algorithms.resolve("NGRAM", {}, {**server, "attention_backend": "flashinfer"}, version).verdict == "allow"
    assert algorithms.resolve("NGRAM", {"ngram.max_bfs_breadth": 1}, server, version).verdict == "allow"
    assert algorithms.resolve("NGRAM", {}, {**server, "page_size": 1}, version).verdict == "allow"


def test_fa3_trees_with_pages_from_0_5_10():
    server = {"page_size": 16, "attention_backend": "fa3"}
    verdicts = [algorithms.resolve("EAGLE3", TREE, server, v).verdict for v in ("0.5.5", "0.5.10", "0.5.12", "0.5.15")]
    assert verdicts == ["refuse", "allow", "allow", "allow"]


def test_an_unknown_backend_is_a_warning():
    plan = algorithms.resolve("EAGLE3", TREE, {"page_size": 16}, "0.5.15")
    assert plan.verdict == "allow"
    assert "tree with pages" in names(plan.warnings)


def test_a_release_between_two_known_ones():
    server = {"page_size": 16, "attention_backend": "triton"}
    # 0.5.11 stands between two that refuse it; 0.5.13 between one that does and one that does not
    assert algorithms.resolve("EAGLE3", TREE, server, "0.5.11").verdict == "refuse"
    unsure = algorithms.resolve("EAGLE3", TREE, server, "0.5.13")
    assert unsure.verdict == "allow"
    assert any("Not known for this version" in warning.text for warning in unsure.warnings)


def test_a_newer_release_only_warns():
    plan = algorithms.resolve("EAGLE3", TREE, {"page_size": 16, "attention_backend": "flashmla"}, "0.7.1")
    assert plan.ok
    assert {"version", "tree with pages"} <= names(plan.warnings)
    assert plan.in_force["server.max_running_requests"] == 48


# -- FC-12 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("row", case("FC-12.json")["rows"])
def test_the_reported_name(row):
    match = algorithm_match(algorithms.for_name(row["asked"]), row["reported"])
    assert match.state == row["want"]


def test_how_the_alias_is_shown():
    assert algorithm_match(algorithms.load("NEXTN"), "EAGLE").text == "NEXTN (MTP, server calls it EAGLE)"
    assert algorithms.resolve("NEXTN", {}, {}, "0.5.15").shown == "NEXTN (MTP, server calls it EAGLE)"
    assert algorithms.resolve("EAGLE", {}, {}, "0.5.15").shown == "EAGLE"
    assert "OFF" in algorithm_match(algorithms.load("NGRAM"), None).text
    assert algorithm_match(algorithms.load("none"), "EAGLE").state == "mismatch"
    assert algorithm_match(algorithms.load("EAGLE3"), "eagle3").state == "match"


# -- NGRAM ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("version", "steps"), [("0.5.5", None), ("0.5.10", None), ("0.5.12", None), ("0.5.15", 1), ("0.5.23", 1)]
)
def test_ngram_defaults(version: str, steps: int | None):
    plan = algorithms.resolve("NGRAM", {}, {}, version)
    assert plan.ok
    assert plan.in_force["num_draft_tokens"] == 12
    assert plan.in_force["eagle_topk"] == 10
    assert plan.in_force.get("num_steps") == steps
    assert ("ngram.max_trie_depth" in plan.in_force) == (version != "0.5.5")
    assert ("ngram.branch_length" in plan.in_force) == (version == "0.5.5")


@pytest.mark.parametrize(
    ("asked", "version", "rule"),
    [
        ({"ngram.min_bfs_breadth": 11}, "0.5.15", "breadths"),
        ({"ngram.min_match_window_size": 13}, "0.5.5", "windows"),
        ({"ngram.max_match_window_size": 18}, "0.5.5", "windows"),
        ({"ngram.max_trie_depth": 1}, "0.5.15", "value"),
        ({"ngram.max_trie_depth": 18}, "0.5.5", "knob release"),
        ({"ngram.branch_length": 18}, "0.5.15", "knob release"),
        ({"ngram.external_corpus_path": "/c"}, "0.5.15", "corpus budget"),
        ({"ngram.external_corpus_path": "/c", "ngram.external_sam_budget": 12}, "0.5.15", "corpus budget"),
        ({"ngram.external_sam_budget": 4}, "0.5.10", "knob release"),
        ({"num_draft_tokens": 0}, "0.5.15", "value"),
    ],
)
def test_what_ngram_refuses(asked, version, rule):
    assert rule in names(algorithms.resolve("NGRAM", asked, {}, version).refusals)


def test_ngram_corner_cases():
    good = {"ngram.external_corpus_path": "/c", "ngram.external_sam_budget": 11}
    assert algorithms.resolve("NGRAM", good, {}, "0.5.15").ok
    old = algorithms.resolve("NGRAM", {"ngram.match_type": "PROB"}, {}, "0.5.5")
    assert old.row("ngram.match_type").in_force == "BFS"
    assert (
        algorithms.resolve("NGRAM", {"ngram.match_type": "PROB"}, {}, "0.5.10").in_force["ngram.match_type"] == "PROB"
    )
    assert not algorithms.resolve("NGRAM", {}, {"enable_dp_attention": True}, "0.5.15").ok
    assert not algorithms.resolve("NGRAM", {}, {"device": "cpu"}, "0.5.15").ok
    assert algorithms.resolve("NGRAM", {}, {"device": "cpu"}, "0.5.23").ok
    assert "no effect" in " ".join(note.text for note in algorithms.resolve("NGRAM", {}, {}, "0.5.15").notes)
    ignored = algorithms.resolve("NGRAM", {"draft_model_path": "/d"}, {}, "0.5.15")
    assert ignored.row("draft_model_path").by == "ignored"


# -- what is switched off, other rules --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("algorithm", "asked", "version", "env", "overlap"),
    [
        ("EAGLE3", CHAIN, "0.4.9", {}, False),
        ("EAGLE3", CHAIN, "0.5.5", {}, False),
        ("EAGLE3", CHAIN, "0.5.10", {"SGLANG_ENABLE_SPEC_V2": "1"}, True),
        ("EAGLE3", CHAIN, "0.5.12", {}, True),
        ("EAGLE3", TREE, "0.5.12", {}, False),
        ("EAGLE3", TREE, "0.5.15", {}, True),
        ("NGRAM", {}, "0.5.12", {}, False),
        ("NGRAM", {}, "0.5.15", {}, True),
        ("none", {}, "0.4.9", {}, True),
    ],
)
def test_the_overlap_schedule(algorithm, asked, version, env, overlap):
    assert algorithms.resolve(algorithm, asked, {}, version, env=env).row("overlap_schedule").in_force is overlap


def test_mixed_chunks():
    server = {"enable_mixed_chunk": True}
    assert algorithms.resolve("EAGLE3", CHAIN, server, "0.5.15").row("enable_mixed_chunk").in_force is False
    assert algorithms.resolve("EAGLE3", CHAIN, server, "0.5.23").row("enable_mixed_chunk").in_force is True
    assert algorithms.resolve("NGRAM", {}, server, "0.5.23").row("enable_mixed_chunk").in_force is False
    assert algorithms.resolve("none", {}, server, "0.5.15").row("enable_mixed_chunk").in_force is True


@pytest.mark.parametrize(
    ("algorithm", "asked", "server", "version", "ok"),
    [
        ("EAGLE3", CHAIN, {"pp_size": 2}, "0.5.15", False),
        ("EAGLE3", CHAIN, {"pp_size": 2}, "0.5.23", True),
        ("EAGLE3", {**CHAIN, "multi_layer_eagle": True}, {"pp_size": 2}, "0.5.23", False),
        ("EAGLE3", CHAIN, {"enable_dp_attention": True}, "0.5.15", True),
        ("STANDALONE", CHAIN, {"enable_dp_attention": True}, "0.5.15", False),
        ("EAGLE3", CHAIN, {"enable_lora": True}, "0.5.12", False),
        ("EAGLE3", CHAIN, {"enable_lora": True}, "0.5.23", True),
        ("NGRAM", {}, {"enable_lora": True}, "0.5.12", True),
        ("EAGLE3", {**CHAIN, "rejection_sampling": True}, {}, "0.5.15", True),
        ("EAGLE3", {**CHAIN, "rejection_sampling": True}, {}, "0.5.12", False),
        ("EAGLE3", {**TREE, "rejection_sampling": True}, {}, "0.5.15", False),
        ("EAGLE3", {**CHAIN, "rejection_sampling": True, "accept_threshold_acc": 0.9}, {}, "0.5.15", False),
        ("EAGLE3", TREE, {"decode_attention_backend": "trtllm_mha"}, "0.5.5", False),
        ("EAGLE3", TREE, {"attention_backend": "trtllm_mha"}, "0.4.9", True),
        ("DSPARK", {"dspark.block_size": 7, "num_draft_tokens": 7}, {}, "0.5.23", False),
        ("DSPARK", {"dspark.block_size": 7, "num_draft_tokens": 8}, {}, "0.5.23", True),
        ("UNO", {"num_draft_tokens": 8}, {}, "0.5.23", False),
        ("UNO", {"uno.lora_path": "/l"}, {}, "0.5.23", False),
        ("UNO", {"uno.lora_path": "/l", "num_draft_tokens": 8}, {"tp_size": 2}, "0.5.23", False),
        ("UNO", {"uno.lora_path": "/l", "num_draft_tokens": 8}, {"attention_backend": "fa3"}, "0.5.23", True),
        (
            "UNO",
            {"uno.lora_path": "/l", "num_draft_tokens": 128, "eagle_topk": 17, "num_steps": 9},
            {},
            "0.5.23",
            False,
        ),
    ],
)
def test_allowed_or_refused(algorithm, asked, server, version, ok):
    assert algorithms.resolve(algorithm, asked, server, version).ok is ok


def test_spec_v2_takes_chains_only():
    env = {"SGLANG_ENABLE_SPEC_V2": "1"}
    assert not algorithms.resolve("EAGLE3", TREE, {}, "0.5.10", env=env).ok
    assert algorithms.resolve("EAGLE3", TREE, {}, "0.5.10").ok


def test_dspark_defaults():
    plan = algorithms.resolve("DSPARK", {}, {}, "0.5.23")
    assert (plan.in_force["dspark.block_size"], plan.in_force["num_draft_tokens"]) == (7, 8)


def test_adaptive_steps():
    asked = {"draft_model_path": "/d", "adaptive": True}
    plan = algorithms.resolve("EAGLE3", asked, {}, "0.5.15")
    assert plan.ok
    assert [plan.in_force[key] for key in ("num_steps", "eagle_topk", "num_draft_tokens")] == [3, 1, 4]
    assert "adaptive capture" in names(plan.warnings)
    assert "adaptive candidates" in names(
        algorithms.resolve("EAGLE3", {**asked, "num_steps": 5, "eagle_topk": 1}, {}, "0.5.15").refusals
    )
    assert algorithms.resolve("EAGLE3", {**asked, "num_steps": 5, "eagle_topk": 1}, {}, "0.5.23").ok
    tree = algorithms.resolve("EAGLE3", {**TREE, "adaptive": True}, {}, "0.5.15")
    assert tree.row("adaptive").in_force is False
    assert any("falls back" in note.text for note in tree.notes)
    assert not algorithms.resolve("EAGLE3", {**CHAIN, "adaptive": True}, {}, "0.5.10").ok


# -- changes ----------------------------------------------------------------------------------------------------------


def test_what_is_hot():
    before = algorithms.resolve("EAGLE3", CHAIN, {}, "0.5.15")
    loose = algorithms.resolve("EAGLE3", {**CHAIN, "accept_threshold_single": 0.9}, {}, "0.5.15")
    assert [(change.key, change.how) for change in changes(before, loose)] == [("accept_threshold_single", "hot")]
    assert not needs_relaunch(changes(before, loose))
    assert "lossy" in names(loose.warnings)
    longer = algorithms.resolve("EAGLE3", {**CHAIN, "num_steps": 4}, {}, "0.5.15")
    found = {change.key: change.how for change in changes(before, longer)}
    assert found == {"num_steps": "relaunch", "num_draft_tokens": "relaunch"}
    assert needs_relaunch(changes(before, longer))
    corpus = {"ngram.external_corpus_path": "/c", "ngram.external_sam_budget": 4}
    store = algorithms.resolve("NGRAM", {"ngram.external_sam_budget": 4}, {}, "0.5.15")
    assert not needs_relaunch(changes(store, algorithms.resolve("NGRAM", corpus, {}, "0.5.15")))
    assert needs_relaunch(changes(store, before))
    assert changes(before, before) == ()


def test_the_guard_names_what_else_differs():
    a = algorithms.resolve("EAGLE3", CHAIN, {"page_size": 1, "max_running_requests": 48}, "0.5.12")
    b = algorithms.resolve("NGRAM", {}, {"page_size": 1, "max_running_requests": 64}, "0.5.12")
    other = unequal({"algorithm": "EAGLE3", **a.in_force}, {"algorithm": "NGRAM", **b.in_force})
    assert [difference.text for difference in other] == ["max running requests 48 / 64"]
    kinds = {d.key: d.kind for d in differences(a.in_force, b.in_force)}
    assert kinds["server.overlap_schedule"] == "follows"
    assert kinds["num_draft_tokens"] == "tested"


def test_the_guard_within_one_algorithm():
    a = algorithms.resolve("NGRAM", {"num_draft_tokens": 20}, {"page_size": 1}, "0.5.15").in_force
    b = algorithms.resolve("NGRAM", {"num_draft_tokens": 8}, {"page_size": 1}, "0.5.15").in_force
    assert unequal(a, b, {"num_draft_tokens"}) == ()
    b["ngram.max_trie_depth"] = 12
    assert [difference.key for difference in unequal(a, b, {"num_draft_tokens"})] == ["ngram.max_trie_depth"]
    assert unequal({"server.page_size": 1}, {}, set()) == (), "what one side does not tell is not compared"


# -- FC-03 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("pair", case("FC-03.json")["pairs"], ids=lambda pair: pair["name"])
def test_vocabularies(pair):
    found = check_pair(pair["target"], pair["draft"])
    assert found.state == pair["want"]
    for size in (pair["target"]["vocab_size"], pair["draft"]["vocab_size"]):
        assert str(size) in found.text


@pytest.mark.parametrize(
    ("target", "draft", "state"),
    [
        (None, {"vocab_size": 1}, "not checked"),
        ({"vocab_size": 1}, None, "not checked"),
        ({}, {}, "not checked"),
        ({"vocab_size": 100}, {"hidden_size": 3}, "not checked"),
        ({"vocab_size": 100}, {"vocab_size": "100"}, "not checked"),
        ({"vocab_size": 100}, {"vocab_size": 100}, "not checked"),
        ({"vocab_size": 32000, "tokenizer": "t"}, {"vocab_size": 32064, "tokenizer": "t"}, "block"),
        ({"vocab_size": 152064}, {"vocab_size": 151936}, "warn"),
        ({"vocab_size": 152064}, {"vocab_size": 128256}, "block"),
        ({"text_config": {"vocab_size": 100}, "tokenizer": "t"}, {"vocab_size": 100, "tokenizer": "t"}, "pass"),
    ],
)
def test_vocabularies_that_are_not_told(target, draft, state):
    found = check_pair(target, draft)
    assert found.state == state
    if state == "not checked":
        assert "not checked" in found.text


def test_heads_are_held_against_the_hidden_size():
    target = {"vocab_size": 100, "tokenizer": "t", "hidden_size": 4096, "max_position_embeddings": 131072}
    head = {"vocab_size": 100, "tokenizer": "t", "hidden_size": 2048, "max_position_embeddings": 2048}
    assert check_pair(target, head, algorithm="EAGLE3").state == "block"
    assert "4096" in check_pair(target, head, algorithm="EAGLE3").text
    assert check_pair(target, head, algorithm="STANDALONE").state == "warn"
    assert "2048 tokens" in check_pair(target, head, algorithm="STANDALONE").text
    assert check_pair(target, {**head, "target_hidden_size": 4096}, algorithm="EAGLE3").state == "warn"


# -- FC-18 ------------------------------------------------------------------------------------------------------------


def test_a_faked_acceptance_is_marked():
    marks = environment_marks(case("FC-18.json")["env"])
    assert [mark.name for mark in marks] == ["simulated_acceptance"]
    assert marks[0].text.startswith("SIMULATED acceptance")
    assert [mark.name for mark in environment_marks({"SIMULATE_ACC_LEN": "2"})] == ["simulated_acceptance"]


@pytest.mark.parametrize("value", ["", "0", "-1", "0.0", " "])
def test_an_unset_or_zero_switch_is_no_mark(value: str):
    assert environment_marks({"SGLANG_SIMULATE_ACC_LEN": value}) == ()
    assert environment_marks({}) == ()


def test_an_environment_that_cannot_be_read_is_said():
    assert [mark.name for mark in environment_marks(None)] == ["environment_not_checked"]
    assert environment_marks({"SGLANG_SIMULATE_ACC_LEN": "nan"})[0].name == "simulated_acceptance"
    assert environment_marks({"SGLANG_SIMULATE_ACC_LEN": "yes"})[0].name == "simulated_acceptance"


# FC-01
@pytest.mark.parametrize(
    ("architecture", "algorithm", "warned"),
    [
        ("LlamaForCausalLMEagle3", "EAGLE", True),
        ("LlamaForCausalLMEagle", "EAGLE3", True),
        ("LlamaForCausalLMEagle3", "EAGLE3", False),
        ("LlamaForCausalLMEagle", "EAGLE", False),
        ("LlamaForCausalLM", "EAGLE", False),
        ("LlamaForCausalLMEagle3", "STANDALONE", False),
    ],
)
def test_a_head_of_the_other_eagle_is_named_before_it_is_loaded(
    architecture: str, algorithm: str, warned: bool
) -> None:
    head = {"vocab_size": 100, "hidden_size": 8, "architectures": [architecture]}
    found = check_pair({"vocab_size": 100, "hidden_size": 8}, head, algorithm=algorithm)
    assert any("would never be accepted" in remark.text for remark in found.remarks) is warned


def test_a_head_of_eagle_3_may_draft_from_a_part_of_the_vocabulary() -> None:
    target, head = {"vocab_size": 128256, "hidden_size": 8}, {"vocab_size": 32000, "hidden_size": 8}
    assert check_pair(target, head, algorithm="EAGLE3").state == "warn"
    assert check_pair(target, head, algorithm="STANDALONE").state == "block"
