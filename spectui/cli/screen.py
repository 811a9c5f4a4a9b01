"""Opens the screen on servers named on the command line, or on those found on this node."""

from __future__ import annotations

import argparse
import contextlib
import gc
import os
import sys
import time
from collections.abc import Iterator
from typing import Any

from spectui.cli.failure import EXIT_USAGE, Failure


def run(args: argparse.Namespace) -> int:
    if len(args.urls) > 2:
        raise Failure("the screen has two arms: name at most two servers", EXIT_USAGE)
    return open_screen(args, tuple(args.urls))


def open_screen(args: argparse.Namespace, targets: tuple[str, ...], **more: Any) -> int:
    if not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise Failure(
            "the screen needs a terminal on standard input and output; in scripts use: spectui run, spectui compare, "
            "spectui check",
            EXIT_USAGE,
        )
    gc.disable()  # until the session is there: a sweep through all that was imported would delay the first frame
    with _said("spectui is starting"):
        from spectui.ui.opening import open_app

    began = time.time()
    code = open_app(
        targets,
        slow=args.slow,
        ascii_only=args.ascii,
        mouse=args.mouse,
        key=args.key,
        admin_key=args.admin_key,
        **more,
    )
    if args.stop_servers:
        end_since(began)
    return code


@contextlib.contextmanager
def _said(text: str) -> Iterator[None]:
    """Shown until it is done, and then gone, with whatever was typed behind it: from a cold disk the imports take a
    second or more."""
    sys.stdout.write(text)
    sys.stdout.flush()
    try:
        yield
    finally:
        clear = "" if os.environ.get("TERM") in (None, "", "dumb") else "\x1b[K"
        sys.stdout.write(f"\r{' ' * len(text)}\r{clear}")
        sys.stdout.flush()


def end_since(began: float) -> list[str]:
    """Ends the runs and servers that were begun after ``began``; what cannot be ended is told. Returns their names."""
    import signal
    from contextlib import suppress

    from spectui.hosts import servers
    from spectui.session import SessionError, running, serving

    def say(text: str) -> None:
        with suppress(OSError):  # the line may be gone: what was asked for is done all the same
            sys.stderr.write(f"spectui: {text}\n")

    with suppress(ValueError):
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
    for handle in running.running():
        with suppress(OSError):
            if (handle.folder / "spec.json").stat().st_mtime >= began:
                running.stop(handle)
                say(f"run {handle.folder.name} was stopped; what was measured is kept")
    ended = []
    for record in servers.records():
        if record.when >= began and servers.alive(record):
            try:
                outcome = serving.stop(record.name)
            except SessionError as error:
                say(str(error))
                continue
            ended.append(record.name)
            say(outcome.text)
    return ended
