"""Step times, acceptance of draft models, per-request details by version, and log lines."""

from __future__ import annotations

import re

import pytest

from spectui.engines.sim import loglines
from spectui.engines.sim.arguments import BadArguments, parse
from spectui.engines.sim.dialect import parse as dialect
from spectui.engines.sim.meta import meta_info
from spectui.engines.sim.proposers import Chain, proposer
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.steps import StepTimes
from spectui.engines.sim.tokenizer import tokenizer


def request(prompt: str = "What is a tide?", **sampling: object) -> SimRequest:
    values = {"temperature": 0, "max_new_tokens": 200} | sampling
    return SimRequest(tokenizer(), "r", tokenizer().encode(prompt), values, lambda r: None, 1, 8000)


def run(chain: Chain, r: SimRequest) -> None:
    r.take(1)
    chain.begin(r)
    while r.finish is None:
        drafts = chain.accepted(r)
        r.take(drafts + 1)
        r.verified(drafts)


def test_step_times_are_the_recorded_ones() -> None:
    plain = StepTimes("recorded", 1, 0, 256)
    assert plain.decode(1, 0) == pytest.approx(0.0012, rel=0.05)
    assert plain.decode(16, 0) == pytest.approx(0.0015, rel=0.05)
    ngram = StepTimes("recorded", 8, 0, 256)
    assert ngram.decode(1, 0) == pytest.approx(0.0027, rel=0.05)
    assert StepTimes("recorded", 16, 0, 256).decode(1, 0) > ngram.decode(1, 0)
    assert StepTimes("recorded", 4, 3, 256).decode(1, 0) == pytest.approx(0.0031, rel=0.1)
    assert StepTimes("recorded", 1, 0, 8).decode(16, 0) > 1.5 * plain.decode(16, 0), "outside the captured graphs"


def test_kimi_tells_the_story() -> None:
    assert 1 / StepTimes("kimi", 1, 0, 256).decode(1, 150) == pytest.approx(82, rel=0.1)
    assert 1.27 / StepTimes("kimi", 8, 0, 256).decode(1, 150) == pytest.approx(41, rel=0.1)
    assert 2.065 / StepTimes("kimi", 4, 3, 256).decode(1, 150) == pytest.approx(60, rel=0.1)


def test_a_chain_accepts_as_recorded_and_the_same_again() -> None:
    totals = []
    for _ in range(2):
        steps = tokens = 0
        for i in range(30):
            r = request(f"Explain thing {i}.", ignore_eos=True)
            run(Chain("EAGLE3", 3, 1, 4), r)
            assert sum(r.histogram) == r.verify_steps
            assert len(r.histogram) <= 4
            steps, tokens = steps + r.verify_steps, tokens + r.count - 1
        totals.append((tokens, steps))
    assert totals[0] == totals[1]
    assert 1.85 < totals[0][0] / totals[0][1] < 2.3


def test_forced_acceptance_is_honoured(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "1.0")
    r = request(ignore_eos=True)
    run(Chain("EAGLE3", 3, 1, 4), r)
    assert r.histogram == [199]
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "9")
    r = request(ignore_eos=True)
    run(Chain("EAGLE3", 3, 1, 4), r)
    assert set(r.histogram[:3]) == {0}


@pytest.mark.parametrize("version", ["0.5.5", "0.5.10", "0.5.12", "0.5.15.post1", "0.5.23"])
@pytest.mark.parametrize(
    "text",
    [
        "--speculative-algorithm NGRAM --speculative-num-draft-tokens 6",
        "--speculative-algorithm STANDALONE --speculative-draft-model-path d",
        "--speculative-algorithm DFLASH --speculative-draft-model-path d --speculative-num-draft-tokens 8",
    ],
)
def test_every_proposer_of_every_version_runs(version: str, text: str) -> None:
    if "DFLASH" in text and version in ("0.5.5", "0.5.10"):
        with pytest.raises((SystemExit, BadArguments)):
            parse(f"--model-path sim --sglang-version {version} {text}".split())
        return
    launch = parse(f"--model-path sim --sglang-version {version} {text}".split())
    chosen = proposer(launch)
    r = request(max_new_tokens=60, ignore_eos=True)
    r.take(1)
    chosen.begin(r)
    while r.finish is None:
        drafts = chosen.accepted(r)
        chosen.commit(r, r.take(drafts + 1))
        r.verified(drafts)
    chosen.end(r)
    assert 1 <= len(r.histogram) <= chosen.width
    assert meta_info(r, launch)["spec_verify_ct"] == r.verify_steps == sum(r.histogram)


