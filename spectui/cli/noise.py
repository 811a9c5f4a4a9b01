"""Measures the noise floor of this node: one server against itself; compare adds it to its intervals."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import replace

from spectui.cli import options, progress, shown
from spectui.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, Failure

EXAMPLES = """examples:
  spectui noise http://127.0.0.1:30000
  spectui noise http://127.0.0.1:30000 --times 20 --workload json --concurrency 1,4,16

The server stands on both sides, in alternating blocks of the same prompts, so that every difference is noise. What the
prompts do not explain is kept for this node, GPU, model and concurrency, and so is how far two runs lie apart that take
no turns. Speculation must be off, or EAGLE: NGRAM would
copy on one side what it has just answered on the other.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a server, or the name of a managed one")
    parser.add_argument("--times", type=options.positive, default=20, metavar="N", help="comparisons with itself (20)")
    options.add_run_options(parser, needed=False)
    options.add_reach(parser)
    options.add_json(parser)
    parser.set_defaults(max_tokens=128)


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, fitting, noise, running

    target = arms.resolve(args.url)
    if target.url is None:
        raise Failure(f"{args.url} is no running server: the noise floor is measured on one", 2)
    arm = replace(arms.arm_spec("A", target, key=args.key, admin_key=args.admin_key), proxy=args.proxy)
    algorithm = fitting.look(arm).algorithm
    with progress.Progress(quiet=args.json) as line:
        line.watch(arm.url, float(args.silence_limit))
        handle, result, floors = noise.measure(arm, options.run_options(args), args.times, algorithm, line.row)
    code = running.exit_code(handle, result)
    early = code == EXIT_INTERRUPTED and bool(floors)
    if early:
        sys.stderr.write("spectui: interrupted; the floor is of the times that were measured until then\n")
    elif code == EXIT_INTERRUPTED:
        kept = f"interrupted before {noise.LEAST_TIMES} times were whole; what was measured is kept"
        raise Failure(f"{kept}: spectui runs show {handle.folder.name}", code)
    elif code or not floors:
        raise Failure(result.reason or "too little was measured to tell the noise", code or EXIT_FAILED)
    foreign = [m for m in result.marks if m.get("name") in ("foreign_traffic", "restarted")]
    if foreign:
        raise Failure(f"nothing was kept: {foreign[0].get('detail')}")
    path = noise.keep(floors)
    if args.json:
        print(json.dumps({"run": handle.folder.name, "kept": str(path), "floors": [f.as_json() for f in floors]}))
        return code
    first = floors[0]
    gpu = first.gpu or "GPU not known"
    print(f"{first.node} · {gpu} · {first.model} · {first.algorithm}, against itself {first.times} times\n")
    rows = [
        (
            f.concurrency,
            f"{100 * f.sd:.2f} %",
            f"{100 * f.apart:.2f} %",
            f"{100 * f.largest:.2f} %",
            f"{f.verdicts} of {f.times}",
        )
        for f in floors
    ]
    head = ("at a time", "noise floor", "not by turns", "largest ratio off by", "would have been called different")
    print(shown.table(head, rows, right=frozenset({1, 2, 3})))
    print("\nnot by turns: of two runs one after the other, such as a server against a stored run")
    print(f"kept in {path}; spectui compare adds it to its intervals from now on")
    return code
