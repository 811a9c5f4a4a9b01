"""What an NGRAM setting would accept on recorded token ids, without a restart.

Exact for the text it is given, greedy and one request at a time: the store is SGLang's by rule, and verification at
temperature 0 accepts just what the text says. Where any of this does not hold, the result says that it is an estimate,
and why.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectui.core.ngram import NgramSettings
from spectui.predict.replay_grid import Cancelled, Progress, Watch, run_grid
from spectui.predict.replay_source import BEYOND, Pair, ReplaySourceError, Source, load

__all__ = [
    "MODES",
    "Pair",
    "Progress",
    "ReplaySourceError",
    "RequestReplay",
    "SettingReplay",
    "Source",
    "known_share",
    "load",
    "repeated_share",
    "replay",
]

MODES = ("cold", "warm", "primed")


@dataclass(frozen=True, slots=True)
class RequestReplay:
    """One request under one setting."""

    verify_steps: int
    output_tokens: int
    histogram: tuple[int, ...]
    """h[k]: steps in which exactly k drafts were accepted; the last step counts only what the text still holds."""

    @property
    def accept_length(self) -> float | None:
        """(output − 1) / verify steps: the first token is the prefill's. None without a verify step."""
        return (self.output_tokens - 1) / self.verify_steps if self.verify_steps else None

    def as_json(self) -> dict[str, Any]:
        return {
            "verify_steps": self.verify_steps,
            "accept_length": self.accept_length,
            "histogram": list(self.histogram),
        }


@dataclass(frozen=True, slots=True)
class SettingReplay:
    """One setting over all workloads."""

    settings: NgramSettings
    mode: str
    workloads: Mapping[str, Sequence[RequestReplay]]
    reasons: tuple[str, ...] = ()
    """Why this is an estimate; empty when it is exact."""
    not_replayed: int = 0
    """Requests that were left when the replay was ended early."""
    concurrency: int = 1
    """Most requests at a time of any workload."""

    @property
    def nearly_exact(self) -> bool:
        """Exact, but for what earlier answers accepted beyond their end."""
        return set(self.reasons) <= {BEYOND}

    @property
    def exact(self) -> bool:
        return not self.reasons

    @property
    def why_not(self) -> str | None:
        return "; ".join(self.reasons) or None

    @property
    def _requests(self) -> list[RequestReplay]:
        return [request for requests in self.workloads.values() for request in requests]

    @property
    def verify_steps(self) -> int:
        return sum(request.verify_steps for request in self._requests)

    @property
    def accept_length(self) -> float | None:
        """Σ(output − 1) / Σ verify steps over all requests."""
        steps = self.verify_steps
        return sum(max(0, r.output_tokens - 1) for r in self._requests) / steps if steps else None

    @property
    def histogram(self) -> tuple[int, ...]:
        counts = [request.histogram for request in self._requests]
        return tuple(sum(column) for column in zip(*counts, strict=True))

    def apart(self, source: Source) -> list[SettingReplay]:
        """One for each workload, with the reasons of that one alone."""
        return [
            replace(
                self,
                workloads={name: found},
                reasons=_reasons(source, self.settings, (name,)),
                not_replayed=len(source.workloads[name]) - len(found),
                concurrency=_level(source, (name,)),
            )
            for name, found in self.workloads.items()
        ]

    def as_json(self) -> dict[str, Any]:
        """The keys of ``spectui replay --json`` for one setting."""
        return {
            **self.settings.as_json(),
            "mode": self.mode,
            "concurrency": self.concurrency,
            "exact": self.exact,
            "why_not": self.why_not,
            "accept_length": self.accept_length,
            "verify_steps": self.verify_steps,
            "histogram": list(self.histogram),
            "not_replayed": self.not_replayed,
            "workloads": {
                name: [request.as_json() for request in requests] for name, requests in self.workloads.items()
            },
        }


def replay(
    source: Source | Mapping[str, Sequence[Pair]],
    grid: Sequence[NgramSettings],
    *,
    mode: str | None = None,
    processes: int | None = None,
    watch: Watch | None = None,
    cancelled: Cancelled | None = None,
) -> list[SettingReplay]:
    """Every setting of ``grid`` over every workload, in the order of the grid.

    ``mode``: *cold* starts each workload with an empty store; *warm* lets the workload run once before it counts;
    *primed* feeds the source's primers first. None: primed where the source has primers, else cold.
    ``processes``: None uses the cores that this process may run on, 1 stays in this process. ``watch`` is told how far
    it is, some ten times a second, and ``cancelled`` is asked as often: once it says so, what was replayed until then
    is returned, with ``not_replayed`` beside it.

    Raises ValueError for another mode, and for *primed* where nothing was recorded to prime with.
    """
    if mode not in (None, *MODES):
        raise ValueError(f"mode must be one of {', '.join(MODES)}, not {mode!r}")
    if not isinstance(source, Source):
        source = Source(source)
    jobs: dict[str, tuple[list[Pair], int]] = {}
    for name, pairs in source.workloads.items():
        before = _fed_before(source, name, mode)
        jobs[name] = ([*before, *pairs], len(before))
    texts = {name: pairs for name, (pairs, _) in jobs.items()}
    found = run_grid(texts, grid, processes, watch=watch, cancelled=cancelled)
    results = [
        {
            name: [
                RequestReplay(sum(counts), len(pair.output_ids), tuple(counts))
                for pair, counts in zip(pairs[fed:], histograms[name][fed:], strict=False)
            ]
            for name, (pairs, fed) in jobs.items()
        }
        for histograms in found
    ]
    said_mode = mode or ("primed" if any(source.primers.values()) else "cold")
    every = sum(len(pairs) for pairs in source.workloads.values())
    level = _level(source, tuple(source.workloads))
    return [
        SettingReplay(
            settings,
            said_mode,
            requests,
            _reasons(source, settings, tuple(source.workloads)),
            every - sum(len(rows) for rows in requests.values()),
            level,
        )
        for settings, requests in zip(grid, results, strict=True)
    ]


