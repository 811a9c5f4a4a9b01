"""The cost and the timing error of the measuring transport, beside other clients, against a server of known timing.

    python bench/transport.py [--seconds 4] [--clients epoll,reader,httpx,aiohttp] [--json]

Each client is a process of its own and does what a benchmark must: receive the stream, split it, read the running
token count of each event. ``reader`` is a plain C program, the least there can be; it and aiohttp are left out where
there is no compiler or no such package. Printed a row: CPU µs an event; error of TTFT and of the gaps between events,
in ms, against what the server really sent; how far the client fell behind; and the cost as a share of the others'.
Absolute figures are of the machine and its other load; the shares are what should hold.

What should hold: TTFT within 0.3 ms at the median and 1 ms at p99; paced gaps within 0.5 ms at p99; a cost of at most
1/5 of httpx, half of aiohttp, 3 times the C reader. Not all of it does: docs/measured-client.md.
"""

from __future__ import annotations

import argparse
import gc
import json
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
SETTINGS = {"64 x 50": (64, 50.0), "256 x 50": (256, 50.0), "unpaced": (8, 0.0)}


class Trace:
    """What one stream showed: start, stamp of each event, and the server's own times, which are its text."""

    def __init__(self) -> None:
        self.start = 0
        self.stamps: list[int] = []
        self.texts: list[str] = []
        self.tokens = 0

    def event(self, payload: bytes, stamp: int) -> None:
        found = json.loads(payload)
        self.tokens = found["meta_info"]["completion_tokens"]
        self.texts.append(found["text"])
        self.stamps.append(stamp)

    @property
    def received(self) -> int:
        return int("".join(self.texts).split()[0])

    @property
    def sent(self) -> list[int]:
        return [int(word) for word in "".join(self.texts).split()[1:]]


def percentile(values: list[float], share: float) -> float:
    ordered = sorted(values)
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))] if ordered else float("nan")


def errors(traces: list[Trace]) -> dict[str, float]:
    """Milliseconds. The time between the request's send and its receipt belongs to TTFT; it is some microseconds."""
    first, gaps, lag = [], [], []
    for t in traces:
        sent = t.sent
        first.append(abs((t.stamps[0] - t.start) - (sent[0] - t.received)) / 1e6)
        lag += [(a - b) / 1e6 for a, b in zip(t.stamps, sent, strict=True)]
        for i in range(1, len(t.stamps)):
            gaps.append(abs((t.stamps[i] - t.stamps[i - 1]) - (sent[i] - sent[i - 1])) / 1e6)
    return {
        "ttft_p50": percentile(first, 0.5),
        "ttft_p99": percentile(first, 0.99),
        "gap_p99": percentile(gaps, 0.99),
        "lag_p99": percentile(lag, 0.99),
    }


def bodies(streams: int, events: int, rate: float) -> list[bytes]:
    """First events are spread over one period, so that the schedule's events do not fall on one moment."""
    spread = 1 / rate if rate else 0.0
    return [
        json.dumps({"events": events, "rate": rate, "first_s": 0.2 + spread * i / streams}).encode()
        for i in range(streams)
    ]


def run_epoll(port: int, streams: int, events: int, rate: float, kind: str) -> dict[str, Any]:
    from spectui.core.spec import Prompt
    from spectui.runner.arrival import ClosedLoop, Job, Request
    from spectui.runner.record import Identity
    from spectui.runner.transport import Call, open_transport

    transport = open_transport(f"http://127.0.0.1:{port}", kind=kind)
    done: list[Request] = []
    jobs = [
        Job(
            Identity(i, "", "", "A", "warm", "measure", streams, 0, ""),
            Prompt("", ""),
            Call("/generate", body),
            None,
            True,
        )
        for i, body in enumerate(bodies(streams, events, rate))
    ]
    loop = ClosedLoop(transport, streams, ended=done.append, tick=lambda running: None, stopped=lambda: False)
    gc.collect()
    gc.freeze()
    gc.disable()
    begin, wall = time.process_time(), time.monotonic()
    loop.run(iter(jobs))
    cpu, wall = time.process_time() - begin, time.monotonic() - wall
    traces = []
    for request in done:
        assert request.ending is not None
        assert request.fold.tokens == events, f"{request.fold.tokens} of {events} tokens: {request.ending}"
        trace = Trace()
        trace.start, trace.stamps, trace.texts = request.fold.start_ns, request.fold.stamps, [request.fold.text]
        traces.append(trace)
    transport.close()
    return result(cpu, wall, traces, f"{transport.name}, {transport.stamps} stamps")


def run_httpx(port: int, streams: int, events: int, rate: float) -> dict[str, Any]:
    import asyncio

    import httpx

    async def one(client: httpx.AsyncClient, body: bytes, trace: Trace) -> None:
        trace.start = time.time_ns()
        async with client.stream("POST", "/generate", content=body) as response:
            async for line in response.aiter_lines():
                if line.startswith("data: {"):
                    trace.event(line[6:].encode(), time.time_ns())

    async def everything() -> dict[str, Any]:
        limits = httpx.Limits(max_connections=None)
        async with httpx.AsyncClient(
            base_url=f"http://127.0.0.1:{port}", limits=limits, timeout=120, trust_env=False
        ) as c:
            traces = [Trace() for _ in range(streams)]
            begin, wall = time.process_time(), time.monotonic()
            await asyncio.gather(*(one(c, b, t) for b, t in zip(bodies(streams, events, rate), traces, strict=True)))
            return result(time.process_time() - begin, time.monotonic() - wall, traces, "httpx")

    return asyncio.run(everything())


