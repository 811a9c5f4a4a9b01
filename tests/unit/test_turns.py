"""Servers on one GPU start in turn."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from spectui.hosts import records
from spectui.hosts.processes import identify
from spectui.hosts.records import ServerRecord
from spectui.hosts.servers import LaunchPlan
from spectui.session import turns

LOADING = (
    "[2026-11-30 04:40:30] Init torch distributed begin.\n[2026-11-30 04:40:31] Load weight begin. avail mem=139 GB\n"
)
TAKEN = LOADING + (
    "[2026-11-30 04:40:32] Load weight end. elapsed=0.19 s, avail mem=138.83 GB, mem usage=0.27 GB.\n"
    "[2026-11-30 04:40:33] Memory pool end. avail mem=83.50 GB\n"
    "[2026-11-30 04:40:33] Capture target verify CUDA graph begin. backend=full, bs=[1, 2], avail mem=83.28 GB\n"
)


@pytest.fixture
def starting(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[ServerRecord]:
    """A record of a server that runs (a sleeping process) and is loading its weights."""
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    process = subprocess.Popen([sys.executable, "-c", "import sys; sys.stdin.read()"], stdin=subprocess.PIPE)
    identity = identify(process.pid)
    assert identity is not None
    log = tmp_path / "server.log"
    log.write_text(LOADING)
    record = ServerRecord(
        name="first", id="x", pid=process.pid, start_time=identity.start_time, ticks=identity.ticks,
        boot=identity.boot, host="127.0.0.1", port=1, argv=("python",), log_path=str(log),
        node=os.uname().nodename, uid=os.getuid(), when=time.time(), gpus=("0",),
    )  # fmt: skip
    records.save(record)
    yield record
    process.communicate(b"")


def plan(*gpus: str, simulated: bool = False) -> LaunchPlan:
    return LaunchPlan("second", ("python",), "127.0.0.1", 2, "/tmp/x.log", gpus=gpus, simulated=simulated)


def test_a_start_waits_until_the_other_has_its_memory(starting: ServerRecord) -> None:
    told: list[str] = []

    def say(text: str) -> None:
        told.append(text)
        Path(starting.log_path).write_text(TAKEN)  # what it waits for comes only after it said that it waits

    with turns.turn(plan("0"), say, poll_s=0.01):
        pass
    assert told == ["waiting until first has taken its memory: both start on the same GPU"]


AWAY = replace(plan("0"), argv=("ssh", "-tt", "node7", "python"), host="node7")


@pytest.mark.parametrize("launch", [plan("1"), plan("0", simulated=True), AWAY], ids=["other", "simulated", "node"])
def test_other_gpus_other_nodes_and_simulated_servers_do_not_wait(starting: ServerRecord, launch: LaunchPlan) -> None:
    told: list[str] = []
    with turns.turn(launch, told.append):
        pass
    assert told == []


def test_a_simulated_server_is_not_waited_for(starting: ServerRecord) -> None:
    records.save(replace(starting, simulated=True))
    told: list[str] = []
    with turns.turn(plan("0"), told.append):
        pass
    assert told == []