def _fed_before(source: Source, name: str, mode: str | None) -> Sequence[Pair]:
    primer = source.primers.get(name, ())
    if mode == "cold":
        return ()
    if mode == "warm":
        return source.workloads[name]
    if mode == "primed" and not primer:
        raise ValueError(f"nothing was recorded to prime {name!r} with; replay it cold or warm")
    return primer


def _level(source: Source, names: Sequence[str]) -> int:
    return max((pair.at_once for name in names for pair in source.workloads[name]), default=1)


def _reasons(source: Source, settings: NgramSettings, names: Sequence[str]) -> tuple[str, ...]:
    reasons = list(dict.fromkeys(why for name in names for why in source.reasons.get(name, ())))
    if settings.lagging and not settings.overlapping and BEYOND in reasons:
        reasons.remove(BEYOND)  # it never goes in there
    if settings.windows:
        reasons.append(f"no recording of SGLang {settings.version} has verified its match windows")
    elif settings.unverified:
        reasons.append(f"no recording of SGLang {settings.version} has verified this")
    elif not settings.lagging:
        reasons.append(f"no recording of SGLang {settings.version}, which inserts without delay, has verified this")
    if settings.external_sam_budget:
        reasons.append(
            "external corpora are not replayed: what drafts SGLang takes from one is not known here; this is what the "
            "store alone gives, with all the draft tokens to itself"
        )
    for name in names:
        level = _level(source, (name,))
        if level > 1:
            off = (
                "32 of its runs were off by -1.0 to +4.5 %" if settings.overlapping else "10 were off by 0.2 % at most"
            )
            reasons.append(
                f"{level} requests at a time: when each joined the others is taken from how a real server does it, not "
                f"seen (such replays of {off})"
            )
        written = source.written_by.get(name)
        if written is not None and (other := _other_text(written, settings, level)):
            reasons.append(other)
    larger = [why for why in reasons if why != BEYOND]
    return tuple(dict.fromkeys(larger or reasons))


def _other_text(written: Mapping[str, Any], settings: NgramSettings, level: int) -> str | None:
    """Greedy text still differs between settings: low-precision arithmetic depends on the batch shape."""
    algorithm = str(written.get("algorithm") or "none")
    if algorithm.upper() != "NGRAM":
        return f"the text was written with {algorithm}; under this setting it may differ"
    mine = settings.as_json()
    for knob in ("num_draft_tokens", "max_trie_depth", "min_bfs_breadth", "max_bfs_breadth", "match_type", "capacity"):
        then = written.get(knob, written.get(f"ngram.{knob}"))
        if then is not None and then != mine[knob]:
            return f"the text was written with {knob} {then}; under this setting it may differ"
    load = written.get("at_once", level)
    if load != level:
        return f"the text was written with {load} at a time; with {level} it may differ"
    return None


def known_share(replayed: Sequence[RequestReplay]) -> float | None:
    """Share of verify steps in which at least one draft was accepted; None without a step."""
    steps = sum(request.verify_steps for request in replayed)
    return 1 - sum(request.histogram[0] for request in replayed) / steps if steps else None


def repeated_share(pairs: Sequence[Pair], *, fed: Sequence[Pair] = (), length: int = 8) -> list[float]:
    """For each request, the share of its output tokens inside an n-gram of ``length`` or more that an earlier
    request's output held, those of ``fed`` included. Near 1: whole answers are known, and the store is saturated."""
    seen: set[tuple[int, ...]] = set()
    shares: list[float] = []
    for number, pair in enumerate([*fed, *pairs]):
        output = pair.output_ids
        grams = [tuple(output[at : at + length]) for at in range(len(output) - length + 1)]
        if number >= len(fed):
            covered = bytearray(len(output))
            for at, gram in enumerate(grams):
                if gram in seen:
                    covered[at : at + length] = b"\1" * length
            shares.append(sum(covered) / len(output) if output else 0.0)
        seen.update(grams)
    return shares
