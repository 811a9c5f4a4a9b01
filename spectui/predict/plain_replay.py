"""One setting, request after request through the store itself: the reference, exact and slow."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from spectui.core.ngram import NgramRequest, NgramSettings, NgramStore
from spectui.predict.replay_source import Pair

TAIL = 2**31
"""Stands for what the model would have said after a stop token; no token id is as large."""


def plain_histograms(pairs: Sequence[Pair], settings: NgramSettings) -> list[list[int]]:
    """For each request h[k]: verify steps that accepted exactly k drafts. The store is empty before the first."""
    return list(plain_requests(pairs, settings))


def plain_requests(pairs: Sequence[Pair], settings: NgramSettings) -> Iterator[list[int]]:
    """The same, request by request."""
    store = NgramStore(settings)
    for pair in pairs:
        yield _through_store(store, pair)


def _through_store(store: NgramStore, pair: Pair) -> list[int]:
    output = pair.output_ids
    width = store.settings.num_draft_tokens
    histogram = [0] * width
    text = [*output, *range(TAIL, TAIL + width)] if pair.stopped else output
    if output:
        request = NgramRequest(store, pair.prompt_ids, output[0])
        place = 1
        while place < len(output):
            accepted = request.draft().accepted(text[place : place + width])
            histogram[min(accepted, len(output) - place)] += 1
            request.commit(text[place : place + accepted + 1])
            place += accepted + 1
        request.finish()
    return histogram
