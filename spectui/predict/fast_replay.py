"""The same replay as the plain store's, for many settings over one text.

The store is a function of the text and of the places where windows were inserted (the *boundaries*, one a verify step).
Under BFS without eviction:

- An occurrence of an n-gram that ends at place ``e`` is a path of the store once a boundary ``b`` with
  ``e ≤ b ≤ e − n + depth`` was inserted: with ``gap[e] = b − e`` for the first boundary from ``e`` on, when
  ``gap[e] + n ≤ depth``.
- Children in the order of recency are the tokens after the occurrences, the last occurrence first: a later start is
  inserted later, or later in the same window, and is inserted again for as long.

So no trie is needed. And settings that differ only by draft tokens grow the same tree at the same place, cut at another
size: the tree is drawn once with every place a boundary, together with the occurrences that it leans on; a setting for
which those are paths as well takes it over, any other draws its own.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from spectui.core.ngram import NgramSettings
from spectui.predict.text_index import END, Span, TextIndex

NEVER = 255
"""Gap of a place behind which no window was inserted yet."""
MAX_DEPTH = 120
END_OF_TIME = FULL = 1 << 40


@dataclass(frozen=True, slots=True)
class Shape:
    """What must be equal for two settings to share trees."""

    depth: int
    span: int
    scale: float
    breadth: int
    lagging: bool
    stateful: bool


def can_replay(settings: NgramSettings, tokens: int) -> bool:
    """Whether this replay knows the setting's rules, for a text of so many tokens (prompt ends included)."""
    return (
        settings.effective_match_type == "BFS"
        and not settings.windows
        and settings.max_trie_depth <= MAX_DEPTH
        and settings.num_draft_tokens <= MAX_DEPTH
        and tokens * settings.max_trie_depth < settings.capacity
    )


def shape(settings: NgramSettings) -> Shape:
    return Shape(
        settings.max_trie_depth,
        settings.breadth_span,
        settings.breadth_scale,
        settings.min_bfs_breadth,
        settings.lagging,
        settings.stateful,
    )


class _Drawn:
    """One tree, as far as the text follows it."""

    __slots__ = ("anchor", "any_breadth", "leans_on", "size", "slots", "width")

    def __init__(
        self,
        width: int,
        anchor: int,
        size: int,
        slots: Sequence[int],
        leans_on: Sequence[tuple[int, int]],
        any_breadth: bool,
    ) -> None:
        self.width = width
        """Draft tokens that it was drawn for."""
        self.anchor = anchor
        """Longest suffix that could be continued."""
        self.size = size
        """Slots in use, the root's included."""
        self.slots = slots
        """Slots of the drafts that the text confirms, in order; a tree cut at n slots keeps those below n."""
        self.leans_on = leans_on
        """(place, largest gap) that must hold for the tree to be the setting's own."""
        self.any_breadth = any_breadth
        """No node had more than one child to choose from."""


def _breadths(of: Shape) -> list[list[int]]:
    """By length of the suffix, then by length of the path, how many children are taken."""
    table = []
    for length in range(of.depth + 1):
        breadth = (of.span - length) * of.scale + of.breadth
        row = [0] * length
        for _ in range(length, of.depth + 1):
            row.append(max(1, int(breadth)))
            breadth -= of.scale
        table.append(row)
    return table


