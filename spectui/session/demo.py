"""The demonstration: simulated servers that it starts, and ends again however it ends itself.

As a program of its own (``python -m spectui.session.demo NAME…``) it waits until its input is closed, which happens
whatever ends the demonstration, and then stops the servers of these names.
"""

from __future__ import annotations

import contextlib
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.hosts import own_process
from spectui.hosts.records import ServerRecord
from spectui.session import SessionError, running, serving
from spectui.session.arms import arm_spec, resolve
from spectui.session.running import RunOptions
from spectui.store import profiles

MODEL = "demo/Llama-3.1-8B-Instruct"
DRAFT = "demo/EAGLE3-Llama-3.1-8B"
HEADLESS_SPEED = 8.0
SCREEN_SPEED = 0.25
"""A quarter of the recorded pace of a small model is about that of a large one, and an eye can follow it."""
HEADLESS = RunOptions(workload="json", passes=("cold", "warm"), requests=6, max_tokens=160, feed_limit=16)
SCREEN = RunOptions(workload="json", passes=("warm",), requests=16, concurrency=(2,), max_tokens=320, feed_limit=24)


@dataclass
class Demo:
    folder: Path
    names: list[str] = field(default_factory=list)
    records: list[ServerRecord] = field(default_factory=list)


def profile_for(name: str, algorithm: str, *, speed: float, startup_s: float) -> Profile:
    knobs: dict[str, dict[str, Any]] = {
        "NGRAM": {"num_draft_tokens": 8},
        "EAGLE3": {"num_steps": 3, "eagle_topk": 1, "num_draft_tokens": 4, "draft_model_path": DRAFT},
        "none": {},
    }
    server = ServerPart(
        command=f"{{python}} -m spectui sim --sim-speed {speed:g} --sim-startup {startup_s:g} {{args}}",
        model_path=MODEL,
        args={"enable_metrics": True, "decode_log_interval": 10, "max_running_requests": 48},
        env=own_process.additions(),
    )
    return Profile(
        name, "A simulated server of the demonstration", server, SpeculativePart(algorithm, knobs[algorithm])
    )


@contextmanager
def started(
    wanted: Sequence[tuple[str, str]], *, speed: float = 1.0, startup_s: float = 1.0, wait: bool = True
) -> Iterator[Demo]:
    """Simulated servers for (name, algorithm), ended at the end whatever happens; names that run already get a number.

    Their profiles lie in a temporary folder, so that a flip relaunches a simulated server.
    """
    with tempfile.TemporaryDirectory(prefix="spectui-demo-") as place:
        demo = Demo(Path(place))
        taken = _taken()
        for name, algorithm in wanted:
            free = name if name not in taken else f"{name}-{os.getpid()}"
            demo.names.append(free)
            made = profile_for(free, algorithm, speed=speed, startup_s=startup_s)
            profiles.save(made, demo.folder / f"{free}.toml")
        guard = _guard(demo.names)
        try:
            for free in demo.names:
                demo.records.append(_launch(profiles.load(demo.folder / f"{free}.toml"), free))
            if wait:
                for record in demo.records:
                    serving.wait_ready(record, poll_s=0.1)
            yield demo
        finally:
            stop_all(demo.names)
            if guard.stdin is not None:
                guard.stdin.close()
            with contextlib.suppress(subprocess.TimeoutExpired):
                guard.wait(5)


def _launch(profile: Profile, name: str) -> ServerRecord:
    """On the first port from 30000 on that nobody has or has been promised."""
    from spectui.hosts import ports, servers

    promised = {record.port for record in servers.records() if servers.alive(record)}
    port = 30000
    for _ in range(20):
        port = ports.free_port(port, promised)
        try:
            return serving.launch(serving.prepare(profile, name=name, port=port))
        except SessionError as error:
            refused = error
            port += 10
    raise refused


def _taken() -> set[str]:
    from spectui.hosts import servers

    return {record.name for record in servers.records() if servers.alive(record)}


def _guard(names: Sequence[str]) -> subprocess.Popen[bytes]:
    """A process that sees its input end with this one, by whatever signal, and then stops the servers."""
    return subprocess.Popen(
        [sys.executable, "-m", "spectui.session.demo", *names],
        stdin=subprocess.PIPE,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
        env=own_process.environment(),
    )


def stop_all(names: Sequence[str]) -> None:
    """By name: a flip during the demonstration has put another process in the place of the first."""

    def stop(name: str) -> None:
        with contextlib.suppress(SessionError):
            serving.stop(name)

    with ThreadPoolExecutor(max(1, len(names))) as at_once:
        list(at_once.map(stop, names))


def measure(
    algorithms: Sequence[str], say: Callable[[str], None] = lambda _text: None, *, speed: float = HEADLESS_SPEED
) -> list[dict[str, Any]]:
    """Each algorithm cold and warm, one after another: its name and its passes as the command line prints them."""
    from spectui.core.result import run_json

    found = []
    wanted = [(f"demo-{name.lower()}", name) for name in algorithms]
    with started(wanted, speed=speed, startup_s=0.2) as demo:
        for name, record in zip(algorithms, demo.records, strict=True):
            say(f"measuring {name}, cold and warm")
            spec = arm_spec("A", resolve(record.url), trusted=True)
            handle = running.start(running.build_spec([spec], HEADLESS))
            try:
                result = running.wait(handle)
            except BaseException:
                running.stop(handle)
                raise
            if result.status != "complete":
                raise SessionError(f"the demonstration's run of {name} {result.status}: {result.reason}")
            found.append({"algorithm": name, "simulated": True, "run": handle.folder.name, **run_json(result)})
    return found


def main(names: Sequence[str]) -> int:
    sys.stdin.buffer.read()
    stop_all(names)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
