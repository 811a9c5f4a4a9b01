"""Runs in progress on this node: list them, or follow one. Ctrl-C stops looking; the run goes on."""

from __future__ import annotations

import argparse
import json
import sys
import time
from typing import TYPE_CHECKING, Any

from spectui.cli import options, shown
from spectui.cli.failure import EXIT_USAGE, Failure
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.session.running import RunHandle

EXAMPLES = """examples:
  spectui attach                 the only run in progress, or a list of them
  spectui attach RUN             follow it; Ctrl-C leaves it running
  spectui attach RUN --stop      end it early; what it measured is kept
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("run", metavar="RUN", nargs="?", help="the name of a run, or a beginning of it")
    parser.add_argument("--list", action="store_true", help="only list them")
    parser.add_argument("--stop", action="store_true", help="end the run early")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import running

    live = running.running()
    if args.run is None and (args.list or args.json or len(live) != 1):
        return _list(live, as_json=args.json)
    chosen = live[0] if args.run is None else _chosen(args.run, live)
    if args.stop:
        running.stop(chosen)
        if args.json:
            print(json.dumps({"run": chosen.folder.name, "folder": str(chosen.folder), "stopped": True}))
        else:
            print(f"{chosen.folder.name} ended; what it measured is kept in {chosen.folder}")
        return 0
    return _follow(chosen, as_json=args.json)


def _list(live: list[RunHandle], *, as_json: bool) -> int:
    from spectui.store import runs

    rows = []
    for handle in live:
        one = _summary(runs, handle)
        rows.append({"run": handle.folder.name, "pid": handle.pid, "folder": str(handle.folder), **one})
    if as_json:
        print(json.dumps({"runs": rows}))
    elif not rows:
        print("no run is in progress on this node")
    else:
        print(shown.table(("run", "pid", "workload", "algorithm", "began"), [_line(row) for row in rows]))
        print("follow one: spectui attach RUN")
    return 0


def _summary(runs: Any, handle: RunHandle) -> dict[str, Any]:
    try:
        found = runs.summary_of(handle.folder)
    except runs.HistoryError:
        found = None
    if found is None or not found.when:  # its journal is not there yet, or has no row
        return {"state": "starting", "workload": "", "algorithms": [], "when": 0.0}
    return {
        "state": "running",
        "workload": found.workload,
        "algorithms": list(found.algorithms),
        "when": found.when,
    }


def _line(row: dict[str, Any]) -> tuple[object, ...]:
    if row["state"] == "starting":
        return row["run"], row["pid"], "starting", "–", "just now"
    began = time.strftime("%H:%M:%S", time.localtime(row["when"]))
    return row["run"], row["pid"], row["workload"], " / ".join(row["algorithms"]), began


def _chosen(name: str, live: list[RunHandle]) -> RunHandle:
    fits = [handle for handle in live if handle.folder.name == name] or [
        handle for handle in live if handle.folder.name.startswith(name)
    ]
    if len(fits) == 1:
        return fits[0]
    if fits:
        raise Failure(f"{name} fits {len(fits)} runs in progress: give more of the name", EXIT_USAGE)
    from spectui.store import runs

    folder = runs.find(name)  # says what to do where there is none at all
    raise Failure(f"{folder.name} has ended: spectui runs show {folder.name}", EXIT_USAGE)


def _follow(handle: RunHandle, *, as_json: bool) -> int:
    from spectui.cli import tables
    from spectui.core.result import fold, run_json
    from spectui.session import running
    from spectui.session.run_ending import with_reason

    seen: list[dict[str, Any]] = []
    last = 0.0
    try:
        for row in running.rows(handle):
            seen.append(row)
            text = _told(row)
            now = time.monotonic()
            if text and not as_json and (row.get("kind") != "sample" or now - last >= 1.0):
                last = now if row.get("kind") == "sample" else last
                print(safe_text(text, 200), flush=True)
    except KeyboardInterrupt:
        sys.stderr.write(f"left: {handle.folder.name} goes on. Again: spectui attach {handle.folder.name}\n")
        return 0
    result = with_reason(fold(seen), handle.folder, None)
    if as_json:
        print(json.dumps({"run": handle.folder.name, "folder": str(handle.folder), **run_json(result)}))
    else:
        tables.print_run(result)
    code = {"complete": 0, "interrupted": 130}.get(result.status, 1)
    if code:
        sys.stderr.write(f"spectui: {safe_text(result.reason or 'the run ended without a reason', 400)}\n")
    return code


def _told(row: dict[str, Any]) -> str:
    """A row as a line of progress; empty for those that say nothing to a person."""
    stamp = time.strftime("%H:%M:%S", time.localtime(float(row.get("t") or 0.0)))
    kind, arm = row.get("kind"), row.get("arm") or ""
    if kind == "phase" and row.get("state") == "begin":
        return f"{stamp}  {arm} {row.get('pass_name', '')} ×{row.get('concurrency')}: {row.get('phase')}"
    if kind == "sample":
        return (
            f"{stamp}  {arm} {row.get('done', 0)} done, {row.get('running', 0)} running, {row.get('tokens', 0)} tokens"
        )
    if kind == "mark":
        return f"{stamp}  {arm} {row.get('name')}: {row.get('detail')}"
    return ""
