"""What is known of a drafter's memory when a window was measured: gathered from records and answers, never from names.

An n-gram store knows only what the server has generated since its start or last flush. Whether a result says
something about it depends on how much that was, whether acceptance still rose, and whether the store had already seen
what it was asked for.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

STATELESS = frozenset(
    {"", "NONE", "EAGLE", "EAGLE3", "NEXTN", "STANDALONE", "DFLASH", "DSPARK", "UNO", "FROZEN_KV_MTP"}
)
STATEFUL = frozenset({"NGRAM"})
"""They draft from what the server has generated; SGLang clears it on ``/flush_cache`` (ngram_worker.py)."""

WINDOW = 16
"""Tokens that must come again in a row to count as known: two less than SGLang's default trie depth of 18, the longest
run that the store can hold. Shorter runs (a phrase, the keys of a record) come again in fresh text too."""
WORDS = 8
"""The same for text without token ids, in words of about two tokens."""
WHOLE = 0.9
"""Share of an answer's windows that must be known before the whole answer counts as known."""


def is_stateful(algorithm: str) -> bool | None:
    """None: an algorithm that is not known here, a plug-in perhaps."""
    name = algorithm.upper()
    return True if name in STATEFUL else False if name in STATELESS else None


@dataclass(frozen=True, slots=True)
class Repetition:
    """How much of the measured answers was known before it was generated, in shares of windows of tokens."""

    answers: int
    known: float
    """Seen before, in an earlier answer or earlier in the same one."""
    within: float
    """Seen earlier in the same answer."""
    across: float
    """Seen in an earlier answer since the flush, feeding included."""
    whole: float
    """Share of answers that were known as a whole."""
    whole_within: float
    """Share of answers that repeat themselves as a whole."""
    known_prompts: frozenset[str] = frozenset()
    """Prompts whose answer was known as a whole."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """Of one pass of one arm. Tokens are generated tokens since the last flush that we saw, or since our first
    request."""

    algorithm: str
    history_known: bool = False
    """A flush, or the server's start, was seen; else it may have learned from others before."""
    flush_failed: str | None = None
    """Why a flush that was asked for did not happen."""
    primed: bool = False
    primed_tokens: int = 0
    """Tokens of an external corpus, where the pass loaded one."""
    tokens_before: int = 0
    """Generated before the measured window began."""
    requests_before: int = 0
    tokens_measured: int = 0
    requests_measured: int = 0
    fed_steady: bool | None = None
    """What the end of feeding said."""
    fed_rising: bool = False
    """Feeding ended at its limit while accept length still rose."""
    positions: tuple[float, ...] = ()
    """Tokens since the flush at the middle of each request, feeding first, then measuring."""
    lengths: tuple[float, ...] = ()
    """Accept length of each of those requests."""
    steps: tuple[int, ...] = ()
    """Their verify steps: the weight of each length."""
    measured_from: int = 0
    """Where measuring begins in these three."""
    zero_share: float | None = None
    """Measured verify steps in which no draft was accepted, as a share."""
    draft_tokens: int | None = None
    repeated_prompts: int = 0
    """Measured requests whose prompt had been sent before, since the flush."""
    repetition: Repetition | None = None
    """None: no answers were kept."""
    steady_tokens: int | None = None
    """Fewest tokens that steady acceptance was ever reached with on this kind of text."""
    foreign: bool = False
    same_memory_as: tuple[tuple[str, int, str], ...] = ()
    """Passes (arm, concurrency, pass) that ran since the same flush: their answers are in the store too."""


def tokens_of(answer: Mapping[str, Any]) -> tuple[Sequence[Any], int]:
    """What an answer is cut into for comparison, and the window: its ids, else the words of its text."""
    ids = answer.get("output_ids")
    if ids:
        return ids, WINDOW
    return str(answer.get("text") or "").split(), WORDS


def repetition(before: Iterable[Mapping[str, Any]], measured: Iterable[Mapping[str, Any]]) -> Repetition | None:
    """Of answers (rows of ``answers.jsonl``) in the order in which they were generated. None when all are too short."""
    seen: set[tuple[Any, ...]] = set()
    for answer in before:
        tokens, width = tokens_of(answer)
        seen.update(tuple(tokens[i : i + width]) for i in range(len(tokens) - width + 1))
    answers = windows = known = within = across = whole = whole_within = 0
    prompts: set[str] = set()
    for answer in measured:
        tokens, width = tokens_of(answer)
        mine: set[tuple[Any, ...]] = set()
        count = old = own = other = 0
        for i in range(len(tokens) - width + 1):
            gram = tuple(tokens[i : i + width])
            in_mine, in_seen = gram in mine, gram in seen
            count, own, other, old = count + 1, own + in_mine, other + in_seen, old + (in_mine or in_seen)
            mine.add(gram)
        seen |= mine
        if not count:
            continue
        answers += 1
        windows, known, within, across = windows + count, known + old, within + own, across + other
        if old >= WHOLE * count:
            whole += 1
            prompts.add(str(answer.get("prompt_id") or answer.get("index")))
        whole_within += own >= WHOLE * count
    if not answers:
        return None
    return Repetition(
        answers,
        known / windows,
        within / windows,
        across / windows,
        whole / answers,
        whole_within / answers,
        frozenset(prompts),
    )
