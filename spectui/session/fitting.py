"""What a workload will feed, and whether it suits each arm's drafter: told before a run, from the prompts themselves.

No name of a workload is read. What is looked at: how many prompts there are, how long they are, how many are the same,
and how much of one's text comes again in others.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.evidence import WORDS, is_stateful
from spectui.core.proposer import FED_TOKENS, LEAST_TOKENS, SATURATED_SHARE
from spectui.core.sample import MIN_UNITS
from spectui.core.spec import ArmSpec, Prompt, RunSpec
from spectui.core.trend import MIN_VALUES
from spectui.engines.sglang.address import read_key
from spectui.engines.sglang.client import SglangClient
from spectui.engines.sglang.info import ServerInfo
from spectui.runner.priming import PRIMED, why_not
from spectui.session import SessionError
from spectui.session.history_of_feeding import Kind, recall, steady_tokens

GOOD, POOR, UNKNOWN = "good", "poor", "unknown"
COPIED_SHARE = 0.5
"""Share of a prompt's word windows that earlier prompts have: above it, answers will repeat each other too."""


@dataclass(frozen=True, slots=True)
class Asked:
    """Of the prompts of a run, as they are."""

    measuring: int
    distinct: int
    """Measured prompts that differ from each other."""
    feeding: int
    """Different prompts that may be fed."""
    words: float
    """Mean length of a measured prompt."""
    most_tokens: int
    """The most that one pass can generate while measuring."""
    most_fed: int
    """The most that feeding can generate."""
    shared: float
    """Share of the measured prompts' word windows that other prompts have too."""
    mixed: int
    """Kinds of content."""

    @property
    def text(self) -> str:
        same = "" if self.distinct == self.measuring else f", only {self.distinct} of them different"
        fed = f"; up to {self.feeding} others feed" if self.feeding else "; none is left to feed with"
        shared = f"{100 * self.shared:.0f} % of their text is shared with other prompts"
        return (
            f"{self.measuring} prompts are measured{same}, {self.words:,.0f} words each, at most "
            f"{self.most_tokens:,} tokens out{fed}; {shared}"
        )


@dataclass(frozen=True, slots=True)
class FitBefore:
    """Of one arm. ``fit``: good, poor or unknown."""

    arm: str
    algorithm: str
    fit: str
    detail: str
    needs: tuple[str, ...] = ()

    @property
    def text(self) -> str:
        need = f" – {'; '.join(self.needs)}" if self.needs else ""
        return f"{self.arm} {self.algorithm}: {self.fit}: {self.detail}{need}"

    def as_json(self) -> dict[str, object]:
        return {
            "arm": self.arm,
            "algorithm": self.algorithm,
            "fit": self.fit,
            "detail": self.detail,
            "needs": list(self.needs),
        }


def asked_of(spec: RunSpec) -> Asked:
    measuring, feeding = spec.measuring, spec.feeding[: max(0, spec.feed_limit)]
    words = [_words(p) for p in measuring]
    return Asked(
        len(measuring),
        len({p.id for p in measuring}),
        len({p.id for p in feeding}),
        sum(map(len, words)) / max(1, len(words)),
        sum(p.max_tokens or spec.max_tokens for p in measuring),
        sum(p.max_tokens or spec.max_tokens for p in feeding),
        _shared(words, [_words(p) for p in feeding]),
        len({p.group for p in measuring}),
    )


def _words(prompt: Prompt) -> list[str]:
    if prompt.messages is not None:
        return " ".join(m["content"] for m in prompt.messages).split()
    return (prompt.text or "").split()


def _shared(measuring: Sequence[list[str]], feeding: Iterable[list[str]]) -> float:
    owners: dict[tuple[str, ...], int] = {}
    for words in (*measuring, *feeding):
        for gram in _windows(words):
            owners[gram] = owners.get(gram, 0) + 1
    counts = [owners[gram] > 1 for words in measuring for gram in _windows(words)]
    return sum(counts) / len(counts) if counts else 0.0


def _windows(words: Sequence[str]) -> set[tuple[str, ...]]:
    return {tuple(words[i : i + WORDS]) for i in range(len(words) - WORDS + 1)}


