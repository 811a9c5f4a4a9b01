"""May a result be believed? Reasons to withhold a verdict, in plain words and with numbers, from evidence alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spectui.core.evidence import Evidence, Repetition, is_stateful, repetition
from spectui.core.identities import BROKEN
from spectui.core.likeness import NOT_LIKE_FOR_LIKE, differences, queueing, route_family
from spectui.core.passes import PassResult
from spectui.core.proposer import Fit, ProposerState, fit, proposer_state
from spectui.core.repeats import LENGTH_FORCED, SYNTHETIC
from spectui.core.result import Key, RunResult

__all__ = [
    "Evidence",
    "Fit",
    "ProposerState",
    "Repetition",
    "Side",
    "against_best",
    "differences",
    "evidence_from",
    "fair_trial",
    "fit",
    "is_stateful",
    "proposer_state",
    "queueing",
    "reasons",
    "side_of",
]

FAILURE_LIMIT = 0.05
"""Share of failed requests beyond which arms are not compared: failures drop the slow and the long ones first."""
CACHED_SHARE = 0.2
"""By how much the shares of prompt tokens that the prefix cache held may differ: a fifth of prefill is 1 or 2 % of a
request of ordinary length."""
HOTTER_C = 10.0
"""Degrees between the arms' GPUs which, together with slower clocks, are a difference of the room and not of the
setting."""
CLOCK_SHARE = 0.03
THROTTLED_SHARE = 0.1
"""Share of readings with a thermal or hardware slowdown. A power cap alone is the work's own doing."""


def evidence_from(
    result: RunResult, key: Key, answers: Iterable[Mapping[str, Any]] = (), *, steady_tokens: int | None = None
) -> Evidence:
    """Evidence of one pass, with what its answers tell (rows of ``answers.jsonl`` of the whole run, in their order).

    ``steady_tokens``: the fewest tokens that steady acceptance was ever reached with on such text, by history.
    Raises KeyError for a pass that was not measured.
    """
    base = result.passes[key].evidence
    arm, concurrency, name = key
    before: list[Mapping[str, Any]] = []
    measured: list[Mapping[str, Any]] = []
    for row in answers:
        if row.get("arm") != arm:
            continue
        owner = (arm, row.get("concurrency"), row.get("pass_name"))
        if owner == (arm, concurrency, name) and row.get("phase") == "measure":
            measured.append(row)
        elif owner == (arm, concurrency, name) or owner in base.same_memory_as:
            before.append(row)
    found = repetition(before, measured) if measured else None
    return replace(base, repetition=found, steady_tokens=steady_tokens if steady_tokens else base.steady_tokens)


@dataclass(frozen=True, slots=True)
class Side:
    """One arm of a comparison with what is needed to judge it."""

    name: str
    """A or B."""
    result: PassResult
    state: ProposerState
    asked: Mapping[str, Any]
    """For :func:`differences`: temperature, max_tokens, address, model, workload …"""
    limit: int | None = None
    """max_running_requests in force."""


def side_of(result: RunResult, key: Key, *, name: str | None = None, state: ProposerState | None = None) -> Side:
    """From a folded run. ``state``: from :func:`evidence_from` with the answers, where they were kept."""
    one = result.passes[key]
    head, arm = result.head, result.arm(key[0])
    workload = head.get("workload") or {}
    asked = {
        "temperature": head.get("temperature"),
        "seed": head.get("seed"),
        "max_tokens": head.get("max_tokens"),
        "thinking": head.get("thinking"),
        "ignore_eos": head.get("ignore_eos"),
        "workload": workload.get("hash") or workload.get("name"),
        "concurrency": key[1],
        "pass": key[2],
        "model": arm.get("model"),
        "address": route_family(one.route),
    }
    server = arm.get("server") or {}
    limit = server.get("max_running_requests")
    return Side(
        name or key[0], one, state or one.proposer_state, asked, limit if isinstance(limit, int) and limit > 0 else None
    )


def reasons(a: Side, b: Side, *, failure_limit: float = FAILURE_LIMIT) -> list[str]:
    """Why no verdict can be given on A against B; empty for a fair trial."""
    found: list[str] = []
    for side in (a, b):
        found += _proposer(side)
    unlike = differences(a.asked, b.asked)
    if unlike:
        found.append(f"{NOT_LIKE_FOR_LIKE}: {'; '.join(unlike)}")
    for side in (a, b):
        found += _marked(side)
        found += _counted(side, failure_limit)
    found += _queues(a, b)
    found += _cached(a, b)
    found += _gpus(a, b)
    return list(dict.fromkeys(found))


