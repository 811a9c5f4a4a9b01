"""What a profile asks for and what a server would make of it; with two profiles, what differs between them."""

from __future__ import annotations

import argparse
import json

from spectui.cli import options, shown


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="A", help="name or path of a profile")
    parser.add_argument("other", metavar="B", nargs="?", help="another, to compare with")
    parser.add_argument("--sglang-version", metavar="V", help="the release to plan for (0.5.15)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.core.changes import differences
    from spectui.session import serving
    from spectui.store import profiles

    version = args.sglang_version or serving.NEWEST
    plans = [serving.plan_for(profiles.load(name), version) for name in (args.profile, args.other) if name]
    said: dict[str, object] = {"plans": [shown.plan_json(plan) for plan in plans]}
    differing = differences(*({"algorithm": p.algorithm, **p.in_force} for p in plans)) if len(plans) == 2 else ()
    if len(plans) == 2:
        said["differences"] = [{"key": d.key, "a": d.a, "b": d.b} for d in differing]
    if args.json:
        print(json.dumps(said))
    else:
        for plan in plans:
            shown.print_plan(plan)
            print()
        if len(plans) == 2:
            rows = [(d.key, d.a, d.b) for d in differing]
            print(shown.table(("differs", "A", "B"), rows) if rows else "no difference in what is in force")
    return 0 if all(plan.ok for plan in plans) else 1
