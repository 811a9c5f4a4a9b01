"""A grid of settings over several workloads, spread over processes."""

from __future__ import annotations

import gc
import os
from collections.abc import Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass
from multiprocessing import get_context

from spectui.core.ngram import NgramSettings
from spectui.predict.fast_replay import Shape, SharedReplay, can_replay, shape
from spectui.predict.plain_replay import plain_histograms
from spectui.predict.replay_source import Pair
from spectui.predict.text_index import TextIndex

Histograms = list[list[int]]
WORTH_A_PROCESS = 400_000
"""Tokens times settings below which starting processes takes longer than the work."""


@dataclass(frozen=True, slots=True)
class _Task:
    """Settings of one shape, or one setting for the plain store, over one workload."""

    workload: str
    shape: Shape | None
    settings: tuple[NgramSettings, ...]
    cost: int


def run_grid(
    workloads: Mapping[str, Sequence[Pair]], grid: Sequence[NgramSettings], processes: int | None = None
) -> list[dict[str, Histograms]]:
    """Histograms a request, by workload, for each setting of the grid in its order. Equal settings run once."""
    wanted = list(dict.fromkeys(grid))
    cores = len(os.sched_getaffinity(0)) if processes is None else max(1, processes)
    depth = max((s.max_trie_depth for s in wanted if can_replay(s, 0)), default=2)
    tasks = _tasks(workloads, wanted)
    size = sum(len(pair.output_ids) for pairs in workloads.values() for pair in pairs)
    spread = cores > 1 and (processes is not None or size * len(wanted) >= WORTH_A_PROCESS)
    if spread:
        tasks = _split(tasks, cores)
    done: dict[tuple[str, NgramSettings], Histograms] = {}
    if not spread or len(tasks) < 2:
        worker = _Worker(workloads, depth)
        for task in tasks:
            done.update(worker.run(task))
    else:
        # A fresh interpreter: a fork of a process with threads, as the screen is, may hang.
        with ProcessPoolExecutor(
            min(cores, len(tasks)),
            mp_context=get_context("spawn"),
            initializer=_begin,
            initargs=(workloads, depth),
        ) as pool:
            for part in pool.map(_run, tasks):
                done.update(part)
    return [{name: done[name, settings] for name in workloads} for settings in grid]


def _tasks(workloads: Mapping[str, Sequence[Pair]], wanted: Sequence[NgramSettings]) -> list[_Task]:
    tasks = []
    for name, pairs in workloads.items():
        size = sum(len(pair.output_ids) for pair in pairs)
        shared: dict[Shape, list[NgramSettings]] = {}
        for settings in wanted:
            stored = sum(len(pair.output_ids) + settings.max_trie_depth for pair in pairs)
            if can_replay(settings, stored):
                shared.setdefault(shape(settings), []).append(settings)
            else:
                tasks.append(_Task(name, None, (settings,), 100 * size))
        tasks += [_Task(name, of, tuple(group), (2 + len(group)) * size) for of, group in shared.items()]
    return tasks


def _split(tasks: list[_Task], cores: int) -> list[_Task]:
    """Halve what is large until the cores are busy to about the same time."""
    fair = sum(task.cost for task in tasks) / cores
    ready: list[_Task] = []
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        half = len(task.settings) // 2
        if half and task.cost > fair:
            share = task.cost // len(task.settings)
            waiting.append(_Task(task.workload, task.shape, task.settings[:half], share * half))
            waiting.append(_Task(task.workload, task.shape, task.settings[half:], share * (len(task.settings) - half)))
        else:
            ready.append(task)
    return sorted(ready, key=lambda task: -task.cost)


class _Worker:
    """The workloads and their indexes, kept for one task after another."""

    def __init__(self, workloads: Mapping[str, Sequence[Pair]], depth: int) -> None:
        self._workloads = workloads
        self._depth = depth
        self._indexed: tuple[str, TextIndex] | None = None

    def _index(self, workload: str) -> TextIndex:
        if self._indexed is None or self._indexed[0] != workload:
            self._indexed = workload, TextIndex(self._workloads[workload], self._depth)
        return self._indexed[1]

    def run(self, task: _Task) -> dict[tuple[str, NgramSettings], Histograms]:
        if task.shape is None:
            return {(task.workload, s): plain_histograms(self._workloads[task.workload], s) for s in task.settings}
        shared = SharedReplay(self._index(task.workload), task.shape)
        found = shared.histograms(settings.num_draft_tokens for settings in task.settings)
        return {(task.workload, settings): found[settings.num_draft_tokens] for settings in task.settings}


_worker: _Worker


def _begin(workloads: Mapping[str, Sequence[Pair]], depth: int) -> None:
    global _worker
    gc.disable()  # nothing here is a cycle, and the collector would walk every tree again and again
    _worker = _Worker(workloads, depth)


def _run(task: _Task) -> dict[tuple[str, NgramSettings], Histograms]:
    return _worker.run(task)
