"""Ends a server that spectui started, and waits until its memory and ports are back. Nothing else is ever ended.

``ended`` is null in JSON where that cannot be seen from here: a server on another node whose address no longer answers.
"""

from __future__ import annotations

import argparse
import json
import sys

from spectui.cli import options

EXAMPLES = """examples:
  spectui stop ngram                     SIGTERM, then its group, then SIGKILL; waits for its GPU memory and ports
  spectui stop ngram --leftovers         also what a dead server left behind
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", help="a managed server, as spectui servers lists it")
    parser.add_argument("--leftovers", action="store_true", help="also end what a dead server has left behind")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.session import serving

    def say(text: str) -> None:
        if not args.json:
            sys.stderr.write(f"{text}\n")

    outcome = serving.stop(args.name, say, leftovers=args.leftovers)
    if args.json:
        left = [row.pid for row in outcome.left]
        print(json.dumps({"ended": outcome.ended, "clear": outcome.clear, "text": outcome.text, "left": left}))
    else:
        print(outcome.text)
    return 0 if outcome.ended or outcome.clear else 1
