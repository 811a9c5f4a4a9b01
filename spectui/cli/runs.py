"""Stored runs: find them, say something of them, compare two, and remove what nobody needs."""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from spectui.cli import options, shown
from spectui.cli.failure import EXIT_USAGE, Failure
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.store.runs import RunSummary

EXAMPLES = """examples:
  spectui runs                                       the newest first
  spectui runs --algorithm NGRAM --workload edit --gpu H200
  spectui runs list kimi night                       all words, anywhere: name, model, note, tag …
  spectui runs list --version 0.5.15 --pinned --json
  spectui runs show 20261130-101500                  a beginning that fits one run is enough
  spectui runs tag 20261130-101500 keep best         two tags
  spectui runs untag 20261130-101500 best
  spectui runs pin 20261130-101500                   no rule removes it any more
  spectui runs unpin 20261130-101500
  spectui runs note 20261130-101500 "after the driver update"
  spectui runs note 20261130-101500                  without a text: the note goes
  spectui runs compare RUN1 RUN2                     result and what differs between them
  spectui runs compare RUN1:A RUN1:B                 the two arms of one run
  spectui runs trend mine                            one profile over versions
  spectui runs prune --keep 200 --dry-run            pinned runs, and those that profiles rest on, always stay
  spectui runs prune --older-than 90 --failed
"""
SHOWN = 50


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.set_defaults(action="list", words=[])
    _filters(parser)
    parts = parser.add_subparsers(dest="action", metavar="ACTION")
    every = parts.add_parser("list", help="search and filter")
    every.add_argument("words", nargs="*", metavar="WORD", help="found anywhere: name, model, note, tag …")
    _filters(every)
    for name, text in (("show", "one run"), ("pin", "never prune it"), ("unpin", "it may be pruned again")):
        part = parts.add_parser(name, help=text)
        part.add_argument("run", metavar="RUN")
        options.add_json(part)
    note = parts.add_parser("note", help="set or clear a note")
    note.add_argument("run", metavar="RUN")
    note.add_argument("text", metavar="TEXT", nargs="?", default="")
    options.add_json(note)
    for name, text in (("tag", "add tags"), ("untag", "take tags away")):
        part = parts.add_parser(name, help=text)
        part.add_argument("run", metavar="RUN")
        part.add_argument("tags", metavar="TAG", nargs="+")
        options.add_json(part)
    compare = parts.add_parser("compare", help="two runs")
    compare.add_argument("a", metavar="RUN1", help="RUN:B names an arm")
    compare.add_argument("b", metavar="RUN2")
    options.add_json(compare)
    trend = parts.add_parser("trend", help="a profile's evidence over time and versions")
    trend.add_argument("profile", metavar="PROFILE")
    options.add_json(trend)
    prune = parts.add_parser("prune", help="remove by rule")
    prune.add_argument("--keep", type=options.positive, metavar="N", help="all but the newest N")
    prune.add_argument("--older-than", type=_days, metavar="DAYS")
    prune.add_argument("--failed", action="store_true", help="runs that failed or measured nothing")
    prune.add_argument("--tag", metavar="TAG", help="runs with this tag")
    prune.add_argument("--dry-run", action="store_true", help="only say what would go")
    options.add_json(prune)


def _days(text: str) -> float:
    """Below zero, every run would be older."""
    try:
        value = float(text)
    except ValueError:
        value = -1.0
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of days above 0")
    return value


def _filters(parser: argparse.ArgumentParser) -> None:
    for name in ("model", "gpu", "version", "algorithm", "workload", "tag"):
        parser.add_argument(f"--{name}", metavar="TEXT", default=argparse.SUPPRESS)
    parser.add_argument("--pinned", action="store_true", default=argparse.SUPPRESS)
    parser.add_argument("--limit", type=options.positive, metavar="N", default=argparse.SUPPRESS, help="rows (50)")
    parser.add_argument("--json", action="store_true", default=argparse.SUPPRESS, help="print one JSON object")


