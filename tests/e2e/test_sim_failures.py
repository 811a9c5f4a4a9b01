"""The ways in which a start fails, with SGLang's own words and exit codes."""

from __future__ import annotations

import signal
import socket

import pytest
from sim_process import SimProcess

EAGLE3 = ["--speculative-algorithm", "EAGLE3", "--speculative-num-steps", "3", "--speculative-eagle-topk", "1",
          "--speculative-num-draft-tokens", "4", "--speculative-draft-model-path", "/models/no-such-draft"]  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "code", "phrases"),
    [
        ("oom", -9, ["Capture cuda graph failed: CUDA out of memory", "Received sigquit from a child process",
                     "kill_process_tree called"]),
        ("port", 1, ["address already in use", "Errno 98"]),
        ("draft", 1, ["OSError: Repo id must be in the form", "/models/no-such-draft"]),
        ("assert", -9, ["AssertionError: shared logits buffer", "Scheduler hit an exception: Traceback",
                        "Received sigquit from a child process. It usually means the child failed."]),
    ],
)  # fmt: skip
def test_ways_to_fail(kind: str, code: int, phrases: list[str]) -> None:
    with SimProcess(*EAGLE3, "--sim-fail", kind, wait=False) as sim:
        assert sim.ended() == code
        for phrase in phrases:
            assert phrase in sim.text, phrase
        assert "fired up" not in sim.text


def test_a_start_that_hangs_never_opens_its_port() -> None:
    with SimProcess("--sim-fail", "hang", wait=False) as sim:
        sim.until("Capture target decode CUDA graph begin")
        with pytest.raises(ConnectionRefusedError):
            sim.call("/health")
        assert sim.process.poll() is None
        sim.process.terminate()
        assert sim.ended() == -signal.SIGTERM, "no handler yet: the default action"


def test_a_slow_start_comes_up_after_all() -> None:
    with SimProcess("--sim-fail", "slow", startup=0.02) as sim:
        assert sim.call("/health")[0] == 200


def test_not_ready_until_the_warm_up_is_done() -> None:
    with SimProcess(speed=0.05, wait=False) as sim:
        sim.until("Uvicorn running on http://127.0.0.1:")
        assert sim.call("/health")[0] == 503
        assert sim.call("/model_info")[0] == 200


def test_a_port_that_is_really_taken() -> None:
    with socket.socket() as taken, SimProcess("--no-such-thing", wait=False) as refused:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        with SimProcess("--port", str(taken.getsockname()[1]), wait=False) as sim:
            assert sim.ended() == 1
            assert "address already in use" in sim.text
        assert refused.ended() == 2
        assert "unrecognized arguments: --no-such-thing" in refused.text


@pytest.mark.parametrize(
    ("args", "code", "phrase"),
    [
        ("--speculative-algorithm DFLASH", 1, "requires setting --speculative-draft-model-path"),
        ("--speculative-algorithm EAGLE3", -9, "Received sigquit"),
        ("--speculative-algorithm NGRAM --speculative-ngram-max-trie-depth 1", -9, "max_trie_depth"),
        ("--speculative-algorithm EAGLE --speculative-eagle-topk 1", 1, "AssertionError"),
    ],
)
def test_settings_that_cannot_start(args: str, code: int, phrase: str) -> None:
    with SimProcess(*args.split(), wait=False) as sim:
        assert sim.ended() == code
        assert phrase in sim.text


def test_a_worker_that_dies_during_the_start() -> None:
    import psutil

    with SimProcess("--sim-fail", "hang", wait=False) as sim:
        sim.until("Capture target decode CUDA graph begin")
        psutil.Process(sim.process.pid).children()[0].kill()
        assert sim.ended() == 1
        assert "Rank 0 scheduler died during initialization (exit code: -9)" in sim.text
