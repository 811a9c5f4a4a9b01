"""What an NGRAM setting would accept on recorded token ids: exact, and without a restart."""

from __future__ import annotations

import argparse
import itertools
import json

from spectui.cli import options

EXAMPLES = """examples:
  spectui replay ids.json --draft-tokens 4,8,16
  spectui replay 20261130-101500-json-1a2b --draft-tokens 8 --max-trie-depth 12,18 --json

SOURCE is a stored run that kept its ids, or a JSON file: workload -> list of {"prompt_ids": […], "output_ids": […]}
in the order of the requests; the store is empty before each workload.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a stored run (name or folder) or a JSON file of ids")
    parser.add_argument("--draft-tokens", type=options.numbers, default=(8,), metavar="N[,N…]")
    parser.add_argument("--max-trie-depth", type=options.numbers, default=(18,), metavar="N[,N…]")
    parser.add_argument("--min-bfs-breadth", type=options.numbers, default=(1,), metavar="N[,N…]")
    parser.add_argument("--max-bfs-breadth", type=options.numbers, default=(10,), metavar="N[,N…]")
    parser.add_argument("--match-type", choices=("BFS", "PROB"), default="BFS")
    parser.add_argument("--capacity", type=options.positive, default=10_000_000, metavar="NODES")
    parser.add_argument(
        "--mode", choices=("cold", "warm"), help="of a stored run: with or without its feeding requests"
    )
    parser.add_argument("--sglang-version", default="0.5.15", metavar="V", help="whose store is replayed (0.5.15)")
    parser.add_argument("--processes", type=options.positive, metavar="N", help="processes to use (all cores)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.core.ngram import NgramSettings
    from spectui.predict import replay
    from spectui.store import locations

    grid = [
        NgramSettings(
            num_draft_tokens=tokens,
            max_trie_depth=depth,
            min_bfs_breadth=low,
            max_bfs_breadth=high,
            match_type=args.match_type,
            capacity=args.capacity,
            version=args.sglang_version,
        )
        for tokens, depth, low, high in itertools.product(
            args.draft_tokens, args.max_trie_depth, args.min_bfs_breadth, args.max_bfs_breadth
        )
    ]
    stored = locations.runs_dir() / args.source
    source = replay.load(stored if (stored / "journal.jsonl").is_file() else args.source)
    done = replay.replay(source, grid, mode=args.mode, processes=args.processes)
    if args.json:
        print(json.dumps({"source": args.source, "settings": [setting.as_json() for setting in done]}))
        return 0
    print(f"{'draft tokens':>12} {'depth':>6} {'breadth':>8} {'verify steps':>13} {'accept length':>14}")
    for setting in done:
        said = setting.as_json()
        breadth = f"{said['min_bfs_breadth']}–{said['max_bfs_breadth']}"
        print(
            f"{said['num_draft_tokens']:>12} {said['max_trie_depth']:>6} {breadth:>8} {said['verify_steps']:>13} "
            f"{said['accept_length']:>14.3f}"
        )
    for why in sorted({said["why_not"] for said in (s.as_json() for s in done) if not said["exact"]}):
        print(f"an estimate, not exact: {why}")
    return 0
