"""What a workload is: prompts of one kind in two sets, one that feeds a stateful proposer and one that is measured.

The two sets never share a prompt, whatever the seed: each pool is divided once, where its texts are written down, and
a seed changes the order only. So a store that was fed with one seed has not seen what is measured with another.
"""

from __future__ import annotations

import hashlib
import json
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from spectui.core.spec import Prompt, WorkloadRef

DATA = Path(__file__).parent / "data"

MARKS = {
    "contaminating": "the same prompt again: an n-gram store learns the answers, so speed and accept length climb with "
    "each repetition and say nothing about fresh prompts",
    "synthetic": "synthetic data: acceptance not representative",
}
"""Mark -> the sentence that stands beside results of a workload which carries it."""


class WorkloadError(Exception):
    """A workload that cannot be used. The text says what is wrong, where, and what to do next."""

    def __init__(self, what: str, *, where: str = "", what_next: str = "") -> None:
        self.what, self.where, self.what_next = what, where, what_next
        text = f"{where}: {what}" if where else what
        super().__init__(f"{text}. {what_next}" if what_next else text)


@dataclass(frozen=True, slots=True)
class Sets:
    feeding: tuple[Prompt, ...]
    measuring: tuple[Prompt, ...]


@dataclass(frozen=True, slots=True)
class Workload:
    """Declared once by each file of this package as ``WORKLOAD``."""

    name: str
    title: str
    help: str
    """One or two sentences: what it asks for and which proposer it suits."""
    kinds: tuple[str, ...]
    """Groups of its prompts: results are also shown for each."""
    max_tokens: int
    """Output limit that suits the kind, in tokens."""
    build: Callable[[int], Sets]
    """Seed -> sets, always the same for the same seed."""
    marks: tuple[str, ...] = ()
    """Keys of :data:`MARKS`."""
    notes: tuple[str, ...] = ()
    """Sentences for the person who chose it, e.g. duplicates that were found in a file."""
    source: str = "builtin"

    def feeding(self, seed: int = 0) -> tuple[Prompt, ...]:
        return self.build(seed).feeding

    def measuring(self, seed: int = 0) -> tuple[Prompt, ...]:
        """In the order in which they are sent. A run of N requests takes the first N."""
        return self.build(seed).measuring

    def hash(self, seed: int = 0) -> str:
        """16 hex digits over both sets in order: equal hashes mean equal work."""
        sets = self.build(seed)
        content = [[prompt.id for prompt in part] for part in (sets.feeding, sets.measuring)]
        return _digest([*content, self.max_tokens])

    def ref(self, seed: int = 0) -> WorkloadRef:
        return WorkloadRef(self.name, self.hash(seed), self.marks)


def _digest(content: object) -> str:
    text = json.dumps(content, ensure_ascii=False, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode("utf-8")).hexdigest()[:16]


def chat_prompt(group: str, *turns: str, system: str | None = None, max_tokens: int | None = None) -> Prompt:
    """A chat of alternating user and assistant turns, the first and the last by the user."""
    messages = [{"role": "user" if i % 2 == 0 else "assistant", "content": turn} for i, turn in enumerate(turns)]
    if system is not None:
        messages.insert(0, {"role": "system", "content": system})
    return messages_prompt(group, messages, max_tokens=max_tokens)


def messages_prompt(group: str, messages: Sequence[dict[str, str]], *, max_tokens: int | None = None) -> Prompt:
    kept = tuple({"role": m["role"], "content": m["content"]} for m in messages)
    content = {"messages": [[m["role"], m["content"]] for m in kept]}
    return Prompt(id=_digest(content), group=group, messages=kept, max_tokens=max_tokens)


def text_prompt(group: str, text: str, *, max_tokens: int | None = None) -> Prompt:
    """A completion prompt: sent as it is, without a chat template."""
    return Prompt(id=_digest({"text": text}), group=group, text=text, max_tokens=max_tokens)


@lru_cache(maxsize=16)
def data_sections(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Lines of ``data/NAME`` for feeding and for measuring, divided by the line ``--- measuring``."""
    feeding, divider, measuring = (DATA / name).read_text("utf-8").partition("--- measuring\n")
    if not divider:
        raise WorkloadError("the line '--- measuring' is missing", where=f"data/{name}")
    return tuple(feeding.splitlines()), tuple(measuring.splitlines())


def data_lines(name: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    feeding, measuring = data_sections(name)
    return tuple(line for line in feeding if line.strip()), tuple(line for line in measuring if line.strip())


def shuffled(prompts: Iterable[Prompt], seed: int, salt: str) -> tuple[Prompt, ...]:
    """In an order that depends on seed and salt only, not on the Python version's hashing."""
    order = list(prompts)
    random.Random(f"{salt}:{seed}").shuffle(order)
    return tuple(order)


def interleaved(*parts: Sequence[Prompt]) -> tuple[Prompt, ...]:
    """One of each part in turn, so that the first N are a fair share of every kind; as long as the shortest allows."""
    return tuple(prompt for row in zip(*parts, strict=False) for prompt in row)


def plain(name: str, group: str | None = None) -> Callable[[int], Sets]:
    """Builder for ``data/NAME.txt`` with one request on each line."""

    def build(seed: int) -> Sets:
        feeding, measuring = data_lines(f"{name}.txt")
        kind = group or name
        return Sets(
            shuffled([chat_prompt(kind, line) for line in feeding], seed, f"{name}/feeding"),
            shuffled([chat_prompt(kind, line) for line in measuring], seed, f"{name}/measuring"),
        )

    return build
