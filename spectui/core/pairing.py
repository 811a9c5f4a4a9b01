"""Draft and target held against each other before gigabytes are loaded, from what their config files say."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

_PADDING = 1024
"""Vocabularies of one tokenizer differ by padding to a round size; more than this is another vocabulary."""
_ORDER = {"block": 3, "not checked": 2, "warn": 1, "pass": 0}


@dataclass(frozen=True, slots=True)
class Remark:
    state: str
    """block, warn, pass or not checked."""
    what: str
    """vocabulary, mechanism, hidden size, context or config."""
    text: str


@dataclass(frozen=True, slots=True)
class Pairing:
    remarks: tuple[Remark, ...]

    @property
    def state(self) -> str:
        """The gravest of them: block, then not checked, then warn, then pass."""
        return max((remark.state for remark in self.remarks), key=_ORDER.__getitem__, default="not checked")

    @property
    def text(self) -> str:
        return "; ".join(remark.text for remark in self.remarks if remark.state == self.state)


def check_pair(
    target: Mapping[str, Any] | None, draft: Mapping[str, Any] | None, *, algorithm: str = "STANDALONE"
) -> Pairing:
    """Do these two fit? Both are the contents of ``config.json``, None where it could not be read.

    ``tokenizer`` may be added to each: a fingerprint of its tokenizer, equal for equal vocabularies. A head of the
    EAGLE family works on the target's hidden states, so its hidden size is compared too; a draft of its own is not.
    """
    if not target or not draft:
        which = "neither config.json could be read" if not target and not draft else ""
        which = which or f"the config.json of the {'draft' if target else 'target'} could not be read"
        text = f"draft and target not checked against each other: {which}"
        return Pairing((Remark("not checked", "config", text),))
    target, draft = _text_part(target), _text_part(draft)
    remarks = [_vocabulary(target, draft, head=algorithm.upper() == "EAGLE3"), *_mechanism(draft, algorithm.upper())]
    if algorithm.upper() in ("EAGLE", "EAGLE3", "NEXTN"):
        remarks += _hidden(target, draft)
    remarks += _context(target, draft)
    return Pairing(tuple(remarks))


def _text_part(config: Mapping[str, Any]) -> Mapping[str, Any]:
    """Models that also see keep their language part in a table of its own."""
    inner = config.get("text_config")
    return {**config, **inner} if isinstance(inner, Mapping) else config


def _count(config: Mapping[str, Any], *keys: str) -> int | None:
    for key in keys:
        value = config.get(key)
        if isinstance(value, int) and not isinstance(value, bool) and value > 0:
            return value
    return None


def _mechanism(draft: Mapping[str, Any], algorithm: str) -> list[Remark]:
    """A head of one EAGLE generation loads under the other's name too, and then none of its drafts is ever accepted."""
    named = draft.get("architectures")
    first = named[0] if isinstance(named, list) and named and isinstance(named[0], str) else ""
    trained = "EAGLE3" if "eagle3" in first.lower() else "EAGLE" if "eagle" in first.lower() else None
    if trained is None or algorithm not in ("EAGLE", "EAGLE3") or trained == algorithm:
        return []
    text = f"the draft's config names {first}, which is {trained}, not {algorithm}: its drafts would never be accepted"
    return [Remark("warn", "mechanism", text)]


def _vocabulary(target: Mapping[str, Any], draft: Mapping[str, Any], *, head: bool = False) -> Remark:
    """``head``: one of EAGLE-3, which may draft from a part of the target's vocabulary that its weights map."""
    size, other = _count(target, "vocab_size"), _count(draft, "vocab_size")
    mine, theirs = target.get("tokenizer"), draft.get("tokenizer")
    what = "vocabulary"
    if size is None or other is None:
        return Remark("not checked", what, "vocabulary not checked: a config file does not say its size")
    sizes = f"target {size}, draft {other}"
    if mine and theirs and mine != theirs:
        return Remark("block", what, f"target and draft have different tokenizers ({sizes} tokens)")
    if other > size:
        return Remark("block", what, f"the draft's vocabulary is larger than the target's ({sizes} tokens)")
    same = bool(mine and theirs)
    if other < size:
        if not same and size - other > _PADDING and head:
            return Remark(
                "warn", what, f"the draft's config tells of fewer tokens than the target has ({sizes} tokens)"
            )
        if not same and size - other > _PADDING:
            return Remark("block", what, f"target and draft have different vocabularies ({sizes} tokens)")
        known = "same tokenizer" if same else "tokenizers not compared"
        return Remark("warn", what, f"vocabulary sizes differ, perhaps by padding ({sizes} tokens, {known})")
    if not same:
        return Remark("not checked", what, f"vocabulary sizes are equal ({sizes} tokens), tokenizers not checked")
    return Remark("pass", what, f"same vocabulary ({size} tokens)")


def _hidden(target: Mapping[str, Any], draft: Mapping[str, Any]) -> list[Remark]:
    size = _count(target, "hidden_size")
    other = _count(draft, "target_hidden_size", "hidden_size")
    if size is None or other is None:
        return [Remark("not checked", "hidden size", "hidden size not checked: a config file does not say it")]
    if size != other:
        return [
            Remark("block", "hidden size", f"the draft was made for another target: hidden size {size} and {other}")
        ]
    return [Remark("pass", "hidden size", f"hidden size {size} in both")]


def _context(target: Mapping[str, Any], draft: Mapping[str, Any]) -> list[Remark]:
    length, other = _count(target, "max_position_embeddings"), _count(draft, "max_position_embeddings")
    if length is None or other is None or other >= length:
        return []
    text = f"the draft knows {other} positions, the target {length}: acceptance falls beyond {other} tokens"
    return [Remark("warn", "context", text)]
