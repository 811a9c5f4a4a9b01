"""More restarts of simulated servers: a GPU that is not there, acceptance that drifts, a server that hangs halfway."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sim_process import SimProcess

from spectui.checks._rotation import Rotation
from spectui.core.gpu import GpuReading
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.hosts import gpus
from spectui.hosts.gpus import GpuPanel
from spectui.session import checking

DRAFT = {"draft_model_path": "a-draft", "num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4}
EAGLE = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "a-draft", "--enable-metrics"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    return tmp_path


def profile(**entry: Any) -> Profile:
    row = {"pass": "warm", "concurrency": 1, "requests": 8, "accept_length": [2.0, 1.2, 3.4]}
    kept = {"date": "2020-01-01", "run": "gone", "workload": {"name": "mixed", "max_tokens": 24}, "result": [row]}
    part = ServerPart(model_path="sim", args={"tp_size": 2})
    return Profile("p", server=part, speculative=SpeculativePart("EAGLE3", DRAFT), evidence=({**kept, **entry},))


@pytest.fixture(scope="module")
def sim() -> Iterator[SimProcess]:
    with SimProcess(*EAGLE, "--tp-size", "2", speed=20) as started:
        yield started


def check(sim: SimProcess, about: Profile) -> dict[str, dict[str, Any]]:
    target = checking.Target("it", f"http://127.0.0.1:{sim.port}", about)
    checked = checking.check(target, checking.CheckOptions(requests=4))
    return {row["name"]: row for row in checked.as_json()["probes"]}


def bad(probes: dict[str, dict[str, Any]]) -> list[str]:
    return [name for name, row in probes.items() if row["ok"] is False]


def panel(sim: SimProcess, *indices: int, lost: int | None = None) -> GpuPanel:
    pid = sim.process.pid
    held = {"pids": (pid,), "processes": ((pid, 10 * 1024**3),)}
    return GpuPanel(tuple(GpuReading(f"GPU-{i}", i, "NVIDIA H200", lost=i == lost, **held) for i in indices), "ok")


@pytest.mark.parametrize(
    ("indices", "lost", "words"),
    [((0, 1), None, ""), ((0,), None, "its processes hold 1"), ((0, 1), 1, "GPU 1 is lost")],
)
def test_a_missing_gpu(
    sim: SimProcess, monkeypatch: pytest.MonkeyPatch, indices: tuple[int, ...], lost: int | None, words: str
) -> None:
    monkeypatch.setattr(gpus, "read_once", lambda *_a, **_k: panel(sim, *indices, lost=lost))
    probes = check(sim, profile(gpus=["NVIDIA H200", "NVIDIA H200"]))
    assert bad(probes) == (["gpus"] if words else []), probes["gpus"]
    assert words in probes["gpus"]["detail"]
    assert probes["gpus"]["ok"] is (not words)


def test_acceptance_that_drifts(sim: SimProcess) -> None:
    url, now = f"http://127.0.0.1:{sim.port}", time.time()
    for start, name in ((3.4, ["accept_length"]), (None, [])):
        state = Rotation.load(url, None)
        steps = range(12)
        state.history = [
            {"t": now - 86400.0 * (12 - n), "accept_length": 2.0 if start is None else start * 0.96**n,
             "workload": "mixed", "fed": False, "algorithm": "EAGLE3"}
            for n in steps
        ]  # fmt: skip
        state.sent([], None, {})
        probes = check(sim, profile())
        assert bad(probes) == name, probes["accept_length"]
        if name:
            assert "accept length drifts: -" in probes["accept_length"]["detail"]
            assert "over 13 checks in 12.0 days" in probes["accept_length"]["detail"]