def run(args: argparse.Namespace) -> int:
    args.json = getattr(args, "json", False)
    action = args.action or "list"
    if action in ("pin", "unpin", "note", "tag", "untag"):
        return _mark(args, action)
    return {"list": _list, "show": _show, "compare": _compare, "trend": _trend, "prune": _prune}[action](args)


def _list(args: argparse.Namespace) -> int:
    from spectui.session import stored
    from spectui.store import runs
    from spectui.store.run_summary import UNREADABLE

    chosen = {name: getattr(args, name, None) for name in ("model", "gpu", "version", "algorithm", "workload", "tag")}
    wanted = runs.Filter(**chosen, text=" ".join(args.words) or None, pinned=getattr(args, "pinned", None))
    found = stored.list_as_they_are(wanted)
    limit = getattr(args, "limit", SHOWN)
    if args.json:
        rows = found[: getattr(args, "limit", len(found))]
        print(json.dumps({"runs": [asdict(one) for one in rows], "total": len(found)}))
        return 0
    if not found:
        print("no such run" if wanted != runs.Filter() else "no run yet. Measure: spectui run URL --workload mixed")
        return 0
    head = ("run", "when", "algorithm", "model", "SGLang", "tok/s", "accept length", "status", "said")
    print(shown.table(head, [_line(one) for one in found[:limit]], right=frozenset((5, 6))))
    for one in found[:limit]:
        if one.status == UNREADABLE:
            print(safe_text(f"{one.id}: {one.reason}", 600))
    if len(found) > limit:
        print(f"… and {len(found) - limit} more: --limit {len(found)}")
    return 0


def _line(one: RunSummary) -> tuple[object, ...]:
    said = " ".join((("★ " if one.pinned else "") + " ".join(f"#{tag}" for tag in one.tags), one.note)).strip()
    status = one.status + (" · simulated" if one.simulated else "")
    return (
        one.id,
        time.strftime("%Y-%m-%d %H:%M", time.localtime(one.when)),
        " / ".join(one.algorithms),
        " / ".join(_short(model) for model in one.models),
        " / ".join(one.versions),
        _of_each_arm(one, "output_tokens_per_s", 1),
        _of_each_arm(one, "accept_length", 2),
        status,
        said[:60],
    )


def _of_each_arm(one: RunSummary, name: str, digits: int) -> str:
    """The figure of each arm's last pass, in the order of the algorithms."""
    last = {str(result.get("arm")): result.get(name) for result in one.results}
    return " / ".join(_number(value, digits) for value in last.values()) or "n/a"


def _short(model: str) -> str:
    return model.rstrip("/").rsplit("/", 1)[-1][:32]


def _number(value: Any, digits: int) -> str:
    return f"{value:,.{digits}f}" if isinstance(value, (int, float)) else "n/a"


def _show(args: argparse.Namespace) -> int:
    from spectui.session import running
    from spectui.store import report, runs

    folder = runs.find(args.run)
    result = running.result_of(folder)
    if args.json:
        print(json.dumps({"folder": str(folder), **asdict(runs.summary_of(folder))}))
        return 0
    text = report.run_markdown(result, folder.name, runs.read_marks(folder))
    print("\n".join(safe_text(line, 2000) for line in text.splitlines()))
    print(f"\nfolder: {folder}")
    return 0


def _mark(args: argparse.Namespace, action: str) -> int:
    from spectui.store import run_marks, runs

    folder = runs.find(args.run)
    if action in ("pin", "unpin"):
        changed = run_marks.mark(folder, pinned=action == "pin")
    elif action == "note":
        changed = run_marks.mark(folder, note=args.text)
    else:
        changed = run_marks.mark(folder, **{"add_tags" if action == "tag" else "drop_tags": args.tags})
    said = {"run": changed.id, "pinned": changed.pinned, "tags": list(changed.tags), "note": changed.note}
    if args.json:
        print(json.dumps(said))
    else:
        tags = " ".join(f"#{tag}" for tag in changed.tags) or "no tags"
        print(safe_text(f"{changed.id}: {'pinned' if changed.pinned else 'not pinned'}, {tags}, {changed.note}", 400))
    return 0


