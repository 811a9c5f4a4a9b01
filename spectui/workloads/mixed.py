"""Several kinds of work in turn, as a server with many users sees them."""

from __future__ import annotations

from collections.abc import Sequence

from spectui.core.spec import Prompt
from spectui.workloads import chat, edit, json
from spectui.workloads._workload import Sets, Workload, chat_prompt, data_lines, interleaved, shuffled


def _code(lines: Sequence[str]) -> list[Prompt]:
    return [chat_prompt("code", line) for line in lines]


def _translation(lines: Sequence[str]) -> list[Prompt]:
    pairs = (line.split(" | ", 1) for line in lines)
    return [chat_prompt("translation", f"Translate into {language}:\n\n{text}") for language, text in pairs]


def build(seed: int) -> Sets:
    chats, edits, records = chat.build(seed), edit.build(seed), json.build(seed)
    code, translation = data_lines("code.txt"), data_lines("translation.txt")
    feeding, measuring = (
        interleaved(
            (chats.feeding, chats.measuring)[part],
            shuffled(_code(code[part]), seed, f"mixed/code/{part}"),
            (edits.feeding, edits.measuring)[part],
            (records.feeding, records.measuring)[part],
            shuffled(_translation(translation[part]), seed, f"mixed/translation/{part}"),
        )
        for part in (0, 1)
    )
    return Sets(feeding, measuring)


WORKLOAD = Workload(
    name="mixed",
    title="several kinds in turn",
    help="Chat, new code, rewriting, JSON records and translation, one after the other. The default: results are "
    "also shown by kind, and tell which kind gains from speculation and which does not.",
    kinds=("chat", "code", "rewriting", "json", "translation"),
    max_tokens=384,
    build=build,
)
