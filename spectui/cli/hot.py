"""Changes a running server without a relaunch: accept thresholds, and external n-gram corpora."""

from __future__ import annotations

import argparse
import json
import sys
from dataclasses import asdict

from spectui.cli import options
from spectui.cli.failure import EXIT_FAILED, EXIT_USAGE, Failure

EXAMPLES = """examples:
  spectui hot http://127.0.0.1:30000                       how the hot settings stand
  spectui hot URL --threshold-single 0.9                   LOSSY below 1.0; read back, not believed
  spectui hot URL --add-corpus RUN --last 200 --id mine    the last 200 answers of a stored run
  spectui hot URL --remove-corpus mine
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("url", metavar="URL", help="a server, or the name of a managed one")
    parser.add_argument(
        "--threshold-single", type=float, metavar="X", help="accept threshold of a single token, 0 to 1"
    )
    parser.add_argument("--threshold-acc", type=float, metavar="X", help="accumulated threshold, 0 to 1")
    parser.add_argument("--during-run", action="store_true", help="also while a run measures this server")
    corpus = parser.add_mutually_exclusive_group()
    corpus.add_argument("--add-corpus", metavar="RUN", help="load answers of a stored run as an external corpus")
    corpus.add_argument("--remove-corpus", metavar="ID", help="unload an external corpus")
    parser.add_argument("--last", type=options.positive, default=100, metavar="N", help="answers to take (100)")
    parser.add_argument("--arm", choices=("A", "B"), help="only the answers of this arm")
    parser.add_argument("--id", metavar="ID", help="name of the corpus (the run's)")
    options.add_key_options(parser)
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import hot

    keys = {"key": args.key, "admin_key": args.admin_key}
    thresholds = args.threshold_single is not None or args.threshold_acc is not None
    if thresholds and (args.add_corpus or args.remove_corpus):
        raise Failure("thresholds and corpora are changed one at a time", EXIT_USAGE)
    if thresholds:
        outcome = hot.set_thresholds(
            args.url, single=args.threshold_single, acc=args.threshold_acc, during_run=args.during_run, **keys
        )
    elif args.add_corpus:
        outcome = hot.add_corpus(args.url, args.add_corpus, last=args.last, arm=args.arm, corpus_id=args.id, **keys)
    elif args.remove_corpus:
        outcome = hot.remove_corpus(args.url, args.remove_corpus, **keys)
    else:
        return _show(args, hot.show(args.url, **keys))
    if args.json:
        print(json.dumps(asdict(outcome)))
    else:
        print(outcome.text)
        for note in outcome.notes:
            sys.stderr.write(f"note: {note}\n")
    return EXIT_FAILED if outcome.applied is False else 0


def _show(args: argparse.Namespace, state: object) -> int:
    from spectui.core.safe import safe_text
    from spectui.session.hot import HotState

    assert isinstance(state, HotState)
    if args.json:
        print(json.dumps(asdict(state)))
        return 0
    print(f"{state.url}: SGLang {safe_text(state.version or 'of unknown version', 40)}, {state.algorithm}")
    for name, value in state.thresholds.items():
        print(f"  {name} {value:g}{'  LOSSY' if value < 1 else ''}")
    if not state.thresholds:
        print("  no accept thresholds to be seen")
    if state.corpora is None:
        print("  no external corpora here")
    else:
        budget = "unknown" if state.sam_budget is None else state.sam_budget
        print(f"  external corpora ({len(state.corpora)}), SAM budget {budget}")
        for name, tokens in state.corpora.items():
            print(f"    {safe_text(name, 80)}  {tokens} tokens")
    for note in state.notes:
        sys.stderr.write(f"note: {note}\n")
    return 0
