"""Greedy answers of two arms side by side: the same, parted ways at some word, or broken.

Batched verification rounds otherwise than plain decoding, so answers at temperature 0 may part ways where two tokens
were nearly equally likely, and stay sensible. That is no fault; text that is empty, that repeats one sign, or that
cannot be decoded is.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

REPLACEMENT = "\ufffd"
MIN_LENGTH = 24
"""Signs, or 12 words: shorter answers ("no no no") may repeat themselves and be right."""
RUN_OF_SIGNS = 20
"""So many of one sign in a row, letters, digits and signs that draw no line, are no text."""
SHORT_PHRASE = 8
"""Words of a phrase whose repetition is a fault by itself."""
LONGEST_PHRASE = 48
"""Of a sentence or two: a small model says such again and again, so this tells only where another arm does not."""
CONTROLS = 2
"""So many control signs may be a model's slip; more are no text."""
DRAWN = "-=_*~#.─━═"
"""Signs of which lines are drawn."""
CYCLE_SHARE = 0.5
"""An answer half of which is one short phrase over and over, where the other arm's is not, is broken."""


@dataclass(frozen=True, slots=True)
class AnswerCheck:
    """``state``: same, differs or broken. ``at``: the first word, or token, from 1, in which they differ."""

    state: str
    detail: str
    at: int | None = None
    unit: str = "word"

    @property
    def passed(self) -> bool:
        return self.state != "broken"


def fault(text: str, thoughts: str = "", longest: int = SHORT_PHRASE) -> str | None:
    """What is broken about an answer by itself, in a word or two; None for sensible text. ``longest``: words of a
    phrase whose repetition counts."""
    if not text.strip():
        return "no answer text" if thoughts.strip() else "empty"
    whole = text.rstrip(REPLACEMENT)  # an answer that its limit cut inside a character may end in the sign
    if not whole.strip() or REPLACEMENT in whole:
        return "undecodable characters"
    if sum(c < " " and c not in "\t\n\r\f\v" for c in text) > CONTROLS:
        return "undecodable characters"
    return "repetition" if _repeats(text, longest) else None


def _repeats(text: str, longest_phrase: int) -> bool:
    bare = "".join(text.split())
    longest = run = 1
    for before, now in pairwise(bare):
        run = run + 1 if before == now else 1
        if now not in DRAWN or run == len(bare):
            longest = max(longest, run)
    if longest >= RUN_OF_SIGNS:
        return True
    if len(bare) < MIN_LENGTH:
        return False
    if len(set(bare)) <= 2:
        return True
    words = text.split()
    if len(words) >= 12 and _cycle_share(words, longest_phrase) > CYCLE_SHARE:
        return True
    # Chinese or Japanese have no blanks: there the signs are counted.
    signs = "".join(c for c in bare if c not in DRAWN)
    return len(signs) > 12 * len(words) and _cycle_share(signs, longest_phrase) > CYCLE_SHARE


