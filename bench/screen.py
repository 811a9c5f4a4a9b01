"""The screen on a pseudo-terminal of 160×48 against its limits: ``python bench/screen.py [--seconds N] [PART …]``.

Parts: paint (first paint, in pairs with an empty Textual program in the same environment), home (bytes and processor
time at 2 Hz while both arms are measured), slow (the same with --slow), stalls (of the event loop meanwhile) and keys
(how soon a key is answered on a line that takes 8 KB a second; keys_silent: by a terminal that answers no question, as
some do; keys_slow: with --slow). Prints one JSON object with the limits beside it; the
exit code is 1 where one is missed.
"""

from __future__ import annotations

import argparse
import json
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import psutil
import pyte
from pseudo_terminal import Pty, environment

EMPTY = (
    "from textual.app import App\n"
    "from textual.widgets import Label\n"
    "class Empty(App):\n"
    "    def compose(self):\n"
    "        yield Label('empty')\n"
    "Empty().run()\n"
)
LIMITS = {
    "first_paint_ms": 350, "ratio": 1.8, "bytes_per_s": 20_000, "cpu_percent": 6.0, "slow_bytes_per_s": 5_000,
    "longest_own_stall_ms": 30.0, "slowest_key_s": 0.3,
}  # fmt: skip
UNDER_WAY = re.compile(rb"is being (fed|measured)")
LINE = 8_000
"""Bytes a second of the slow line."""


def holds(word: bytes) -> Callable[[bytes], bool]:
    return lambda seen: word in seen


def paint(home: str, rounds: int) -> dict[str, Any]:
    """From the start of the process to the first frame, and to the first words on the terminal before it. In pairs, so
    that what else the machine does meets both."""
    empty = Path(home) / "empty.py"
    empty.write_text(EMPTY)
    words = {"ours": [sys.executable, "-m", "spectui", "http://127.0.0.1:1"], "empty": [sys.executable, str(empty)]}
    wanted = {"ours": b"spectui  ", "empty": b"empty"}
    times: dict[str, list[float]] = {name: [] for name in (*words, "said")}
    for number in range(rounds + 1):
        for name, command in words.items():
            terminal = Pty(command, environment(home))
            if name == "ours":
                terminal.read(20.0, holds(b"starting"))
                said = (time.perf_counter() - terminal.started) * 1000
            terminal.read(20.0, holds(wanted[name]))
            took = (time.perf_counter() - terminal.started) * 1000
            terminal.end()
            if number:  # the first pair compiles what is not compiled yet
                times[name].append(took)
                times["said"].append(said)
    return {
        "first_words_ms": round(median(times["said"])),
        "first_paint_ms": round(median(times["ours"])),
        "quickest_ms": round(min(times["ours"])),
        "empty_textual_ms": round(median(times["empty"])),
        "ratio": round(median(a / b for a, b in zip(times["ours"], times["empty"], strict=True)), 2),
    }


def measured(command: list[str], home: str, **more: Any) -> Pty:
    """The demonstration on a terminal, once both arms are being measured."""
    terminal = Pty(command, environment(home), **more)
    if not terminal.until(60.0, lambda seen: UNDER_WAY.search(seen) is not None):
        terminal.end()
        raise SystemExit(f"nothing was measured; the end of what was shown: {terminal.seen[-600:]!r}")
    terminal.read(4.0)
    return terminal


def rate(words: list[str], home: str, seconds: float) -> dict[str, float]:
    """Bytes a second, and share of a core of the screen's process."""
    terminal = measured([sys.executable, "-m", "spectui", "demo", *words], home)
    process = psutil.Process(terminal.pid)
    before, began = process.cpu_times(), time.perf_counter()
    count = terminal.read(seconds)
    after, took = process.cpu_times(), time.perf_counter() - began
    terminal.end()
    used = after.user + after.system - before.user - before.system
    return {"bytes_per_s": round(count / took), "cpu_percent": round(100 * used / took, 1)}


def stalls(home: str, seconds: float) -> dict[str, float]:
    """How long the event loop was away at a time: by the clock, and no more than the process itself computed then."""
    figures = Path(home) / "late.json"
    watched = str(Path(__file__).with_name("watched.py"))
    terminal = measured([sys.executable, watched, str(figures), "demo"], home)
    began = time.time()
    terminal.read(seconds)
    until = time.time()
    terminal.end()
    rows = [row for row in json.loads(figures.read_text()) if began <= row[0] <= until]
    own = sorted(min(over, used) for _, over, used in rows)
    return {
        "longest_ms": round(max((over for _, over, _ in rows), default=0.0) * 1000, 1),
        "longest_own_stall_ms": round((own or [0.0])[-1] * 1000, 1),
        "above_30_ms": sum(stall > 0.03 for stall in own),
        "above_15_ms": sum(stall > 0.015 for stall in own),
    }


def keys(home: str, words: list[str], times: int = 12, *, answers: bool = True) -> dict[str, Any]:
    """Seconds from a key to its answer on the screen of a terminal at the end of the slow line."""
    screen = pyte.Screen(160, 48)
    stream = pyte.ByteStream(screen)
    line: dict[str, Any] = {"bytes_per_s": LINE, "heard": stream.feed, "answers": answers}
    terminal = measured([sys.executable, "-m", "spectui", "demo", *words], home, **line)
    took = []
    for number in range(times):
        terminal.read(1.3 + 0.17 * number % 0.5)  # at any moment between two frames
        key, there = ("]", True) if number % 2 == 0 else ("\x1b", False)
        pressed = time.perf_counter()
        terminal.keys(key)
        if not terminal.until(
            20.0, lambda _seen, there=there: any("Staged for" in row for row in screen.display[-4:]) == there
        ):
            raise SystemExit(f"{key!r} was not answered:\n" + "\n".join(screen.display))
        took.append(time.perf_counter() - pressed)
    terminal.end()
    return {"slowest_key_s": round(max(took), 2), "median_key_s": round(median(took), 2), "keys": times}


def missed(found: dict[str, Any]) -> list[str]:
    flat = {**found.get("paint", {}), **found.get("home", {}), **found.get("stalls", {}), **found.get("keys", {})}
    flat["slowest_key_s"] = max(
        (found[part]["slowest_key_s"] for part in ("keys", "keys_silent", "keys_slow") if part in found), default=0.0
    )
    flat["slow_bytes_per_s"] = found.get("slow", {}).get("bytes_per_s", 0)
    return [f"{name} {flat[name]} above {limit}" for name, limit in LIMITS.items() if flat.get(name, 0) > limit]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("parts", nargs="*", default=[], metavar="PART")
    parser.add_argument("--seconds", type=float, default=20.0)
    parser.add_argument("--rounds", type=int, default=9)
    args = parser.parse_args()
    with tempfile.TemporaryDirectory() as home:
        parts: dict[str, Callable[[], dict[str, Any]]] = {
            "paint": lambda: paint(home, args.rounds),
            "home": lambda: rate([], home, args.seconds),
            "slow": lambda: rate(["--slow"], home, args.seconds),
            "stalls": lambda: stalls(home, args.seconds),
            "keys": lambda: keys(home, []),
            "keys_silent": lambda: keys(home, [], answers=False),
            "keys_slow": lambda: keys(home, ["--slow"]),
        }
        found: dict[str, Any] = {name: parts[name]() for name in args.parts or parts}
    found["missed"] = missed(found)
    print(json.dumps({"limits": LIMITS, **found}, indent=1))
    return 1 if found["missed"] else 0


if __name__ == "__main__":
    sys.exit(main())
