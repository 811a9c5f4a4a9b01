"""Starts a server from a profile and waits until it produced a token. It outlives this terminal."""

from __future__ import annotations

import argparse
import json
import sys
import time

from spectui.cli import options, shown

EXAMPLES = """examples:
  spectui launch ngram                     a profile by name (spectui profiles lists them)
  spectui launch ./mine.toml --port 30010
  spectui launch mine --dry-run            the plan and the exact command, nothing started
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", help="name or path of a profile")
    parser.add_argument("--port", type=options.positive, help="in place of the profile's")
    parser.add_argument("--name", help="name of the server (the profile's)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and the command only")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is ready")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    import shlex

    from spectui.hosts.lasting import lasting
    from spectui.session import serving
    from spectui.store import profiles

    profile = profiles.load(args.profile)
    prepared = serving.prepare(profile, port=args.port, name=args.name)
    command = shlex.join(prepared.launch.argv)
    say = sys.stderr.write
    for finding in (*prepared.plan.dangers, *prepared.plan.warnings):
        say(f"note: {finding.text}\n")
    for note in prepared.notes:
        say(f"note: {note}\n")
    if args.dry_run:
        if args.json:
            print(json.dumps({"command": list(prepared.launch.argv), "plan": shown.plan_json(prepared.plan)}))
        else:
            shown.print_plan(prepared.plan)
            print(f"\n{command}")
        return 0
    keeps = lasting()
    if keeps.survives is False:
        say(f"note: {keeps.sentence}\n")
    record = serving.launch(prepared)
    if args.no_wait:
        state = None
    else:
        begun, last = time.monotonic(), ""

        def tell(now: object) -> None:
            nonlocal last
            phase = str(getattr(now, "phase", ""))
            if phase != last:
                last = phase
                say(f"{time.monotonic() - begun:6.1f} s  {phase}\n")

        state = serving.wait_ready(record, tell)
    said = {
        "name": record.name,
        "url": record.url,
        "pid": record.pid,
        "log": record.log_path,
        "ready": bool(state and state.ready),
        "seconds": None if state is None else round(state.elapsed_s, 2),
    }
    if args.json:
        print(json.dumps(said))
    else:
        print(f"{record.name} {'ready' if said['ready'] else 'starting'} at {record.url}, log {record.log_path}")
    return 0
