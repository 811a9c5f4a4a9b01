"""Measures one server with a workload: one run, cold, warm, both, or primed with a corpus."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace
from typing import Any

from spectui.cli import options, progress, tables
from spectui.cli.failure import EXIT_FAILED, Failure
from spectui.core.curves import curve_json
from spectui.core.result import RunResult, run_json
from spectui.core.safe import safe_text

EXAMPLES = """examples:
  spectui run http://127.0.0.1:30000 --workload json --pass both --flush
  spectui run http://127.0.0.1:30000 --file mine.jsonl --concurrency 1,4,16 --json
  spectui run http://127.0.0.1:30000 --workload edit --pass primed --corpus answers.jsonl --flush
  spectui run mine --workload json --pass both --save-evidence     into its profile, for spectui check

workloads: short long chat edit json repeat mixed (docs/workloads.md says what each is for)
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a server, or the name of a managed one")
    options.add_run_options(parser)
    parser.add_argument(
        "--save-evidence",
        nargs="?",
        const="",
        metavar="PROFILE",
        help="add the results to this profile, or to the one that the server was launched from, for spectui check",
    )
    options.add_reach(parser)
    options.add_explain(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, fitting, history_of_feeding, keeping_evidence, running
    from spectui.session.compared import turns_of

    target = arms.resolve(args.url)
    if target.url is None:
        what = "profile: start it with spectui launch" if target.profile else "stored run: show it with spectui runs"
        raise Failure(f"{args.url} is no running server but a {what}", 2)
    keep_in = keeping_evidence.chosen(args.save_evidence, target)
    arm = replace(arms.arm_spec("A", target, key=args.key, admin_key=args.admin_key), proxy=args.proxy)
    chosen = options.run_options(args)
    spec = running.build_spec([arm], chosen)
    infos = {"A": fitting.look(arm)}
    fitting.refuse(spec, infos)
    keeping_evidence.refuse(keep_in, infos["A"])
    asked, fits = fitting.before(spec, infos)
    if not args.json:
        for note in running.workload_for(chosen).notes if args.file else ():
            print(tables.wrapped(note, lead="prompts  "))
        tables.print_fit(asked, fits, whole=args.explain)
    handle = running.start(spec)
    with progress.Progress(quiet=args.json) as shown:
        shown.watch(arm.url, spec.request_timeout_s)
        try:
            result = running.wait(handle, shown.row)
        except KeyboardInterrupt:
            if not handle.journal.is_file():
                raise  # its runner had not begun to write: nothing was measured
            result = running.result_of(handle.folder)
    result = history_of_feeding.enriched(result, handle.folder)
    curves = _curves(result, turns_of(handle.folder))
    code = running.exit_code(handle, result)
    kept = keeping_evidence.keep_each({"A": keep_in}, handle.folder) if code == 0 else []
    if args.json:
        said = {"run": spec.run_id, "folder": str(handle.folder), "evidence": [one.as_json() for one in kept]}
        print(json.dumps({**said, **_json(result, curves, fits)}))
    else:
        tables.print_run(result, curves)
        print(f"\nkept in {handle.folder}" if handle.folder.is_dir() else "\nnothing of it is kept")
        how = keeping_evidence.how(arm.url, spec.run_id) if code == 0 and keep_in is None else None
        for text in [one.text for one in kept] or [how or ""]:
            print(safe_text(text, 1000), end="\n" if text else "")
    for one in kept:
        if one.trouble:
            sys.stderr.write(f"spectui: {safe_text(one.trouble, 1000)}\n")
            code = code or EXIT_FAILED
    if code and not any(one.trouble for one in kept):
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
