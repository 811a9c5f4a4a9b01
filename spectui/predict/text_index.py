"""Recorded requests laid out as one text, with every earlier occurrence of every n-gram linked.

Which n-grams recur, and where, depends on the text alone; all settings of a grid share it.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass

from spectui.predict.replay_source import Pair

END = -1
"""Stands before, between and after the requests; no token id is negative."""


@dataclass(frozen=True, slots=True)
class Span:
    """Where a request lies in the text. A place is the index of the token that comes next."""

    start: int
    """First token kept of the prompt: its body never enters the store, so only its end is kept."""
    first: int
    """After the token of the prefill: the place of the first verify step."""
    end: int
    """After the last output token."""
    tail: int
    """After what may follow an answer that a stop token ended; else the same."""


class TextIndex:
    """``earlier[n][p]``: the last place before p where the n tokens before it are the same n as those before p, in any
    request; 0 when there is none. ``other[n][p]``: the same, but followed by another token than p is."""

    def __init__(self, requests: Sequence[Pair], depth: int) -> None:
        self.depth = depth
        self.tokens: list[int] = [END]
        top = max((max((*r.prompt_ids[-depth:], *r.output_ids), default=0) for r in requests), default=0)
        beyond = range(top + 1, top + 1 + depth)
        same: dict[int, int] = {}  # one object a token: a long text is then read from less memory
        one = same.setdefault
        self.spans: list[Span] = []
        for request in requests:
            start = len(self.tokens)
            self.tokens.extend([one(token, token) for token in request.prompt_ids[-depth:]])
            first = len(self.tokens) + 1
            self.tokens.extend([one(token, token) for token in request.output_ids])
            end = len(self.tokens)
            if request.stopped:
                self.tokens.extend([one(token, token) for token in beyond])
            self.spans.append(Span(start, first, end, len(self.tokens)))
            self.tokens.append(END)
        self.base = max(self.tokens) + 2
        """Larger than any token: parent · base + token is a key of its own."""
        self.longest = bytearray(len(self.tokens) + 1)
        """Longest n-gram, up to the depth, that ends at a place and has an earlier occurrence."""
        self.earlier: list[Sequence[int]] = [array("i")]
        self.other: list[Sequence[int]] = [array("i")]
        self._link()
        self.known = self._known()
        """How many tokens from a place on some earlier text holds, behind the last token before the place."""

    def _known(self) -> bytearray:
        longest = self.longest
        known = bytearray(len(longest))
        # What is known from a place on, but for its first token, is known from the next place on.
        end, last = 0, len(longest) - 1
        for place in range(1, last):
            if end < place:
                end = place
            while end < last and longest[end + 1] >= end - place + 2:
                end += 1
            known[place] = end - place
        return known

    def _link(self) -> None:
        tokens, longest, base = self.tokens, self.longest, self.base
        size = len(tokens) + 1
        same = array("i", bytes(4 * size))  # place of the first occurrence of the n-gram that ends here
        active = list(range(1, len(tokens)))
        for length in range(1, self.depth + 1):
            earlier = array("i", bytes(4 * size))
            other = array("i", bytes(4 * size))
            last: dict[int, int] = {}
            recurring = bytearray(size)
            for place in active:
                token = tokens[place - length]
                if token == END:
                    continue
                key = same[place] * base + token
                before = last.get(key)
                last[key] = place
                if before is None:
                    same[place] = place
                else:
                    same[place] = same[before]
                    earlier[place] = before
                    longest[place] = length
                    recurring[place] = recurring[before] = 1
                    other[place] = before if tokens[before] != tokens[place] else other[before]
            self.earlier.append(earlier)
            self.other.append(other)
            # An n-gram that never recurs has no longer one that does.
            active = [place for place in active if recurring[place]]
