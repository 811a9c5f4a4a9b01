"""The n-gram store once more, slow and straight from the contract: plain lists, no trie, nothing shared with core.

Paths are kept as a list of (path, freq, last touched) found by linear search.
"""

from __future__ import annotations

from collections.abc import Sequence


class ContractStore:
    def __init__(
        self, depth: int = 18, low: int = 1, high: int = 10, draft_tokens: int = 12, capacity: int = 10**7
    ) -> None:
        self.depth, self.low, self.high, self.draft_tokens, self.capacity = depth, low, high, draft_tokens, capacity
        self.paths: dict[tuple[int, ...], list[int]] = {}  # path -> [frequency, recency among siblings, global recency]
        self.now = 0

    def insert(self, window: Sequence[int]) -> None:
        for start in range(len(window)):
            path = tuple(window[start : start + self.depth])
            while len(self.paths) + len(path) > self.capacity - 1:
                del self.paths[min(self.paths, key=lambda p: self.paths[p][2])]
            for size in range(1, len(path) + 1):
                self.now += 1
                entry = self.paths.setdefault(path[:size], [0, 0, 0])
                entry[0] += 1
                entry[1] = self.now
            for size in range(len(path), 0, -1):  # the last touched is the first token of the path
                self.now += 1
                self.paths[path[:size]][2] = self.now

    def children(self, path: tuple[int, ...]) -> list[int]:
        found = [p for p in self.paths if len(p) == len(path) + 1 and p[:-1] == path]
        return [p[-1] for p in sorted(found, key=lambda p: -self.paths[p][1])]

    def tree(self, context: Sequence[int], longest: int | None = None) -> list[tuple[int, ...]]:
        """Proposals as paths below the root, in the order in which they are found."""
        span = max(1, self.depth - 1)
        scale = (self.high - self.low) / span
        tree: list[tuple[int, ...]] = []
        top = min(len(context), self.depth) if longest is None else longest
        for length in range(top, 0, -1):
            suffix = tuple(context[len(context) - length :])
            if suffix not in self.paths:
                continue
            level = [((), suffix)]
            breadth = (span - length) * scale + self.low
            while level:
                below = []
                for draft, path in level:
                    for token in self.children(path)[: max(1, int(breadth))]:
                        if len(tree) == self.draft_tokens - 1:
                            return tree
                        if (*draft, token) not in tree:
                            tree.append((*draft, token))
                        below.append(((*draft, token), (*path, token)))
                level = below
                breadth -= scale
        return tree

    def accepted(self, context: Sequence[int], truth: Sequence[int], longest: int | None = None) -> int:
        tree = self.tree(context, longest)
        count = 0
        while count < len(truth) and tuple(truth[: count + 1]) in tree:
            count += 1
        if not count and truth and truth[0] == 0 and len(tree) < self.draft_tokens - 1:
            return 1  # the padding
        return count


def replay_by_contract(
    pairs: Sequence[tuple[Sequence[int], Sequence[int]]],
    *,
    lagging: bool = True,
    overlapping: bool = True,
    stateful: bool = True,
    **knobs: int,
) -> list[list[int]]:
    """Histogram a request, one request after another."""
    store = ContractStore(**knobs)
    depth = store.depth
    histograms = []
    for prompt, output in pairs:
        histogram = [0] * store.draft_tokens
        histograms.append(histogram)
        if not output:
            continue
        text = [*prompt, output[0]]
        done = 1
        known: list[bool] | None = None  # by length: the suffix was in the store, and so was its beginning before
        appended = 0
        while done < len(output):
            context = text[-depth:]
            held = [tuple(context[len(context) - n :]) in store.paths for n in range(1, len(context) + 1)]
            if stateful and known is not None and appended <= len(context):
                held = [h and (n <= appended or known[n - appended - 1]) for n, h in enumerate(held, 1)]
            known = held
            longest = max((n for n, h in enumerate(held, 1) if h), default=0)
            accepted = store.accepted(context, output[done:], longest)
            histogram[accepted] += 1
            if lagging:
                store.insert(context)
            step = output[done : done + accepted + 1]
            appended = accepted + 1
            text += step
            done += appended
            if not lagging:
                store.insert(text[-depth:])
        if overlapping:
            store.insert(text[-depth:])
    return histograms
