"""What a simulated model answers: a prompt's kind decides which text goes on, its content which words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random

from spectui.engines.sim import records
from spectui.engines.sim.prose import Prose, foreign
from spectui.engines.sim.tokenizer import EOS, Tokenizer

_TURN = re.compile(r"<\|im_start\|>user\n(.*?)(?:<\|im_end\|>|\Z)", re.DOTALL)
_KINDS = (
    ("translate", re.compile(r"\btranslat|\bübersetz|\btradui|\btraduc", re.IGNORECASE)),
    ("code", re.compile(r"```|\bdef \w|\brewrite\b.*\bcode\b|\brefactor|\bpython\b|\bfunction\b|\bcode\b|\bscript\b|"
                        r"\brename\b|\bdocstring", re.IGNORECASE | re.DOTALL)),
    ("records", re.compile(r"\bjson|\brecords?\b|\bcsv\b|\byaml\b", re.IGNORECASE)),
    ("chat", re.compile(r"\b(should i|how (can|do|should) i|help me|advice|recommend|tips?|plan|my)\b", re.IGNORECASE)),
)  # fmt: skip
_LENGTHS = {"translate": (60, 320), "code": (90, 420), "records": (150, 700), "chat": (120, 520), "prose": (120, 900)}


def kind_of(prompt: str) -> str:
    """translate, code, records, chat or prose, by the words of the last question."""
    asked = _TURN.findall(prompt)
    text = asked[-1] if asked else prompt
    if re.search(r"\bjson\b|\brecords\b", text[:300], re.IGNORECASE) and "```" not in text and "def " not in text:
        return "records"
    return next((name for name, pattern in _KINDS if pattern.search(text)), "prose")


class Answer:
    """The tokens that the model would put out for a prompt, made as far as they are asked for.

    With temperature 0 they are the same for the same prompt. ``end`` is where the model would stop by itself; the
    text goes on behind it, for ``ignore_eos`` and for drafts beyond the end.
    """

    def __init__(self, tokenizer: Tokenizer, prompt_ids: Sequence[int], seed: int | None, ignore_eos: bool) -> None:
        prompt = tokenizer.decode(prompt_ids, special=True)
        digest = hashlib.blake2b(prompt.encode("utf-8", "surrogatepass"), digest_size=8).hexdigest()
        self.key = digest if seed is None else f"{digest}/{seed}"
        self.kind = kind_of(prompt)
        rng = Random(self.key)
        self._tokenizer = tokenizer
        self._texts = _texts(self.kind, prompt, rng)
        self._ignore_eos = ignore_eos
        low, high = _LENGTHS[self.kind]
        if re.search(r"\b(long|detailed|essay|chapter)\b", prompt, re.IGNORECASE):
            low, high = 3 * low, 3 * high
        self._enough = rng.randint(low, high)
        self.ids: list[int] = []
        self.end: int | None = None
        """Index of EOS in ``ids``, once the text has come so far."""

    def upto(self, count: int) -> list[int]:
        """The ids, at least ``count`` of them."""
        while len(self.ids) < count:
            text = next(self._texts)
            self.ids.extend(self._tokenizer.encode(text))
            if self.end is None and not self._ignore_eos and len(self.ids) >= self._enough:
                self.end = len(self.ids)
                self.ids.append(EOS)
        return self.ids


def _texts(kind: str, prompt: str, rng: Random) -> Iterator[str]:
    asked = _TURN.findall(prompt)
    question = asked[-1] if asked else prompt
    prose = Prose(rng, question)
    if kind == "records":
        return records.records(rng, question)
    if kind == "translate":
        language = next((name for name in ("french", "spanish") if name in question.lower()), "german")
        return foreign(rng, language)
    if kind == "code":
        code = records.given_code(question)
        if code is None:
            return chain(["```python\n"], records.functions(rng))
        told = prose.sentences(advice=False)
        return chain(["```python\n"], records.edited(rng, code).splitlines(keepends=True), ["```\n\n"], told)
    return prose.sentences(advice=kind == "chat")
