"""Growing conversations: each prompt is a conversation up to one of its user's turns."""

from __future__ import annotations

import random
from collections.abc import Sequence

from spectui.core.spec import Prompt
from spectui.workloads._workload import Sets, Workload, WorkloadError, chat_prompt, data_sections

SIDE_BY_SIDE = 4
"""Conversations that grow at the same time, as those of several users of one server do."""


def conversations(lines: Sequence[str]) -> list[tuple[str, ...]]:
    """Turns of each conversation, in order, the user's first."""
    found: list[list[str]] = []
    for line in lines:
        if line.startswith("# "):
            found.append([])
        elif line.startswith(("U: ", "A: ")) and found:
            expected = "U" if len(found[-1]) % 2 == 0 else "A"
            if line[0] != expected:
                raise WorkloadError(f"turn of {expected} expected at {line[:40]!r}", where="data/chat.txt")
            found[-1].append(line[3:])
        elif line.strip():
            raise WorkloadError(f"neither title nor turn: {line[:40]!r}", where="data/chat.txt")
    return [tuple(turns) for turns in found]


def growing(talks: Sequence[tuple[str, ...]], seed: int, salt: str) -> tuple[Prompt, ...]:
    """Every conversation up to each user turn; a few grow side by side, and none has a later turn before an earlier."""
    order = list(talks)
    random.Random(f"chat/{salt}:{seed}").shuffle(order)
    prompts: list[Prompt] = []
    for start in range(0, len(order), SIDE_BY_SIDE):
        side_by_side = order[start : start + SIDE_BY_SIDE]
        for turn in range(0, max(len(talk) for talk in side_by_side), 2):
            prompts += [chat_prompt("chat", *talk[: turn + 1]) for talk in side_by_side if turn < len(talk)]
    return tuple(prompts)


def build(seed: int) -> Sets:
    feeding, measuring = data_sections("chat.txt")
    return Sets(
        growing(conversations(feeding), seed, "feeding"),
        growing(conversations(measuring), seed, "measuring"),
    )


WORKLOAD = Workload(
    name="chat",
    title="growing conversations",
    help="Everyday advice over four turns, the assistant's earlier turns given. Answers are fresh prose: it suits "
    "proposers that carry what they know in weights, and is hard for NGRAM.",
    kinds=("chat",),
    max_tokens=256,
    build=build,
)
