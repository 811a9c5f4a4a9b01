"""Answers of the simulated server have the keys and types of recorded ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from sim_process import SimProcess

RECORDED: dict[str, Any] = json.loads((Path(__file__).parents[1] / "data/sim/recorded.json").read_text("utf-8"))
LAB = ["--enable-metrics", "--served-model-name", "lab-model", "--cuda-graph-max-bs", "32", "--decode-log-interval",
       "5", "--disable-piecewise-cuda-graph", "--attention-backend", "triton",
       "--sampling-backend", "pytorch"]  # fmt: skip
SETTINGS = {
    "none": [],
    "ngram-8": ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8"],
    "eagle3-3-1-4": ["--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "/models/smol-eagle3",
                     "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
                     "--speculative-num-draft-tokens", "4"],
}  # fmt: skip


def shape(value: Any) -> Any:
    """Keys in order and types; a list by its first item, so that lengths do not matter."""
    if isinstance(value, dict):
        return {k: shape(v) for k, v in value.items()}
    if isinstance(value, list):
        return [shape(value[0])] if value else []
    return type(value).__name__


class Arm:
    def __init__(self, name: str, sim: SimProcess) -> None:
        self.name = name
        self.sim = sim
        self.recorded: dict[str, Any] = RECORDED[name]


@pytest.fixture(scope="module", params=list(SETTINGS))
def arm(request: pytest.FixtureRequest) -> Iterator[Arm]:
    with SimProcess(*LAB, *SETTINGS[request.param]) as sim:
        yield Arm(request.param, sim)


def test_server_info(arm: Arm) -> None:
    said = arm.sim.json("/server_info")
    recorded = arm.recorded["server_info"]
    assert said.pop("spectui_simulated") is True
    assert list(said) == [k for k, _ in recorded["fields"]]
    own_paths = {"context_length", "trust_remote_code"}
    assert {k: type(v).__name__ for k, v in said.items() if k not in own_paths} == {
        k: kind for k, kind in recorded["fields"] if k not in own_paths
    }
    assert {k: said[k] for k in recorded["values"]} == recorded["values"]
    state = said["internal_states"][0]
    assert set(dict(recorded["internal"])) <= set(state)
    assert set(state) - set(dict(recorded["internal"])) <= {"avg_spec_accept_length"}
    assert said["version"] == "0.5.15.post1"
    assert arm.sim.json("/get_server_info").keys() == said.keys() | {"spectui_simulated"}


@pytest.mark.parametrize(
    ("path", "name"),
    [
        ("/model_info", "model_info"),
        ("/get_model_info", "model_info"),
        ("/v1/models", "v1_models"),
        ("/get_load", "get_load"),
        ("/list_external_corpora", "list_external_corpora"),
    ],
)
def test_plain_answers(arm: Arm, path: str, name: str) -> None:
    said = arm.sim.json(path)
    assert shape(said) == shape(arm.recorded[name])
    if name == "list_external_corpora":
        assert said == arm.recorded[name]


def test_single_calls(arm: Arm) -> None:
    recorded = arm.recorded["answers"]

    def same(name: str, said: tuple[int, str]) -> None:
        assert said == (recorded[name]["status"], recorded[name]["body"])

    same("GET /health", arm.sim.call("/health"))
    same("bad_request", arm.sim.call("/generate", {"sampling_params": {}}))
    same("too_long", arm.sim.call("/generate", {"input_ids": [500] * 9001}))
    same("internal_state", arm.sim.call("/get_internal_state"))
    threshold = {"server_args": {"speculative_accept_threshold_single": 1.0}}
    same("set_internal_state", arm.sim.call("/set_internal_state", threshold))
    same("set_internal_state_steps", arm.sim.call("/set_internal_state", {"server_args": {"speculative_num_steps": 2}}))
    same("flush", arm.sim.call("/flush_cache", {}))


def test_generate(arm: Arm) -> None:
    for _ in range(2):  # the second time part of the prompt is cached, as in the recording
        said = arm.sim.generate("The capital of France is", 600)
    said["meta_info"]["finish_reason"] = arm.recorded["generate"]["meta_info"]["finish_reason"]
    assert shape(said) == shape(arm.recorded["generate"])
    assert list(said["meta_info"]) == list(arm.recorded["generate"]["meta_info"])


def test_generate_stream_is_cumulative(arm: Arm) -> None:
    body = {"text": "Explain tides.", "sampling_params": {"temperature": 0, "max_new_tokens": 900}}
    events = arm.sim.events("/generate", body)
    recorded = [x if x.endswith("[DONE]") else json.loads(x[6:]) for x in arm.recorded["generate_stream.edit"]]
    assert events[-1] == "[DONE]"
    assert shape(events[0]) == shape(recorded[0])
    assert shape(events[1]) == shape(recorded[1])
    last, recorded_last = events[-2], recorded[-2]
    assert last["meta_info"]["finish_reason"] == {"type": "stop", "matched": 2}
    assert list(last["meta_info"]) == list(recorded_last["meta_info"])
    assert shape(last["meta_info"]) == shape(recorded_last["meta_info"])
    for before, after in pairwise(events[:-1]):
        assert after["text"].startswith(before["text"])
        assert after["output_ids"][: len(before["output_ids"])] == before["output_ids"]
        assert len(after["output_ids"]) == after["meta_info"]["completion_tokens"]


def test_increments_of_a_stream_are_its_histogram(arm: Arm) -> None:
    body = {"text": "Describe a harbour.", "sampling_params": {"temperature": 0, "max_new_tokens": 150}}
    events = arm.sim.events("/generate", body)[:-1]
    counts = [e["meta_info"]["completion_tokens"] for e in events]
    steps = [b - a for a, b in pairwise(counts)]
    meta = events[-1]["meta_info"]
    if arm.name == "none":
        assert set(steps) == {1}
        assert "spec_verify_ct" not in meta
        return
    histogram = meta["spec_correct_drafts_histogram"]
    assert len(steps) == meta["spec_verify_ct"] == sum(histogram)
    assert meta["spec_num_correct_drafts"] == sum(k * n for k, n in enumerate(histogram))
    whole = [sum(1 for s in steps[:-1] if s == k + 1) for k in range(len(histogram))]
    assert sum(abs(a - b) for a, b in zip(histogram, whole, strict=True)) == 1, "only the last step may be cut"


@pytest.mark.parametrize(
    "usage", [{"include_usage": True, "continuous_usage_stats": True}, {"include_usage": True}, None]
)
def test_chat_stream(arm: Arm, usage: dict[str, bool] | None) -> None:
    body = {"model": "lab-model", "messages": [{"role": "user", "content": "Explain bridges."}], "max_tokens": 40,
            "temperature": 0, "stream_options": usage}  # fmt: skip
    events = arm.sim.events("/v1/chat/completions", body)
    recorded = [json.loads(x[6:]) for x in arm.recorded["chat_stream"] if "[DONE]" not in x]
    assert events[-1] == "[DONE]"
    assert shape(events[0]) == shape(recorded[0])
    always = bool(usage and usage.get("continuous_usage_stats"))
    expected = dict(recorded[1])
    if not always:
        expected.pop("usage")
    assert shape(events[1]) == shape(expected)
    ending = events[-3] if usage else events[-2]
    assert shape(ending) == shape(recorded[-2])
    assert ending["choices"][0]["finish_reason"] == "length"
    if usage:
        assert shape(events[-2]) == shape(recorded[-1])
        assert events[-2]["usage"]["completion_tokens"] == 40


def test_completions_stream(arm: Arm) -> None:
    body = {"model": "lab-model", "prompt": "Once upon a time", "max_tokens": 30, "temperature": 0,
            "stream_options": {"include_usage": True}}  # fmt: skip
    events = arm.sim.events("/v1/completions", body)
    recorded = [json.loads(x[6:]) for x in arm.recorded["completions_stream"] if "[DONE]" not in x]
    assert shape(events[0]) == shape(recorded[0])
    assert shape(events[-3]) == shape(recorded[-2])
    assert shape(events[-2]) == shape(recorded[-1])


def test_chat_with_meta_info(arm: Arm) -> None:
    body = {"messages": [{"role": "user", "content": "Explain bridges."}], "max_tokens": 60, "temperature": 0}
    for _ in range(2):
        said = arm.sim.json("/v1/chat/completions", body | {"return_meta_info": True})
    assert shape(said) == shape(arm.recorded["chat_return_meta_info"])
    status, text = arm.sim.call("/v1/chat/completions", body | {"return_meta_info": True, "stream": True})
    assert status == 400
    assert json.loads(text)["object"] == "error"


def test_metrics_have_the_recorded_series(arm: Arm) -> None:
    for _ in range(2):
        arm.sim.generate("Describe a mountain path in autumn.", 80)
    arm.sim.call("/health_generate")
    page = arm.sim.call("/metrics")[1]
    series = set()
    for line in page.splitlines():
        if not line.startswith("#"):
            name, _, rest = line.partition("{")
            labels = sorted(part.split('="')[0] for part in rest.split("}")[0].split(",")) if rest else []
            series.add(f"{name if rest else line.split(' ')[0]} {','.join(labels)}")
    assert set(arm.recorded["metrics"]) - series == set()
    assert series - set(arm.recorded["metrics"]) == set()
    if "metric_help" in arm.recorded:
        assert sorted(line for line in page.splitlines() if line.startswith("#")) == arm.recorded["metric_help"]