class SharedReplay:
    """Settings of one shape over one text, for any numbers of draft tokens."""

    def __init__(self, index: TextIndex, of: Shape) -> None:
        if of.depth > index.depth:
            raise ValueError(f"the text is indexed for a depth of {index.depth}, not {of.depth}")
        self._index = index
        self._shape = of
        self._breadths = _breadths(of)
        self._free: dict[int, _Drawn] = index.trees.setdefault((of.depth, of.lagging), {})
        self._drawn: list[_Drawn | None] = []
        self._dense = bytearray(b"\xff" * (len(index.tokens) + 2))
        """Gaps when each place is a boundary."""
        for span in index.spans:
            boundary = span.first if of.lagging else span.first + 1
            if boundary > span.end:
                continue  # it ended with its prefill, or before
            for place in range(max(span.start, boundary - of.depth) + 1, boundary):
                self._dense[place] = boundary - place
            self._dense[boundary : span.end + 1] = bytes(span.end + 1 - boundary)

    def histograms(self, widths: Iterable[int]) -> dict[int, list[list[int]]]:
        """By number of draft tokens, for each request h[k]: verify steps that accepted exactly k drafts."""
        found = {}
        self._drawn = [None] * len(self._index.tokens)
        for width in sorted(set(widths), reverse=True):
            # From wide to narrow: what is drawn from here on need not be wider, nor hold at wider steps.
            self._widest = width
            gap = bytearray(b"\xff" * (len(self._index.tokens) + 2))
            found[width] = [self._request(span, width, gap) for span in self._index.spans]
        return found

    def _request(self, span: Span, width: int, gap: bytearray) -> list[int]:
        tokens, bigrams = self._index.tokens, self._index.earlier[2]
        depth, lagging, stateful = self._shape.depth, self._shape.lagging, self._shape.stateful
        drawn = self._drawn
        histogram = [0] * width
        ramp = bytes(range(depth + width, -1, -1))
        end = span.end
        place = span.first
        if place > end:
            return histogram
        inserted = max(span.start, place - depth)  # gaps are known up to here
        limit = depth
        while place < end:
            accepted = 0
            if bigrams[place + 1] or not tokens[place]:
                tree = drawn[place]
                if tree is None:
                    tree = drawn[place] = self._draw_dense(place, span)
                good = tree.anchor <= limit
                if good:
                    for at, largest in tree.leans_on:
                        if gap[at] > largest:
                            good = False
                            break
                if not good:
                    tree = self._draw(place, limit, width, gap, END_OF_TIME, None)
                for slot in tree.slots:
                    if slot >= width:
                        break
                    accepted += 1
                if not accepted and not tokens[place] and tree.size < width:
                    accepted = 1  # the padding's token is 0
            if stateful:
                limit = self._matched(place, limit, gap, inserted) + accepted + 1
                if limit > depth:
                    limit = depth
            histogram[accepted] += 1
            if lagging:
                gap[inserted + 1 : place + 1] = ramp[inserted - place :]
                inserted = place
                place += accepted + 1
            else:
                place = min(place + accepted + 1, end)
                gap[inserted + 1 : place + 1] = ramp[inserted - place :]
                inserted = place
        if lagging and inserted < end:
            gap[inserted + 1 : end + 1] = ramp[inserted - end :]
        return histogram

    def _matched(self, place: int, limit: int, gap: bytearray, inserted: int) -> int:
        """The longest suffix of those up to ``limit`` that the store holds; whether it can be continued or not."""
        if inserted == place:
            return limit  # the context itself was inserted
        depth = self._shape.depth
        length = self._index.longest[place]
        if length > limit:
            length = limit
        while length:
            earlier = self._index.earlier[length]
            at = earlier[place]
            while at:
                if gap[at] + length <= depth:
                    return length
                at = earlier[at]
            length -= 1
        return 0

    def _draw_dense(self, place: int, span: Span) -> _Drawn:
        # At its first step nothing of the request itself was inserted yet.
        tree = self._free.get(place)
        if tree is not None and tree.width >= self._widest:
            return tree
        before = span.start + 1 if place == span.first else place + (not self._shape.lagging)
        tree = self._draw(place, self._shape.depth, self._widest, self._dense, before, span)
        if tree.any_breadth:
            self._free[place] = tree
        return tree

    def _draw(self, place: int, limit: int, width: int, gap: bytearray, before: int, span: Span | None) -> _Drawn:
        """Grow the tree at ``place`` from suffixes of up to ``limit`` tokens, from paths that end before ``before``.

        It stops where the text cannot be followed any further. With ``span``, the occurrences it leans on are noted,
        but for those that are paths at any width: more than the widest step back, and short enough for any gap.
        """
        index, of = self._index, self._shape
        tokens, base, earlier_by_length, other_by_length = index.tokens, index.base, index.earlier, index.other
        depth, lagging, dense = of.depth, of.lagging, self._dense
        noting = span is not None
        any_breadth = True
        seen: list[int] = []
        slots: dict[int, int] = {}
        used = 1
        anchor = 0
        leans: dict[int, int] = {}
        safe = self._widest - 1
        recent = place - self._widest
        start = span.start if span is not None else 0
        goal = min(index.known[place], width - 1, depth - 1)
        confirmed: list[int] = []
        sought = tokens[place]  # key of the next slot that the text would confirm
        length = min(index.longest[place], depth - 1, limit)
        chain = self._chain_from(place, length, width) if length > 1 else 0
        while length:
            if chain:
                length = chain
            breadths = self._breadths[length]
            queue = [(0, length, earlier_by_length[length][place])]
            for parent, size, at in queue:
                largest = depth - size - 1
                earlier, other = earlier_by_length[size], other_by_length[size]
                left = breadths[size]
                seen.clear()
                while at:
                    token = tokens[at]
                    if token in seen:
                        at = other[at]
                        continue
                    child = at + 1
                    if child >= before or gap[child] > largest:
                        at = earlier[at]
                        continue
                    if noting and (largest < safe or start < child > recent or not (lagging or dense[child] == 0)):
                        known = leans.get(child)
                        if known is None or known > largest:
                            leans[child] = largest
                    key = parent + token
                    slot = slots.get(key)
                    if slot is None:
                        slot = slots[key] = used
                        used += 1
                        if key == sought:
                            confirmed.append(slot)
                            sought = slot * base + tokens[place + len(confirmed)]
                            if len(confirmed) == goal:
                                used = FULL
                        if used >= width:
                            break
                    if largest:
                        queue.append((slot * base, size + 1, child))
                    at = other[at]
                    left -= 1
                    if chain or not at:
                        break
                    any_breadth = False
                    if not left:
                        break
                    seen.append(token)
                if used >= width:
                    break
            if not anchor and slots:
                anchor = length
            if used >= width:
                break
            chain = 0
            length -= 1
        return _Drawn(width, anchor, used, confirmed, list(leans.items()), any_breadth)

    def _chain_from(self, place: int, longest: int, width: int) -> int:
        """The shortest suffix after which all earlier text goes on in one way, as far as a path or the width reaches;
        0 if there is none. All longer suffixes then give the beginning of the same chain."""
        low = max(1, self._shape.depth - width + 1)
        high = longest + 1
        if low > longest:
            low = longest
        found = 0
        length = low
        while low < high:
            if self._one_way(place, length, width):
                found = high = length
            else:
                low = length + 1
            length = (low + high) // 2
        return found

    def _one_way(self, place: int, length: int, width: int) -> bool:
        tokens, other = self._index.tokens, self._index.other
        at = self._index.earlier[length][place]
        for size in range(length, min(self._shape.depth, length + width - 1)):
            if other[size][at]:
                return False
            if tokens[at] == END:
                return True
            at += 1
        return True
