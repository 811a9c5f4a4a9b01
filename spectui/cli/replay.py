"""What an NGRAM setting would accept on recorded token ids: exact, and without a restart."""

from __future__ import annotations

import argparse
import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any

from spectui.cli import options, shown, tables
from spectui.cli.failure import EXIT_INTERRUPTED, EXIT_USAGE, Failure

if TYPE_CHECKING:
    from spectui.predict.replay import Progress, SettingReplay, Source

EXAMPLES = """examples:
  spectui replay ids.json --draft-tokens 4,8,16
  spectui replay 20261130-101500-json-1a2b --draft-tokens 8 --max-trie-depth 12,18 --json
  spectui replay 20261130-101500-json-1a2b --draft-tokens 8 --concurrency 1,4,16

SOURCE is a stored run that kept its ids, or a JSON file: workload -> list of {"prompt_ids": […], "output_ids": […]}
in the order of the requests; the store is empty before each workload. The passes of a run are told apart.
"""


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("source", metavar="SOURCE", help="a stored run (name or folder) or a JSON file of ids")
    parser.add_argument("--draft-tokens", type=options.numbers, default=(8,), metavar="N[,N…]", help="(8)")
    parser.add_argument("--max-trie-depth", type=options.numbers, default=(18,), metavar="N[,N…]", help="(18)")
    parser.add_argument("--min-bfs-breadth", type=options.numbers, default=(1,), metavar="N[,N…]", help="(1)")
    parser.add_argument("--max-bfs-breadth", type=options.numbers, default=(10,), metavar="N[,N…]", help="(10)")
    parser.add_argument("--match-type", choices=("BFS", "PROB"), default="BFS")
    parser.add_argument("--capacity", type=options.positive, default=10_000_000, metavar="NODES")
    parser.add_argument(
        "--mode",
        choices=("cold", "warm"),
        help="cold: from an empty store. warm: of a run, its fed passes, as they were fed; of a JSON file, its "
        "requests after they ran once (as recorded)",
    )
    parser.add_argument(
        "--concurrency",
        type=options.numbers,
        metavar="N[,N…]",
        help="requests at a time (of a run, as they were sent; of a JSON file, 1)",
    )
    parser.add_argument(
        "--model",
        metavar="FOLDER",
        help="of the model that wrote the ids: ids beyond its vocabulary are refused (of a run, its own model)",
    )
    parser.add_argument(
        "--sglang-version", metavar="V", help="whose store is replayed (of a run, its own; of a JSON file, 0.5.15)"
    )
    parser.add_argument("--processes", type=options.positive, metavar="N", help="processes to use (all cores)")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.core.ngram import NgramSettings
    from spectui.predict import replay
    from spectui.store import locations

    stored = locations.runs_dir() / args.source
    path = stored if (stored / "journal.jsonl").is_file() else Path(args.source)
    source = replay.load(path, vocab_size=_vocabulary(args.model, path))
    grid = [
        NgramSettings(
            num_draft_tokens=tokens,
            max_trie_depth=depth,
            min_bfs_breadth=low,
            max_bfs_breadth=high,
            match_type=args.match_type,
            capacity=args.capacity,
            version=args.sglang_version or source.version or NgramSettings().version,
            overlap=source.overlap,
        )
        for tokens, depth, low, high in itertools.product(
            *map(dict.fromkeys, (args.draft_tokens, args.max_trie_depth, args.min_bfs_breadth, args.max_bfs_breadth))
        )
    ]
    mode = args.mode
    if mode == "warm" and source.recorded:
        source, mode = _fed(source, args.source), None
    sources = [source.at_load(level) for level in dict.fromkeys(args.concurrency)] if args.concurrency else [source]
    done: list[tuple[SettingReplay, Source]] = []
    with _Watch(len(grid), len(sources)) as watch:
        for loaded in sources:
            found = replay.replay(
                loaded, grid, mode=mode, processes=args.processes, watch=watch.show, cancelled=watch.cancelled
            )
            parts = [one for setting in found for one in setting.apart(loaded)] if source.recorded else found
            done += [(one, loaded) for one in parts]
            watch.next()
    left = sum(setting.not_replayed for setting, _ in done)
    if args.json:
        print(json.dumps({"source": args.source, "settings": [setting.as_json() for setting, _ in done]}))
        return _ended(left)
    several = len(source.workloads) > 1
    of, at = (("of",) if several else ()), (("at a time",) if args.concurrency else ())
    head = ("draft tokens", "depth", "breadth", *at, *of, "verify steps", "accept length", "exact")
    rows = [row for setting, loaded in done for row in _lines(setting, loaded, several=several, loads=bool(at))]
    right = {0, 1, 2, len(head) - 3, len(head) - 2} | ({3} if at else set())
    print(shown.table(head, rows, right=frozenset(right)))
    for why in sorted({why for setting, _ in done for why in setting.reasons}):
        print(tables.wrapped(why, lead="an estimate: "))
    return _ended(left)


