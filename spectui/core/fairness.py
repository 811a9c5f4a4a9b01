"""May a result be believed? Reasons to withhold a verdict, in plain words and with numbers, from evidence alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

from spectui.core.evidence import Evidence, Repetition, is_stateful, repetition
from spectui.core.identities import BROKEN
from spectui.core.likeness import NOT_LIKE_FOR_LIKE, differences, queueing, route_family
from spectui.core.passes import PassResult
from spectui.core.proposer import Fit, ProposerState, fit, known_answers, proposer_state
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
"""By how much the shares of prompt tokens that the prefix cache held may differ."""
CACHED_GAIN = 0.02
"""What such a difference may be worth at most, were all the time to the first token prefill: as a share of all time."""
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
    loosened: str = ""
    """Which threshold of acceptance lies below 1, where answers are sampled; empty for exact sampling."""


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
        "named": workload.get("name"),
        "concurrency": key[1],
        "pass": key[2],
        "model": arm.get("model"),
        "address": route_family(one.route),
    }
    server = arm.get("server") or {}
    limit = server.get("max_running_requests")
    return Side(
        name or key[0],
        one,
        state or one.proposer_state,
        asked,
        limit if isinstance(limit, int) and limit > 0 else None,
        _loosened(arm.get("settings_in_force") or {}, head.get("temperature")) if one.speculative else "",
    )


def _loosened(settings: Mapping[str, Any], temperature: object) -> str:
    """Greedy verification takes the model's own token and no threshold (SGLang, speculative/eagle_info.py)."""
    if temperature == 0:
        return ""
    names = ("accept_threshold_single", "accept_threshold_acc")
    low = [(n, v) for n in names if isinstance(v := settings.get(n), (int, float)) and v < 1]
    return " and ".join(f"{name} {value:g}" for name, value in low)


def reasons(a: Side, b: Side, *, failure_limit: float = FAILURE_LIMIT) -> list[str]:
    """Why no verdict can be given on A against B; empty for a fair trial."""
    nothing = [f"{side.name}: {side.result.failed_whole}" for side in (a, b) if side.result.failed_whole]
    if nothing:
        return nothing  # whatever else is seen is a consequence, or says nothing
    found: list[str] = []
    for side in (a, b):
        found += _proposer(side)
    unlike = [_named(text, a, b) for text in differences(a.asked, b.asked)]
    if unlike:
        found.append(f"{NOT_LIKE_FOR_LIKE}: {'; '.join(unlike)}: ask both sides alike")
    for side in (a, b):
        found += _marked(side)
        found += _counted(side, failure_limit)
    found += _queues(a, b)
    found += _cached(a, b)
    found += _gpus(a, b)
    return list(dict.fromkeys(found))


def _named(text: str, a: Side, b: Side) -> str:
    """Workloads are told apart by their hash; a person knows their names."""
    names = [str(side.asked.get("named") or "") for side in (a, b)]
    if not text.startswith("workload ") or not all(names):
        return text
    hashes = [str(side.asked.get("workload")) for side in (a, b)]
    return f"workload {names[0]} ({hashes[0]}) / {names[1]} ({hashes[1]})"


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
    "foreign_traffic": ("traffic that is not ours", "measure again while nobody else uses the server"),
    "restarted": ("the server was restarted during the run", "measure again"),
    "both_arms_loaded": ("both arms of one host were loaded at the same moment", "let them take turns"),
    "throttled": ("the GPU was throttled", "let it cool, then measure again"),
    "simulated_acceptance": (
        "SIMULATED acceptance: a switch of the server fakes the accept length",
        "unset it and restart the server",
    ),
    "clock_drift": ("the clock of this node was moved during the run", "measure again"),
}
"""Marks that withhold a verdict: what they mean, and what to do."""


def _marked(side: Side) -> list[str]:
    found = []
    for mark in side.result.marks:
        name, detail = str(mark.get("name")), str(mark.get("detail") or "")
        if name == "synthetic":
            found.append(f"{SYNTHETIC}: measure with prompts that somebody would send")
        elif name == "length_forced":
            if side.result.speculative:
                found.append(f"{side.name}: {LENGTH_FORCED}; let answers end by themselves (no --ignore-eos)")
        elif name in _MARKS:
            more = f" ({detail})" if detail and detail != name else ""
            meaning, todo = _MARKS[name]
            found.append(f"{side.name}: {meaning}{more}: {todo}")
    return found


