"""Draft trees, and the two orders in which SGLang grows them from the nodes of its trie."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass

from spectui.core.ngram.settings import NgramSettings


class Node:
    __slots__ = ("alive", "children", "freq", "parent", "stamp", "token")

    def __init__(self, token: int, parent: Node | None) -> None:
        self.token = token
        self.parent = parent
        self.children: dict[int, Node] = {}
        """Least recently inserted first; SGLang's per-parent recency list, turned round."""
        self.freq = 0
        self.stamp = 0
        self.alive = True


@dataclass(frozen=True, slots=True)
class Draft:
    """A draft tree. Slot 0 is the root, the last committed token; proposals follow in the order they were found."""

    tokens: tuple[int, ...]
    parents: tuple[int, ...]
    """Slot of each slot's parent; -1 for the root. A parent comes before its children."""
    padding: int = 0
    """Slots that stayed empty. The server fills them with token 0 below the root, and verifies them all the same."""

    def accepted(self, truth: Sequence[int]) -> int:
        """How many drafts greedy verification accepts when ``truth`` are the tokens that really follow."""
        children = {(self.parents[slot], token): slot for slot, token in enumerate(self.tokens)}
        slot = count = 0
        for token in truth:
            found = children.get((slot, token))
            if found is None:
                return 1 if count == 0 and token == 0 and self.padding else count
            slot = found
            count += 1
        return count


class DraftTree:
    """The draft tree under construction."""

    __slots__ = ("children", "limit", "parents", "tokens")

    def __init__(self, root: int, limit: int) -> None:
        self.tokens = [root]
        self.parents = [-1]
        self.children: dict[tuple[int, int], int] = {}
        self.limit = limit

    @property
    def full(self) -> bool:
        return len(self.tokens) >= self.limit

    def slot(self, parent: int, token: int) -> int:
        key = (parent, token)
        slot = self.children.get(key)
        if slot is None:
            slot = self.children[key] = len(self.tokens)
            self.tokens.append(token)
            self.parents.append(parent)
        return slot

    def draft(self) -> Draft:
        return Draft(tuple(self.tokens), tuple(self.parents), self.limit - len(self.tokens))


def by_recency(tree: DraftTree, anchors: list[tuple[Node, int]], settings: NgramSettings) -> None:
    """BFS: below each suffix, level by level, the children last inserted first."""
    scale = settings.breadth_scale
    for anchor, depth in anchors:
        breadth = (settings.breadth_span - depth) * scale + settings.min_bfs_breadth
        queue = deque([(0, breadth, anchor)])
        while queue and not tree.full:
            parent, breadth, node = queue.popleft()
            left = max(1, int(breadth))
            for child in reversed(node.children.values()):
                if left == 0 or tree.full:
                    break
                left -= 1
                queue.append((tree.slot(parent, child.token), breadth - scale, child))


def by_frequency(tree: DraftTree, anchors: list[tuple[Node, int]], settings: NgramSettings) -> None:
    """PROB: the product of the children's shares decides, over all suffixes in one heap."""
    heap: list[tuple[float, int, Node]] = []

    def offer(parent: int, node: Node, share: float) -> None:
        best = sorted(node.children.values(), key=lambda child: (-child.freq, child.token))[: settings.max_bfs_breadth]
        together = float(sum(child.freq for child in best)) or 1.0
        for child in best:
            _heap_push(heap, (child.freq / together * share, parent, child))

    for anchor, _depth in anchors:
        offer(0, anchor, 1.0)
        while heap and not tree.full:
            share, parent, node = _heap_pop(heap)
            offer(tree.slot(parent, node.token), node, share)


def _heap_push(heap: list[tuple[float, int, Node]], item: tuple[float, int, Node]) -> None:
    heap.append(item)
    _sift_up(heap, len(heap) - 1, item)


def _sift_up(heap: list[tuple[float, int, Node]], hole: int, item: tuple[float, int, Node]) -> None:
    while hole > 0 and heap[(hole - 1) // 2][0] < item[0]:
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = item


def _heap_pop(heap: list[tuple[float, int, Node]]) -> tuple[float, int, Node]:
    """Take the largest. Equal shares are common, and SGLang leaves their order to its C++ library's binary heap: the
    hole sinks to the bottom along the larger child (the right one of equals), then the last item rises from there."""
    top = heap[0]
    last = heap.pop()
    size = len(heap)
    if size:
        hole = 0
        while (right := 2 * hole + 2) < size:
            larger = right - 1 if heap[right][0] < heap[right - 1][0] else right
            heap[hole] = heap[larger]
            hole = larger
        if right == size:
            heap[hole] = heap[size - 1]
            hole = size - 1
        _sift_up(heap, hole, last)
    return top
