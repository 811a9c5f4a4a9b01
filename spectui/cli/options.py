"""Options that several commands share, and how they become a session's options."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.cli.failure import EXIT_USAGE, Failure

if TYPE_CHECKING:
    from spectui.session.running import RunOptions


def numbers(text: str) -> tuple[int, ...]:
    """``1,4,16`` as numbers above zero."""
    try:
        values = tuple(int(part) for part in text.split(",") if part.strip())
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of whole numbers such as 1,4,16") from None
    if not values or min(values) < 1:
        raise argparse.ArgumentTypeError(f"{text!r}: every number must be at least 1")
    return values


def positive(text: str) -> int:
    try:
        value = int(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None
    if value < 1:
        raise argparse.ArgumentTypeError(f"must be at least 1, not {value}")
    return value


def temperature(text: str) -> float | None:
    if text == "default":
        return None
    try:
        value = float(text)
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number, nor 'default'") from None
    if not 0 <= value <= 10:
        raise argparse.ArgumentTypeError(f"must be from 0 to 10, not {text}")
    return value


def proxy(text: str) -> str:
    """A proxy's address without user and password, which would be kept with the run; or ``env``."""
    from urllib.parse import urlsplit

    if text == "env":
        return text
    try:
        parts = urlsplit(text if "://" in text else f"http://{text}")
        good = parts.scheme in ("http", "https") and bool(parts.hostname) and parts.port != 0
    except ValueError:
        good = False
    if not good:
        raise argparse.ArgumentTypeError(f"{text!r} is no proxy: write http://HOST:PORT, or env")
    if parts.username is not None or parts.password is not None:
        raise argparse.ArgumentTypeError("user and password belong into HTTP_PROXY or HTTPS_PROXY: set it, and say env")
    return text


def add_key_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--key", metavar="REF", help="API key as env:NAME or file:PATH")
    parser.add_argument("--admin-key", metavar="REF", help="admin key as env:NAME or file:PATH")


def add_json(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--json", action="store_true", help="print one JSON object")


def add_run_options(parser: argparse.ArgumentParser, *, first: str | None = "warm", needed: bool = True) -> None:
    source = parser.add_mutually_exclusive_group(required=needed)
    source.add_argument("--workload", metavar="W", help="a built-in workload; spectui run --help lists them")
    source.add_argument("--file", type=Path, metavar="F.jsonl", help="prompts, chats or ShareGPT, one JSON a line")
    parser.add_argument(
        "--pass",
        dest="pass_name",
        choices=("cold", "warm", "both", "primed", "as-found"),
        default=first,
        help="cold: flush, measure. warm: flush, feed, measure. primed: flush, load --corpus, measure. "
        "as-found: measure, and leave the store as it is. Only NGRAM needs the flush "
        f"(default: {first or 'warm; beside a stored run, its own'})",
    )
    parser.add_argument("--corpus", metavar="FILE|RUN", help="of a primed pass: texts, or the answers of a stored run")
    parser.add_argument("--concurrency", type=numbers, default=(1,), metavar="N[,N…]", help="requests at a time (1)")
    parser.add_argument("--requests", type=positive, metavar="N", help="measuring requests (all of the workload)")
    parser.add_argument("--max-tokens", type=positive, metavar="N", help="output limit of a request")
    parser.add_argument(
        "--temperature", type=temperature, default=0.0, metavar="T", help="0, or 'default' to send none"
    )
    parser.add_argument("--seed", type=int, metavar="N", help="which prompts and order, and the server's sampling seed")
    parser.add_argument("--thinking", choices=("on", "off"), help="for models whose chat template knows it")
    parser.add_argument("--ignore-eos", action="store_true", help="force the output length (marked: it flatters)")
    parser.add_argument(
        "--flush", action="store_true", help="allow emptying the caches of a server that others may use"
    )
    parser.add_argument("--no-flush", action="store_true", help="never flush, even an idle server")
    parser.add_argument("--no-text", action="store_true", help="keep no prompts, ids or answers on disk")
    add_key_options(parser)


def add_reach(parser: argparse.ArgumentParser, *, through_proxy: bool = True) -> None:
    """How long a silent request is waited for, and what stands between here and the server."""
    parser.add_argument(
        "--silence-limit",
        type=positive,
        default=600,
        metavar="S",
        help="a request that says nothing for so many seconds is given up (600)",
    )
    if through_proxy:
        parser.add_argument(
            "--proxy",
            type=proxy,
            metavar="URL|env",
            help="reach a server that is not on this node through a proxy, or through the environment's (none)",
        )


def add_explain(parser: argparse.ArgumentParser) -> None:
    parser.add_argument(
        "--explain", action="store_true", help="say first what the prompts will feed, and whether they suit each arm"
    )


_PASSES = {
    "cold": ("cold",),
    "warm": ("warm",),
    "both": ("cold", "warm"),
    "primed": ("primed",),
    "as-found": ("as-found",),
}


def run_options(args: argparse.Namespace) -> RunOptions:
    """Raises :class:`Failure` for options that exclude each other, and for a corpus that is not there."""
    from spectui.session.running import RunOptions

    if args.flush and args.no_flush:
        raise Failure("--flush and --no-flush exclude each other", EXIT_USAGE)
    passes = _PASSES[args.pass_name or "warm"]
    if args.corpus is None and "primed" in passes:
        raise Failure(
            "a primed pass needs a corpus: --corpus FILE, or --corpus RUN for the answers of a run", EXIT_USAGE
        )
    if args.corpus is not None and "primed" not in passes:
        raise Failure("--corpus is for a primed pass: add --pass primed", EXIT_USAGE)
    return RunOptions(
        workload=args.workload,
        file=args.file,
        passes=passes,
        concurrency=args.concurrency,
        requests=args.requests,
        max_tokens=args.max_tokens,
        temperature=args.temperature,
        seed=args.seed,
        thinking=None if args.thinking is None else args.thinking == "on",
        ignore_eos=args.ignore_eos,
        flush="yes" if args.flush else "no" if args.no_flush else "idle",
        keep_text=not args.no_text,
        corpus=None if args.corpus is None else corpus_file(args.corpus),
        silence_s=float(args.silence_limit),
    )


def corpus_file(text: str) -> Path:
    """The file behind ``FILE`` or ``RUN``, looked into once. Raises :class:`Failure` where it holds no text."""
    from spectui.runner.priming import documents
    from spectui.store import locations

    path = Path(text).expanduser()
    for folder in (path, locations.runs_dir() / text):
        if folder.is_dir():
            path = folder / "answers.jsonl"
            if not path.is_file():
                raise Failure(f"run {folder.name} kept no answers, so there is no corpus in it", EXIT_USAGE)
            break
    try:
        documents(path)
    except OSError as error:
        said = f"corpus {text} cannot be read: {error.strerror}; name a file or a stored run"
        raise Failure(said, EXIT_USAGE) from None
    except ValueError as error:
        raise Failure(f"corpus {text}: {error}", EXIT_USAGE) from None
    return path
