"""What is replayed together: settings of one family over one workload, or one setting through the plain store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.ngram import NgramSettings
from spectui.predict.fast_replay import Family, SharedReplay
from spectui.predict.plain_replay import plain_requests
from spectui.predict.replay_source import Pair
from spectui.predict.text_index import TextIndex


@dataclass(frozen=True, slots=True)
class Task:
    workload: str
    of: Family | None
    """None: for the plain store."""
    settings: tuple[NgramSettings, ...]
    cost: int


class Bench:
    """The workloads and the index of the one in work, kept for one task after another."""

    def __init__(self, workloads: Mapping[str, Sequence[Pair]], depth: int) -> None:
        self._workloads = workloads
        self._depth = depth
        self._indexed: tuple[str, TextIndex] | None = None

    def _index(self, workload: str) -> TextIndex:
        if self._indexed is None or self._indexed[0] != workload:
            self._indexed = workload, TextIndex(self._workloads[workload], self._depth)
        return self._indexed[1]

    def rows(self, task: Task) -> Iterator[tuple[int, list[int]]]:
        """(number of the setting within the task, histogram of its next request)."""
        if task.of is None:
            for histogram in plain_requests(self._workloads[task.workload], task.settings[0]):
                yield 0, histogram
        else:
            yield from SharedReplay(self._index(task.workload), task.of, task.settings).requests()