def fair_trial(a: Side, b: Side, *, failure_limit: float = FAILURE_LIMIT) -> bool:
    return not reasons(a, b, failure_limit=failure_limit)


def _proposer(side: Side) -> list[str]:
    state = side.state
    if state.fair:
        return []
    word = {"saturated": "has seen these answers", "unknown": "has an unknown past"}.get(state.name, f"is {state.name}")
    need = f" — {'; '.join(state.needs)}" if state.needs else ""
    return [f"{side.name}'s store {word}: {state.detail}{need}"]


_MARKS = {
    "foreign_traffic": "traffic that is not ours",
    "restarted": "the server was restarted during the run",
    "both_arms_loaded": "both arms of one host were loaded at the same moment",
    "throttled": "the GPU was throttled",
    "simulated_acceptance": "SIMULATED acceptance: a switch of the server fakes the accept length",
    "clock_drift": "the clock of this node was moved during the run",
}
"""Marks that withhold a verdict, and what they mean."""


def _marked(side: Side) -> list[str]:
    found = []
    for mark in side.result.marks:
        name, detail = str(mark.get("name")), str(mark.get("detail") or "")
        if name == "synthetic":
            found.append(SYNTHETIC)
        elif name == "length_forced":
            if side.result.speculative:
                found.append(f"{side.name}: {LENGTH_FORCED}")
        elif name in _MARKS:
            more = f" ({detail})" if detail and detail != name else ""
            found.append(f"{side.name}: {_MARKS[name]}{more}")
    return found


def _counted(side: Side, failure_limit: float) -> list[str]:
    one, found = side.result, []
    broken = [i for i in one.identities if i.state == BROKEN]
    found += [f"{side.name}: {i.name} is broken: {i.detail}" for i in broken]
    if one.requests and one.failed > failure_limit * one.requests:
        found.append(f"{side.name}: {one.failed} of {one.requests} requests failed")
    if one.client.get("bound"):
        late, lag = one.client.get("late_share"), one.client.get("lag_ms_p99")
        told = [f"{100 * late:.1f} % of reads were late"] if isinstance(late, float) else []
        told += [f"lag {lag:.1f} ms at p99"] if isinstance(lag, (int, float)) else []
        held = f" ({', '.join(told)})" if told else ""
        found.append(f"{side.name}: the load generator was the limit, not the server{held}")
    if any(r.tokens_estimated for r in one.good):
        found.append(f"{side.name}: the server gave no token counts, so its throughput is an estimate")
    return found


def _queues(a: Side, b: Side) -> list[str]:
    told = queueing(a.result.concurrency, {a.name: a.limit, b.name: b.limit})
    return [] if a.limit == b.limit else told


def _cached(a: Side, b: Side) -> list[str]:
    one, two = a.result.cached_share, b.result.cached_share
    if one is None or two is None or abs(one - two) <= CACHED_SHARE:
        return []
    more, less = (a, b) if one > two else (b, a)
    high, low = max(one, two), min(one, two)
    return [
        f"the prefix cache held {100 * high:.0f} % of {more.name}'s prompt tokens, {100 * low:.0f} % of {less.name}'s"
    ]


def _gpus(a: Side, b: Side) -> list[str]:
    found = []
    for side in (a, b):
        heat = side.result.heat
        if heat and heat["slowed_share"] > THROTTLED_SHARE:
            share = 100 * heat["slowed_share"]
            found.append(f"{side.name}'s GPU was slowed by heat or hardware in {share:.0f} % of the readings")
    one, two = a.result.heat, b.result.heat
    if one and two and None not in (one["temperature_c"], two["temperature_c"], one["clock_mhz"], two["clock_mhz"]):
        hot, cool, who = (one, two, a) if one["temperature_c"] > two["temperature_c"] else (two, one, b)
        apart = hot["temperature_c"] - cool["temperature_c"]
        if apart >= HOTTER_C and hot["clock_mhz"] < (1 - CLOCK_SHARE) * cool["clock_mhz"]:
            found.append(
                f"{who.name}'s GPU was {apart:.0f} °C hotter and ran at {hot['clock_mhz']:.0f} against "
                f"{cool['clock_mhz']:.0f} MHz"
            )
    return found


def against_best(result: PassResult) -> list[str]:
    """Why this result must not be kept as the best of a profile unasked; empty when nothing speaks against it."""
    side = Side(result.arm, result, result.proposer_state, {})
    return list(dict.fromkeys(_proposer(side) + _marked(side) + _counted(side, FAILURE_LIMIT)))