def _compare(args: argparse.Namespace) -> int:
    from spectui.cli.compare_text import print_compared
    from spectui.core.changes import differences
    from spectui.session import comparing

    sources = []
    for text in (args.a, args.b):
        target, arm = comparing.split_run(text)
        if target.run is None:
            raise Failure(f"{text} is not a stored run; live servers are compared by: spectui compare", EXIT_USAGE)
        sources.append(comparing.source_of(target.run, arm))
    compared = comparing.compare_sources(sources[0], sources[1])
    differing = differences(_facts(sources[0]), _facts(sources[1]))
    found = [{"key": one.key, "a": one.a, "b": one.b, "kind": one.kind} for one in differing]
    said = compared.as_json()
    if args.json:
        print(json.dumps({**said, "differences": found}))
        return 0
    print_compared(said)
    rows = [(one["key"], one["a"], one["b"]) for one in found]
    print("\n" + (shown.table(("differs", "A", "B"), rows) if rows else "nothing else differs that is known"))
    return 0


def _facts(source: Any) -> dict[str, Any]:
    head, result = source.head(), source.result.head
    node = result.get("node") or {}
    workload = result.get("workload") or {}
    return {
        "algorithm": head.get("algorithm"),
        "version": head.get("version"),
        "model": head.get("model"),
        "workload": workload.get("hash") or workload.get("name"),
        "max_tokens": result.get("max_tokens"),
        "temperature": result.get("temperature"),
        "driver": node.get("driver"),
        "gpus": ", ".join(sorted({str(gpu.get("name")) for gpu in node.get("gpus") or ()})) or None,
        **{key: value for key, value in (head.get("settings_in_force") or {}).items() if _scalar(value)},
        **{f"server.{key}": value for key, value in (head.get("server") or {}).items() if _scalar(value)},
    }


def _scalar(value: object) -> bool:
    return isinstance(value, (str, int, float, bool))


def _trend(args: argparse.Namespace) -> int:
    from spectui.store import profile_report, profiles

    rows = profile_report.trend_rows(profiles.load(args.profile).evidence)
    if args.json:
        keys = ("date", "sglang", "workload", "pass", "output_tokens_per_s", "accept_length", "step_time_ms", "changed")
        print(json.dumps({"trend": [dict(zip(keys, row, strict=True)) for row in rows]}))
    elif rows:
        print(shown.table(profile_report.TREND, rows))
    else:
        print("no evidence yet. Measure, then: spectui profiles save NAME --from RUN")
    return 0


def _prune(args: argparse.Namespace) -> int:
    from spectui.session import running
    from spectui.store import profiles, run_marks, runs

    rule = run_marks.Rule(args.keep, args.older_than, args.failed, args.tag)
    resting = {
        str(entry.get("run"))
        for listed in profiles.list_all()
        for entry in (listed.profile.evidence if listed.profile else ())
    }
    protected = resting | {handle.folder.name for handle in running.running()}
    gone = run_marks.to_prune(rule, protected=protected)
    removed, kept = [], []
    for one in gone:
        if args.dry_run:
            removed.append(one.id)
            continue
        try:
            run_marks.remove(one)
            removed.append(one.id)
        except (OSError, runs.HistoryError) as error:
            kept.append(f"{one.id}: {error}")
    if args.json:
        print(json.dumps({"removed": removed, "kept": kept, "dry_run": args.dry_run}))
    else:
        for name in removed:
            print(name)
        print(f"{len(removed)} runs {'would be removed' if args.dry_run else 'removed'}")
        for line in kept:
            sys.stderr.write(f"kept: {safe_text(line, 300)}\n")
    return 1 if kept else 0
