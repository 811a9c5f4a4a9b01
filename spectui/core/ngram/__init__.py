"""SGLang's n-gram store: what NGRAM speculation drafts from, by SGLang's own rules.

The store is a trie of token ids shared by all requests of a scheduler process. After each verify step the last tokens
of a request go in, each start inside that window as a path of its own; the body of a prompt never does. A draft is a
tree merged from all suffixes of the request that the store can continue, the longest first.

What differs by version (SGLang's ``ngram_worker.py``, ``ngram.cpp``, ``trie.cpp``):

===========  ====================================================================================================
0.5.5        windows of its own for matching (12 … 1) and for inserting (18); the last ``min_match_window`` starts of
             a window are not inserted; always BFS; a window goes in with the tokens of the step that just ended
≥ 0.5.10     one depth for both; suffixes that the store cannot continue do not count
≥ 0.5.12     the matches of a request are carried from step to step: a suffix that was unknown then and longer than
             what was appended since stays unmatched (:class:`MatchState`)
≥ 0.5.15     the tokens of a step go in one step later. With overlap scheduling one step more is run after the end, and
             after a prefill requests under way draft once from a wrong text (:class:`NgramBatch`); without it, what
             the last step of a request gave never goes in
===========  ====================================================================================================
"""

from __future__ import annotations

from spectui.core.ngram.batch import NgramBatch
from spectui.core.ngram.settings import NgramSettings, NgramSettingsError
from spectui.core.ngram.store import MatchState, NgramRequest, NgramStore
from spectui.core.ngram.tree import Draft

__all__ = ["Draft", "MatchState", "NgramBatch", "NgramRequest", "NgramSettings", "NgramSettingsError", "NgramStore"]
