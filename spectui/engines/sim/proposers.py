"""What proposes drafts, and how many of them a verify step accepts."""

from __future__ import annotations

import os
from collections.abc import Sequence
from random import Random
from typing import TYPE_CHECKING, Any

from spectui.core.ngram import NgramRequest, NgramSettings, NgramStore

if TYPE_CHECKING:
    from spectui.engines.sim.arguments import Launch
    from spectui.engines.sim.requests import SimRequest

_LOOK_AHEAD = 40
_CHAINS: dict[str, tuple[float, ...]] = {
    # conditional acceptance by position: that draft i+1 is accepted when i were
    "EAGLE3": (0.578, 0.552, 0.527, 0.51, 0.5),
    "EAGLE": (0.70, 0.62, 0.57, 0.54, 0.52),
    "FROZEN_KV_MTP": (0.68, 0.6, 0.55, 0.52, 0.5),
    "STANDALONE": (0.74, 0.71, 0.69, 0.67, 0.66),
    "DFLASH": (0.84, 0.8, 0.77, 0.74, 0.72, 0.7),
    "DSPARK": (0.85, 0.81, 0.78, 0.75, 0.73, 0.71),
}
_BY_KIND = {"code": 0.08, "records": 0.07, "translate": -0.03, "prose": 0.0, "chat": 0.0}


class Proposer:
    """No speculation: one token a step, and nothing proposed."""

    width = 1
    draft_passes = 0
    speculates = False

    def prefilled(self) -> None:
        """A prefill was run; its requests begin now."""

    def begin(self, request: SimRequest) -> None:
        """The prefill of a request is done, its first token is out."""

    def drafted(self) -> None:
        """All requests of a batch were asked what they accept."""

    def accepted(self, request: SimRequest) -> int:
        """Drafts that this step accepts. All requests of a batch are asked before any commits."""
        return 0

    def commit(self, request: SimRequest, tokens: Sequence[int]) -> None:
        """The step put out ``tokens``."""

    def end(self, request: SimRequest) -> None:
        """The request has left the batch."""

    def flush(self) -> None:
        """``/flush_cache``."""


class Chain(Proposer):
    """A draft model: acceptance by position as measured, drawn anew for each request from its own seed."""

    speculates = True

    def __init__(self, algorithm: str, steps: int, topk: int, draft_tokens: int) -> None:
        self.width = draft_tokens
        self.draft_passes = 1 if algorithm in ("DFLASH", "DSPARK") else steps
        self._rates = _CHAINS.get(algorithm, _CHAINS["EAGLE3"])
        self._longest = draft_tokens - 1 if self.draft_passes == 1 and topk == 1 else min(steps, draft_tokens - 1)
        # a wider tree has another candidate where the first was wrong; as many as there are tokens for
        spare = max(0, draft_tokens - 1 - steps)
        forced = float(os.environ.get("SGLANG_SIMULATE_ACC_LEN") or 0)
        # SGLang's own switch for tests: accept length as asked for, whatever the drafts are worth
        self._forced = None if forced <= 0 else min(max(forced, 1.0), self._longest + 1.0) - 1
        self._second_chance = 0.0 if topk <= 1 else min(0.34, 0.12 * min(topk - 1, spare))

    def begin(self, request: SimRequest) -> None:
        rng = Random(f"draft/{request.answer.key}")
        request.state = (rng, rng.uniform(-0.13, 0.13) + _BY_KIND[request.answer.kind])

    def accepted(self, request: SimRequest) -> int:
        rng, better = request.state
        if self._forced is not None:
            return int(self._forced) + int(rng.random() < self._forced % 1)
        count = 0
        while count < self._longest:
            rate = self._rates[min(count, len(self._rates) - 1)] + better
            rate += (1 - rate) * self._second_chance
            if request.temperature > 0:
                rate *= 0.9
            if rng.random() >= rate:
                break
            count += 1
        return count


