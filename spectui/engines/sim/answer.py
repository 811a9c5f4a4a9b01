"""What a simulated model answers: a prompt's kind decides which text goes on, its content which words."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from itertools import chain
from random import Random

from spectui.engines.sim import records
from spectui.engines.sim.prose import Prose, foreign
from spectui.engines.sim.ties import FAR, other_of, tie_of
from spectui.engines.sim.tokenizer import EOS, Tokenizer

_ASSISTANT = "<|im_start|>assistant\n"
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

    def __init__(
        self, tokenizer: Tokenizer, prompt_ids: Sequence[int], seed: int | None, ignore_eos: bool, differ: str = ""
    ) -> None:
        """``differ``: near or far, where this server's greedy answers part from those of others (see ``ties``)."""
        prompt = tokenizer.decode(prompt_ids, special=True)
        asked, mark, begun = prompt.rpartition(_ASSISTANT)
        self._begin(tokenizer, asked + mark if mark else prompt, seed, ignore_eos, differ)
        if not mark or not begun:
            return
        given = list(prompt_ids[len(tokenizer.encode(asked + mark)) :])
        if self.upto(len(given) + 1)[: len(given)] == given and (self.end is None or self.end >= len(given)):
            self._behind(len(given))  # its own answer is to be gone on with
        else:
            self._begin(tokenizer, prompt, seed, ignore_eos, differ)

    def _begin(self, tokenizer: Tokenizer, prompt: str, seed: int | None, ignore_eos: bool, differ: str) -> None:
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
        self.tie = tie_of(self.key) if seed is None else None
        """Where another token is nearly as likely as the model's own; None: nowhere."""
        self._differ = differ
        self._parted = not differ or self.tie is None

    def _behind(self, count: int) -> None:
        """What comes after the first ``count`` tokens."""
        del self.ids[:count]
        self._enough -= count
        if self.end is not None:
            self.end -= count
        if self.tie is not None:
            self.tie = self.tie - count if self.tie >= count else None

    def upto(self, count: int) -> list[int]:
        """The ids, at least ``count`` of them."""
        while len(self.ids) < count:
            text = next(self._texts)
            self.ids.extend(self._tokenizer.encode(text))
            if self.end is None and not self._ignore_eos and len(self.ids) >= self._enough:
                self.end = len(self.ids)
                self.ids.append(EOS)
            if not self._parted and self.tie is not None:
                self._part(self.tie)
        return self.ids

    def _part(self, tie: int) -> None:
        """Another token than the model's own, once the text has come so far."""
        at = tie if self._differ == "near" else tie + FAR
        if at >= len(self.ids):
            return
        self._parted = True
        if at != self.end:
            self.ids[at] = other_of(self.ids[at])


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
