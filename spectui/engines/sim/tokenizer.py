"""A small reversible tokenizer: word pieces of the bundled text, bytes for everything else.

Ids are stable for a version of the bundled text. Any text comes back unchanged, lone surrogates included.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Iterable, Sequence
from functools import lru_cache
from importlib import resources

VOCAB_SIZE = 49152
"""As large as the recorded model's; ids above the pieces decode to nothing."""
END_OF_TEXT, IM_START, EOS = 0, 1, 2
SPECIAL = {"<|endoftext|>": END_OF_TEXT, "<|im_start|>": IM_START, "<|im_end|>": EOS}
_BYTES = 16
_PIECES = 300
_SPLIT = re.compile(r" ?[^\W\d_]+|\d| ?[^\w\s]+|_+|\n+ *|[ \t]+(?= )|\s+|.", re.DOTALL)
_SPECIALS = re.compile("(" + "|".join(re.escape(s) for s in SPECIAL) + ")")
_LONGEST_PART = 6


@lru_cache(maxsize=1)
def tokenizer() -> Tokenizer:
    from spectui.engines.sim.prose import bundled_words

    return Tokenizer(bundled_words())


class Tokenizer:
    def __init__(self, words: Iterable[str]) -> None:
        source = resources.files("spectui.engines.sim").joinpath("data/pieces.json").read_text("utf-8")
        given: dict[str, list[str]] = json.loads(source)
        pieces: dict[str, None] = {}
        for mark in given["marks"]:
            pieces[mark] = None
            pieces[" " + mark] = None
        pieces.update((("\n" * n + " " * m), None) for n in (0, 1, 2) for m in range(17) if n + m)
        pieces.update((text, None) for text in ("\t", "\r\n", "—", " —"))
        for part in given["parts"]:
            pieces[part] = None
        for word in [*words, *given["common"]]:
            for form in (word, word[:1].upper() + word[1:]):
                pieces[form] = None
                pieces[" " + form] = None
        self._ids = {piece: _PIECES + i for i, piece in enumerate(p for p in pieces if len(p.encode()) > 1)}
        self._texts: dict[int, bytes] = {i: piece.encode() for piece, i in self._ids.items()}
        self._texts.update({_BYTES + b: bytes([b]) for b in range(256)})
        self._specials = {i: s.encode() for s, i in SPECIAL.items()}

    def encode(self, text: str) -> list[int]:
        """Ids of a text; special tokens that are written out become one id."""
        out: list[int] = []
        for run in _SPECIALS.split(text):
            special = SPECIAL.get(run)
            if special is not None:
                out.append(special)
            elif run:
                for match in _SPLIT.finditer(run):
                    self._piece(match.group(), out)
        return out

    def _piece(self, piece: str, out: list[int]) -> None:
        known = self._ids.get(piece)
        if known is not None:
            out.append(known)
            return
        at = 0
        while at < len(piece):
            for length in range(min(_LONGEST_PART, len(piece) - at), 1, -1):
                known = self._ids.get(piece[at : at + length])
                if known is not None:
                    out.append(known)
                    at += length
                    break
            else:
                out.extend(_BYTES + b for b in piece[at].encode("utf-8", "surrogatepass"))
                at += 1

    def raw(self, token: int, *, special: bool = False) -> bytes:
        """Bytes of one token; nothing for ids without text, and for special ones unless asked for."""
        if token in self._specials:
            return self._specials[token] if special else b""
        return self._texts.get(token, b"")

    def decode(self, tokens: Sequence[int], *, special: bool = False) -> str:
        raw = b"".join(self.raw(t, special=special) for t in tokens)
        try:
            return raw.decode("utf-8", "surrogatepass")
        except UnicodeDecodeError:
            return raw.decode("utf-8", "replace")

    def stream(self) -> Detokenizer:
        return Detokenizer(self)


class Detokenizer:
    """Text of a growing answer; half a character waits for its other half."""

    __slots__ = ("_decoder", "_tokenizer")

    def __init__(self, tokenizer: Tokenizer) -> None:
        self._tokenizer = tokenizer
        self._decoder = codecs.getincrementaldecoder("utf-8")("replace")

    def add(self, tokens: Sequence[int]) -> str:
        return self._decoder.decode(b"".join(map(self._tokenizer.raw, tokens)))

    def end(self) -> str:
        return self._decoder.decode(b"", True)


def chat_text(messages: Sequence[dict[str, object]]) -> str:
    """Messages through the chat template, up to where the answer begins.

    Raises:
        ValueError: a message without role or text content; the text says which.
    """
    out = []
    for i, message in enumerate(messages):
        if not isinstance(message, dict) or "role" not in message:
            raise ValueError(f"messages[{i}] has no role")
        content = message.get("content")
        if isinstance(content, list):
            content = "".join(str(p.get("text", "")) for p in content if isinstance(p, dict))
        out.append(f"<|im_start|>{message['role']}\n{content or ''}<|im_end|>\n")
    return "".join(out) + "<|im_start|>assistant\n"
