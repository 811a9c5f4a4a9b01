"""Several requests that decode together, as SGLang's scheduler takes them through the store."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from spectui.core.ngram.store import NgramRequest
from spectui.core.ngram.tree import Draft


@dataclass(slots=True)
class _Place:
    request: NgramRequest
    prefill: int
    ended: bool = False


class NgramBatch:
    """All drafts of a step are drawn before any of it is inserted, in the order in which the requests joined.

    With overlap scheduling (SGLang ≥ 0.5.15, ``ngram_worker.py``) the tokens of a step are still missing from a
    request's output when the next draft is drawn, and the worker appends them. A prefill that runs in between gives the
    scheduler the time to write them there, and the worker appends them all the same: in the step after a prefill every
    request that had been there before it drafts from a text whose last step's tokens stand there twice, and just that
    text is inserted. Such a step accepts next to nothing, and leaves paths in the store that nobody wrote. Observed on
    0.5.15.post1: with this rule 38,811 of 38,833 steps of real runs at 4 and 16 requests at a time come out as the
    server took them.

    An ended request stays for one step more, which inserts its last tokens, unless a prefill comes first.
    """

    def __init__(self) -> None:
        self._places: list[_Place] = []
        self._prefills = 0
        self._after_prefill = False

    @property
    def busy(self) -> bool:
        """Whether there is a step to run, be it only for requests that have ended."""
        return bool(self._places)

    def join(self, requests: Sequence[tuple[NgramRequest, bool]]) -> None:
        """One prefill of these, each with whether its first token was its last."""
        self._prefills += 1
        self._after_prefill = True
        self._places += [_Place(request, self._prefills, over) for request, over in requests]

    def step(self, verify: Callable[[NgramRequest, Draft], tuple[Sequence[int], bool]]) -> int:
        """``verify`` gives what a request's step put out, and whether that was its end. Returns how many ended."""
        if self._after_prefill:
            self._places = [p for p in self._places if not p.ended or p.prefill == self._prefills]
        drafts = [
            None if place.ended else place.request.draft(doubled=self._after_prefill and place.prefill < self._prefills)
            for place in self._places
        ]
        self._after_prefill = False
        places, self._places = self._places, []
        for place, draft in zip(places, drafts, strict=True):
            if draft is None:
                place.request.finish()
            else:
                put, place.ended = verify(place.request, draft)
                place.request.commit(put)
                self._places.append(place)
        return sum(place.ended for place in self._places)
