"""Seconds and memory of a replay: 24 settings over about 100,000 recorded tokens, and its ratio to the plain store.

    python bench/replay.py ROWS.json[.xz] [--tokens 100000] [--processes 2] [--plain 3]

ROWS: a JSON list of token-id rows, each a prompt followed by its answer; ``--split`` is the id sequence after which
the answer begins. The plain store runs ``--plain`` of the settings on one core; the ratio scales that to all.
"""

from __future__ import annotations

import argparse
import itertools
import json
import lzma
import resource
import time
from pathlib import Path

from spectui.core.ngram import NgramSettings
from spectui.predict.plain_replay import plain_histograms
from spectui.predict.replay import Pair, replay


def read(path: Path, tokens: int, split: list[int]) -> list[Pair]:
    content = lzma.decompress(path.read_bytes()) if path.suffix == ".xz" else path.read_bytes()
    pairs: list[Pair] = []
    taken = 0
    for row in json.loads(content):
        places = (at + len(split) for at in range(len(row)) if row[at : at + len(split)] == split)
        cut = next(places, len(row))
        if len(row) - cut < 2:
            continue
        pairs.append(Pair(row[:cut], row[cut:]))
        taken += len(row) - cut
        if taken >= tokens:
            break
    return pairs


def peak_mib(children: int) -> float:
    """The peak of this process, and for each process of the replay that of the largest."""
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    child = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss
    return (mine + children * child) / 1024


def cpu_seconds() -> float:
    spent = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(usage.ru_utime + usage.ru_stime for usage in spent)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", type=Path)
    parser.add_argument("--tokens", type=int, default=100_000)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--plain", type=int, default=1, help="settings for the plain store; 0 leaves it out")
    parser.add_argument("--split", type=json.loads, default=[1, 520, 9531, 198])
    args = parser.parse_args()
    pairs = read(args.rows, args.tokens, args.split)
    count = sum(len(pair.output_ids) for pair in pairs)
    by_breadth = [
        NgramSettings(num_draft_tokens=n, max_trie_depth=d, max_bfs_breadth=b)
        for n, d, b in itertools.product((4, 8, 16), (12, 18), (1, 4, 8, 10))
    ]
    by_width = [NgramSettings(num_draft_tokens=n) for n in range(2, 26)]
    all_different = [NgramSettings(max_trie_depth=d, max_bfs_breadth=b) for d in (8, 12, 18) for b in range(3, 11)]
    print(f"{len(pairs)} requests, {count} tokens, {args.processes} processes")
    seconds = 0.0
    children = args.processes if args.processes > 1 else 0
    for name, grid in (("3 widths × 8", by_breadth), ("24 widths", by_width), ("24 shapes", all_different)):
        began, cpu = time.perf_counter(), cpu_seconds()
        found = replay({"text": pairs}, grid, processes=args.processes)
        took = time.perf_counter() - began
        cpu = cpu_seconds() - cpu
        seconds = seconds or took
        print(
            f"{name:>13}: {took:6.2f} s, {cpu:6.2f} s of CPU, peak {peak_mib(children):4.0f} MiB, "
            f"{sum(f.verify_steps for f in found)} steps"
        )
    if args.plain:
        began = time.perf_counter()
        for settings in by_breadth[-args.plain :]:
            plain_histograms(pairs, settings)
        plain = (time.perf_counter() - began) / args.plain * len(by_breadth)
        print(f"plain store, one core: {plain:.0f} s for 24 settings; ratio {plain / seconds:.0f}")


if __name__ == "__main__":
    main()
