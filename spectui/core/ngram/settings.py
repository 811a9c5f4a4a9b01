"""The settings of SGLang's n-gram store, and the rules and derived numbers that follow from them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

MATCH_TYPES = ("BFS", "PROB")


class NgramSettingsError(ValueError):
    """A setting that SGLang refuses; the text names it, the value and the rule."""


@dataclass(frozen=True, slots=True)
class NgramSettings:
    """One NGRAM setting. The defaults are SGLang's, ``version`` says whose rules hold (see :mod:`spectui.core.ngram`).

    Raises :class:`NgramSettingsError` on values that SGLang's store refuses when it starts (≥ 0.5.10:
    ``ngram_corpus/ngram.cpp``; 0.5.5: ``cpp_ngram/ngram.cpp``).
    """

    num_draft_tokens: int = 12
    """Width of a verify step; the first slot is the last committed token, so one proposal fewer than this."""
    max_trie_depth: int = 18
    """Longest path, and the window that is inserted after a step. In 0.5.5 this is called branch length."""
    min_bfs_breadth: int = 1
    max_bfs_breadth: int = 10
    match_type: str = "BFS"
    capacity: int = 10_000_000
    """Trie nodes, the root included."""
    external_sam_budget: int = 0
    version: str = "0.5.15"
    min_match_window: int = 1
    """0.5.5 only."""
    max_match_window: int = 12
    """0.5.5 only."""
    overlap: bool = True
    """Whether the scheduler overlaps, where the version lets NGRAM do so (≥ 0.5.15)."""

    def __post_init__(self) -> None:
        for name in (
            "num_draft_tokens",
            "max_trie_depth",
            "min_bfs_breadth",
            "max_bfs_breadth",
            "capacity",
            "external_sam_budget",
            "min_match_window",
            "max_match_window",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or isinstance(value, bool):
                raise NgramSettingsError(f"{name} must be a whole number, not {value!r}")
        if not re.match(r"\d+\.\d+(\.\d+)?", self.version):
            raise NgramSettingsError(f"version must look like 0.5.15, not {self.version!r}")
        if self._release < (0, 5, 5):
            raise NgramSettingsError(f"version {self.version} has no NGRAM; it came with 0.5.5")
        self._require(self.num_draft_tokens >= 1, "num_draft_tokens must be at least 1", self.num_draft_tokens)
        self._require(self.max_trie_depth >= 2, "max_trie_depth must be at least 2", self.max_trie_depth)
        self._require(self.min_bfs_breadth >= 1, "min_bfs_breadth must be at least 1", self.min_bfs_breadth)
        self._require(
            self.min_bfs_breadth <= self.max_bfs_breadth,
            f"min_bfs_breadth must not exceed max_bfs_breadth ({self.max_bfs_breadth})",
            self.min_bfs_breadth,
        )
        self._require(self.match_type in MATCH_TYPES, "match_type must be BFS or PROB", self.match_type)
        self._require(
            self.capacity > self.max_trie_depth,
            f"capacity must be more than max_trie_depth ({self.max_trie_depth}), or no path fits",
            self.capacity,
        )
        self._require(
            0 <= self.external_sam_budget <= max(0, self.num_draft_tokens - 1),
            f"external_sam_budget must be 0 to num_draft_tokens - 1 ({self.num_draft_tokens - 1})",
            self.external_sam_budget,
        )
        if self.windows:
            self._require(
                1 <= self.min_match_window <= self.max_match_window < self.max_trie_depth,
                f"in {self.version} match windows must keep 1 <= min ({self.min_match_window}) <= max < branch length "
                f"({self.max_trie_depth})",
                self.max_match_window,
            )

    @staticmethod
    def _require(holds: bool, rule: str, value: object) -> None:
        if not holds:
            raise NgramSettingsError(f"{rule}, not {value!r}")

    @property
    def _release(self) -> tuple[int, ...]:
        return tuple(int(part) for part in re.findall(r"\d+", self.version)[:3])

    @property
    def windows(self) -> bool:
        """The rules of 0.5.5, with match windows of their own."""
        return self._release < (0, 5, 10)

    @property
    def stateful(self) -> bool:
        """Matches are carried from step to step."""
        return self._release >= (0, 5, 12)

    @property
    def lagging(self) -> bool:
        """A step's tokens enter the store one step later, with and without overlap: they are inserted before the
        step's result is told to the request."""
        return self._release >= (0, 5, 15)

    @property
    def unverified(self) -> bool:
        """Newer than any server whose runs were held against these rules."""
        return self._release > (0, 5, 15)

    @property
    def overlapping(self) -> bool:
        """One step more is run after the end, and a prefill doubles the text of those under way."""
        return self.lagging and self.overlap

    @property
    def effective_match_type(self) -> str:
        """0.5.5 takes the argument but never hands it on."""
        return "BFS" if self.windows else self.match_type

    @property
    def insert_depth(self) -> int:
        return self.max_trie_depth

    @property
    def longest_match(self) -> int:
        return self.max_match_window if self.windows else self.max_trie_depth

    @property
    def shortest_match(self) -> int:
        return self.min_match_window if self.windows else 1

    @property
    def starts_left_out(self) -> int:
        """Starts at the end of a window that are not inserted."""
        return self.min_match_window if self.windows else 0

    @property
    def breadth_span(self) -> int:
        """Match length at which the breadth is the smallest."""
        return self.max_match_window if self.windows else max(1, self.max_trie_depth - 1)

    @property
    def breadth_scale(self) -> float:
        """Breadth lost a token of match length, and a level down the tree."""
        levels = self.max_match_window - self.min_match_window + 1 if self.windows else self.breadth_span
        return (self.max_bfs_breadth - self.min_bfs_breadth) / levels

    def as_json(self) -> dict[str, Any]:
        """The knobs by name; the windows only where the version has them."""
        names = [
            "num_draft_tokens",
            "max_trie_depth",
            "min_bfs_breadth",
            "max_bfs_breadth",
            "match_type",
            "capacity",
            "external_sam_budget",
            "version",
        ]
        if self.windows:
            names += ["min_match_window", "max_match_window"]
        return {name: getattr(self, name) for name in names}
