"""Discovery among many processes, and how long a stop takes beyond the server's own time.

    python bench/servers.py            prints one JSON object; times are seconds, ratios against the plain work

``discovery``: one look at the node with 500 more processes, against psutil listing their command lines alone.
``stop``: from the order until memory and ports are back, against the same server ended by a bare SIGTERM.
``ready``: from the server's own "ready" line until spectui says so.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from statistics import median

import psutil

from spectui.hosts import discover, servers
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.ports import free_port
from spectui.hosts.servers import LaunchPlan, ServerRecord, ServerWatch

NO_GPUS = GpuPanel((), "none")
ROUNDS = 5


def discovery(folder: Path, extra: int = 500) -> dict[str, float]:
    many = [subprocess.Popen(["sleep", "600"]) for _ in range(extra)]
    try:
        looks, lists = [], []
        for _ in range(ROUNDS):
            begun = time.perf_counter()
            discover.find(folder=folder)
            looks.append(time.perf_counter() - begun)
            begun = time.perf_counter()
            for process in psutil.process_iter():
                try:
                    process.cmdline()
                except psutil.Error:
                    continue
            lists.append(time.perf_counter() - begun)
        return {"seconds": median(looks), "ratio": median(looks) / median(lists), "processes": len(psutil.pids())}
    finally:
        for process in many:
            process.kill()
            process.wait()


def launch(folder: Path) -> ServerRecord:
    port = free_port(39000)
    argv = (sys.executable, "-m", "spectui.engines.sim", "--model-path", "sim", "--port", str(port))
    argv += ("--sim-startup", "0.05", "--sim-speed", "1000")
    made = LaunchPlan("bench", argv, "127.0.0.1", port, str(folder / "sim.log"), simulated=True)
    return servers.launch(made, folder=folder, panel=NO_GPUS)


def wait(record: ServerRecord, folder: Path) -> float:
    """Seconds from its own word to ours."""
    watch = ServerWatch(record, folder=folder)
    said: list[float] = []

    def listen() -> None:
        while servers.alive(record) and "fired up" not in Path(record.log_path).read_text():
            time.sleep(0.002)
        said.append(time.perf_counter())

    listener = threading.Thread(target=listen)
    listener.start()
    while not (state := watch.poll()).ready:
        if not state.running:
            raise SystemExit(f"the server did not start: see {record.log_path}")
        time.sleep(0.25)  # as a launch does
    ready = time.perf_counter()
    listener.join()
    return ready - said[0]


def main() -> None:
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        bare, ours, ready = [], [], []
        for _ in range(ROUNDS):
            record = launch(folder)
            ready.append(wait(record, folder))
            begun = time.perf_counter()
            os.kill(record.pid, signal.SIGTERM)
            while servers.alive(record):
                time.sleep(0.005)
            bare.append(time.perf_counter() - begun)
            servers.stop(record, folder=folder, with_leftovers=True)
            record = launch(folder)
            wait(record, folder)
            begun = time.perf_counter()
            servers.stop(record, folder=folder)
            ours.append(time.perf_counter() - begun)
        stop = {"seconds": median(ours), "beyond_s": median(ours) - median(bare), "ratio": median(ours) / median(bare)}
        said = {"discovery": discovery(folder), "stop": stop, "ready": {"later_s": median(ready)}}
        print(json.dumps(said, indent=1))


if __name__ == "__main__":
    main()
