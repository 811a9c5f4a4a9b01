"""The runner against the simulated server: cold and warm NGRAM, over real sockets and processes."""

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
from dataclasses import asdict
from pathlib import Path

import pytest

from spectui.core.result import fold
from spectui.core.spec import ArmSpec, RunSpec, WorkloadRef
from spectui.store import journal
from spectui.workloads import load


@pytest.fixture
def ngram_server(tmp_path: Path) -> Iterator[str]:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "spectui.engines.sim", "--model-path", "sim", "--port", str(port)]
    command += ["--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8", "--enable-metrics"]
    with open(tmp_path / "server.log", "wb") as log:
        process = subprocess.Popen(command, stdout=log, stderr=log, stdin=subprocess.DEVNULL, start_new_session=True)
    url = f"http://127.0.0.1:{port}"
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
    deadline = time.monotonic() + 60
    try:
        while True:
            try:
                opener.open(url + "/health", timeout=5).close()
                break
            except (OSError, urllib.error.HTTPError) as error:
                getattr(error, "close", lambda: None)()
                assert process.poll() is None, (tmp_path / "server.log").read_text()[-2000:]
                assert time.monotonic() < deadline, "the simulated server did not start"
                time.sleep(0.05)
        yield url
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def test_a_fed_store_accepts_more(ngram_server: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    folder.mkdir()
    work = load("json")
    spec = RunSpec(
        "r",
        str(folder),
        (ArmSpec("A", ngram_server),),
        WorkloadRef(work.name, work.hash(0)),
        work.feeding(0),
        work.measuring(0)[:8],
        passes=("cold", "warm"),
        concurrency=(4,),
        max_tokens=120,
        flush="yes",
        feed_limit=24,
        sample_gpus=False,
    )
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))
    done = subprocess.run([sys.executable, "-m", "spectui.runner", str(folder / "spec.json")], timeout=120, check=False)
    rows = list(journal.read(folder / "journal.jsonl"))
    assert done.returncode == 0, rows[-1]
    result = fold(rows)
    cold, warm = (result.passes[("A", 4, name)].as_json() for name in ("cold", "warm"))
    assert warm["accept_length"] > cold["accept_length"] > 1
    for one in (cold, warm):
        assert one["requests"] == 8
        assert one["failed"] == 0
        assert "broken" not in {identity["state"] for identity in one["identities"]}, one["identities"]
    assert rows[0]["arms"][0]["simulated"] is True
    assert rows[0]["arms"][0]["route"].startswith("/generate with input_ids")
