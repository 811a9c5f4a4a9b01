"""The chat route at concurrency above one, where events may join steps: acceptance against the simulated server's own
account of every request."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import pytest

from spectui.core.result import fold
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, RunSpec, WorkloadRef
from spectui.runner.__main__ import Signals, run
from spectui.store import journal
from spectui.workloads import load

SERVER = """
import sys
from spectui.engines.sim import control, main, openai
from spectui.engines.sim.generate import Refused

truth = open(sys.argv.pop(1), "a", buffering=1)
join = int(sys.argv.pop(1))
plain = openai._Chunks.__call__

def chunk(self, request):
    ended = request.finish is not None
    if join and not ended and request.count > 1 and request.verify_steps % join:
        return  # the step's tokens come with a later event, as when a stream's reader is slow
    plain(self, request)
    if ended:
        truth.write(f"{request.rid} {request.verify_steps} {request.count}\\n")

def tokenize(server, exchange):
    raise Refused("messages are not taken here")

openai._Chunks.__call__ = chunk
control.tokenize = tokenize
sys.exit(main(sys.argv[1:]))
"""


@contextmanager
def server(truth: Path, join: int, *more: str) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-c", SERVER, str(truth), str(join), "--model-path", "sim", "--port", str(port)]
    command += ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8", "--enable-metrics"]
    command += ["--sim-speed", "50", "--sim-startup", "0.05", *more]
    with open(truth.with_suffix(".log"), "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                opener.open(f"http://127.0.0.1:{port}/health", timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError) as error:
                getattr(error, "close", lambda: None)()
                assert process.poll() is None, truth.with_suffix(".log").read_text()[-2000:]
                assert time.monotonic() < deadline, "the simulated server did not start"
                time.sleep(0.05)
        yield f"http://127.0.0.1:{port}"
    finally:
        if process.poll() is None:
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def measured(folder: Path, url: str, concurrency: int) -> list[Row]:
    work = load("json")
    spec = RunSpec(
        "r",
        str(folder),
        (ArmSpec("A", url),),
        WorkloadRef(work.name, work.hash(0)),
        work.feeding(0),
        work.measuring(0)[:8],
        passes=("cold",),
        concurrency=(concurrency,),
        max_tokens=60,
        flush="yes",
        sample_gpus=False,
    )
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))
    with journal.Writer(folder / "journal.jsonl") as writer:
        assert run(folder / "spec.json", writer, Signals()) == 0
    return list(journal.read(folder / "journal.jsonl"))


def true_length(truth: Path, rows: list[Row]) -> float:
    ours = {row["rid"] for row in rows if row["kind"] == "request" and row["phase"] == "measure"}
    told = [line.split() for line in truth.read_text().splitlines()]
    counts = [(int(steps), int(tokens)) for rid, steps, tokens in told if rid in ours]
    assert len(counts) == len(ours) == 8
    return sum(tokens - 1 for _, tokens in counts) / sum(steps for steps, _ in counts)


@pytest.mark.parametrize("join", [0, 3])
def test_acceptance_on_the_chat_route_is_the_servers_own(tmp_path: Path, join: int) -> None:
    truth = tmp_path / "truth"
    with server(truth, join) as url:
        rows = measured(tmp_path, url, 4)
    result = fold(rows).passes[("A", 4, "cold")]
    assert result.route == "/v1/chat/completions with usage in every event"
    assert result.accept_length == pytest.approx(true_length(truth, rows), abs=1e-9)
    assert bool(join) == any(row["kind"] == "mark" and row["name"] == "route_joined_steps" for row in rows)
    states = {identity.name: identity.state for identity in result.identities}
    assert states["bound"] == states["token counter"] == "ok"
    assert states["events"] == states["step counter"] == ("within allowance" if join else "ok")
    assert states["histogram sum"] == ("unavailable on this version" if join else "ok")


def test_joined_events_without_a_counter_give_no_acceptance(tmp_path: Path) -> None:
    """SGLang 0.5.10 counts no verify steps, and no step can be told from another."""
    truth = tmp_path / "truth"
    with server(truth, 6, "--sglang-version", "0.5.10.post1") as url:
        rows = measured(tmp_path, url, 4)
    result = fold(rows).passes[("A", 4, "cold")]
    assert any(row["kind"] == "mark" and row["name"] == "route_joined_steps" for row in rows)
    assert result.accept_length is None
    assert true_length(truth, rows) > 1