def run_aiohttp(port: int, streams: int, events: int, rate: float) -> dict[str, Any]:
    import asyncio

    import aiohttp  # type: ignore[import-not-found]

    async def one(session: Any, body: bytes, trace: Trace) -> None:
        trace.start = time.time_ns()
        async with session.post(f"http://127.0.0.1:{port}/generate", data=body) as response:
            async for line in response.content:
                if line.startswith(b"data: {"):
                    trace.event(line[6:], time.time_ns())

    async def everything() -> dict[str, Any]:
        async with aiohttp.ClientSession(connector=aiohttp.TCPConnector(limit=0)) as session:
            traces = [Trace() for _ in range(streams)]
            begin, wall = time.process_time(), time.monotonic()
            await asyncio.gather(
                *(one(session, b, t) for b, t in zip(bodies(streams, events, rate), traces, strict=True))
            )
            return result(time.process_time() - begin, time.monotonic() - wall, traces, "aiohttp")

    return asyncio.run(everything())


def result(cpu: float, wall: float, traces: list[Trace], name: str) -> dict[str, Any]:
    count = sum(len(t.stamps) for t in traces)
    return {"name": name, "us": 1e6 * cpu / count, "cores": cpu / wall, "events": count, **errors(traces)}


def client(kind: str, port: int, streams: int, events: int, rate: float) -> dict[str, Any]:
    if kind == "httpx":
        return run_httpx(port, streams, events, rate)
    if kind == "aiohttp":
        return run_aiohttp(port, streams, events, rate)
    return run_epoll(port, streams, events, rate, "epoll" if kind == "epoll" else "httpx")


def measure(kind: str, setting: str, seconds: float, reader: str | None) -> dict[str, Any]:
    streams, rate = SETTINGS[setting]
    events = int(rate * seconds) if rate else int(5000 * seconds)
    server = subprocess.Popen([sys.executable, str(HERE / "paced_server.py")], stdout=subprocess.PIPE, text=True)
    try:
        assert server.stdout is not None
        port = int(server.stdout.readline())
        numbers = [str(port), str(streams), str(events), str(rate)]
        command = (
            [reader, *numbers]
            if kind == "reader" and reader
            else [sys.executable, __file__, "--client", kind, *numbers]
        )
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise SystemExit(f"{kind} failed: {done.stderr.strip()[-500:]}")
        said = json.loads(done.stdout)
        if kind == "reader":
            said = {"name": "C reader", "us": 1e6 * said["cpu"] / said["events"], "cores": said["cpu"] / said["wall"]}
        return {"setting": setting, "client": kind, **said}
    finally:
        server.kill()
        server.communicate()


def importable(name: str) -> bool:
    return subprocess.run([sys.executable, "-c", f"import {name}"], capture_output=True, check=False).returncode == 0


def compiled(folder: str) -> str | None:
    """The C reader, or None where there is no compiler."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        return None
    target = f"{folder}/reader"
    subprocess.run([compiler, "-O2", "-o", target, str(HERE / "reader.c")], check=True)
    return target


COLUMNS = ("ttft_p50", "ttft_p99", "gap_p99", "lag_p99")


def shown(value: float | None, width: int, digits: int) -> str:
    return f"{value:{width}.{digits}f}" if value is not None else "–".rjust(width)


def table(rows: list[dict[str, Any]]) -> str:
    others = [kind for kind in ("reader", "httpx", "aiohttp") if any(row["client"] == kind for row in rows)]
    heads = ["µs/event", "cores", "TTFT p50", "TTFT p99", "gap p99", "lag p99", *(f"of {kind}" for kind in others)]
    lines = [f"{'setting':9} {'client':21} " + " ".join(f"{head:>10}" for head in heads)]
    for row in rows:
        base = {r["client"]: r["us"] for r in rows if r["setting"] == row["setting"]}
        cells = [shown(row["us"], 10, 1), shown(row["cores"], 10, 2)]
        cells += [shown(row.get(column), 10, 3) for column in COLUMNS]
        cells += [shown(row["us"] / base[kind] if kind in base else None, 10, 2) for kind in others]
        lines.append(f"{row['setting']:9} {row['name']:21} " + " ".join(cells))
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=4.0)
    parser.add_argument("--clients", default="epoll,reader,httpx,aiohttp")
    parser.add_argument("--settings", default=",".join(SETTINGS))
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--client", nargs=5, help=argparse.SUPPRESS)
    args = parser.parse_args()
    if args.client:
        kind, port, streams, events, rate = args.client
        print(json.dumps(client(kind, int(port), int(streams), int(events), float(rate))))
        return
    with tempfile.TemporaryDirectory() as folder:
        reader = compiled(folder)
        absent = {name for name in ("aiohttp",) if not importable(name)} | ({"reader"} if reader is None else set())
        clients = [name for name in args.clients.split(",") if name not in absent]
        rows = []
        for setting in args.settings.split(","):
            paced = SETTINGS[setting][1] > 0
            for kind in clients:
                seconds = args.seconds if paced or kind in ("epoll", "reader") else min(args.seconds, 1.0)
                rows.append(measure(kind, setting, seconds, reader))
    print(json.dumps(rows) if args.json else table(rows))


if __name__ == "__main__":
    main()
