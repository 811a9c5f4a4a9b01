"""How likely a simulated model finds its tokens, and where two of them are nearly as likely.

On a real server arithmetic decides there: batched verification sums in another order than plain decoding. With
``--sim-differ near`` this server's answers part at such places, with ``far`` a little behind them, where they must not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

FAR = 3
"""Tokens behind a tie, where one token is far more likely than all others."""
_LOWEST = 300
"""Ids below are bytes and special tokens."""
_TIED = (-0.72, -0.79)
_SURE = -0.04
_REST = (-4.1, -4.6, -5.2, -5.9, -6.3)


def tie_of(key: str) -> int | None:
    """Index of the token of an answer that has a rival; half of the answers have none."""
    drawn = hashlib.blake2b(f"tie/{key}".encode(), digest_size=2).digest()
    return 4 + drawn[1] % 24 if drawn[0] % 2 else None


def other_of(token: int) -> int:
    """The rival of a token."""
    return token + 1 if token >= _LOWEST else _LOWEST + token


def logprobs(ids: Sequence[int], tie: int | None, top: int) -> dict[str, Any]:
    """``meta_info`` of a request with ``return_logprob``: ``[log-probability, id, text]`` a token, and lists of the
    ``top`` likeliest where they were asked for (srt/managers/tokenizer_manager.py; no text unless asked for)."""
    chosen, listed = [], []
    for at, token in enumerate(ids):
        likely = _TIED if at == tie else (_SURE,)
        chosen.append([likely[0], token, None])
        rivals = [other_of(token), *(_LOWEST + (token * 7 + 31 * n) % 20_000 for n in range(top))]
        values = [*likely[1:], *_REST, *(_REST[-1] - n for n in range(1, top + 1))]
        rest = list(dict.fromkeys(r for r in (rivals if at == tie else rivals[1:]) if r != token))
        row = [chosen[-1], *([value, rival, None] for value, rival in zip(values, rest, strict=False))]
        listed.append(row[:top])
    said: dict[str, Any] = {"input_token_logprobs": [], "output_token_logprobs": chosen}
    return said | {"input_top_logprobs": [], "output_top_logprobs": listed} if top else said
