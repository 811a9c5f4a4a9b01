"""The command line. Every screen has a headless twin here; the screen itself is imported only to open it."""

from __future__ import annotations

import argparse
import contextlib
import importlib
import io
import os
import signal
import sys
import threading
from collections.abc import Iterator, Sequence

from spectui import __version__
from spectui.cli import examples
from spectui.cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, Failure, Misused, explain
from spectui.core.safe import safe_text

COMMANDS: dict[str, str] = {
    "demo": "two simulated servers and the screen; --headless compares them",
    "run": "measure one server with a workload",
    "compare": "two arms over one workload: ratio, interval, verdict",
    "noise": "one server against itself: the noise floor that compare adds to its intervals",
    "sweep": "many settings, planned, one after another",
    "replay": "what an NGRAM setting would accept, from recorded token ids, without a restart",
    "check": "the check after a restart",
    "servers": "servers on this node: found and managed",
    "launch": "start a server from a profile",
    "stop": "end a server that spectui started",
    "hot": "change a running server without a relaunch: thresholds, corpora",
    "plan": "what a profile would change: asked, in force, refused",
    "attach": "runs in progress: list them, follow one",
    "profiles": "list, show, check and save profiles",
    "runs": "list, show and mark stored runs",
    "export": "a profile or run for other places: launch command, docker, systemd, Kubernetes, report, CSV, JSON",
    "sim": "the simulated SGLang server (takes SGLang's own arguments)",
    "doctor": "what this terminal, node and driver can do",
    "completion": "shell completion for bash, zsh or fish",
}
"""Name -> one line of help; each is the module of the same name in this package, imported when it is called."""


class _Parser(argparse.ArgumentParser):
    """Says what to do next, where argparse would only print the usage."""

    def error(self, message: str) -> None:  # type: ignore[override]
        raise Misused(self.prog, message)


def _screen_parser() -> argparse.ArgumentParser:
    parser = _Parser(
        prog="spectui",
        description="Tune speculative decoding on SGLang servers. Without a command: the screen.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog="commands:\n" + "\n".join(f"  {name:<11} {text}" for name, text in COMMANDS.items()) + "\n\nexamples:\n"
        "  spectui                                   servers found on this node\n"
        "  spectui http://127.0.0.1:30000            one server\n"
        "  spectui demo                              try everything without a GPU\n"
        "  spectui run http://127.0.0.1:30000 --workload json --pass both --flush\n"
        "  spectui compare http://127.0.0.1:30000 http://127.0.0.1:30001 --workload chat\n",
    )
    parser.add_argument("urls", nargs="*", metavar="URL", help="servers for arm A and arm B")
    parser.add_argument("--version", action="version", version=f"spectui {__version__}")
    add_screen_options(parser)
    return parser


def add_screen_options(parser: argparse.ArgumentParser) -> None:
    """Options of everything that opens the screen."""
    parser.add_argument("--slow", action="store_true", help="for slow lines: paint once a second, few colours")
    parser.add_argument("--ascii", action="store_true", help="no braille, no box drawing")
    parser.add_argument(
        "--mouse",
        action=argparse.BooleanOptionalAction,
        help="take the mouse, or leave it to the terminal and its own selection (left by default over SSH)",
    )
    parser.add_argument(
        "--stop-servers", action="store_true", help="on leaving, also end the servers and runs begun meanwhile"
    )
    parser.add_argument("--key", metavar="REF", help="API key as env:NAME or file:PATH")
    parser.add_argument("--admin-key", metavar="REF", help="admin key as env:NAME or file:PATH")


def run_command_line(argv: Sequence[str]) -> int:
    """Runs one command. Returns the exit code: 0, 1 failed, 2 usage, 3 not reachable, 130 interrupted."""
    wants_json = "--json" in argv and argv[0] != "sim"
    _open_what_is_closed()
    _fit_any_encoding()
    try:
        with _ended_like_ctrl_c(argv):
            code = _dispatch(list(argv))
            sys.stdout.flush()  # now, while a full disk or a closed pipe can still be told in a sentence
            return code
    except KeyboardInterrupt:
        return _fail(Failure("interrupted", EXIT_INTERRUPTED), as_json=wants_json and "--watch" not in argv)
    except BrokenPipeError:
        _drop_output()
        return 128 + signal.SIGPIPE
    except Exception as error:
        return _fail(error if isinstance(error, Failure) else explain(error), as_json=wants_json)


