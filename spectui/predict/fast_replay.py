"""The same replay as the plain store's, for many settings over one text.

Settings of one trie depth go through the text side by side, request by request. Which drafts a step proposes is drawn
from the text (:mod:`spectui.predict.drawn_tree`); a tree that one setting drew at a place serves every other one that
comes by it and for which all that it rests on holds too.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from spectui.core.ngram import NgramSettings
from spectui.predict.drawn_tree import Breadths, Drawer, DrawnTree
from spectui.predict.text_index import Span, TextIndex

MAX_DEPTH = 120


@dataclass(frozen=True, slots=True)
class Family:
    """What must be equal for two settings to share trees."""

    depth: int
    lagging: bool
    overlapping: bool
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


def family(settings: NgramSettings) -> Family:
    return Family(settings.max_trie_depth, settings.lagging, settings.overlapping, settings.stateful)


class _Way:
    """One setting's way through the text."""

    __slots__ = ("breadths", "gap", "number", "ramp", "width")

    def __init__(self, number: int, width: int, breadths: Breadths, depth: int, places: int) -> None:
        self.number = number
        self.width = width
        self.breadths = breadths
        self.gap = bytearray(b"\xff" * places)
        self.ramp = bytes(range(depth + width, -1, -1))


class SharedReplay:
    """Settings of one family over one text."""

    def __init__(self, index: TextIndex, of: Family, settings: Sequence[NgramSettings]) -> None:
        """Raises ValueError where the text is not indexed so deep, or a setting is of another family."""
        if of.depth > index.depth:
            raise ValueError(f"the text is indexed for a depth of {index.depth}, not {of.depth}")
        if any(family(one) != of for one in settings):
            raise ValueError("settings of several families are replayed apart")
        self._index = index
        self._family = of
        tables: dict[tuple[int, float, int], Breadths] = {}
        places = len(index.tokens) + 2
        ways = []
        for number, one in enumerate(settings):
            key = (one.breadth_span, one.breadth_scale, one.min_bfs_breadth)
            breadths = tables.get(key)
            if breadths is None:
                breadths = tables[key] = _breadths(of.depth, *key)
            ways.append(_Way(number, one.num_draft_tokens, breadths, of.depth, places))
        # From wide to narrow: what is drawn from here on need not be wider.
        self._ways = sorted(ways, key=lambda way: (-way.width, way.breadths))
        widest = max((way.width for way in ways), default=1)
        regular = of.overlapping and all(span.tail == span.end for span in index.spans)
        self._drawer = Drawer(index, of.depth, widest, regular=regular)

    def requests(self) -> Iterator[tuple[int, list[int]]]:
        """(number of the setting, h[k]: verify steps that accepted exactly k drafts), all settings of the first
        request, then all of the second, and so on; the settings in an order of their own."""
        for span in self._index.spans:
            trees: dict[int, list[DrawnTree]] = {}
            for way in self._ways:
                yield way.number, self._request(span, way, trees)

    def histograms(self) -> list[list[list[int]]]:
        """By setting as given, the histogram of each request."""
        found: list[list[list[int]]] = [[] for _ in self._ways]
        for number, histogram in self.requests():
            found[number].append(histogram)
        return found

    def _request(self, span: Span, way: _Way, trees: dict[int, list[DrawnTree]]) -> list[int]:
        index = self._index
        tokens, bigrams, longest_at, earlier = index.tokens, index.earlier[2], index.longest, index.earlier
        depth, lagging, stateful = self._family.depth, self._family.lagging, self._family.stateful
        width, gap, ramp, breadths = way.width, way.gap, way.ramp, way.breadths
        draw = self._drawer.draw
        histogram = [0] * width
        start, place, end, tail = span.start, span.first, span.end, span.tail
        if place > end:
            return histogram
        inserted = max(start, place - depth)  # gaps are known up to here
        limit = depth
        while place < end:
            accepted = 0
            token = tokens[place]
            length = longest_at[place]
            if length > limit:
                length = limit
            if bigrams[place + 1] or not token:
                reach = length if length < depth else depth - 1
                known = trees.get(place)
                if known is None:
                    known = trees[place] = []
                for tree in reversed(known):  # the last way through was the most alike
                    if tree.anchor <= limit and reach <= tree.reach and tree.fits(gap, breadths):
                        break
                else:
                    tree = draw(place, reach, width, gap, breadths, start)
                    known.append(tree)
                slots = tree.slots
                if slots:
                    accepted = bisect_left(slots, width)
                if not accepted and not token and tree.size < width:
                    accepted = 1  # the padding's token is 0
            if stateful:
                # The longest suffix that the store holds, whether it can be continued or not, is what grows from here.
                if inserted == place:
                    length = limit  # the context itself was inserted
                elif length and gap[earlier[length][place]] + length > depth:
                    length = self._matched(place, length, gap)
                limit = length + accepted + 1
                if limit > depth:
                    limit = depth
            histogram[accepted if place + accepted <= end else end - place] += 1
            if lagging:
                gap[inserted + 1 : place + 1] = ramp[inserted - place :]
                inserted = place
                place += accepted + 1
            else:
                place = min(place + accepted + 1, tail)
                gap[inserted + 1 : place + 1] = ramp[inserted - place :]
                inserted = place
        last = min(place, tail)
        if self._family.overlapping and inserted < last:
            gap[inserted + 1 : last + 1] = ramp[inserted - last :]
        return histogram

    def _matched(self, place: int, length: int, gap: bytearray) -> int:
        """The longest suffix of those up to ``length`` that the store holds."""
        depth = self._family.depth
        while length:
            earlier = self._index.earlier[length]
            at = earlier[place]
            while at:
                if gap[at] + length <= depth:
                    return length
                at = earlier[at]
            length -= 1
        return 0


def _breadths(depth: int, span: int, scale: float, least: int) -> list[list[int]]:
    table = []
    for length in range(depth + 1):
        breadth = (span - length) * scale + least
        row = [0] * length
        for _ in range(length, depth + 1):
            row.append(max(1, int(breadth)))
            breadth -= scale
        table.append(row)
    return table