class Ngram(Proposer):
    """SGLang's n-gram store, and the external corpora beside it."""

    speculates = True

    def __init__(self, settings: NgramSettings, corpus_limit: int) -> None:
        self.width = settings.num_draft_tokens
        self.store = NgramStore(settings)
        self.corpora: dict[str, int] = {}
        """Corpus id -> tokens; a flush leaves them."""
        self.corpus_limit = corpus_limit
        self._running: set[NgramRequest] = set()
        self._doubled: set[NgramRequest] = set()
        """Requests that were under way when the last prefill was run, see :class:`spectui.core.ngram.NgramBatch`."""
        self._sam: NgramStore | None = None
        if settings.external_sam_budget > 0:
            budget = NgramSettings(
                num_draft_tokens=settings.external_sam_budget + 1,
                max_trie_depth=settings.max_trie_depth,
                version=settings.version,
            )
            self._sam = NgramStore(budget)

    def prefilled(self) -> None:
        self._doubled |= self._running

    def begin(self, request: SimRequest) -> None:
        request.state = NgramRequest(self.store, request.prompt_ids, request.answer.ids[0])
        self._running.add(request.state)

    def drafted(self) -> None:
        self._doubled.clear()

    def accepted(self, request: SimRequest) -> int:
        at = request.count
        truth = request.answer.upto(at + _LOOK_AHEAD)[at : at + _LOOK_AHEAD]
        count: int = request.state.draft(doubled=request.state in self._doubled).accepted(truth)
        if self._sam is not None and self.corpora:
            context = [*request.prompt_ids[-18:], *request.answer.ids[max(0, at - 18) : at]][-18:]
            count = max(count, self._sam.accepted(context, truth))
        return count

    def commit(self, request: SimRequest, tokens: Sequence[int]) -> None:
        request.state.commit(tokens)

    def end(self, request: SimRequest) -> None:
        if request.state is not None:
            request.state.finish()
            self._running.discard(request.state)

    def flush(self) -> None:
        self.store.reset()

    def add_corpus(self, name: str, documents: Sequence[Sequence[int]]) -> int:
        """Take a corpus in; returns its tokens. Without a budget for it, it has no effect on drafts."""
        for tokens in documents:
            if self._sam is not None:
                self._sam.insert(tokens)
        self.corpora[name] = sum(len(tokens) for tokens in documents)
        return self.corpora[name]


def proposer(launch: Launch) -> Proposer:
    """The proposer of a launch.

    Raises:
        NgramSettingsError: a value that the store refuses; the real one fails in its scheduler then.
    """
    a: dict[str, Any] = launch.args
    name = launch.algorithm
    if name is None:
        return Proposer()
    draft = int(a["speculative_num_draft_tokens"])
    if name != "NGRAM":
        return Chain(name, int(a["speculative_num_steps"]), int(a["speculative_eagle_topk"]), draft)
    windows = launch.sim.dialect.number < (0, 5, 10)
    settings = NgramSettings(
        num_draft_tokens=draft,
        max_trie_depth=int(a["speculative_ngram_branch_length" if windows else "speculative_ngram_max_trie_depth"]),
        min_bfs_breadth=int(a["speculative_ngram_min_bfs_breadth"]),
        max_bfs_breadth=int(a["speculative_ngram_max_bfs_breadth"]),
        match_type=str(a["speculative_ngram_match_type"]),
        capacity=int(a["speculative_ngram_capacity"]),
        external_sam_budget=int(a.get("speculative_ngram_external_sam_budget") or 0),
        version=".".join(map(str, launch.sim.dialect.number)),
        overlap=not a.get("disable_overlap_schedule"),
        min_match_window=int(a.get("speculative_ngram_min_match_window_size", 1)),
        max_match_window=int(a.get("speculative_ngram_max_match_window_size", 12)),
    )
    return Ngram(settings, int(a.get("speculative_ngram_external_corpus_max_tokens") or 0))
