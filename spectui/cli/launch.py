"""Starts a server from a profile and waits until it produced a token. It outlives this terminal."""

from __future__ import annotations

import argparse
import json
import shlex
import sys
import time
from typing import TYPE_CHECKING

from spectui.cli import options, shown
from spectui.cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, Failure

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.hosts.records import ServerRecord
    from spectui.hosts.watch import ServerState
    from spectui.session import serving
    from spectui.session.adopting import Adoption

EXAMPLES = """examples:
  spectui launch ngram                     a profile by name (spectui profiles lists them)
  spectui launch ./mine.toml --port 30010
  spectui launch mine --dry-run            the plan and the exact command, nothing started
  spectui launch none --like mine          a baseline with the limits that "mine" will have
  spectui launch mine --replace old        in place of the managed server "old", when its memory is back
  spectui launch ngram --adopt http://127.0.0.1:30000
                                           a server that spectui did not start, with the settings of "ngram":
                                           shows the difference; --yes-relaunch URL does it
"""
_EVERY_S = 15.0


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("profile", metavar="PROFILE", nargs="?", help="name or path of a profile")
    parser.add_argument("--port", type=options.positive, help="in place of the profile's")
    parser.add_argument("--name", help="name of the server (the profile's)")
    parser.add_argument("--dry-run", action="store_true", help="show the plan and the command only")
    parser.add_argument("--no-wait", action="store_true", help="do not wait until it is ready")
    parser.add_argument("--like", metavar="PROFILE|URL", help="for a baseline: the speculative side, for equal limits")
    parser.add_argument("--replace", metavar="NAME", help="stop this managed server first, and take its place")
    parser.add_argument("--adopt", metavar="URL", help="relaunch a server of this node that spectui did not start")
    parser.add_argument("--yes-relaunch", metavar="URL", help="with --adopt: do it; its URL once more")
    parser.add_argument("--all-flags", action="store_true", help="pass also what the target's --help does not list")
    options.add_key_options(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.adopt is not None:
        return _adopt(args)
    if args.profile is None:
        raise Failure("launch needs a PROFILE (spectui profiles lists them), or --adopt URL", EXIT_USAGE)
    if args.yes_relaunch is not None:
        raise Failure("--yes-relaunch goes with --adopt URL", EXIT_USAGE)
    from spectui.session import serving
    from spectui.store import profiles

    prepared = _prepare(args, profiles.load(args.profile))
    _notes(prepared)
    if args.dry_run:
        return _dry(args, prepared)
    _lasting()
    record = serving.launch(prepared, _say) if args.replace is None else serving.relaunch(prepared, args.replace, _say)
    if not args.all_flags and not args.no_wait:
        serving.ask_help(prepared)
    return _follow(args, record)


def _say(text: str) -> None:
    sys.stderr.write(f"{text}\n")


def _prepare(args: argparse.Namespace, profile: Profile) -> serving.Prepared:
    from spectui.hosts import servers
    from spectui.session import arms, serving, starting
    from spectui.session.arms import Target

    port = args.port
    freed: tuple[int, ...] = ()
    if args.replace is not None:
        old = servers.find_record(args.replace)
        if old is None:
            known = ", ".join(record.name for record in servers.records()) or "none"
            raise Failure(f"--replace: spectui has started no server named {args.replace!r}; started: {known}", 2)
        port, freed = port or old.port, serving.ports_of(old)
    like = None
    if args.like is not None:
        if profile.speculative.algorithm != "none":
            raise Failure(f"--like is for a baseline; {profile.name} speculates itself", EXIT_USAGE)
        other = arms.resolve(args.like)
        if other.run is not None:
            raise Failure("--like takes a profile or a server, not a stored run", EXIT_USAGE)
        like = starting.limits_for(profile, Target(profile.name), [other])
        if like is None:
            raise Failure(f"--like: {args.like} does not speculate, or cannot be asked")
    return serving.prepare(profile, port=port, name=args.name, like=like, all_flags=args.all_flags, freed=freed)


def _notes(prepared: serving.Prepared) -> None:
    plan = prepared.plan
    for finding in (*plan.dangers, *plan.warnings):
        _say(f"note: {finding.text}")
    for note in prepared.notes:
        _say(f"note: {note}")
    for key, why in prepared.left_out:
        _say(f"note: {key} is not passed: {why}")


def _dry(args: argparse.Namespace, prepared: serving.Prepared) -> int:
    if args.json:
        said = {
            "command": list(prepared.launch.argv),
            "plan": shown.plan_json(prepared.plan),
            "version": prepared.version,
            "notes": list(prepared.notes),
            "left_out": [{"key": key, "why": why} for key, why in prepared.left_out],
        }
        print(json.dumps(said))
    else:
        shown.print_plan(prepared.plan)
        print(f"\n{shlex.join(prepared.launch.argv)}")
    return 0


def _lasting() -> None:
    from spectui.hosts.lasting import lasting

    keeps = lasting()
    if keeps.survives is False:
        _say(f"note: {keeps.sentence}")


def _follow(args: argparse.Namespace, record: ServerRecord) -> int:
    from spectui.session import serving

    state, left = None, False
    if not args.no_wait:
        with _Progress(record.name) as told:
            try:
                state = serving.wait_ready(record, told)
            except KeyboardInterrupt:
                told.clear()
                _say(
                    f"{record.name} goes on starting (pid {record.pid}, log {record.log_path}). "
                    f"See it: spectui servers. Stop it: spectui stop {shlex.quote(record.name)}"
                )
                left = True
    said = {
        "name": record.name,
        "url": record.url,
        "pid": record.pid,
        "log": record.log_path,
        "ready": bool(state and state.ready),
        "seconds": None if state is None else round(state.elapsed_s, 2),
    }
    if args.json:
        print(json.dumps(said))
    elif not left:
        print(f"{record.name} {'ready' if said['ready'] else 'starting'} at {record.url}, log {record.log_path}")
    return EXIT_INTERRUPTED if left else 0


class _Progress:
    """The start in lines: one a phase, one in 15 s while nothing changes, and on a terminal one that is rewritten."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._tty = sys.stderr.isatty()
        self._phase = ""
        self._said_at = 0.0
        self._stuck = False
        self._shown = False

    def __enter__(self) -> _Progress:
        return self

    def __exit__(self, *_: object) -> None:
        self.clear()

    def __call__(self, state: ServerState) -> None:
        now = time.monotonic()
        changed = state.phase != self._phase
        if changed or now - self._said_at >= _EVERY_S:
            self.clear()
            self._phase, self._said_at = state.phase, now
            _say(self._line(state))
        elif self._tty:
            sys.stderr.write(f"\r\x1b[K{self._line(state)[:118]}")
            sys.stderr.flush()
            self._shown = True
        if state.stuck and not self._stuck:
            self.clear()
            _say(f"{state.stuck} It is left running; stop it with: spectui stop {self._name}")
        self._stuck = bool(state.stuck)

    def clear(self) -> None:
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            self._shown = False

    def _line(self, state: ServerState) -> str:
        line = f"{state.elapsed_s:6.1f} s  {state.phase}"
        if state.progress is not None:
            line += f" {state.progress[0]}/{state.progress[1]}"
        before = next((p.last_time_s for p in state.phases if p.name == state.phase), None)
        if before is not None and not state.ready:
            line += f" ({before:.0f} s the last time)"
        if state.last_sign_of_life_s is not None and state.last_sign_of_life_s >= 2 and not state.ready:
            line += f", last sign of life {state.last_sign_of_life_s:.0f} s ago"
        if state.left_s is not None:
            line += f", about {state.left_s:.0f} s left"
        if state.log_trouble:
            line += f"; {state.log_trouble}"
        return line


def _adopt(args: argparse.Namespace) -> int:
    from spectui.session import adopting
    from spectui.store import profiles

    for given, option in ((args.port, "--port"), (args.like, "--like"), (args.replace, "--replace")):
        if given is not None:
            raise Failure(f"{option} does not go with --adopt", EXIT_USAGE)
    wanted = profiles.load(args.profile).speculative if args.profile is not None else None
    adoption = adopting.propose(
        args.adopt,
        algorithm=wanted.algorithm if wanted else None,
        knobs=wanted.knobs if wanted else None,
        key=args.key,
        admin_key=args.admin_key,
        name=args.name,
    )
    for line in adoption.lines:
        _say(line)
    _notes(adoption.prepared)
    typed = args.yes_relaunch
    if typed is None and not args.dry_run and not args.json and sys.stdin.isatty():
        sys.stderr.write(f"type {adoption.url} to relaunch it: ")
        sys.stderr.flush()
        typed = sys.stdin.readline().strip()
    if args.dry_run or not typed:
        return _proposed(args, adoption)
    _lasting()
    return _follow(args, adopting.relaunch(adoption, typed, _say))


def _proposed(args: argparse.Namespace, adoption: Adoption) -> int:
    if args.json:
        changes = [{"flag": c.flag, "before": c.before, "after": c.after} for c in adoption.changes]
        print(
            json.dumps(
                {
                    "url": adoption.url,
                    "command": list(adoption.launch.argv),
                    "changes": changes,
                    "missing": list(adoption.missing),
                    "busy": adoption.traffic.busy,
                    "relaunched": False,
                }
            )
        )
    else:
        print(f"nothing was touched. To do it: --yes-relaunch {adoption.url}")
    return 0