def _vocabulary(model: str | None, source: Path) -> int | None:
    """Number of ids that the model has; None where its config is not on this disk."""
    from spectui.store import journal, model_files

    told = model
    if told is None and (source / "journal.jsonl").is_file():
        head = next(iter(journal.read(source / "journal.jsonl")), {})
        models = {arm.get("model") for arm in head.get("arms") or () if isinstance(arm, dict)}
        told = models.pop() if len(models) == 1 else None
    config = model_files.read_config(told) if isinstance(told, str) else None
    if config is None:
        if model is not None:
            raise Failure(
                f"--model {model}: no config.json that can be read in it; name the model's folder", EXIT_USAGE
            )
        return None
    text = config.get("text_config")
    found = config.get("vocab_size") or (text.get("vocab_size") if isinstance(text, dict) else None)
    return found if isinstance(found, int) else None


def _ended(left: int) -> int:
    if not left:
        return 0
    sys.stderr.write("spectui: interrupted; the table holds the requests that were replayed until then\n")
    return EXIT_INTERRUPTED


class _Watch:
    """How far it is, on a terminal's stderr; and Ctrl-C or SIGTERM, which ends it and keeps what is there."""

    EVERY_S = 0.25

    def __init__(self, settings: int, loads: int) -> None:
        self._settings, self._loads, self._load = settings, loads, 0
        self._stopped = False
        self._begun = time.monotonic()
        self._next = self._begun + 0.5
        self._shown = False
        self._before: list[tuple[int, Any]] = []

    def __enter__(self) -> _Watch:
        if threading.current_thread() is threading.main_thread():
            self._before = [(number, signal.signal(number, self._stop)) for number in (signal.SIGINT, signal.SIGTERM)]
        return self

    def __exit__(self, *_: object) -> None:
        for number, before in self._before:
            signal.signal(number, before)
        if self._shown:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def _stop(self, number: int, frame: FrameType | None) -> None:
        self._stopped = True

    def cancelled(self) -> bool:
        return self._stopped

    def next(self) -> None:
        """One load is done."""
        self._load += 1

    def show(self, progress: Progress) -> None:
        now = time.monotonic()
        if now < self._next or not sys.stderr.isatty():
            return
        self._next = now + self.EVERY_S
        self._shown = True
        share = (self._load + progress.share) / self._loads
        settings = self._load * self._settings + progress.settings_done
        words = f"{settings} of {self._loads * progress.settings} settings, {100 * share:.0f} %"
        if share > 0.02:
            left = (now - self._begun) * (1 - share) / share
            words += f", {left:.0f} s left" if left < 90 else f", {left / 60:.0f} minutes left"
        sys.stderr.write(f"\rreplaying: {words} (Ctrl-C keeps what is there)\x1b[K")
        sys.stderr.flush()


def _lines(setting: SettingReplay, source: Source, *, several: bool, loads: bool) -> Iterator[tuple[object, ...]]:
    """One for each pass of a run; of a file one for each workload and, of several, one for all."""
    knobs = setting.settings
    start: tuple[object, ...] = (
        knobs.num_draft_tokens,
        knobs.max_trie_depth,
        f"{knobs.min_bfs_breadth}–{knobs.max_bfs_breadth}",
    )
    start += (setting.concurrency,) if loads else ()
    parts = setting.apart(source)
    for one in parts if source.recorded or len(parts) == 1 else (*parts, setting):
        of = next(iter(one.workloads)) if len(one.workloads) == 1 else "all"
        length = "n/a" if one.accept_length is None else f"{one.accept_length:.3f}"
        exact = "yes" if one.exact else "nearly" if one.nearly_exact else "no"
        if one.not_replayed:
            done = sum(len(requests) for requests in one.workloads.values())
            exact = f"first {done} of {done + one.not_replayed} requests" if done else "not replayed"
        yield (*start, *((of,) if several else ()), f"{one.verify_steps:,}", length, exact)


def _fed(source: Source, name: str) -> Source:
    """The passes that had been fed, and only those."""
    fed = {key: pairs for key, pairs in source.workloads.items() if source.primers.get(key)}
    if not fed:
        raise Failure(f"{name}: nothing had been fed before its passes; replay it with --mode cold", EXIT_USAGE)
    return replace(source, workloads=fed)
