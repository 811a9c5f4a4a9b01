"""Compares two arms on one workload: ratio with interval at each concurrency, and a verdict only where it is fair."""

from __future__ import annotations

import argparse
import json
import sys
from typing import Any

from spectui.cli import options, progress, shown
from spectui.cli.failure import EXIT_FAILED, EXIT_USAGE, Failure
from spectui.core.safe import safe_text

EXAMPLES = """examples:
  spectui compare http://127.0.0.1:30000 http://127.0.0.1:30001 --workload chat --concurrency 1,4,16
  spectui compare http://127.0.0.1:30000 20261130-101500-json-1a2b    a server against a stored run
  spectui compare RUN1 RUN2                                          two stored runs

A and B are servers, profiles (started for it and stopped afterwards) or stored runs; the ratio is A's output
throughput over B's. Exit code 0 when both arms were measured, whatever the verdict.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a server, profile or stored run")
    parser.add_argument("b", metavar="B", help="another")
    options.add_run_options(parser, first=None, needed=False)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, comparing, running
    from spectui.session.starting import started

    sides = [comparing.split_run(text) for text in (args.a, args.b)]
    stored = [(target, arm) for target, arm in sides if target.run is not None]
    if args.workload is None and args.file is None and not stored:
        raise Failure("name what to measure with: --workload W or --file F.jsonl", EXIT_USAGE)
    asked = options.run_options(args)
    with progress.Progress(quiet=args.json) as line, started([t for t, _ in sides], line.say) as live:
        specs = [
            None if url is None else arms.arm_spec(name, url, key=args.key, admin_key=args.admin_key, trusted=mine)
            for name, (url, mine) in zip("AB", live, strict=True)
        ]
        if specs[0] is not None and specs[1] is not None:
            handle, result = comparing.compare_live(specs[0], specs[1], asked, line.row)
            _complete(result, running.exit_code(handle, result))
            sources = [comparing.ArmSource(result, name, handle.folder) for name in ("A", "B")]
        else:
            sources = []
            for i, (target, arm) in enumerate(sides):
                spec = specs[i]
                if spec is None:
                    assert target.run is not None
                    sources.append(comparing.source_of(target.run, arm))
                    continue
                other = sides[1 - i][0].run
                assert other is not None
                handle = comparing.rerun_like(other, spec, asked)
                result = running.wait(handle, line.row)
                _complete(result, running.exit_code(handle, result))
                sources.append(comparing.ArmSource(result, spec.name, handle.folder))
    compared = comparing.compare_sources(sources[0], sources[1])
    if args.json:
        print(json.dumps(compared.as_json()))
    else:
        print_compared(compared.as_json())
    return 0


def _complete(result: Any, code: int) -> None:
    if code:
        raise Failure(result.reason or "the run ended without a reason", code or EXIT_FAILED)


def print_compared(said: dict[str, Any]) -> None:
    for arm in said["arms"]:
        simulated = " · simulated" if arm.get("simulated") else ""
        text = f"{arm['name']}  {arm.get('algorithm')}  {arm.get('url')}  SGLang {arm.get('version')}{simulated}"
        print(safe_text(f"{text}  run {arm['run']}", 300))
    print(f"\n{said['pass']} pass, A against B\n")
    rows = []
    for row in said["by_concurrency"]:
        low, high = row["interval"] or (None, None)
        interval = "n/a" if low is None else f"[{low:.2f}, {high:.2f}]"
        rows.append(
            (
                row["concurrency"],
                _times(row["ratio"]),
                interval,
                _times(row["accept_length_ratio"]),
                _times(row["step_time_ratio"]),
                row["verdict"],
            )
        )
    print(shown.table(("at a time", "tok/s", "interval", "accept length", "step time", "verdict"), rows))
    for row in said["by_concurrency"]:
        for reason in row["reasons"]:
            print(safe_text(f"×{row['concurrency']}: {reason}", 600))
    if said.get("crossing"):
        print(said["crossing"])
    if said.get("answers"):
        print(f"answers: {said['answers']}")
    sys.stdout.flush()


def _times(ratio: float | None) -> str:
    return "n/a" if ratio is None else f"{ratio:.2f}×"