def fit_before(arm: str, info: ServerInfo, spec: RunSpec, asked: Asked, steady: int | None = None) -> FitBefore:
    """``steady``: fewest tokens that steady acceptance was ever reached with on such text, by this node's history."""
    name = info.algorithm
    stateful = is_stateful(name)
    few: tuple[str, ...] = ()
    if asked.distinct < MIN_UNITS:
        few = (f"{MIN_UNITS - asked.distinct} more prompts at least: an interval takes {MIN_UNITS}",)
    if stateful is None:
        return FitBefore(arm, name, UNKNOWN, "whether this algorithm learns from answers is not known", few)
    if not stateful:
        said = "nothing is drafted" if name == "none" else "it drafts from weights, so any text tries it"
        return FitBefore(arm, name, POOR if few else GOOD, said, few)
    return _stateful(arm, info, spec, asked, steady, few)


def _stateful(
    arm: str, info: ServerInfo, spec: RunSpec, asked: Asked, steady: int | None, few: tuple[str, ...]
) -> FitBefore:
    name, wanted = info.algorithm, max(LEAST_TOKENS, steady or FED_TOKENS)
    reached = (
        f"steady acceptance was reached after {steady:,}" if steady else f"fewer than {wanted:,} were never enough"
    )
    if asked.measuring - asked.distinct >= SATURATED_SHARE * asked.measuring:
        said = (
            f"{asked.measuring - asked.distinct} of {asked.measuring} prompts are sent again: its store copies answers"
        )
        return FitBefore(arm, name, POOR, f"{said} that it has seen", ("measure different prompts",))
    last = spec.passes[-1]
    if last == PRIMED:
        refused = why_not(info)
        if refused:
            return FitBefore(arm, name, POOR, refused)
        return FitBefore(arm, name, UNKNOWN, "whether the corpus suits shows when it is measured", few)
    if last == "cold":
        said = f"a cold pass measures a store that nothing has fed; {reached}"
        return FitBefore(arm, name, POOR, said, ("measure warm as well: --pass both",))
    if asked.most_fed < wanted:
        said = f"feeding can give its store {asked.most_fed:,} tokens at most; {reached}"
        return FitBefore(arm, name, POOR, said, ("give more prompts, or longer answers", *few))
    needs = few
    if asked.distinct < MIN_VALUES:
        needs = (f"{MIN_VALUES} prompts at least show whether acceptance still rises",)
    said = f"feeding can give its store {asked.most_fed:,} tokens; {reached}"
    if asked.shared >= COPIED_SHARE:
        said += "; prompts share most of their text, so drafts will hit on what they share"
    return FitBefore(arm, name, POOR if needs else GOOD, said, needs)


def look(arm: ArmSpec) -> ServerInfo:
    """Who is there, asked once before a run. Raises the engine's errors, with what to do next."""
    key, admin_key = read_key(arm.key), read_key(arm.admin_key)
    with SglangClient(arm.url, key=key, admin_key=admin_key, proxy=arm.proxy) as client:
        return client.probe()


def refuse(spec: RunSpec, infos: Mapping[str, ServerInfo]) -> None:
    """Raises :class:`SessionError` for a pass that cannot come about, before anything is sent."""
    if PRIMED not in spec.passes:
        return
    for arm, info in infos.items():
        reason = why_not(info)
        if reason:
            raise SessionError(f"arm {arm}: a primed pass is not possible: {reason}")
    if not any(is_stateful(info.algorithm) for info in infos.values()):
        names = list(dict.fromkeys(info.algorithm for info in infos.values()))
        takes = f"{names[0]} takes" if len(names) == 1 else f"{' and '.join(names)} take"
        raise SessionError(f"a primed pass needs NGRAM: {takes} no corpus. Take --pass warm", 2)


def history(info: ServerInfo, spec: RunSpec) -> int | None:
    """What this node's stored runs tell of such text on such a server."""
    if not is_stateful(info.algorithm):
        return None
    import socket

    told = ", ".join(f"{k}={v}" for k, v in sorted(info.settings.items()) if v is not None)
    kind = Kind(
        socket.gethostname(),
        info.served_name or info.model_path,
        f"{info.algorithm}: {told}",
        tuple(sorted({p.group for p in spec.measuring})),
        frozenset(p.id for p in spec.measuring),
    )
    return steady_tokens(kind, recall())


def before(spec: RunSpec, infos: Mapping[str, ServerInfo]) -> tuple[Asked, list[FitBefore]]:
    """For each arm that was looked at."""
    asked = asked_of(spec)
    return asked, [fit_before(arm, info, spec, asked, history(info, spec)) for arm, info in infos.items()]