@contextlib.contextmanager
def _ended_like_ctrl_c(argv: Sequence[str]) -> Iterator[None]:
    """SIGTERM (``timeout``, a job's end) interrupts a command as Ctrl-C does: its servers and runs are not left behind.
    The simulated server and the screen answer signals by themselves."""
    default = threading.current_thread() is threading.main_thread() and (
        signal.getsignal(signal.SIGTERM) is signal.SIG_DFL
    )
    if not default or list(argv[:1]) == ["sim"]:
        yield
        return
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    try:
        yield
    finally:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)


def _open_what_is_closed() -> None:
    """Where standard output or error was closed (``>&-``), nothing is told; and no file of ours takes its number."""
    for number, name, mode in ((0, "stdin", "r"), (1, "stdout", "w"), (2, "stderr", "w")):
        if getattr(sys, name) is None:
            try:
                os.fstat(number)
            except OSError:  # the lowest free number is given first, so it is this one
                os.open(os.devnull, os.O_RDWR)
            setattr(sys, name, open(os.devnull, mode, encoding="utf-8"))  # noqa: SIM115


def _fit_any_encoding() -> None:
    """A character that the terminal's encoding lacks becomes a question mark: it must not cost the whole output."""
    if isinstance(sys.stdout, io.TextIOWrapper) and sys.stdout.errors in ("strict", "surrogateescape"):
        sys.stdout.reconfigure(errors="replace")


def _fail(failure: Failure, *, as_json: bool) -> int:
    """Tells a failure to the person, and to the program that asked for JSON. Its text may come from a server."""
    for line in str(failure if isinstance(failure, Misused) else f"spectui: {failure}").splitlines():
        sys.stderr.write(f"{safe_text(line, 4000)}\n")
    try:
        if as_json:
            import json  # here: it would cost the first frame of the screen

            print(json.dumps({"error": failure.args[0], "exit_code": failure.code}))
        sys.stdout.flush()
    except OSError:  # nobody reads it, or its disk is full
        _drop_output()
    return failure.code


def _drop_output() -> None:
    """What is still to be written has no reader: Python would complain again when it closes standard output."""
    with contextlib.suppress(OSError):
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)


def _dispatch(argv: list[str]) -> int:
    first = argv[0] if argv else ""
    if first in COMMANDS:
        module = importlib.import_module(f"spectui.cli.{first}")
        if first == "sim":  # takes SGLang's arguments, not ours
            return int(module.run(argv[1:]))
        parser = _Parser(
            prog=f"spectui {first}",
            description=module.__doc__,
            formatter_class=argparse.RawDescriptionHelpFormatter,
            epilog=getattr(module, "EXAMPLES", None),
        )
        module.arguments(parser)
        examples.deal_out(parser, first, getattr(module, "EXAMPLES", ""))
        return int(module.run(parser.parse_args(argv[1:])))
    if first and not first.startswith("-") and "/" not in first and ":" not in first and not _names_an_arm(first):
        import difflib

        near = difflib.get_close_matches(first, COMMANDS, n=1)
        hint = f" Did you mean {near[0]!r}?" if near else ""
        raise Failure(
            f"invalid choice: '{first}' (no such command, URL, server, profile or run).{hint} Try: spectui --help",
            EXIT_USAGE,
        )
    args = _screen_parser().parse_args(argv)
    from spectui.cli import screen

    return screen.run(args)


def _names_an_arm(text: str) -> bool:
    """A managed server, a profile or a stored run: the screen takes these in place of a URL."""
    from spectui.session import SessionError, arms

    try:
        arms.resolve(text)
    except SessionError:
        return False
    return True
