"""A profile or a run for other places: launch command, docker, systemd, Kubernetes, Markdown, CSV, JSON, Prometheus.

Keys never leave: they become variables or are left out.
"""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.cli.failure import EXIT_USAGE, Failure

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.core.result import RunResult

EXAMPLES = """examples:
  spectui export mine --format command                  the exact launch command, to paste into a shell
  spectui export mine --format systemd --output mine.service
  spectui export RUN --format markdown                  a report with tables and text charts
  spectui export RUN --format csv
  spectui export --format prometheus --output /var/lib/node_exporter/spectui.prom    the last checks
"""
LAUNCH = {"command": "shell", "docker": "docker", "systemd": "systemd", "kubernetes": "kubernetes"}
FORMATS = (*LAUNCH, "markdown", "csv", "json", "prometheus")


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="PROFILE|RUN", nargs="?", help="not needed for prometheus: all last checks")
    parser.add_argument("--format", choices=FORMATS, default="command", help="what to write (command)")
    parser.add_argument("--output", type=Path, metavar="FILE", help="in place of standard output; mode 0600")
    parser.add_argument("--replace", action="store_true", help="write over FILE")
    parser.add_argument("--sglang-version", metavar="V", help="whose flags to use (0.5.15)")


def run(args: argparse.Namespace) -> int:
    text = _text(args)
    if args.output is None:
        if args.format != "markdown":  # a report may lose a sign, a command or a figure may not
            _refuse_lost_signs(text, sys.stdout.encoding or "utf-8")
        sys.stdout.write(text)
        return 0
    _write(args.output, text, replace=args.replace or args.format == "prometheus")
    sys.stderr.write(f"written: {args.output.absolute()}\n")
    return 0


def _refuse_lost_signs(text: str, encoding: str) -> None:
    try:
        text.encode(encoding)
    except UnicodeEncodeError as error:
        lost = text[error.start]
        raise Failure(f"{lost!a} cannot be written in {encoding}: --output FILE writes UTF-8", EXIT_USAGE) from None


def _text(args: argparse.Namespace) -> str:
    if args.format == "prometheus":
        return _prometheus(args.source)
    if args.source is None:
        raise Failure(f"name a profile{'' if args.format in LAUNCH else ' or run'} to export", EXIT_USAGE)
    from spectui.store import profile_report, profiles, report, runs

    folder = None
    if args.format not in LAUNCH:
        try:
            folder = runs.find(args.source)
        except runs.HistoryError:
            folder = None
    if folder is not None:
        from spectui.session import running

        result = running.result_of(folder)
        if args.format == "markdown":
            return report.run_markdown(result, folder.name, runs.read_marks(folder), _compared(folder, result))
        return report.run_csv(result, folder.name) if args.format == "csv" else report.run_as_json(result, folder.name)
    if args.format in LAUNCH and not _is_profile(args.source):
        with contextlib.suppress(runs.HistoryError):
            raise Failure(
                f"{runs.find(args.source).name} is a run, and --format {args.format} takes a profile. Make one of it: "
                f"spectui profiles save NAME --from {args.source}; or export the run as markdown, csv or json",
                EXIT_USAGE,
            )
    profile = profiles.load(args.source)
    if args.format in LAUNCH:
        return launch_text(profile, args.format, args.sglang_version)
    making = {
        "markdown": profile_report.profile_markdown,
        "csv": profile_report.profile_csv,
        "json": profile_report.profile_json,
    }
    return making[args.format](profile)


def _is_profile(source: str) -> bool:
    from spectui.store import profiles

    return Path(source).is_file() or profiles.find(source) is not None


def launch_text(profile: Profile, form: str, version: str | None = None) -> str:
    from spectui.core.launch_line import arrange
    from spectui.engines.sglang.contract import SETTINGS, contract_for
    from spectui.session.serving import NEWEST
    from spectui.store.export import export

    contract = contract_for(version or NEWEST)
    flags = {key: flag for key in SETTINGS if (flag := contract.flag(key)) is not None}
    arranged = arrange(profile, flags)
    for key, why in arranged.left_out:
        sys.stderr.write(f"note: {key} left out: {why}\n")
    return export(profile, arranged.words, LAUNCH[form])


def _compared(folder: Path, result: RunResult) -> dict[str, Any] | None:
    """Of a run of two arms, what ``spectui compare`` says of it; one server against itself has no verdict."""
    from spectui.session import SessionError, comparing

    if len(result.arms) != 2 or "-noise-" in folder.name:
        return None
    try:
        a, b = (comparing.source_of(folder, arm) for arm in result.arms)
        return comparing.compare_sources(a, b).as_json()
    except SessionError:
        return None


def _prometheus(source: str | None) -> str:
    from spectui.session import checking
    from spectui.store.prometheus import prometheus

    last = checking.last_checks()
    if source is not None:
        found = {target: one for target, one in last.items() if source in (target, one.get("profile"))}
        if not found:
            raise Failure(f"{source} has not been checked yet: spectui check {source}", EXIT_USAGE)
        last = found
    return prometheus(last)


def _write(path: Path, text: str, *, replace: bool) -> None:
    """Whole or not at all: a collector may read it at any moment."""
    import os
    import tempfile

    if path.exists() and not replace:
        raise Failure(f"{path} is there already: give another name, or --replace", EXIT_USAGE)
    if not path.parent.is_dir():
        raise Failure(f"{path.parent} is no folder: make it, or write elsewhere", EXIT_USAGE)
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.parent)
    except OSError as error:
        raise Failure(f"{path} cannot be written: {error.strerror}; nothing was overwritten") from None
    try:
        with os.fdopen(handle, "w", encoding="utf-8") as file:
            file.write(text)
        if path.suffix == ".prom":
            os.chmod(name, 0o644)  # the collector runs as another user
        os.replace(name, path)
    except BaseException as error:
        with contextlib.suppress(OSError):
            os.unlink(name)
        if isinstance(error, OSError):
            said = f"{path} cannot be written: {error.strerror}; nothing was overwritten"
            raise Failure(said) from None
        raise
