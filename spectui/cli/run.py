"""Measures one server with a workload: one run, cold, warm or both."""

from __future__ import annotations

import argparse
import json
import sys

from spectui.cli import options, progress, tables
from spectui.cli.failure import Failure
from spectui.core.result import run_json

EXAMPLES = """examples:
  spectui run http://127.0.0.1:30000 --workload json --pass both --flush
  spectui run http://127.0.0.1:30000 --file mine.jsonl --concurrency 1,4,16 --json

workloads: short long chat edit json repeat mixed (docs/workloads.md says what each is for)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a server, or the name of a managed one")
    options.add_run_options(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, running

    target = arms.resolve(args.url)
    if target.url is None:
        raise Failure(f"{args.url} is a {'profile' if target.profile else 'stored run'}, not a running server", 2)
    arm = arms.arm_spec("A", target, key=args.key, admin_key=args.admin_key)
    spec = running.build_spec([arm], options.run_options(args))
    handle = running.start(spec)
    with progress.Progress(quiet=args.json) as shown:
        try:
            result = running.wait(handle, shown.row)
        except KeyboardInterrupt:
            result = running.result_of(handle.folder)
    said = {"run": spec.run_id, "folder": str(handle.folder), **run_json(result)}
    if args.json:
        print(json.dumps(said))
    else:
        tables.print_run(result)
        print(f"\nkept in {handle.folder}")
    code = running.exit_code(handle, result)
    if code:
        sys.stderr.write(f"spectui: {result.reason or 'the run ended without a reason'}\n")
    return code
