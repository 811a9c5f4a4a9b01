"""Opens the screen on servers named on the command line, or on those found on this node."""

from __future__ import annotations

import argparse
import sys
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
    from spectui.ui.app import open_app

    return open_app(
        targets,
        slow=args.slow,
        ascii_only=args.ascii,
        mouse=args.mouse,
        key=args.key,
        admin_key=args.admin_key,
        **more,
    )
