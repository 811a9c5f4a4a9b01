"""The trie itself, and one request's way through it."""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Sequence

from spectui.core.ngram.settings import NgramSettings
from spectui.core.ngram.tree import Draft, DraftTree, Node, by_frequency, by_recency


class MatchState:
    """What one request matched at its last draft; makes later matches incremental as SGLang ≥ 0.5.12 does."""

    __slots__ = ("_anchors", "_epoch", "_total")

    def __init__(self) -> None:
        self._epoch = -1
        self._total = 0
        self._anchors: list[Node | None] = []


class NgramStore:
    """The store of one scheduler process. Not thread-safe. Tokens are plain ints."""

    def __init__(self, settings: NgramSettings | None = None) -> None:
        self.settings = settings or NgramSettings()
        self._depth = self.settings.insert_depth
        self._epoch = 0
        self.reset()

    def reset(self) -> None:
        """Forget all, as ``/flush_cache`` makes the server do."""
        self._epoch += 1
        self._root = Node(-1, None)
        self._free = self.settings.capacity - 1
        self._clock = 0
        self._lru: OrderedDict[Node, None] | None = None

    @property
    def nodes(self) -> int:
        """Nodes in use, the root not counted."""
        return self.settings.capacity - 1 - self._free

    def insert(self, window: Sequence[int]) -> None:
        """Insert the last tokens of a request; of a longer sequence, all its windows of the trie's depth."""
        depth = self._depth
        size = len(window)
        for start in range(size - self.settings.starts_left_out):
            self._insert_path(window[start : start + depth])

    def _insert_path(self, path: Sequence[int]) -> None:
        if len(path) > self._free:
            self._evict(len(path) - self._free)
        self._clock = clock = self._clock + self._depth + 1
        node = self._root
        nodes = []
        for level, token in enumerate(path):
            children = node.children
            child = children.pop(token, None)
            if child is None:
                child = Node(token, node)
                self._free -= 1
            children[token] = child
            child.freq += 1
            child.stamp = clock - level
            nodes.append(child)
            node = child
        if self._lru is not None:
            for node in reversed(nodes):
                self._lru[node] = None
                self._lru.move_to_end(node)

    def _evict(self, count: int) -> None:
        """Drop the nodes longest untouched; a child is always older than its parent, so each is a leaf."""
        if self._lru is None:
            # The order is kept only from the first eviction on: most stores never come here.
            everything: list[Node] = []
            stack = [self._root]
            while stack:
                children = stack.pop().children.values()
                everything.extend(children)
                stack.extend(children)
            self._lru = OrderedDict.fromkeys(sorted(everything, key=lambda node: node.stamp))
        for _ in range(count):
            node, _unused = self._lru.popitem(last=False)
            if node.parent is not None:
                del node.parent.children[node.token]
            node.alive = False
            self._free += 1

    def draft(self, context: Sequence[int], state: MatchState | None = None, total: int | None = None) -> Draft:
        """The draft tree for a request whose prompt and output so far end in ``context`` (at least one token).

        With ``state`` the match is carried over from this request's last draft, where the version does so; ``total``
        is then the length of prompt and output, needed when ``context`` is only their end.
        """
        if not context:
            raise ValueError("a draft needs at least one token of context")
        settings = self.settings
        if state is not None and settings.stateful:
            anchors = self._match_carried(context, state, len(context) if total is None else total)
        else:
            anchors = self._match(context)
        expandable = [
            (node, depth)
            for depth, node in reversed(list(enumerate(anchors, 1)))
            if node is not None and (settings.windows or node.children) and depth >= settings.shortest_match
        ]
        tree = DraftTree(context[-1], settings.num_draft_tokens)
        if settings.effective_match_type == "PROB":
            by_frequency(tree, expandable, settings)
        else:
            by_recency(tree, expandable, settings)
        return tree.draft()

    def accepted(self, context: Sequence[int], truth: Sequence[int]) -> int:
        """Drafts accepted along the tree drawn for ``context`` when ``truth`` really follows; changes nothing."""
        return self.draft(context).accepted(truth)

    def _match(self, context: Sequence[int]) -> list[Node | None]:
        """The node of each suffix by length, 1 first; None where the store does not hold it."""
        found: list[Node | None] = []
        for length in range(1, min(len(context), self.settings.longest_match) + 1):
            node: Node | None = self._root
            for token in context[len(context) - length :]:
                node = node.children.get(token) if node is not None else None
                if node is None:
                    break
            found.append(node)
        return found

    def _match_carried(self, context: Sequence[int], state: MatchState, total: int) -> list[Node | None]:
        appended = total - state._total
        longest = self.settings.longest_match
        usable = (
            state._epoch == self._epoch
            and 0 <= appended <= len(context)
            and len(state._anchors) == min(state._total, longest)
            and all(node is None or node.alive for node in state._anchors)
        )
        if usable:
            anchors = state._anchors
            for token in context[len(context) - appended :]:
                reached: list[Node | None] = [self._root, *anchors[: longest - 1]]
                anchors = [node.children.get(token) if node is not None else None for node in reached]
        else:
            anchors = self._match(context)
        state._epoch, state._total, state._anchors = self._epoch, total, anchors
        return anchors


class NgramRequest:
    """One request's way through the store, in the order of SGLang's worker: draft, verify, insert.

    Of several requests that run together, :class:`spectui.core.ngram.NgramBatch` keeps the order.
    """

    __slots__ = ("_drafted_from", "_last", "_store", "_total", "_window", "state")

    def __init__(self, store: NgramStore, prompt_ids: Sequence[int], first_token: int) -> None:
        """``first_token`` is the output token that the prefill gave."""
        self._store = store
        self._total = len(prompt_ids) + 1
        self._window = deque([*prompt_ids[-store.settings.insert_depth :], first_token], store.settings.insert_depth)
        self._last: Sequence[int] = (first_token,)
        self._drafted_from: list[int] | None = None
        self.state = MatchState()

    def draft(self, *, doubled: bool = False) -> Draft:
        """``doubled``: from a text whose last step's tokens stand there twice, see :class:`NgramBatch`; without overlap
        scheduling there is no such text."""
        window, total = list(self._window), self._total
        if doubled and self._store.settings.overlapping:
            window = [*window, *self._last][-self._store.settings.insert_depth :]
            total += len(self._last)
        self._drafted_from = window
        return self._store.draft(window, self.state, total)

    def commit(self, tokens: Sequence[int]) -> None:
        """``tokens``: what the verify step put out, the accepted drafts and the token after them."""
        if self._store.settings.lagging:
            self._store.insert(self._drafted_from or list(self._window))
        self._drafted_from = None
        self._window.extend(tokens)
        self._total += len(tokens)
        self._last = list(tokens)
        if not self._store.settings.lagging:
            self._store.insert(list(self._window))

    def finish(self) -> None:
        """The request has ended: with overlap scheduling one more step runs, and what the last one gave goes in; it
        never does without."""
        if self._store.settings.overlapping:
            self._store.insert(list(self._window))
