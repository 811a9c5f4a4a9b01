"""Draft trees drawn from the text itself, and what each of them rests on.

No trie is needed to draw one. Under BFS without eviction the store is a function of the text and of the places where
windows were inserted (the *boundaries*, one a verify step):

- An occurrence of an n-gram that ends at place ``e`` is a path of the store once a boundary ``b`` with
  ``e ≤ b ≤ e − n + depth`` was inserted: with ``gap[e] = b − e`` for the first boundary from ``e`` on, when
  ``gap[e] + n ≤ depth``.
- Children in the order of recency are the tokens after the occurrences, the last occurrence first: a later start is
  inserted later, or later in the same window, and is inserted again for as long.

A tree notes which occurrences it took for paths, which not, and where the breadth counted. Another setting for which
all of this holds as well would grow the same tree at the same place, cut at its own number of draft tokens.
"""

from __future__ import annotations

from collections.abc import Sequence

from spectui.predict.text_index import END, TextIndex

NEVER = 255
"""Gap of a place behind which no window was inserted yet."""
FULL = 1 << 40

Breadths = Sequence[Sequence[int]]
"""By length of the suffix, then by length of the path, how many children are taken."""


class DrawnTree:
    """One tree, as far as the text follows it, with what it rests on."""

    __slots__ = ("anchor", "breadths", "cut", "no_path", "open", "path", "reach", "size", "slots", "width")

    def __init__(self, width: int, breadths: Breadths, reach: int) -> None:
        self.width = width
        """Draft tokens that it was drawn for."""
        self.breadths = breadths
        self.reach = reach
        """Longest suffix that was looked at."""
        self.anchor = 0
        """Longest suffix that could be continued; 0: none."""
        self.size = 1
        """Slots in use, the root's included."""
        self.slots: list[int] = []
        """Slots of the drafts that the text confirms, ascending; a tree cut at n slots keeps those below n."""
        self.path: list[tuple[int, int]] = []
        """(place, largest gap) that must hold: occurrences that it took."""
        self.no_path: list[tuple[int, int]] = []
        """(place, largest gap) that must not hold: occurrences that it passed over."""
        self.open: list[tuple[int, int, int]] = []
        """(suffix, path, children taken) where the breadth must be no smaller than these."""
        self.cut: list[tuple[int, int, int]] = []
        """The same, where the breadth must be just this: there may have been more."""

    def fits(self, gap: bytearray, breadths: Breadths) -> bool:
        """Whether a setting with these gaps and breadths would grow it too."""
        if breadths is not self.breadths:
            for length, size, taken in self.cut:
                if breadths[length][size] != taken:
                    return False
            for length, size, taken in self.open:
                if breadths[length][size] < taken:
                    return False
        for place, largest in self.path:
            if gap[place] > largest:
                return False
        for place, largest in self.no_path:  # noqa: SIM110 - a generator costs more
            if gap[place] <= largest:
                return False
        return True


class Drawer:
    """Draws trees over one text for settings of one trie depth, of which the widest has ``widest`` draft tokens."""

    def __init__(self, index: TextIndex, depth: int, widest: int, *, regular: bool) -> None:
        self._index = index
        self._depth = depth
        self._widest = widest
        self._safe = widest - 1 if regular else depth
        """A gap that all settings keep to behind the widest step. There is none where the end of a prompt goes
        in with what the first step accepted (to 0.5.12), where an answer's end never does (without overlap), nor where
        something may follow a stop token."""

    def draw(self, place: int, reach: int, width: int, gap: bytearray, breadths: Breadths, start: int) -> DrawnTree:
        """Grow the tree at ``place`` from suffixes of up to ``reach`` tokens, for a request that begins at ``start``.

        It stops where the text cannot be followed any further. Occurrences that are paths for any setting are not
        noted: more than the widest step back, and short enough for any gap.
        """
        index, depth, safe = self._index, self._depth, self._safe
        tokens, base, earlier_by_length, other_by_length = index.tokens, index.base, index.earlier, index.other
        tree = DrawnTree(width, breadths, reach)
        path, no_path, confirmed = tree.path, tree.no_path, tree.slots
        seen: list[int] = []
        slots: dict[int, int] = {}
        used = 1
        recent = max(start, place - self._widest)
        goal = min(index.known[place], width - 1, depth - 1)
        sought = tokens[place]  # key of the next slot that the text would confirm
        length = reach
        chain = self._chain_from(place, length, width) if length > 1 else 0
        if chain:
            # The same as below, for one child each.
            tree.reach = depth  # longer suffixes give the beginning of the same chain
            length = chain - 1
            parent, at = 0, earlier_by_length[chain][place]
            for size in range(chain, depth):
                largest = depth - size - 1
                while gap[at + 1] > largest:
                    no_path.append((at + 1, largest))
                    at = earlier_by_length[size][at]
                    if not at:
                        break
                if not at:
                    break
                key = parent + tokens[at]
                at += 1
                if largest < safe or at > recent:
                    path.append((at, largest))
                slots[key] = used
                if key == sought:
                    confirmed.append(used)
                    sought = used * base + tokens[place + len(confirmed)]
                    if len(confirmed) == goal:
                        used = FULL
                        break
                parent = used * base
                used += 1
                if used >= width:
                    break
            if slots:
                tree.anchor = chain
            if used >= width:
                tree.size = used
                return tree
        while length:
            by_size = breadths[length]
            queue = [(0, length, earlier_by_length[length][place])]
            for parent, size, at in queue:
                largest = depth - size - 1
                earlier, other = earlier_by_length[size], other_by_length[size]
                left = by_size[size]
                while at:
                    token = tokens[at]
                    if token in seen:
                        at = other[at]
                        continue
                    child = at + 1
                    if gap[child] > largest:
                        no_path.append((child, largest))
                        at = earlier[at]
                        continue
                    if largest < safe or child > recent:
                        path.append((child, largest))
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
                            left -= 1
                            break
                    if largest:
                        queue.append((slot * base, size + 1, child))
                    at = other[at]
                    left -= 1
                    if not at:
                        break
                    if not left:
                        tree.cut.append((length, size, by_size[size]))
                        seen.clear()
                        break
                    seen.append(token)
                if seen:
                    seen.clear()
                    tree.open.append((length, size, by_size[size] - left))
                if used >= width:
                    break
            if not tree.anchor and slots:
                tree.anchor = length
            if used >= width:
                break
            length -= 1
        tree.size = used
        return tree

    def _chain_from(self, place: int, longest: int, width: int) -> int:
        """The shortest suffix after which all earlier text goes on in one way, as far as a path or the width reaches;
        0 if there is none. All longer suffixes then give the beginning of the same chain."""
        low = max(1, self._depth - width + 1)
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
        for size in range(length, min(self._depth, length + width - 1)):
            if other[size][at]:
                return False
            if tokens[at] == END:
                return True
            at += 1
        return True
