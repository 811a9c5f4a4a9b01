"""The simulated server's command line, and what SGLang's rules make of it."""

from __future__ import annotations

from typing import Any

import pytest

from spectui.engines.sim.arguments import BadArguments, Launch, parse
from spectui.engines.sim.proposers import proposer


def launch(text: str) -> Launch:
    return parse(["--model-path", "sim", *text.split()])


def knobs(text: str) -> tuple[Any, Any, Any]:
    a = launch(text).args
    return a["speculative_num_steps"], a["speculative_eagle_topk"], a["speculative_num_draft_tokens"]


def test_no_speculation_leaves_all_open() -> None:
    plain = launch("")
    assert plain.algorithm is None
    assert plain.max_running == 4096
    assert knobs("") == (None, None, None)
    assert plain.log_lines == []


def test_ngram_takes_breadth_as_topk_and_48_requests() -> None:
    ngram = launch("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8")
    assert knobs("--speculative-algorithm NGRAM --speculative-num-draft-tokens 8") == (0, 10, 8)
    assert ngram.max_running == 48
    assert any("Max running requests is reset to 48" in line for line in ngram.log_lines)
    assert launch("--speculative-algorithm NGRAM --max-running-requests 7").max_running == 7


def test_ngram_draft_tokens_default_to_12_with_a_warning() -> None:
    ngram = launch("--speculative-algorithm NGRAM")
    assert ngram.args["speculative_num_draft_tokens"] == 12
    assert any("set to 12 by default" in line for line in ngram.log_lines)


def test_topk_1_forces_draft_tokens_to_steps_and_one() -> None:
    text = "--speculative-algorithm EAGLE3 --speculative-draft-model-path d --speculative-num-steps 3 "
    text += "--speculative-eagle-topk 1 --speculative-num-draft-tokens 16"
    assert knobs(text) == (3, 1, 4)
    assert any("adjusted to speculative_num_steps + 1" in line for line in launch(text).log_lines)


@pytest.mark.parametrize(
    ("model", "version", "expected"),
    [
        ("sim", "0.5.15.post1", (5, 4, 8)),
        ("org/DeepSeek-V3", "0.5.15.post1", (3, 1, 4)),
        ("org/Qwen3-8B", "0.5.15.post1", (3, 1, 4)),
        ("org/Qwen3-8B", "0.5.5", (5, 4, 8)),
    ],
)
def test_automatic_values_by_architecture(model: str, version: str, expected: tuple[int, int, int]) -> None:
    argv = ["--model-path", model, "--sglang-version", version, "--speculative-algorithm", "EAGLE"]
    a = parse(argv).args
    assert (a["speculative_num_steps"], a["speculative_eagle_topk"], a["speculative_num_draft_tokens"]) == expected


def test_nextn_becomes_eagle_with_the_target_as_draft() -> None:
    a = launch("--speculative-algorithm NEXTN").args
    assert a["speculative_algorithm"] == "EAGLE"
    assert a["speculative_draft_model_path"] == "sim"


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("--speculative-algorithm EAGLE --speculative-num-draft-tokens 4", "AssertionError"),
        ("--speculative-algorithm EAGLE --speculative-num-steps 3", "TypeError"),
        ("--speculative-algorithm NONSENSE", "ValueError"),
        ("--speculative-algorithm DFLASH", "ValueError"),
        ("--speculative-algorithm NGRAM --enable-dp-attention", "ValueError"),
        ("--speculative-algorithm NGRAM --device cpu", "ValueError"),
        ("--speculative-algorithm NGRAM --speculative-ngram-external-corpus-path c", "ValueError"),
        ("--speculative-algorithm NGRAM --page-size 64 --attention-backend trtllm_mha", "ValueError"),
    ],
)
def test_combinations_that_are_refused(text: str, kind: str) -> None:
    with pytest.raises(BadArguments) as refused:
        launch(text)
    assert refused.value.kind == kind


@pytest.mark.parametrize(
    "text",
    [
        "--no-such-argument 1",
        "--speculative-num-draft-tokens many",
        "--speculative-ngram-match-type ODD",
        "--sglang-version new",
        "--sim-speed 0",
        "--port 99999",
        "--port -1",
        "--sglang-version 0.4.9 --speculative-algorithm NGRAM",
        "--sglang-version 0.5.5 --speculative-ngram-max-trie-depth 8",
        "--speculative-ngram-branch-length 18",
    ],
)
def test_what_argparse_refuses_is_exit_code_2(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as end:
        launch(text)
    assert end.value.code == 2
    told = capsys.readouterr().err
    assert "error:" in told
    assert len(told.splitlines()) <= 4  # not all of SGLang's arguments before what is wrong


def test_values_take_the_type_of_their_field() -> None:
    a = launch("--port 4 --served-model-name 123 --schedule-conservativeness 2 --enable-metrics --random-seed 5").args
    assert (a["port"], a["served_model_name"], a["schedule_conservativeness"]) == (4, "123", 2.0)
    assert a["enable_metrics"] is True
    assert a["random_seed"] == 5


def test_old_versions_have_their_own_fields() -> None:
    old = launch(
        "--sglang-version 0.5.5 --speculative-algorithm NGRAM --speculative-ngram-max-match-window-size 9"
    ).args
    assert old["speculative_num_draft_tokens"] == 9
    assert old["speculative_num_steps"] is None
    assert "speculative_ngram_max_trie_depth" not in old
    new = launch("--sglang-version 0.5.23").args
    assert "speculative_draft_sink_size" in new
    assert "speculative_skip_dp_mlp_sync" not in new


@pytest.mark.parametrize("version", ["0.5.5", "0.5.9", "0.5.10", "0.5.12", "0.5.23"])
def test_ngram_starts_in_every_release_between_the_known_ones(version: str) -> None:
    made = proposer(launch(f"--speculative-algorithm NGRAM --sglang-version {version}"))
    assert made.store.settings.max_trie_depth == 18  # type: ignore[attr-defined]
