"""Compares two arms on one workload: ratio with interval at each concurrency, and a verdict only where it is fair."""

from __future__ import annotations

import argparse
import contextlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.cli import compare_text, options, progress, tables
from spectui.cli.failure import EXIT_FAILED, EXIT_INTERRUPTED, EXIT_USAGE, Failure
from spectui.core.rows import Row
from spectui.core.safe import safe_text
from spectui.core.spec import ArmSpec, RunSpec

if TYPE_CHECKING:
    from spectui.session.compared import ArmSource, Compared
    from spectui.session.differing import Differing

EXAMPLES = """examples:
  spectui compare http://127.0.0.1:30000 http://127.0.0.1:30001 --workload chat --concurrency 1,4,16
  spectui compare http://127.0.0.1:30000 http://127.0.0.1:30001 --workload json --until-sure --max-minutes 20
  spectui compare http://127.0.0.1:30000 20261130-101500-json-1a2b    a server against a stored run
  spectui compare none eagle3 --workload chat --save-evidence          into both profiles, for spectui check
  spectui compare RUN1 RUN2:B                                        two stored runs; :B names an arm of a run of two

A and B are servers, profiles (started for it and stopped afterwards) or stored runs; the ratio is A's output
throughput over B's. Exit code 0 when both arms were measured, whatever the verdict.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("a", metavar="A", help="a server, profile or stored run")
    parser.add_argument("b", metavar="B", help="another")
    options.add_run_options(parser, first=None, needed=False)
    options.add_reach(parser)
    parser.add_argument(
        "--until-sure",
        action="store_true",
        help="measure further blocks of fresh prompts until the verdict is settled or there are no more of them",
    )
    parser.add_argument("--max-minutes", type=_minutes, metavar="M", help="of measuring at each concurrency, at most")
    parser.add_argument(
        "--explain-differences",
        action="store_true",
        help="ask a server afterwards whether differing answers part at a near tie (at most 8 prompts)",
    )
    parser.add_argument(
        "--save-evidence", action="store_true", help="add the results to the profiles of the sides, for spectui check"
    )
    options.add_explain(parser)
    options.add_json(parser)


def _minutes(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of minutes") from None
    if not 0 < value < 1e6:
        raise argparse.ArgumentTypeError(f"must be above 0, not {text}")
    return value


def run(args: argparse.Namespace) -> int:
    from spectui.session import arms, comparing, keeping_evidence, running
    from spectui.session.starting import started

    sides = [comparing.split_run(text) for text in (args.a, args.b)]
    stored = [target for target, _ in sides if target.run is not None]
    _check(args, len(stored))
    keep_in = keeping_evidence.of_sides([target for target, _ in sides]) if args.save_evidence else {}
    asked = options.run_options(args)
    if not stored:
        running.build_spec((), asked)  # what is wrong with it is said before anything is started or asked
    with progress.Progress(quiet=args.json) as line, started([t for t, _ in sides], line.say) as live:
        specs = [
            None
            if url is None
            else replace(
                arms.arm_spec(name, url, key=args.key, admin_key=args.admin_key, trusted=mine), proxy=args.proxy
            )
            for name, (url, mine) in zip("AB", live, strict=True)
        ]
        measured = [spec for spec in specs if spec is not None]
        ended = _Ended()
        if len(measured) == 2:
            compared, fits = _two_servers(args, measured, asked, line, ended)
        else:
            sources = [
                comparing.source_of(target.run, arm) if target.run is not None else None for target, arm in sides
            ]
            fits = []
            if measured:
                fits = _against_stored(args, measured[0], sources, asked, line, ended)
            one, other = (s for s in sources if s is not None)
            with ended.comparing():
                compared = comparing.compare_sources(one, other)
        explained = _explained(compared, specs) if args.explain_differences and not ended.run else None
    said = compared.as_json()
    said["fit"] = fits
    said["interrupted"] = bool(ended.run)
    kept = [
        keeping_evidence.keep(path, source.folder, source.arm)
        for path, source in ((keep_in.get("A"), compared.a), (keep_in.get("B"), compared.b))
        if path is not None and not ended.run
    ]
    said["evidence"] = [written.as_json() for written in kept]
    if explained is not None:
        said["differences"] = explained.as_json()
    if args.json:
        print(json.dumps(said))
    else:
        compare_text.print_compared(said)
        for written in kept:
            print(tables.wrapped(written.text))
    failed = [written for written in kept if written.trouble]
    for written in failed:
        sys.stderr.write(f"spectui: {safe_text(written.text, 1000)}\n")
    if ended.run:
        sys.stderr.write(f"spectui: {ended.text}\n")
        return EXIT_INTERRUPTED
    return EXIT_FAILED if failed else 0


def _check(args: argparse.Namespace, stored: int) -> None:
    """Raises :class:`Failure` for what does not go together."""
    given = args.workload is not None or args.file is not None
    if not given and not stored:
        raise Failure("name what to measure with: --workload W or --file F.jsonl", EXIT_USAGE)
    if args.until_sure and stored:
        raise Failure("--until-sure needs two servers: a stored run has no further blocks to give", EXIT_USAGE)
    if args.max_minutes is not None and not args.until_sure:
        raise Failure("--max-minutes is for --until-sure", EXIT_USAGE)
    if args.until_sure and args.no_text and args.explain_differences:
        raise Failure("--explain-differences needs the answers, which --no-text does not keep", EXIT_USAGE)
    if args.save_evidence and stored == 2:
        raise Failure("--save-evidence is for what is measured now: spectui profiles save NAME --from RUN", EXIT_USAGE)
    if args.explain_differences and stored == 2:
        raise Failure("--explain-differences asks a server: at least one side must be one", EXIT_USAGE)
    if stored and given:
        what = (
            "two stored runs are compared as they are" if stored == 2 else "a server is measured as the stored run was"
        )
        sys.stderr.write(f"spectui: note: {what}, so --workload, --file and options of measuring have no effect\n")


def _two_servers(
    args: argparse.Namespace, specs: list[ArmSpec], asked: Any, line: progress.Progress, ended: _Ended
) -> tuple[Compared, list[dict[str, object]]]:
    from spectui.core.evidence import is_stateful
    from spectui.session import comparing, fitting, running
    from spectui.session.compared import ArmSource
    from spectui.session.until_sure import UntilSure, pool

    a, b = specs
    infos = {"A": fitting.look(a), "B": fitting.look(b)}
    learning = [info.algorithm for info in infos.values() if is_stateful(info.algorithm) is not False]
    if a.url == b.url and learning:
        raise Failure(
            f"A and B are the same server, and {learning[0]} learns from its answers: each side would be served what "
            "the other has taught it. Name two servers, or measure cold and warm with spectui run --pass both",
            EXIT_USAGE,
        )
    spec = comparing.live_spec(a, b, asked)
    fitting.refuse(spec, infos)
    watch = None
    if args.until_sure:
        spec = pool(spec, stateful=bool(learning))
        watch = UntilSure(spec, minutes=args.max_minutes)
    before, fits = fitting.before(spec, infos)
    if not args.json:
        tables.print_fit(before, fits, whole=args.explain)
    line.watch(f"{a.url} and {b.url}", spec.request_timeout_s)
    folder = Path(spec.folder)
    with ended.measuring(spec, line):
        handle, result = comparing.compare_live(a, b, asked, line.row, spec=spec, watch=watch)
        _complete(result, running.exit_code(handle, result))
    if ended.run:
        result = running.result_of(folder)
    one, other = (ArmSource(result, name, folder) for name in ("A", "B"))
    with ended.comparing():
        looks = watch.finish(result, interrupted=bool(ended.run)) if watch is not None else None
        return comparing.compare_sources(one, other, looks=looks), [fit.as_json() for fit in fits]


def _against_stored(
    args: argparse.Namespace,
    spec: ArmSpec,
    sources: list[ArmSource | None],
    asked: Any,
    line: progress.Progress,
    ended: _Ended,
) -> list[dict[str, object]]:
    """Measures the live side as the stored run was, and puts it in its place."""
    from spectui.session import comparing, fitting, running
    from spectui.session.compared import ArmSource

    other = next(s for s in sources if s is not None)
    like = comparing.spec_like(other.folder, spec, asked)
    infos = {spec.name: fitting.look(spec)}
    before, fits = fitting.before(like, infos)
    if not args.json:
        tables.print_fit(before, fits, whole=args.explain)
    line.watch(spec.url, like.request_timeout_s)
    folder = Path(like.folder)
    with ended.measuring(like, line):
        handle = running.start(like)
        result = running.wait(handle, line.row)
        _complete(result, running.exit_code(handle, result))
    if ended.run:
        result = running.result_of(folder)
    sources[sources.index(None)] = ArmSource(result, spec.name, folder)
    return [fit.as_json() for fit in fits]


class _Ended:
    """Ctrl-C or SIGTERM while measuring: what was measured until then is compared and told all the same."""

    def __init__(self) -> None:
        self.run = ""
        """The run that was interrupted; empty where none was."""

    @property
    def text(self) -> str:
        return f"interrupted; what was measured is kept: spectui runs show {self.run}"

    @contextlib.contextmanager
    def measuring(self, spec: RunSpec, line: progress.Progress) -> Iterator[None]:
        try:
            yield
        except KeyboardInterrupt:
            if not (Path(spec.folder) / "journal.jsonl").is_file():
                raise
            self.run = spec.run_id
        finally:
            line.measured()

    @contextlib.contextmanager
    def comparing(self) -> Iterator[None]:
        """Too little of a run that was interrupted is no fault of its own."""
        from spectui.session import SessionError

        try:
            yield
        except (SessionError, ValueError, KeyError, ZeroDivisionError):
            if not self.run:
                raise
            raise Failure(self.text, EXIT_INTERRUPTED) from None


def _complete(result: Any, code: int) -> None:
    if code:
        raise Failure(result.reason or "the run ended without a reason", code or EXIT_FAILED)


def _explained(compared: Compared, specs: Sequence[ArmSpec | None]) -> Differing:
    """Asks the side that can tell best: without speculation, or one that learns nothing from being asked."""
    from spectui.engines.sglang.address import read_key
    from spectui.engines.sglang.client import SglangClient
    from spectui.session.differing import explain, judge, no_judge

    sides = {"A": compared.a, "B": compared.b}
    live = {spec.name: spec for spec in specs if spec is not None}
    algorithms = {name: str(sides[name].head().get("algorithm") or "") for name in live}
    asked = judge(algorithms)
    first = compared.rows[0].concurrency

    def of(source: ArmSource) -> list[Row]:
        rows = source.answers()
        return [r for r in rows if r.get("concurrency") == first and r.get("pass_name") == compared.pass_name]

    if asked is None:
        return no_judge(of(compared.b), of(compared.a), algorithms.values())
    spec = live[asked]
    keys = read_key(spec.key), read_key(spec.admin_key)
    with SglangClient(spec.url, key=keys[0], admin_key=keys[1], proxy=spec.proxy) as client:
        return explain(of(compared.b), of(compared.a), client)