def _counted(side: Side, failure_limit: float) -> list[str]:
    one, found = side.result, []
    broken = [i for i in one.identities if i.state == BROKEN]
    found += [
        f"{side.name}: {i.name} is broken: {i.detail}; figures that contradict each other rank nothing" for i in broken
    ]
    if one.requests and one.failed > failure_limit * one.requests:
        why = next((r.error for r in one.records if r.error and r.status in ("failed", "cut off")), None)
        said = f", the first one: {why}" if why else ""
        found.append(
            f"{side.name}: {one.failed} of {one.requests} requests failed (at most {100 * failure_limit:.0f} %){said}"
        )
    if side.loosened:
        found.append(
            f"{side.name} accepts drafts that the model would not have written ({side.loosened}, exact is 1): its "
            "answers are not those of the other side; set it to 1 and measure again"
        )
    if one.client.get("bound"):
        less = "measure at less concurrency, or from" if one.concurrency > 1 else "measure from"
        found.append(
            f"{side.name}: the load generator was the limit, not the server{_client(one.client)}: {less} a machine "
            "with a free core"
        )
    if any(r.tokens_estimated for r in one.good):
        found.append(f"{side.name}: the server gave no token counts, so its throughput is an estimate")
    return found


def _client(told: Mapping[str, Any]) -> str:
    """What the runner saw of itself; the limits are its own (``runner.arm``: 5 % late reads, 85 % of a core)."""
    late, lag, cpu, wall = (told.get(k) for k in ("late_share", "lag_ms_p99", "cpu_s", "wall_s"))
    parts = [f"{100 * late:.1f} % of reads were late, at most 5 % may be"] if isinstance(late, float) else []
    parts += [f"lag {lag:.1f} ms at p99"] if isinstance(lag, (int, float)) else []
    if isinstance(cpu, (int, float)) and isinstance(wall, (int, float)) and wall > 0 and cpu > 0.5 * wall:
        parts.append(f"it took {100 * cpu / wall:.0f} % of a core, at most 85 % are free of doubt")
    return f" ({', '.join(parts)})" if parts else ""


def _queues(a: Side, b: Side) -> list[str]:
    level = a.result.concurrency
    told = queueing(level, {a.name: a.limit, b.name: b.limit})
    if a.limit == b.limit or not told:
        return []
    least = min(limit for limit in (a.limit, b.limit) if limit is not None)
    return [
        f"{'; '.join(told)}: give both servers --max-running-requests {level} or more, or measure at {least} at a time"
    ]


def _cached(a: Side, b: Side) -> list[str]:
    one, two = a.result.cached_share, b.result.cached_share
    if one is None or two is None or abs(one - two) <= CACHED_SHARE:
        return []
    more, less = (a, b) if one > two else (b, a)
    high, low = max(one, two), min(one, two)
    worth = (high - low) * _before_first_token(less.result)
    if worth <= CACHED_GAIN:
        return []
    return [
        f"the prefix cache held {100 * high:.0f} % of {more.name}'s prompt tokens, {100 * low:.0f} % of {less.name}'s, "
        f"which may be worth up to {100 * worth:.0f} % of the time: empty both caches first (--flush)"
    ]


def _before_first_token(one: PassResult) -> float:
    """Share of the requests' time that passed before their first token."""
    rows = [(r.first_s - r.start_s, r.end_s - r.start_s) for r in one.good if r.first_s is not None]
    whole = sum(time for _, time in rows)
    return sum(first for first, _ in rows) / whole if whole > 0 else 1.0


def _gpus(a: Side, b: Side) -> list[str]:
    found = []
    for side in (a, b):
        heat = side.result.heat
        if heat and heat["slowed_share"] > THROTTLED_SHARE:
            share = 100 * heat["slowed_share"]
            found.append(
                f"{side.name}'s GPU was slowed by heat or hardware in {share:.0f} % of the readings (at most "
                f"{100 * THROTTLED_SHARE:.0f} %): let it cool, then measure again"
            )
    one, two = a.result.heat, b.result.heat
    if one and two and None not in (one["temperature_c"], two["temperature_c"], one["clock_mhz"], two["clock_mhz"]):
        hot, cool, who = (one, two, a) if one["temperature_c"] > two["temperature_c"] else (two, one, b)
        apart = hot["temperature_c"] - cool["temperature_c"]
        if apart >= HOTTER_C and hot["clock_mhz"] < (1 - CLOCK_SHARE) * cool["clock_mhz"]:
            found.append(
                f"{who.name}'s GPU was {apart:.0f} °C hotter and ran at {hot['clock_mhz']:.0f} against "
                f"{cool['clock_mhz']:.0f} MHz: let both reach the same heat, then measure again"
            )
    return found


def against_best(result: PassResult) -> list[str]:
    """Why this result must not be kept as the best of a profile unasked; empty when nothing speaks against it."""
    side = Side(result.arm, result, result.proposer_state, {})
    return list(dict.fromkeys(_proposer(side) + _copied(side) + _marked(side) + _counted(side, FAILURE_LIMIT)))


COPIED_SHARE = 1 / 3
"""Share of answers known as a whole beyond which a speed is kept nowhere unasked."""


def _copied(side: Side) -> list[str]:
    seen = side.result.evidence.repetition
    if not side.state.fair or seen is None or seen.whole < COPIED_SHARE:
        return []
    return [f"{side.name}: {known_answers(seen)}: its speed is that of text which the store had seen"]
