"""Two simulated servers and the screen, with a run going on; --headless compares three algorithms and prints it."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from typing import TYPE_CHECKING, Any

from spectui.cli.failure import EXIT_USAGE, Failure

if TYPE_CHECKING:
    from spectui.session.live import Live

EXAMPLES = """examples:
  spectui demo                    the screen: press ? for every key
  spectui demo --headless         none, NGRAM and EAGLE3, cold and warm, as a table
  spectui demo --headless --json

Everything in it is simulated: no GPU, no model, no SGLang is needed. Its servers are ended when it ends.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    from spectui.cli import add_screen_options, options

    parser.add_argument("--headless", action="store_true", help="no screen: measure and print")
    parser.add_argument(
        "--sim-speed", type=float, metavar="X", help="pace of the simulated servers; 1 is that of the recorded ones"
    )
    add_screen_options(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.sim_speed is not None and not 0 < args.sim_speed <= 1000:
        raise Failure(f"--sim-speed must be above 0 and at most 1000, not {args.sim_speed:g}", EXIT_USAGE)
    if args.headless or args.json:
        return _headless(args)
    from spectui.cli import screen
    from spectui.session import demo
    from spectui.session.live import Live

    live = Live(options=demo.SCREEN)
    with demo.started(
        (("demo-a", "NGRAM"), ("demo-b", "EAGLE3")),
        speed=args.sim_speed or demo.SCREEN_SPEED,
        startup_s=2.0,
        wait=False,
    ) as servers:
        code = screen.open_screen(args, (), live=live, opening=lambda live: _open(live, servers.names))
        sys.stdout.write("stopping the simulated servers …\n")
        sys.stdout.flush()
        _end_run(live)
    return code


def _end_run(live: Live) -> None:
    """Its servers end with the demonstration: while it goes on, each of them would wait for its requests."""
    if live.measuring.active:
        with contextlib.suppress(Exception):
            live.measuring.stop()


def _open(live: Live, names: list[str]) -> str:
    """Both arms, and as soon as they are ready a comparison of them."""
    import time

    for letter, name in zip("AB", names, strict=True):
        live.choose(letter, name)
    live.opening = ""
    while not live.closing and not all(arm.ready for arm in live.arms.values()):
        if any(arm.standing()[0] == "failed" for arm in live.arms.values()):
            return ""
        time.sleep(0.1)
    if live.closing:
        return ""
    live.compare()
    return "everything here is simulated: A and B are measured in turn; ? shows every key"


def _headless(args: argparse.Namespace) -> int:
    from spectui.session import demo

    def say(text: str) -> None:
        if not args.json:
            sys.stderr.write(text + "\n")

    speed = args.sim_speed or demo.HEADLESS_SPEED
    say(f"simulated servers, {speed:g} times as fast as the recorded ones, so that this is quick")
    arms = demo.measure(("none", "NGRAM", "EAGLE3"), say, speed=speed)
    if args.json:
        note = "simulated servers: accept lengths follow the real rules, speeds are scaled and say nothing about a GPU"
        print(json.dumps({"simulated": True, "sim_speed": speed, "note": note, "arms": arms}))
        return 0
    _print(arms, speed)
    return 0


def _print(arms: list[dict[str, Any]], speed: float) -> None:
    from spectui.cli import shown

    rows = []
    for arm in arms:
        for name in ("cold", "warm"):
            figures = arm["passes"].get(name)
            if figures is not None:
                rows.append((arm["algorithm"], name, _number(figures["output_tokens_per_s"], 0),
                             _number(figures["accept_length"], 2), _number(figures["step_time_ms"], 2),
                             figures["requests"]))  # fmt: skip
    head = ("algorithm", "pass", "output tok/s", "accept_length", "step ms", "requests")
    print(shown.table(head, rows, right=frozenset((2, 3, 4, 5))))
    print(f"\nsimulated, at {speed:g} times the recorded speed. NGRAM cold knows nothing yet; warm, it was fed first.")


def _number(value: float | None, digits: int) -> str:
    return "n/a" if value is None else f"{value:,.{digits}f}"
