"""Tuning profiles: a server's command and settings, with the evidence that runs gave."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from spectui.cli import options, shown
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.store.profiles import Listed

EXAMPLES = """examples:
  spectui profiles                                        yours, and the starters
  spectui profiles list --json
  spectui profiles show ngram                             settings, evidence, what others have published
  spectui profiles show mine --toml                       the file as it is
  spectui profiles check ./mine.toml                      every fault with file, line and key
  spectui profiles check mine --sglang-version 0.5.9      what an older release would make of it
  spectui profiles save mine --from http://127.0.0.1:30000
  spectui profiles save mine --from 20261130-101500-json-1a2b   adds the run's results as evidence
  spectui profiles save mine --from RUN:B                 of one arm of a comparison
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list", json=False)
    parser.add_argument("--json", action="store_true", help="print one JSON object")
    parts = parser.add_subparsers(dest="action", metavar="ACTION")
    options.add_json(parts.add_parser("list", help="all profiles and their newest evidence"))
    show = parts.add_parser("show", help="one profile with its evidence")
    show.add_argument("name", metavar="PROFILE")
    show.add_argument("--toml", action="store_true", help="the file as it is")
    options.add_json(show)
    check = parts.add_parser("check", help="what is wrong with a profile, and what a server would make of it")
    check.add_argument("name", metavar="PROFILE")
    check.add_argument("--sglang-version", metavar="V", help="the release to plan for")
    options.add_json(check)
    save = parts.add_parser("save", help="make a profile of a server, or add a run's results to one")
    save.add_argument("name", metavar="NAME")
    save.add_argument("--from", dest="source", required=True, metavar="URL|RUN", help="RUN:A names one arm of two")
    save.add_argument("--notes", metavar="TEXT")
    save.add_argument("--replace", action="store_true", help="of a URL: replace the settings, keep the evidence")
    save.add_argument("--any-setting", action="store_true", help="of a run: even where it measured another setting")
    options.add_key_options(save)
    options.add_json(save)


def run(args: argparse.Namespace) -> int:
    action = args.action or "list"
    return {"list": _list, "show": _show, "check": _check, "save": _save}[action](args)


def _list(args: argparse.Namespace) -> int:
    from spectui.store import profiles

    every = profiles.list_all()
    if args.json:
        print(json.dumps({"profiles": [_row(entry) for entry in every]}))
        return 0
    rows = []
    for entry in every:
        row = _row(entry)
        rows.append(
            (
                row["name"],
                row["algorithm"] or "",
                row["model"] or "",
                "starter" if entry.starter else "yours",
                f"{row['evidence']} runs, {row['newest']}" if row["evidence"] else "none",
                "; ".join(fault.spell() for fault in entry.faults)[:120],
            )
        )
    print(shown.table(("name", "algorithm", "model", "whose", "evidence", "faults"), rows))
    return 0


def _row(entry: Listed) -> dict[str, Any]:
    from spectui.store import profile_report

    profile = entry.profile
    dates = sorted(str(e.get("date") or "") for e in profile_report.own(profile.evidence)) if profile else []
    return {
        "name": entry.name,
        "path": entry.path,
        "starter": entry.starter,
        "algorithm": profile.speculative.algorithm if profile else None,
        "model": profile.server.model_path if profile else None,
        "evidence": len(dates),
        "newest": dates[-1] if dates else None,
        "faults": [fault.spell(entry.path) for fault in entry.faults],
    }


def _show(args: argparse.Namespace) -> int:
    from spectui.core.redact import redact
    from spectui.store import profile_report, profiles

    profile = profiles.load(args.name)
    if args.json:
        print(json.dumps({"path": profile.path, **redact(profile.as_table())}))
    elif args.toml and profile.path:
        from pathlib import Path

        print(redact(Path(profile.path).read_text("utf-8")), end="")
    else:
        print(safe_lines(profile_report.profile_markdown(profile)))
        print(f"file: {safe_text(str(profile.path), 400)}")
    return 0


def safe_lines(text: str) -> str:
    return "\n".join(safe_text(line, 2000) for line in text.splitlines())


def _check(args: argparse.Namespace) -> int:
    from spectui.session import serving
    from spectui.store import profiles

    profile = profiles.load(args.name)  # a fault raises, with every one of them
    version = args.sglang_version or _version(profile)
    plan = serving.plan_for(profile, version or serving.NEWEST)
    told = serving.foresee(profile, version)
    errors = [_placed(profile, error) for error in told.errors]
    good = plan.ok and not errors
    if args.json:
        said = {"ok": good, "remarks": [r.spell(profile.path or "") for r in profile.remarks]}
        said |= {"errors": list(told.errors), "notes": list(told.notes), "version": version}
        print(json.dumps({**said, "plan": shown.plan_json(plan)}))
        return 0 if good else 1
    for remark in profile.remarks:
        print(safe_text(f"note: {remark.spell(profile.path or '')}", 400))
    shown.print_plan(plan)
    for note in told.notes:
        print(safe_text(f"note: {note}", 400))
    for error in errors:
        print(safe_text(f"error: {error}", 400))
    print("good" if good else "this would not start" if plan.refusals else "this would not do as it is")
    return 0 if good else 1


_KEYS = {
    "model_path": "server.model_path",
    "draft_model_path": "speculative.draft_model_path",
    "workload.name:": "workload.name",
    "workload.file:": "workload.file",
    "the working folder": "server.cwd",
}
"""How a sentence about the disk begins -> the key that it is about."""


def _placed(profile: Profile, error: str) -> str:
    """The sentence with file, line and key in front, as a fault of the file itself is told."""
    from pathlib import Path

    from spectui.core.profile import Fault, line_numbers

    start, key = next(((start, key) for start, key in _KEYS.items() if error.startswith(f"{start} ")), ("", ""))
    if not key or profile.path is None:
        return error
    text = error.removeprefix(start).strip() if start.endswith(":") else error
    return Fault(key, text, line_numbers(Path(profile.path).read_text("utf-8-sig")).get(key)).spell(profile.path)


def _version(profile: Profile) -> str | None:
    from spectui.session import SessionError, serving

    try:
        return serving.version_of(profile)
    except SessionError:
        return None  # a template that is no command; it is told among the errors


def _save(args: argparse.Namespace) -> int:
    from spectui.session import profile_from

    profile = profile_from.save(
        args.name,
        args.source,
        key=args.key,
        admin_key=args.admin_key,
        replace_existing=args.replace,
        any_setting=args.any_setting,
        notes=args.notes,
    )
    said = {"name": profile.name, "path": profile.path, "evidence": len(profile.evidence)}
    if args.json:
        print(json.dumps(said))
    else:
        print(f"{profile.name} saved in {profile.path}, {len(profile.evidence)} runs of evidence")
    return 0
