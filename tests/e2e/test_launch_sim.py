"""The simulated server through the same launch, watch, find and stop as a real one."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from own_ports import own_port

from spectui.hosts import children, discover, servers
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.servers import LaunchPlan, ServerRecord, ServerState, ServerWatch

NO_GPUS = GpuPanel((), "none")


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    place = tmp_path / "servers"
    yield place
    for record in servers.records(place):
        for group in {record.pgid}:
            try:
                os.killpg(group, signal.SIGKILL)
            except ProcessLookupError:
                continue
    children.reap()


def launch(folder: Path, *more: str) -> ServerRecord:
    port = own_port()
    argv = (sys.executable, "-m", "spectui.engines.sim", "--model-path", "simulated", "--port", str(port), *more)
    made = LaunchPlan("sim", argv, "127.0.0.1", port, str(folder.parent / "sim.log"), simulated=True)
    return servers.launch(made, folder=folder, panel=NO_GPUS)


def follow(watch: ServerWatch) -> tuple[ServerState, list[str]]:
    """Until it is ready or ended; also the phases passed through."""
    end = time.monotonic() + 60
    seen: list[str] = []
    while True:
        state = watch.poll()
        if state.phase not in seen[-1:]:
            seen.append(state.phase)
        if state.ready or not state.running:
            return state, seen
        assert time.monotonic() < end, f"neither ready nor failed: {state}"
        time.sleep(0.02)


def test_ready_by_a_token_found_and_stopped(folder: Path) -> None:
    record = launch(folder)
    state, seen = follow(ServerWatch(record, folder=folder))
    assert state.ready, state
    assert seen[-1] == "ready"
    found = [f for f in discover.find(folder=folder) if f.pid == record.pid]
    assert [(f.simulated, f.owned, f.listening, f.port) for f in found] == [(True, True, True, record.port)]
    assert len(found[0].pids) >= 2
    outcome = servers.stop(record, folder=folder)
    assert outcome.clear, outcome
    assert not [f for f in discover.find(folder=folder) if f.port == record.port]


def test_a_failing_start_is_named(folder: Path) -> None:
    record = launch(folder, "--sim-fail", "oom")
    state, _ = follow(ServerWatch(record, folder=folder))
    assert state.phase == "failed"
    assert state.failure is not None
    assert "memory" in state.failure.kind
    assert servers.stop(record, folder=folder).ended
    assert servers.records(folder) == []