def test_a_tree_accepts_more_than_a_chain_of_its_depth() -> None:
    def length(chain: Chain) -> float:
        steps = tokens = 0
        for i in range(12):
            r = request(f"Explain thing {i}.", ignore_eos=True)
            run(chain, r)
            steps, tokens = steps + r.verify_steps, tokens + r.count - 1
        return tokens / steps

    assert length(Chain("EAGLE3", 3, 4, 16)) > length(Chain("EAGLE3", 3, 1, 4)) + 0.2


def test_a_request_ends_at_its_limit_at_a_stop_and_at_its_end() -> None:
    cut = request(max_new_tokens=3)
    assert len(cut.take(10)) == 3
    assert cut.finish == {"type": "length", "length": 3}
    text = request().text
    stopped = request(stop=[" the"], max_new_tokens=800)
    stopped.take(700)
    assert stopped.finish == {"type": "stop", "matched": " the"}
    assert " the" not in stopped.text
    assert text == ""
    whole = request(max_new_tokens=5000)
    whole.take(4000)
    assert whole.finish == {"type": "stop", "matched": 2}
    assert whole.output_ids[-1] == 2
    assert "<|im_end|>" not in whole.text


@pytest.mark.parametrize(
    ("version", "has", "lacks"),
    [
        ("0.4.9", {"spec_verify_ct"}, {"spec_accept_length", "weight_version"}),
        ("0.5.5", {"spec_verify_ct", "spec_accept_length", "total_retractions"}, {"spec_accept_histogram"}),
        ("0.5.10", {"spec_accept_token_num", "spec_accept_histogram"}, {"spec_num_correct_drafts"}),
        ("0.5.12", {"spec_num_correct_drafts", "spec_accepted_drafts", "num_retractions"}, {"spec_draft_token_num"}),
        ("0.5.15.post1", {"spec_correct_drafts_histogram", "spec_accept_histogram"}, {"spec_draft_token_num"}),
        ("0.5.23", {"spec_correct_drafts_histogram"}, {"spec_accept_histogram", "spec_accepted_drafts"}),
    ],
)
def test_details_of_a_request_by_version(version: str, has: set[str], lacks: set[str]) -> None:
    text = f"--model-path sim --sglang-version {version} --speculative-algorithm EAGLE3 --speculative-num-steps 3 "
    text += "--speculative-eagle-topk 1 --speculative-num-draft-tokens 4 --speculative-draft-model-path d"
    launch = parse(text.split())
    chain = proposer(launch)
    assert isinstance(chain, Chain)
    r = request()
    assert "spec_verify_ct" not in meta_info(r, launch)
    run(chain, r)
    said = meta_info(r, launch)
    assert has <= set(said)
    assert not lacks & set(said)


def test_decode_lines_by_version() -> None:
    def line(version: str) -> str:
        return loglines.decode(dialect(version), 2, 80, 0.01, 2.5, 0.5, True, 123.45, 1)

    assert line("0.5.15.post1") == (
        "Decode batch, #running-req: 2, #token: 80, token usage: 0.01, accept len: 2.50, accept rate: 0.50, "
        "cuda graph: True, gen throughput (token/s): 123.45, #queue-req: 1"
    )
    assert line("0.4.9").startswith("Decode batch. #running-req")
    assert line("0.5.5").endswith(", ")


@pytest.mark.parametrize("version", ["0.4.9", "0.5.5", "0.5.10", "0.5.12", "0.5.15.post1", "0.5.23"])
def test_phases_come_in_order_and_draft_weights_come_second(version: str) -> None:
    text = (
        f"--model-path sim --sglang-version {version} --speculative-algorithm EAGLE3 --speculative-draft-model-path d"
    )
    phases = loglines.phases(parse(text.split()))
    assert sum(p.share for p in phases) == pytest.approx(1)
    lines = [line for p in phases for line in p.lines]
    found = [
        i for i, line in enumerate(lines) if re.match(r"Load weight begin\. avail mem=|Memory pool end|Capture ", line)
    ]
    assert [lines[i].split(" ")[0] for i in found][:3] == ["Load", "Load", "Memory"]
    assert any("draft" in line for line in lines if line.startswith("Capture"))


def test_keys_are_not_logged() -> None:
    lines = loglines.phases(parse(["--model-path", "sim", "--api-key", "secret", "--admin-api-key", "covert"]))[0].lines
    assert "secret" not in lines[0]
    assert "covert" not in lines[0]
