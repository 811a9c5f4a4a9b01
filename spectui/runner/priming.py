"""The primed pass: an external corpus goes into the server's n-gram store before it is measured, and out again after.

SGLang takes corpora from 0.5.12 on (``/add_external_corpus``); they change drafts only where the server was launched
with ``--speculative-ngram-external-sam-budget`` above 0 (default 0).
"""

from __future__ import annotations

import json
from collections.abc import Callable, Container
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.core.spec import RunSpec
from spectui.engines.sglang.errors import EngineError
from spectui.engines.sglang.info import ServerInfo
from spectui.runner.failure import RunFailed

if TYPE_CHECKING:
    from spectui.runner.arm import Arm

PRIMED = "primed"
BUDGET = "ngram.external_sam_budget"
FLAG = "--speculative-ngram-external-sam-budget"


def documents(path: Path, without: Container[str] = ()) -> list[str]:
    """Texts of a corpus: JSON Lines of strings, of ``{"text": …}``, or answers of a run; else the whole file as one.

    ``without``: prompt ids whose answers are left out, for a store that holds the answers to what is measured says
    nothing. Raises OSError, and ValueError for a file that holds no text.
    """
    raw = path.read_bytes()
    try:
        whole = raw.decode("utf-8")
    except UnicodeDecodeError as fault:
        raise ValueError(f"not UTF-8 at byte {fault.start + 1}") from None
    found: list[str] = []
    for line in whole.split("\n"):
        if not line.strip():
            continue
        try:
            item = json.loads(line)
        except (ValueError, RecursionError):
            found = [whole]  # plain text
            break
        if isinstance(item, dict):
            item = None if item.get("prompt_id") in without else item.get("text")
        if isinstance(item, str) and item.strip():
            found.append(item)
    if not any(text.strip() for text in found):
        raise ValueError("it holds no text: one JSON string on each line, or plain text, is needed")
    return list(dict.fromkeys(found))  # two arms may have given the same answer


def why_not(info: ServerInfo) -> str:
    """Why this server cannot be primed, with what to do; empty where it can, or learns nothing anyway."""
    if info.algorithm.upper() != "NGRAM":
        return ""
    budget = info.settings.get(BUDGET)
    if budget is None:
        return f"SGLang {info.version} takes no external corpus (they came with 0.5.12)"
    if not budget:
        return f"a corpus would have no effect: the server was launched with {FLAG} 0; relaunch it with 1 or more"
    return ""


class Priming:
    """Of one run: what a measurement calls before and after a primed pass. Raises RunFailed without a usable corpus."""

    def __init__(self, spec: RunSpec, phase: Callable[..., None], mark: Callable[[str | None, str, str], None]) -> None:
        self._name = f"spectui-{spec.run_id}"
        self._phase, self._mark = phase, mark
        self._texts: list[str] = []
        self._loaded: list[Arm] = []
        if PRIMED not in spec.passes:
            return
        if not spec.corpus:
            raise RunFailed("a primed pass needs a corpus: --corpus FILE or RUN")
        path = Path(spec.corpus)
        try:
            self._texts = documents(path, frozenset(prompt.id for prompt in spec.measuring))
        except (OSError, ValueError) as error:
            raise RunFailed(f"corpus {path}: {getattr(error, 'strerror', None) or error}") from None

    def begin(self, arm: Arm, pass_name: str, level: int) -> None:
        """After the flush. An arm that learns nothing needs nothing. Raises RunFailed where the server refuses."""
        if pass_name != PRIMED or not arm.stateful:
            return
        reason = why_not(arm.info)
        if reason:
            raise RunFailed(f"arm {arm.name}: {reason}")
        self._phase(arm, pass_name, "prime", level, "begin", documents=len(self._texts))
        try:
            others = sorted(arm.client.corpora() or {})
            outcome = arm.client.add_corpus(documents=self._texts, corpus_id=self._name)
        except EngineError as error:
            raise RunFailed(f"arm {arm.name}: the corpus was not taken: {error}") from None
        if not outcome.ok:
            raise RunFailed(f"arm {arm.name}: the corpus was not taken: {outcome.message or 'no reason was given'}")
        self._loaded.append(arm)
        self._phase(arm, pass_name, "prime", level, "end", documents=len(self._texts), tokens=outcome.tokens)
        if others:
            self._mark(arm.name, "other_corpora", f"the server holds other corpora too: {', '.join(others)}")

    def end(self, arm: Arm) -> None:
        """Takes the corpus out again, so that no other pass drafts from it."""
        if arm not in self._loaded:
            return
        self._loaded.remove(arm)
        try:
            outcome = arm.client.remove_corpus(self._name)
            trouble = "" if outcome.ok else outcome.message or "no reason was given"
        except EngineError as error:
            trouble = str(error)
        if trouble:
            self._mark(arm.name, "corpus_left", f"corpus {self._name} is still in the server's store: {trouble}")

    def close(self) -> None:
        """However a run ended: nothing of ours stays in a server."""
        for arm in list(self._loaded):
            self.end(arm)