def _cycle_share(words: Sequence[str], longest: int) -> float:
    """Share of an answer, from its end back, that is one phrase over and over."""
    best = 0.0
    for length in range(1, min(longest, len(words) // 3) + 1):
        phrase = words[-length:]
        times = 1
        while words[len(words) - (times + 1) * length : len(words) - times * length] == phrase:
            times += 1
        if times >= 4:
            best = max(best, times * length / len(words))
    return best


def compare_answers(base: str, other: str, *, base_thoughts: str = "", thoughts: str = "") -> AnswerCheck:
    """``other`` against ``base``. A fault that both have is the model's own and no fault of the setting, but for text
    that cannot be decoded or is missing, which is told either way."""
    mine, theirs = fault(other, thoughts, LONGEST_PHRASE), fault(base, base_thoughts, LONGEST_PHRASE)
    if mine is not None and not (mine == theirs == "repetition"):
        both = ", and so is the other arm's" if theirs == mine else ""
        return AnswerCheck("broken", f"broken: {mine}{both}")
    if base == other:
        return AnswerCheck("same", "same")
    a, b = base.split(), other.split()
    at = first_difference(a, b)
    if at is None:
        return AnswerCheck("differs", "differs in blanks only")
    return AnswerCheck("differs", f"differs from word {at}", at)


def first_difference(a: Sequence[Any], b: Sequence[Any]) -> int | None:
    """Position from 1 of the first item that differs; one past the shorter where it is the other's beginning."""
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i + 1
    return None if len(a) == len(b) else min(len(a), len(b)) + 1


def compare_rows(base: Mapping[str, Any], other: Mapping[str, Any]) -> AnswerCheck:
    """Rows of ``answers.jsonl``: by token ids where both have them, else by words."""
    said = compare_answers(
        str(base.get("text") or ""),
        str(other.get("text") or ""),
        base_thoughts=str(base.get("thoughts") or ""),
        thoughts=str(other.get("thoughts") or ""),
    )
    ids, ours = base.get("output_ids"), other.get("output_ids")
    if not _same_prompt(base, other):
        ids = ours = None  # ids of different vocabularies are not compared
    if said.state == "broken" and (base.get("text") is not None or other.get("text") is not None):
        return said
    if not ids or not ours:
        return said
    at = first_difference(ids, ours)
    if at is None:
        return AnswerCheck("same", "same")
    return AnswerCheck("differs", f"differs from token {at}", at, "token")


def _same_prompt(base: Mapping[str, Any], other: Mapping[str, Any]) -> bool:
    mine, theirs = base.get("prompt_ids"), other.get("prompt_ids")
    return not mine or not theirs or list(mine) == list(theirs)


@dataclass(frozen=True, slots=True)
class Answers:
    """All answers that both arms gave."""

    same: int
    differ: int
    broken: int
    first: int | None
    """Median place in which those that differ part ways."""
    unit: str
    detail: str
    broken_base: int = 0
    """Answers of the base that are broken where the other's are not."""
    unlike: int = 0
    """Pairs whose prompt was other tokens on each side: another vocabulary, or another chat template."""
    faults: tuple[str, str] = ("", "")
    """What is broken about answers of the base and of the other, and how often: ``repetition (3)``."""

    hard: tuple[int, int] = (0, 0)
    """Of those that are broken, base and other: by more than repetition."""

    @property
    def pairs(self) -> int:
        return self.same + self.differ + self.broken + self.broken_base


def compare_all(
    base: Iterable[Mapping[str, Any]], other: Iterable[Mapping[str, Any]], names: tuple[str, str] | None = None
) -> Answers | None:
    """Measured answers of two arms, paired by prompt; None when they have none in common. ``names``: of the base and
    of the other, for the sentence."""
    theirs = {_prompt(r): r for r in base if r.get("phase") in (None, "measure")}
    pairs = [(theirs[_prompt(r)], r) for r in other if r.get("phase") in (None, "measure") and _prompt(r) in theirs]
    if not pairs:
        return None
    unlike = sum(1 for a, b in pairs if not _same_prompt(a, b))
    checks = [compare_rows(a, b) for a, b in pairs]
    turned = [compare_rows(b, a) if c.state == "differs" else None for c, (a, b) in zip(checks, pairs, strict=True)]
    bad = [t for t in turned if t is not None and t.state == "broken"]
    checks = [c for c, t in zip(checks, turned, strict=True) if t is None or t.state != "broken"]
    count = Counter(c.state for c in checks)
    places = sorted(c.at for c in checks if c.at is not None)
    units = Counter(c.unit for c in checks if c.at is not None)
    first = places[len(places) // 2] if places else None
    unit = units.most_common(1)[0][0] if units else "word"
    parts = [f"same on {count['same']} of {len(pairs)}"]
    if count["differs"]:
        verb = "differs" if count["differs"] == 1 else "differ"
        parts.append(
            f"{count['differs']} {verb} from {unit} {first}" if first else f"{count['differs']} {verb} in blanks"
        )
    faults = _faults(bad), _faults(c for c in checks if c.state == "broken")
    for number, said, name in zip((count["broken"], len(bad)), faults[::-1], (names or ("", ""))[::-1], strict=True):
        if number:
            whose = f" of {name}'s" if name else ""
            parts.append(f"{number}{whose} broken: {said}")
    if unlike:
        parts.append(f"{unlike} prompts were other tokens on each side: another vocabulary or chat template")
    counts = count["same"], count["differs"], count["broken"]
    hard = _hard(bad), _hard(c for c in checks if c.state == "broken")
    return Answers(*counts, first, unit, "; ".join(parts), len(bad), unlike, faults, hard)


def _hard(checks: Iterable[AnswerCheck]) -> int:
    return sum(1 for c in checks if not c.detail.startswith("broken: repetition"))


def _faults(checks: Iterable[AnswerCheck]) -> str:
    what = Counter(c.detail.removeprefix("broken: ") for c in checks)
    return ", ".join(f"{word} ({n})" for word, n in what.most_common())


def _prompt(row: Mapping[str, Any]) -> object:
    return row.get("prompt_id") or row.get("index")
