"""The bundled words, and sentences made of them: varied enough that unrelated prompts get unrelated answers."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from functools import lru_cache
from importlib import resources
from random import Random
from typing import Any

_SLOT = re.compile(r"\{(\w+)\}")
_WORD = re.compile(r"[^\W\d_]+")


@lru_cache(maxsize=1)
def bundled() -> dict[str, Any]:
    loaded: dict[str, Any] = json.loads(
        resources.files("spectui.engines.sim").joinpath("data/text.json").read_text("utf-8")
    )
    return loaded


@lru_cache(maxsize=1)
def _dull() -> frozenset[str]:
    """Words that are no topic."""
    return frozenset(json.loads(resources.files("spectui.engines.sim").joinpath("data/dull.json").read_text("utf-8")))


def bundled_words() -> list[str]:
    """Every word of the bundled text, in order and once: what the tokenizer's pieces are made of."""
    seen: dict[str, None] = {}

    def walk(value: Any) -> None:
        if isinstance(value, str):
            for word in _WORD.findall(_SLOT.sub(" ", value)):
                seen[word] = None
        elif isinstance(value, list):
            for item in value:
                walk(item)
        elif isinstance(value, dict):
            for key, item in value.items():
                walk(key)
                walk(item)

    walk(bundled())
    return list(seen)


class Prose:
    """Sentences on a topic, drawn by a seeded generator."""

    def __init__(self, rng: Random, topic: str) -> None:
        self._rng = rng
        self._data = bundled()
        words = [w for w in _WORD.findall(topic) if w.lower() not in _dull() and len(w) > 2]
        self._topics = [w.lower() for w in words[-6:]] or ["the matter"]

    def sentences(self, *, advice: bool = False) -> Iterator[str]:
        """Endless: paragraphs of sentences, the first an opening; advice comes as numbered steps between them."""
        rng, data = self._rng, self._data
        yield self.fill(rng.choice(data["advice"] if advice else data["openers"]))
        step = 0
        while True:
            if advice and rng.random() < 0.4:
                for _ in range(rng.randint(2, 4)):
                    step += 1
                    yield "\n" + self.fill(rng.choice(data["tips"]), step)
                yield "\n" + self.fill(rng.choice(data["closers"]))
            else:
                yield "\n\n" if rng.random() < 0.2 else " "
                yield self.fill(rng.choice(data["sentences"]))

    def fill(self, pattern: str, number: int | None = None) -> str:
        rng, data = self._rng, self._data

        def slot(match: re.Match[str]) -> str:
            name = match.group(1)
            kind = name.rstrip("2") if name != "num2" else "num"
            if name == "num" and number is not None:
                return str(number)
            if kind in ("v", "vs", "ved", "ving", "v2c"):
                forms = rng.choice(data["verbs"])
                return str(forms[("v", "vs", "ved", "ving").index(kind)] if kind != "v2c" else forms[0].capitalize())
            if kind == "num":
                return str(rng.choice((rng.randint(2, 12), rng.randint(13, 99), rng.randint(2, 40) * 25)))
            if kind == "topic":
                return str(rng.choice(self._topics))
            lists = {"n": "nouns", "ps": "plurals", "a": "adjectives", "adv": "adverbs", "t": "times", "p": "places",
                     "name": "names"}  # fmt: skip
            return str(rng.choice(data[lists[kind]]))

        text = _SLOT.sub(slot, pattern)
        return text[:1].upper() + text[1:]


def foreign(rng: Random, language: str) -> Iterator[str]:
    """Endless sentences of another language's words."""
    words = bundled()["translation"][language]
    while True:
        picked = [rng.choice(words) for _ in range(rng.randint(5, 13))]
        if len(picked) > 8:
            picked[4] += ","
        yield " ".join(picked).capitalize() + rng.choice((". ", ". ", "! ", ".\n", ". "))
