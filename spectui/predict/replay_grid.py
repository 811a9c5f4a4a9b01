"""A grid of settings over several workloads: what is replayed together, spread over processes, and how far it is.

It can be watched and ended early; what was replayed until then is kept, request by request.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.ngram import NgramSettings
from spectui.predict import replay_pool
from spectui.predict.fast_replay import can_replay, family
from spectui.predict.replay_source import Pair
from spectui.predict.replay_task import Bench, Task

Histograms = list[list[int]]
WORTH_A_PROCESS = 400_000
"""Tokens times settings below which starting processes takes longer than the work."""
PLAIN_COST = 20
"""What a setting costs that only the plain store can replay, in settings that trees are shared for."""
EVERY_S = 0.1
"""Between two reports of progress."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a replay is."""

    settings_done: int
    """Settings that all workloads are replayed for. Those of one trie depth go side by side and end together."""
    settings: int
    share: float
    """Of the work, 0 to 1."""


Watch = Callable[[Progress], None]
Cancelled = Callable[[], bool]


def run_grid(
    workloads: Mapping[str, Sequence[Pair]],
    grid: Sequence[NgramSettings],
    processes: int | None = None,
    *,
    watch: Watch | None = None,
    cancelled: Cancelled | None = None,
) -> list[dict[str, Histograms]]:
    """Histograms a request, by workload, for each setting of the grid in its order. Equal settings run once.

    ``processes``: None uses the cores that this process may run on where it is worth it, 1 stays in this process.
    Once ``cancelled`` says so it ends within a fraction of a second, and a workload's list holds only the requests
    that were replayed until then, in their order. Raises :class:`replay_pool.ReplayDied` when a process is killed.
    """
    wanted = list(dict.fromkeys(grid))
    cores = len(os.sched_getaffinity(0)) if processes is None else max(1, processes)
    size = sum(map(_tokens, workloads.values()))
    spread = size * len(wanted) >= WORTH_A_PROCESS if processes is None else processes > 1
    tasks = _tasks(workloads, wanted)
    depth = max((task.of.depth for task in tasks if task.of is not None), default=2)
    ledger = _Ledger(workloads, wanted, watch)
    if spread:
        tasks = _split(tasks, cores)
        replay_pool.run(workloads, depth, tasks, min(cores, len(tasks)), ledger.add, cancelled)
    else:
        bench = Bench(workloads, depth)
        for task in tasks:
            for number, histogram in bench.rows(task):
                ledger.add(task, number, histogram)
                if cancelled is not None and cancelled():
                    return ledger.of(grid)
    return ledger.of(grid)


class _Ledger:
    """What has come in, and how much that is of all."""

    def __init__(
        self, workloads: Mapping[str, Sequence[Pair]], wanted: Sequence[NgramSettings], watch: Watch | None
    ) -> None:
        self._workloads = workloads
        self._found: dict[NgramSettings, dict[str, Histograms]] = {s: {name: [] for name in workloads} for s in wanted}
        self._watch = watch
        self._missing = dict.fromkeys(wanted, sum(len(pairs) for pairs in workloads.values()))
        self._weight = {(s, name): _weight(pairs, s) for name, pairs in workloads.items() for s in wanted}
        self._all = max(1, sum(_tokens(workloads[name]) * each for (_, name), each in self._weight.items()))
        self._done = 0
        self._next = 0.0

    def add(self, task: Task, number: int, histogram: list[int]) -> None:
        setting = task.settings[number]
        rows = self._found[setting][task.workload]
        pair = self._workloads[task.workload][len(rows)]
        self._done += len(pair.output_ids) * self._weight[setting, task.workload]
        rows.append(histogram)
        self._missing[setting] -= 1
        if self._watch is not None and time.monotonic() >= self._next:
            self._next = time.monotonic() + EVERY_S
            done = sum(1 for left in self._missing.values() if not left)
            self._watch(Progress(done, len(self._missing), self._done / self._all))

    def of(self, grid: Sequence[NgramSettings]) -> list[dict[str, Histograms]]:
        return [self._found[settings] for settings in grid]


def _tokens(pairs: Sequence[Pair]) -> int:
    return sum(len(pair.output_ids) for pair in pairs)


def _weight(pairs: Sequence[Pair], settings: NgramSettings) -> int:
    """What a token costs: 1 where trees are shared, more where only the plain store can replay it."""
    stored = _tokens(pairs) + len(pairs) * settings.max_trie_depth
    return 1 if can_replay(settings, stored) and all(pair.at_once == 1 for pair in pairs) else PLAIN_COST


def _tasks(workloads: Mapping[str, Sequence[Pair]], wanted: Sequence[NgramSettings]) -> list[Task]:
    tasks = []
    for name, pairs in workloads.items():
        size = _tokens(pairs)
        shared: dict[object, list[NgramSettings]] = {}
        for settings in wanted:
            if _weight(pairs, settings) == 1:
                shared.setdefault(family(settings), []).append(settings)
            else:
                tasks.append(Task(name, None, (settings,), PLAIN_COST * size))
        tasks += [Task(name, family(group[0]), tuple(group), len(group) * size) for group in shared.values()]
    return tasks


def _split(tasks: list[Task], cores: int) -> list[Task]:
    """Halve what is large until the cores are busy to about the same time: settings that are replayed apart share no
    trees, so no more than that."""
    tasks = sorted(tasks, key=lambda task: -task.cost)
    fair = sum(task.cost for task in tasks) / cores
    while tasks and _longest(tasks, cores) > 1.15 * fair:
        widest = max((t for t in tasks if len(t.settings) > 1), key=lambda t: t.cost, default=None)
        if widest is None or widest.cost < fair / 8:
            break
        # By width, so that the halves stay settings that share much.
        ordered = sorted(widest.settings, key=lambda s: -s.num_draft_tokens)
        half, share = len(ordered) // 2, widest.cost // len(ordered)
        tasks.remove(widest)
        for part in (ordered[:half], ordered[half:]):
            tasks.append(Task(widest.workload, widest.of, tuple(part), share * len(part)))
        tasks.sort(key=lambda task: -task.cost)
    return tasks


def _longest(tasks: Sequence[Task], cores: int) -> int:
    """When the last core is done, each taking the next task as soon as it is free."""
    busy = [0] * cores
    for task in tasks:
        busy[busy.index(min(busy))] += task.cost
    return max(busy)
