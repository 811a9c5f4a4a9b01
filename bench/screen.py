"""Bytes, processor time and first paint of the screen on a pseudo-terminal: ``python bench/screen.py [--seconds N]``.

Prints one JSON object. Times are of this machine, so the first paint is also given as a ratio to that of an empty
Textual program in the same environment.
"""

from __future__ import annotations

import argparse
import contextlib
import fcntl
import json
import os
import pty
import select
import signal
import struct
import sys
import tempfile
import termios
import time
from pathlib import Path
from statistics import median

import psutil

EMPTY = (
    "from textual.app import App\n"
    "from textual.widgets import Label\n"
    "class Empty(App):\n"
    "    def compose(self):\n"
    "        yield Label('empty')\n"
    "Empty().run()\n"
)


class Pty:
    def __init__(self, command: list[str], env: dict[str, str], columns: int = 160, rows: int = 48) -> None:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            os.execve(command[0], command, env)
        fcntl.ioctl(self.fd, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
        self.seen = b""

    def read(self, seconds: float, until: bytes | None = None) -> int:
        """Bytes that came within the time, or until some were seen."""
        end, count = time.perf_counter() + seconds, 0
        while (left := end - time.perf_counter()) > 0:
            if not select.select([self.fd], [], [], left)[0]:
                break
            try:
                data = os.read(self.fd, 1 << 16)
            except OSError:
                break
            count += len(data)
            self.seen = (self.seen + data)[-100_000:]
            if until is not None and until in self.seen:
                break
        return count

    def end(self) -> None:
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self.read(6.0)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def environment(home: str) -> dict[str, str]:
    more = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    return {**os.environ, **more, "SPECTUI_HOME": home, "TEXTUAL_ANIMATIONS": "none"}


def first_paint(command: list[str], wanted: bytes, home: str, rounds: int) -> float:
    """Median milliseconds from the start to the first frame that has the words."""
    times = []
    for _ in range(rounds):
        terminal = Pty(command, environment(home))
        terminal.read(20.0, wanted)
        times.append((time.perf_counter() - terminal.started) * 1000)
        terminal.end()
    return median(times)


def with_a_run(words: list[str], home: str, seconds: float) -> dict[str, float]:
    """Bytes a second and share of a core while the demonstration measures both arms."""
    terminal = Pty([sys.executable, "-m", "spectui", "demo", *words], environment(home))
    terminal.read(40.0, b"being")
    terminal.read(4.0)
    process = psutil.Process(terminal.pid)
    before, began = process.cpu_times(), time.perf_counter()
    count = terminal.read(seconds)
    after, took = process.cpu_times(), time.perf_counter() - began
    used = after.user + after.system - before.user - before.system
    terminal.end()
    return {"bytes_per_s": round(count / took), "cpu_percent": round(100 * used / took, 1)}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=5)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        empty = Path(home) / "empty.py"
        empty.write_text(EMPTY)
        plain = first_paint([sys.executable, str(empty)], b"empty", home, args.rounds)
        ours = [sys.executable, "-m", "spectui", "http://127.0.0.1:1"]
        mine = first_paint(ours, b"spectui  ", home, args.rounds)
        print(
            json.dumps(
                {
                    "first_paint_ms": round(mine),
                    "empty_textual_ms": round(plain),
                    "ratio": round(mine / plain, 2),
                    "home_2_hz": with_a_run([], home, args.seconds),
                    "slow": with_a_run(["--slow"], home, args.seconds),
                },
                indent=1,
            )
        )


if __name__ == "__main__":
    main()
