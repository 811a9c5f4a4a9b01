"""What a profile asks for and what a server would make of it; with two, what differs and what the change takes."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING

from spectui.cli import options, shown

if TYPE_CHECKING:
    from spectui.core.changes import Change, Difference
    from spectui.core.plan import Plan
    from spectui.core.profile import Profile

EXAMPLES = """examples:
  spectui plan mine.toml
  spectui plan mine.toml other.toml        what differs, what is hot and what needs a relaunch
  spectui plan mine.toml --sglang-version 0.5.12
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="A", help="name or path of a profile")
    parser.add_argument("other", metavar="B", nargs="?", help="another, to compare with")
    parser.add_argument(
        "--sglang-version", metavar="V", help="the release to plan for (that of the profile's interpreter, else 0.5.15)"
    )
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.core.changes import changes, differences
    from spectui.session import preflight, serving
    from spectui.store import profiles

    loaded = [profiles.load(name) for name in (args.profile, args.other) if name]
    versions = [args.sglang_version or serving.version_of(profile) or serving.NEWEST for profile in loaded]
    plans = [serving.plan_for(profile, version) for profile, version in zip(loaded, versions, strict=True)]
    drafts = [preflight.check_draft(profile) for profile in loaded]
    starts = [_last_start(profile) for profile in loaded]
    said: dict[str, object] = {
        "plans": [
            {
                **shown.plan_json(plan),
                "version": version,
                "draft": {"refused": draft.blocks, "notes": draft.notes},
                "last_start_s": start,
            }
            for plan, version, draft, start in zip(plans, versions, drafts, starts, strict=True)
        ]
    }
    change: tuple[Change, ...] = ()
    differing: tuple[Difference, ...] = ()
    if len(plans) == 2:
        change = changes(*plans)
        differing = differences(*({"algorithm": p.algorithm, **p.in_force} for p in plans))
        said["differences"] = [{"key": d.key, "a": d.a, "b": d.b, "kind": d.kind} for d in differing]
        said["changes"] = [{"key": c.key, "before": c.before, "after": c.after, "how": c.how} for c in change]
    if args.json:
        print(json.dumps(said))
    else:
        for plan, version, draft, start in zip(plans, versions, drafts, starts, strict=True):
            print(f"SGLang {version}")
            shown.print_plan(plan)
            for text in draft.blocks:
                print(f"refuse: {text}")
            for text in draft.notes:
                print(f"note: {text}")
            print(_takes(plan, start))
            print()
        if len(plans) == 2:
            how = {c.key: c.how for c in change}
            kinds = {"tested": "what is tested", "follows": "follows from it", "other": "makes the trial unequal"}
            rows = [
                (d.key, _value(d.a), _value(d.b), how.get(d.key.removeprefix("server."), "relaunch"), kinds[d.kind])
                for d in differing
            ]
            told = {d.key for d in differing}
            one_sided = [c for c in change if c.part == "server" and f"server.{c.key}" not in told]
            rows += [
                (
                    f"server.{c.key}",
                    _value(c.before),
                    _value(c.after),
                    c.how,
                    "one leaves it to the server: may be unequal",
                )
                for c in one_sided
            ]
            head = ("differs", "A", "B", "takes", "in a comparison")
            print(shown.table(head, rows) if rows else "no difference in what is in force")
    return 0 if all(plan.ok and not draft.blocks for plan, draft in zip(plans, drafts, strict=True)) else 1


def _takes(plan: Plan, start_s: float | None) -> str:
    hot = [row.title for row in plan.rows if row.hot]
    if any(row.key == "ngram.external_sam_budget" for row in plan.rows):
        hot.append("external corpora")
    told = f"; the last start took {start_s:.0f} s" if start_s is not None else ""
    if not hot:
        return f"every change needs a relaunch{told}"
    return f"hot while it runs: {', '.join(hot)}; everything else needs a relaunch{told}"


def _value(value: object) -> str:
    return "–" if value is None else str(value)


def _last_start(profile: Profile) -> float | None:
    """Seconds to *ready* of the last start from this profile on this node."""
    from spectui.hosts import timings

    return timings.whole_start_s(profile.path or profile.name)
