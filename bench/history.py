"""Seconds to list a history of 10,000 runs: built anew, from its index, and as the command prints it.

    python bench/history.py [--runs 10000]

The limit is 0.3 s for the list from its index. As ratios to starting Python, so that machines can be compared.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from spectui.store import runs
from spectui.store.runs import Filter

ALGORITHMS = ("none", "NGRAM", "EAGLE3", "NEXTN", "DFLASH")
WORKLOADS = ("edit", "json", "chat", "long", "mixed")


def make(root: Path, count: int) -> None:
    for number in range(count):
        name = f"2026{1 + number // 900 % 12:02}{1 + number // 30 % 28:02}-{number % 24:02}0000-json-{number:05x}"
        folder = root / name
        folder.mkdir()
        rows: list[dict[str, object]] = [
            {"t": 1_790_000_000.0 + 60 * number, "kind": "head", "schema": 1, "run_id": name,
             "workload": {"name": WORKLOADS[number % 5], "hash": f"{number % 5:016x}"}, "max_tokens": 256,
             "arms": [{"name": "A", "url": "http://127.0.0.1:30000", "algorithm": ALGORITHMS[number // 5 % 5],
                       "version": f"0.5.{5 + number % 10}", "model": f"org/Model-{number % 7}B", "label": "it"}],
             "node": {"driver": "580", "gpus": [{"uuid": "u", "name": ("NVIDIA H200", "NVIDIA B200")[number % 2]}]}}
        ]  # fmt: skip
        for i in range(8):
            rows.append(
                {"t": 3.0, "kind": "request", "index": i, "prompt_id": f"p{i}", "group": "json", "arm": "A",
                 "pass_name": "warm", "phase": "measure", "concurrency": 1, "block": 0, "rid": f"r{i}", "status": "ok",
                 "start_s": 1.0 + i, "first_s": 1.1 + i, "last_s": 1.5 + i, "end_s": 1.5 + i,
                 "completion_tokens": 41 + i, "verify_steps": 20}
            )  # fmt: skip
        rows.append({"t": 9.0, "kind": "end", "status": "complete", "reason": ""})
        (folder / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))


def seconds(work: Callable[[], object], times: int = 5) -> tuple[float, float]:
    """(by the clock, of processor time, children included), the medians. Others on the machine move the first."""
    took = []
    for _ in range(times):
        began, used = time.perf_counter(), _used()
        work()
        took.append((time.perf_counter() - began, _used() - used))
    return statistics.median(clock for clock, _ in took), statistics.median(cpu for _, cpu in took)


def _used() -> float:
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=10_000, metavar="N")
    count = parser.parse_args().runs
    with tempfile.TemporaryDirectory() as home:
        environ = {**os.environ, "SPECTUI_HOME": home}
        root = Path(home) / "data" / "runs"
        root.mkdir(parents=True)
        make(root, count)
        anew = seconds(lambda: runs.list_runs(root=root), times=1)
        listed = seconds(lambda: runs.list_runs(root=root))
        wanted = Filter(model="7b", gpu="b200", version="0.5.1", algorithm="eagle", workload="chat")
        filtered = seconds(lambda: runs.list_runs(wanted, root=root))
        words = seconds(lambda: runs.list_runs(Filter(text="b200 eagle model-3"), root=root))

        def command(*words: str) -> tuple[float, float]:
            done = [sys.executable, *words]
            return seconds(lambda: subprocess.run(done, env=environ, check=True, stdout=subprocess.DEVNULL))

        python = command("-c", "pass")
        whole = command("-m", "spectui", "runs")
        some = command("-m", "spectui", "runs", "--algorithm", "NGRAM", "--gpu", "H200")
        size = (root / runs.INDEX).stat().st_size / 1024**2
    print(f"{count:,} runs, index {size:.1f} MiB                clock       CPU")
    for what, (clock, cpu) in (
        ("an empty Python", python),
        ("built anew", anew),
        ("listed from the index", listed),
        ("five filters", filtered),
        ("three words anywhere", words),
        ("spectui runs, whole process", whole),
        ("spectui runs, two filters", some),
    ):
        print(f"{what:<32} {clock:7.3f} s {cpu:7.3f} s   {cpu / python[1]:6.1f} × an empty Python")


if __name__ == "__main__":
    main()
