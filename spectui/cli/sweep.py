"""Many settings of one profile, planned, one after another: what is best at each load, and what need not be run.

The sweep is a process of its own: when this terminal goes, it goes on, and --resume follows it or takes it up again.
Ctrl-C ends it early and keeps what was measured.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.cli import options, progress, shown
from spectui.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Failure
from spectui.core.rows import Row
from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.store.journal import Follower

EXAMPLES = """examples:
  spectui sweep mine --workload edit --algorithm none,NGRAM --draft-tokens 4,8,16 --concurrency 1,4 --plan-only
  spectui sweep mine --workload edit --algorithm none,NGRAM,EAGLE3 --draft-tokens 4,8,16 --draft-model EAGLE3=/m/head
  spectui sweep mine --workload json --algorithm none,EAGLE3 --num-steps 2,3,5 --eagle-topk 1,4 --draft-tokens 4,8
  spectui sweep mine --workload json --algorithm NGRAM,none --set ngram.max_trie_depth=8,18 --draft-tokens 8
  spectui sweep --resume 20261130-101500-edit-1a2b --save edit-best

The profile says how the server is started; its own knobs are kept for its own algorithm. Settings that the server would
resolve to the same are run once. What is predicted to lose is not run, with the reason; --keep-losers runs it.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", nargs="?", help="name or path of a profile")
    options.add_run_options(parser, needed=False)
    options.add_reach(parser, through_proxy=False)
    parser.add_argument("--algorithm", metavar="A[,A…]", help="out of spectui plan's: none, NGRAM, EAGLE3 …")
    parser.add_argument("--draft-tokens", type=options.numbers, default=(), metavar="N[,N…]")
    parser.add_argument("--num-steps", type=options.numbers, default=(), metavar="N[,N…]")
    parser.add_argument("--eagle-topk", type=options.numbers, default=(), metavar="N[,N…]")
    parser.add_argument("--set", action="append", default=[], metavar="KNOB=V[,V…]", help="any other knob's values")
    parser.add_argument(
        "--draft-model", action="append", default=[], metavar="[ALGORITHM=]PATH", help="where the profile names none"
    )
    parser.add_argument("--plan-only", action="store_true", help="show what would be done; start nothing")
    parser.add_argument("--keep-losers", action="store_true", help="run what is predicted to lose, and run it out")
    parser.add_argument(
        "--resume", metavar="SWEEP", help="follow a sweep that runs, or go on with one that ended early"
    )
    parser.add_argument("--save", metavar="NAME", help="keep the best setting as a profile")
    parser.add_argument("--sglang-version", metavar="V", help="the release to plan for (asked of the interpreter)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import sweeping

    if args.resume is not None:
        if args.profile or args.algorithm or args.plan_only:
            raise Failure("--resume goes on as it was planned: give neither a profile nor settings with it", EXIT_USAGE)
        folder = sweeping.find(args.resume)
        _refuse_name(args.save)
        handle = sweeping.resume(folder)
    else:
        spec = _spec(args)
        if args.plan_only:
            state = sweeping.plan_only(spec)
            if args.json:
                print(json.dumps(state.as_json()))
            else:
                print_sweep(state.as_json())
            return 0
        _refuse_name(args.save)
        handle = sweeping.start(spec)
    folder = handle.folder
    follower = _Follower(quiet=args.json)
    try:
        with progress.Progress(quiet=True) as silence:
            silence.watch("its server", follower.limit_s(folder), follower.fresh)
            state = sweeping.wait(handle, follower.row)
    except KeyboardInterrupt:
        state = sweeping.state_of(folder)
    if args.save and any(entry.get("setting") for entry in state.best):
        from spectui.session import sweep_saving

        state.saved = [str(p.path) for p in sweep_saving.save_best(folder, args.save)]
    said = {**state.as_json(), "folder": str(folder), "sweep": folder.name}
    if args.json:
        print(json.dumps(said))
    else:
        print_sweep(said)
        print(f"\nkept in {folder}")
    if state.status == "complete":
        return 0
    sys.stderr.write(f"spectui: {safe_text(state.reason, 600)}\n")
    return EXIT_INTERRUPTED if state.status == "interrupted" else EXIT_FAILED


def _spec(args: argparse.Namespace) -> Any:
    from spectui.predict.settings_grid import Axes
    from spectui.session import sweep_spec
    from spectui.store import profiles

    if not args.profile:
        raise Failure(
            "name the profile that is swept: spectui sweep PROFILE … (spectui profiles lists them)", EXIT_USAGE
        )
    if not args.algorithm:
        raise Failure("name what is swept: --algorithm none,NGRAM --draft-tokens 4,8,16", EXIT_USAGE)
    if args.workload is None and args.file is None:
        raise Failure("name what to measure with: --workload W or --file F.jsonl", EXIT_USAGE)
    names = [name.strip() for name in args.algorithm.split(",") if name.strip()]
    knobs: dict[str, tuple[Any, ...]] = {}
    for key, values in (
        ("num_draft_tokens", args.draft_tokens),
        ("num_steps", args.num_steps),
        ("eagle_topk", args.eagle_topk),
    ):
        if values:
            knobs[key] = values
    for text in args.set:
        key, values = _axis(text)
        if key in knobs:
            raise Failure(f"--set {text}: {key} has values already; give all of them at once", EXIT_USAGE)
        knobs[key] = values
    axes = Axes(tuple(names), knobs, dict(_draft(text) for text in args.draft_model))
    asked = options.run_options(args)
    profile = profiles.load(args.profile)
    return sweep_spec.make(profile, axes, asked, keep_losers=args.keep_losers, version=args.sglang_version)


def _axis(text: str) -> tuple[str, tuple[Any, ...]]:
    from spectui import algorithms

    key, equals, rest = text.partition("=")
    words = [word.strip() for word in rest.split(",") if word.strip()]
    if not equals or not words:
        raise Failure(f"--set {text}: write KNOB=V,V such as ngram.max_trie_depth=8,18", EXIT_USAGE)
    found = next((k for a in algorithms.every() if (k := a.knob(key.strip())) is not None), None)
    if found is None:
        raise Failure(
            f"--set {text}: no algorithm has a knob {key.strip()!r} (docs/algorithms.md lists them)", EXIT_USAGE
        )
    values = []
    for word in words:
        value = _typed(word, found.kind)
        fault = found.fault(value)
        if fault:
            raise Failure(f"--set {text}: {found.key} {fault}", EXIT_USAGE)
        values.append(value)
    return found.key, tuple(values)


def _typed(word: str, kind: str) -> Any:
    if kind == "flag":
        return {"true": True, "on": True, "false": False, "off": False}.get(word.lower(), word)
    reader = {"int": int, "float": float}.get(kind)
    if reader is None:
        return word
    try:
        return reader(word)
    except ValueError:
        return word


def _draft(text: str) -> tuple[str, str]:
    from spectui import algorithms

    name, equals, path = text.partition("=")
    known = algorithms.find(name) if equals else None
    return (known.name, path) if known is not None and name else ("*", text)


def _refuse_name(name: str | None) -> None:
    """Before hours are spent on it."""
    from spectui.store import locations, profiles

    if name is not None and (locations.profiles_dir() / profiles.file_name(name)).exists():
        raise Failure(f"there is a profile {name} already: choose another name for --save", EXIT_USAGE)


class _Follower:
    """A line on stderr a step, and the clock; silent with --json."""

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet
        self._clock = ""
        self._at = 0.0
        self._run: Follower | None = None

    @staticmethod
    def limit_s(folder: Path) -> float:
        """What the sweep was given, here or when it was begun."""
        from spectui.session import sweep_spec

        return float(sweep_spec.load(folder / "spec.json").options.get("silence_s") or 600.0)

    def fresh(self) -> list[Row] | None:
        """What the run that goes on has written since the last look; None between two of them."""
        run = self._run
        return None if run is None else run.new()

    def row(self, state: Any, row: Mapping[str, Any]) -> None:
        self._look_at(row)
        if self._quiet:
            return
        kind = row.get("kind")
        self._at = float(row.get("t") or time.time())  # of one that is taken up, what was before comes first
        if kind == "head":
            for text in row.get("texts") or ():
                self._say(str(text))
        elif kind == "plan":
            clock = str((row.get("clock") or {}).get("text") or "")
            if clock != self._clock and row.get("launches"):
                self._clock = clock
                self._say(f"left: {clock}")
        elif kind == "server" and row.get("state") == "starting":
            self._say(f"{row.get('setting')}: starting")
        elif kind == "server" and row.get("state") == "ready" and row.get("seconds") is not None:
            self._say(f"{row.get('setting')}: ready after {row['seconds']:.1f} s")
        elif kind == "resumed":
            self._say("taken up again")
        elif kind == "failed":
            self._say(f"{row.get('setting')}: failed: {str(row.get('cause')).splitlines()[0]}")
        elif kind == "cell" and row.get("state") == "end":
            found = row.get("measured") or {}
            speed = found.get("tokens_per_s")
            words = f"{speed:,.1f} tok/s" if speed is not None else str(row.get("reason"))
            more = f" ({row.get('status')}: {row.get('reason')})" if row.get("status") == "stopped early" else ""
            self._say(f"{row.get('setting')} ×{row.get('concurrency')}: {words}{more}")

    def _look_at(self, row: Mapping[str, Any]) -> None:
        from spectui.store.journal import Follower

        if row.get("kind") == "cell":
            goes_on = row.get("state") != "end" and bool(row.get("folder"))
            self._run = Follower(Path(str(row["folder"])) / "journal.jsonl") if goes_on else None
        elif row.get("kind") in ("server", "recording"):
            self._run = None

    def _say(self, text: str) -> None:
        sys.stderr.write(f"{time.strftime('%H:%M:%S', time.localtime(self._at))}  {safe_text(text, 300)}\n")


def print_sweep(said: Mapping[str, Any]) -> None:
    """Settings with predicted and measured figures, then the best at each concurrency."""
    for text in said["plan"]["texts"]:
        print(safe_text(text, 300))
    if said["status"] == "planned" and said["plan"]["text"]:
        print(said["plan"]["text"])
    rows = []
    for setting in said["settings"]:
        if setting["status"] in ("merged", "refused", "failed"):
            rows.append((setting["name"], "", "", "", "", "", "", setting["status"]))
            continue
        for cell in setting["by_concurrency"]:
            found, guess = cell["measured"] or {}, cell["predicted"] or {}
            rows.append(
                (
                    setting["name"],
                    f"×{cell['concurrency']}",
                    _number(guess.get("accept_length"), 2),
                    _number(found.get("accept_length"), 2),
                    _range(guess.get("tokens_per_s"), guess.get("interval")),
                    _range(found.get("tokens_per_s"), None if found.get("over_none") else found.get("interval")),
                    _ratio(found.get("over_none")),
                    cell["status"],
                )
            )
    head = (
        "setting",
        "load",
        "accept length: predicted",
        "measured",
        "tok/s: predicted",
        "measured",
        "over none",
        "status",
    )
    print(shown.table(head, rows, right=frozenset((2, 3, 4, 5, 6))))
    told: dict[str, list[str]] = {}
    for setting in said["settings"]:
        if setting["reason"] and setting["status"] != "measured":
            told.setdefault(setting["reason"], []).append(setting["name"])
    for reason, names in told.items():
        print(safe_text(f"{'; '.join(names)}: {reason}", 600))
    for entry in said["best"]:
        _print_best(entry)
    for path in said["saved"]:
        print(f"saved: {path}")


def _print_best(entry: Mapping[str, Any]) -> None:
    at = f"at {entry['concurrency']} at a time"
    if entry["setting"] is None:
        print(f"{at}: no setting was measured in a fair trial")
    else:
        over = f", {_ratio(entry['over_none'])} of none" if entry.get("over_none") else ""
        print(
            safe_text(f"{at}: {entry['setting']}, {_range(entry['tokens_per_s'], entry['interval'])} tok/s{over}", 600)
        )
        for other in entry["against"]:
            if other["setting"] in entry["tied_with"]:
                why = f": {'; '.join(other['reasons'])}" if other["reasons"] else ""
                print(safe_text(f"{at}: not shown to be faster than {other['setting']} ({_ratio(other)}){why}", 600))
        if entry["tied_with"]:
            print(f"{at}: spectui compare tells two servers apart sooner, since it measures them by turns")
    for other in entry["withheld"]:
        print(safe_text(f"{at}: {other['setting']} is not ranked: {'; '.join(other['reasons'])}", 600))


def _number(value: Any, digits: int) -> str:
    return "" if value is None else f"{value:,.{digits}f}"


def _ratio(over: Mapping[str, Any] | None) -> str:
    """Prompt by prompt, so narrower than what the two intervals together would say."""
    if not over or over.get("ratio") is None:
        return ""
    low, high = over.get("interval") or (None, None)
    return f"{over['ratio']:.2f}×" + (f" [{low:.2f}, {high:.2f}]" if low is not None and high is not None else "")


def _range(value: Any, interval: Any) -> str:
    if value is None:
        return ""
    return f"{value:,.0f}" if not interval else f"{value:,.0f} [{interval[0]:,.0f}, {interval[1]:,.0f}]"
