"""Code to be given back with one small change."""

from __future__ import annotations

import json
from functools import lru_cache

from spectui.core.spec import Prompt
from spectui.workloads._workload import DATA, Sets, Workload, chat_prompt, shuffled

ASK = "Rewrite the {language} file below. {change} Answer with the whole file in one code block and nothing else."


def _templates() -> list[tuple[str, str, str]]:
    """(language, change, code) of each template; code is a format string."""
    found = []
    for part in (DATA / "edit.txt").read_text("utf-8").split("=== ")[1:]:
        first, code = part.split("\n", 1)
        language, change = first.split(" | ", 1)
        found.append((language, change, code))
    return found


def _prompt(template: tuple[str, str, str], words: dict[str, str]) -> Prompt:
    language, change, code = template
    slots = words | {key.capitalize(): words[key].capitalize() for key in ("text", "number", "verb")}
    ask = ASK.format(language=language, change=change.format(**slots))
    return chat_prompt("rewriting", f"{ask}\n\n```{language}\n{code.format(**slots)}```")


@lru_cache(maxsize=1)
def _pools() -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    templates = _templates()
    subjects = json.loads((DATA / "edit_domains.json").read_text("utf-8"))
    feeding, measuring = (
        tuple(_prompt(template, words) for words in subjects[part] for template in templates)
        for part in ("feeding", "measuring")
    )
    return feeding, measuring


def build(seed: int) -> Sets:
    feeding, measuring = _pools()
    return Sets(shuffled(feeding, seed, "edit/feeding"), shuffled(measuring, seed, "edit/measuring"))


WORKLOAD = Workload(
    name="edit",
    title="rewriting given code",
    help="Short files of code to be given back with one change. Most of the answer stands in the prompt, and files "
    "are alike: what NGRAM is made for, once it has been fed.",
    kinds=("rewriting",),
    max_tokens=512,
    build=build,
)
