"""The check after a restart: is this server what the profile says, and as fast? Takes less than a minute."""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli import options, progress
from spectui.cli.failure import EXIT_NOT_REACHABLE
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.session.checking import Checked, CheckOptions, Target

EXAMPLES = """examples:
  spectui check mine                          the server of a profile, against the profile's evidence
  spectui check http://127.0.0.1:30000        a server without a profile: nothing stored to compare with
  spectui check mine --wait && echo good      in a start script: waits until it generates
  spectui check mine --feed                   NGRAM: feed the store first, compare with the warm result
  spectui check mine --watch 3600 --json      every hour with fresh prompts, a line of JSON each

exit code 0: good; 1: something is not as expected; 3: not reachable. Nothing is flushed.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("target", metavar="PROFILE|URL", help="a profile, a managed server's name or an address")
    source = parser.add_mutually_exclusive_group()
    source.add_argument("--workload", metavar="W", help="in place of the profile's")
    source.add_argument("--file", type=Path, metavar="F.jsonl", help="prompts of your own")
    parser.add_argument("--requests", type=options.positive, metavar="N", help="measured requests (8, fewer if slow)")
    parser.add_argument("--feed", action="store_true", help="NGRAM: feed the store before measuring")
    parser.add_argument("--wait", action="store_true", help="wait until the server generates")
    parser.add_argument(
        "--wait-limit", type=options.positive, default=1800, metavar="SECONDS", help="for --wait (1800)"
    )
    parser.add_argument("--watch", type=options.positive, metavar="SECONDS", help="repeat, with fresh prompts")
    parser.add_argument("--times", type=options.positive, metavar="N", help="with --watch: end after N checks")
    options.add_key_options(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import checking

    asked = checking.CheckOptions(
        workload=args.workload,
        file=args.file,
        requests=args.requests,
        feed=args.feed,
        key=args.key,
        admin_key=args.admin_key,
    )
    target = checking.target_of(args.target, asked)
    done = 0
    while True:
        with progress.Progress(quiet=args.json) as line:
            if args.wait and done == 0 and not checking.wait_until_ready(target, args.wait_limit, line.say):
                sys.stderr.write(f"spectui: {target.url} generated no token within {args.wait_limit} s\n")
            checked = checking.check(
                target,
                asked,
                say=line.say,
                on_row=line.row,
                on_probe=lambda probe, _finding: line.say(probe.title),
            )
        done += 1
        if args.json:
            print(json.dumps(checked.as_json()), flush=True)
        else:
            print_checked(checked, short=args.watch is not None and done > 1)
        if args.watch is None or (args.times is not None and done >= args.times):
            break
        _pause(args.watch)
        target = _again(args.target, asked, target)
    if checked.exit_code == EXIT_NOT_REACHABLE:
        sys.stderr.write(f"spectui: {safe_text('; '.join(checked.notes), 400)}\n")
    return checked.exit_code


def _again(text: str, asked: CheckOptions, before: Target) -> Target:
    """The target as it is now: its server may have been launched anew elsewhere, and its profile may hold more."""
    from spectui.core.profile import ProfileError
    from spectui.session import SessionError, checking

    try:
        return checking.target_of(text, asked)
    except (ProfileError, SessionError):
        return before  # being edited, or its server is down at this moment


def _pause(seconds: float, sleep: Callable[[float], None] = time.sleep) -> None:
    sleep(seconds)


_AGAINST_FIGURES = ("accept_length", "step_time")
"""Probes whose good answer is believed only beside the figures that it was held against."""
_SIGNS = {True: "good", False: "NOT GOOD", None: "–"}


def print_checked(checked: Checked, *, short: bool = False) -> None:
    simulated = " · simulated" if checked.simulated else ""
    profile = f" · profile {checked.profile}" if checked.profile else " · no profile"
    bad = [(probe, finding) for probe, finding in checked.found if finding.ok is False]
    if not short:
        print(safe_text(f"{checked.url}{profile}{simulated}", 300))
        print()
        for probe, finding in checked.found:
            head = f"{_SIGNS[finding.ok]:<9} {probe.title}"
            print(safe_text(head, 200))
            told = finding.ok is not True or probe.name in _AGAINST_FIGURES
            if finding.value:
                expected = f"   (expected: {finding.expected})" if finding.expected and told else ""
                print(safe_text(f"          {finding.value}{expected}", 600))
            if finding.detail and told:
                print(safe_text(f"          {finding.detail}", 900))
            if finding.ok is False:
                print(safe_text(f"          why it matters: {probe.why}", 400))
                if finding.next:
                    print(safe_text(f"          next: {finding.next}", 600))
        print()
        for note in checked.notes:
            print(safe_text(f"note: {note}", 400))
    unsure = sum(finding.ok is None for _, finding in checked.found)
    word = "good" if checked.ok else "not reachable" if not checked.reachable else "not good"
    what = "" if not bad else f": {', '.join(probe.name for probe, _ in bad)}"
    stamp = time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(checked.when))
    length = checked.figures.get("accept_length")
    step = checked.figures.get("step_time_ms")
    trend = checked.figures.get("drift")
    numbers = "".join(
        (
            "" if length is None else f" · accept length {length:.2f}",
            "" if step is None else f" · step {step:.2f} ms",
            "" if trend is None else f" · accept length went {trend['text']}",
        )
    )
    print(f"{stamp}  {word}{what}{numbers} · {unsure} not checked · {checked.seconds:.1f} s", flush=True)
