"""One setting, step by step through the store itself: the reference, exact and slow, and the only way for several
requests at a time.

When one of several requests joins the others is the scheduler's and the client's doing, and is taken from real runs
(SGLang 0.5.15.post1, 4 and 16 at a time): of those that are sent together the first is prefilled alone and the others
follow in a second prefill; where an answer ends, the next request takes part from the third step after it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import groupby

from spectui.core.ngram import Draft, NgramBatch, NgramRequest, NgramSettings, NgramStore
from spectui.predict.replay_source import Pair

TAIL = 2**31
"""Stands for what the model would have said after a stop token; no token id is as large."""
JOINS_AFTER = 3
"""Steps from the end of an answer to the first step of the request that takes its place."""


def plain_histograms(pairs: Sequence[Pair], settings: NgramSettings) -> list[list[int]]:
    """For each request h[k]: verify steps that accepted exactly k drafts. The store is empty before the first."""
    return list(plain_requests(pairs, settings))


def plain_requests(pairs: Sequence[Pair], settings: NgramSettings) -> Iterator[list[int]]:
    """The same, request by request, in their order."""
    store = NgramStore(settings)
    for _, block in groupby(pairs, key=lambda pair: (pair.block, pair.at_once)):
        yield from _block(store, list(block))


def _block(store: NgramStore, pairs: Sequence[Pair]) -> Iterator[list[int]]:
    ways = [_Way(store, pair) for pair in pairs]
    waiting = [way for way in ways if way.request is not None][::-1]
    by_request = {way.request: way for way in waiting}
    places: list[int] = []
    """Steps at which a request may join."""
    batch, now, told = NgramBatch(), 0, 0

    def join(count: int) -> None:
        coming = [waiting.pop() for _ in range(min(count, len(waiting)))]
        if coming:
            batch.join([(way.request, way.over) for way in coming if way.request is not None])
            places.extend([now + JOINS_AFTER] * sum(way.over for way in coming))

    first = max((pair.at_once for pair in pairs), default=1)
    join(1)
    join(first - 1)
    while batch.busy or waiting:
        due = [at for at in places if at <= now]
        if due:
            places[:] = [at for at in places if at > now]
            join(len(due))
        ended = batch.step(lambda request, draft: by_request[request].verify(draft))
        places += [now + JOINS_AFTER] * ended
        now += 1
        while told < len(ways) and ways[told].over:
            yield ways[told].histogram
            told += 1
    yield from (way.histogram for way in ways[told:])  # those without an answer


class _Way:
    """One request: its text, and how far it is."""

    def __init__(self, store: NgramStore, pair: Pair) -> None:
        self._width = store.settings.num_draft_tokens
        self._output = pair.output_ids
        self._text = [*pair.output_ids, *(range(TAIL, TAIL + self._width) if pair.stopped else ())]
        self._place = 1
        self.histogram = [0] * self._width
        self.request = NgramRequest(store, pair.prompt_ids, self._output[0]) if self._output else None
        """None without an answer."""

    @property
    def over(self) -> bool:
        return self._place >= len(self._output)

    def verify(self, draft: Draft) -> tuple[Sequence[int], bool]:
        place, text = self._place, self._text
        accepted = draft.accepted(text[place : place + self._width])
        self.histogram[min(accepted, len(self._output) - place)] += 1
        self._place += accepted + 1
        return text[place : place + accepted + 1], self.over
