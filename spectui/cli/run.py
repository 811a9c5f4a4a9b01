"""Measures one server with a workload: one run, cold, warm, both, or primed with a corpus."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from spectui.cli import options, progress, tables
from spectui.cli.failure import Failure
from spectui.core.curves import curve_json
from spectui.core.result import RunResult, run_json
from spectui.core.safe import safe_text

EXAMPLES = """examples:
  spectui run http://127.0.0.1:30000 --workload json --pass both --flush
  spectui run http://127.0.0.1:30000 --file mine.jsonl --concurrency 1,4,16 --json
  spectui run http://127.0.0.1:30000 --workload edit --pass primed --corpus answers.jsonl --flush

workloads: short long chat edit json repeat mixed (docs/workloads.md says what each is for)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a server, or the name of a managed one")
    options.add_run_options(parser)
    options.add_explain(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, fitting, history_of_feeding, running
    from spectui.session.compared import turns_of

    target = arms.resolve(args.url)
    if target.url is None:
        what = "profile: start it with spectui launch" if target.profile else "stored run: show it with spectui runs"
        raise Failure(f"{args.url} is no running server but a {what}", 2)
    arm = arms.arm_spec("A", target, key=args.key, admin_key=args.admin_key)
    chosen = options.run_options(args)
    spec = running.build_spec([arm], chosen)
    infos = {"A": fitting.look(arm)}
    fitting.refuse(spec, infos)
    asked, fits = fitting.before(spec, infos)
    if not args.json:
        for note in running.workload_for(chosen).notes if args.file else ():
            print(tables.wrapped(note, lead="prompts  "))
        tables.print_fit(asked, fits, whole=args.explain)
    handle = running.start(spec)
    with progress.Progress(quiet=args.json) as shown:
        try:
            result = running.wait(handle, shown.row)
        except KeyboardInterrupt:
            if not handle.journal.is_file():
                raise  # its runner had not begun to write: nothing was measured
            result = running.result_of(handle.folder)
    result = history_of_feeding.enriched(result, handle.folder)
    curves = _curves(result, turns_of(handle.folder))
    if args.json:
        print(json.dumps({"run": spec.run_id, "folder": str(handle.folder), **_json(result, curves, fits)}))
    else:
        tables.print_run(result, curves)
        print(f"\nkept in {handle.folder}")
    code = running.exit_code(handle, result)
    if code:
        sys.stderr.write(f"spectui: {safe_text(result.reason or 'the run ended without a reason', 1000)}\n")
    return code


def _curves(result: RunResult, turns: dict[str, int]) -> dict[tuple[str, int, str], Any]:
    return {key: curve_json(one, turns) for key, one in result.passes.items()}


def _json(result: RunResult, curves: dict[tuple[str, int, str], Any], fits: Any) -> dict[str, Any]:
    said = run_json(result)
    for one in said["all_passes"]:
        one["curve"] = curves[one["arm"], one["concurrency"], one["pass"]]
    said["curve"] = said["all_passes"][-1]["curve"] if said["all_passes"] else None
    said["fit"] = [fit.as_json() for fit in fits]
    return said
