"""What a run proved about a setting, as a profile keeps it: ``[[evidence]]`` with settings, place and intervals.

Schema of an entry: ``date`` (ISO, UTC), ``run``, ``spectui``, ``sglang``, ``simulated`` (only when true),
``algorithm``, ``settings_asked``, ``settings_in_force``, ``server``, ``model`` and ``draft`` (path, revision,
config_hash), ``gpus`` (names), ``driver``, ``token_capacity``, ``marks``, ``workload`` (name, hash, max_tokens,
temperature, seed, thinking, requests), ``result`` (a table each concurrency and pass; figures are
``[value, low, high]`` at 95 %), ``prediction`` (what was predicted and measured), ``greedy`` (a few answers).
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui import __version__, algorithms
from spectui.checks._intervals import FIGURES, figure
from spectui.core.evidence import is_stateful
from spectui.core.passes import PassResult
from spectui.core.plan_rows import SERVER_KEYS
from spectui.core.profile import Profile
from spectui.core.redact import looks_secret, redact
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.engines.sglang.address import is_loopback
from spectui.session import SessionError, running
from spectui.store import journal
from spectui.store.model_files import identity

FIRST = 8
"""A check sends this many prompts: what the first ones gave from an empty store is kept apart."""
ANSWERS, ANSWER_SIGNS = 4, 200
_SERVER = (*(key for key in SERVER_KEYS if key not in ("model_path", "cuda_graph_bs")), "incremental_streaming")


def of_run(folder: Path, arm: str, *, result: RunResult | None = None, model_path: str | None = None) -> dict[str, Any]:
    """One ``[[evidence]]`` out of a stored run, with its answers and what had been predicted for it.

    ``result``: its fold, where the caller has it. Raises SessionError where the arm measured nothing.
    """
    path = folder / "answers.jsonl"
    rows = journal.read(path) if path.is_file() else ()
    return entry_of(
        result or running.result_of(folder),
        arm,
        folder.name,
        answers=[row for row in rows if row.get("arm") in (None, arm)],
        predictions=predicted_for(folder.name),
        model_path=model_path,
    )


def predicted_for(run: str) -> list[dict[str, Any]]:
    """What had been predicted for this run, beside what it measured."""
    from spectui.predict import tracking

    return [
        {
            "kind": miss.kind,
            "quantity": miss.quantity,
            "setting": miss.setting,
            "predicted": round(miss.predicted, 4),
            "measured": round(miss.measured, 4),
        }
        for miss in tracking.misses()
        if miss.run == run
    ]


def entry_of(
    result: RunResult,
    arm: str,
    run: str,
    *,
    answers: Sequence[Row] = (),
    predictions: Sequence[Mapping[str, Any]] = (),
    model_path: str | None = None,
) -> dict[str, Any]:
    """One ``[[evidence]]`` out of a folded run. Raises SessionError where the arm measured nothing."""
    passes = [one for key, one in result.passes.items() if key[0] == arm and one.good]
    if not passes:
        raise SessionError(f"run {run} measured nothing with arm {arm}: {result.reason or 'no request ended well'}")
    head, of_arm = result.head, result.arm(arm)
    node = head.get("node") or {}
    held = set(of_arm.get("gpus") or ())
    gpus = [str(g.get("name")) for g in node.get("gpus") or () if not held or g.get("uuid") in held]
    algorithm = algorithms.for_name(str(of_arm.get("algorithm") or "none"))
    known = {knob.key for knob in algorithm.knobs}
    settings = {k: v for k, v in _plain(of_arm.get("settings_in_force") or {}).items() if k in known}
    told = _plain(of_arm.get("server") or {})
    server = {key: told[key] for key in _SERVER if key in told}
    here = is_loopback(str(of_arm.get("url") or ""))
    entry: dict[str, Any] = {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(float(head.get("t") or time.time()))),
        "run": run,
        "spectui": str(head.get("spectui") or __version__),
        "sglang": of_arm.get("version") or None,
        "simulated": True if of_arm.get("simulated") else None,
        "algorithm": of_arm.get("algorithm"),
        "settings_asked": _plain(of_arm.get("settings_asked") or {}),
        "settings_in_force": settings,
        "server": server,
        "model": identity(model_path or str(of_arm.get("model") or ""), cached=here),
        "draft": identity(str(settings.get("draft_model_path") or ""), cached=here),
        "gpus": gpus if not of_arm.get("simulated") else [],
        "driver": node.get("driver"),
        "token_capacity": told.get("max_total_num_tokens"),
        "marks": sorted({str(mark.get("name")) for one in passes for mark in one.marks}),
        "workload": _workload(head),
        "result": [_result(one) for one in passes],
        "prediction": [dict(row) for row in predictions],
        "greedy": _greedy(head, answers, passes[0]),
    }
    return redact(entry)


def _workload(head: Mapping[str, Any]) -> dict[str, Any]:
    kept = head.get("workload") or {}
    return {
        "name": kept.get("name"),
        "hash": kept.get("hash"),
        "requests": head.get("requests"),
        "max_tokens": head.get("max_tokens"),
        "temperature": head.get("temperature"),
        "seed": head.get("seed"),
        "thinking": head.get("thinking"),
        "ignore_eos": True if head.get("ignore_eos") else None,
    }


def _result(one: PassResult) -> dict[str, Any]:
    row: dict[str, Any] = {
        "concurrency": one.concurrency,
        "pass": one.pass_name,
        "requests": len(one.good),
        "failed": one.failed,
        "proposer_state": one.proposer_state.name,
        "route": one.route,
    }
    for name in FIGURES:
        found = figure(one.good, name, speculative=one.speculative)
        if found is None:
            continue
        kept = found.as_list()
        if name == "output_tokens_per_s" and one.output_tokens_per_s:
            # The spread over prompts is that of single requests; several at a time share the wall clock.
            share = one.output_tokens_per_s / found.value
            kept = [round(x * share, 3) for x in (found.value, found.low, found.high)]
        row[name] = kept
    if one.feed and one.feed.get("requests"):
        row["fed_requests"], row["fed_tokens"] = one.feed["requests"], one.feed.get("tokens")
    if one.ttft_ms:
        row["ttft_ms_p50"], row["ttft_ms_p99"] = round(one.ttft_ms["p50"], 3), round(one.ttft_ms["p99"], 3)
    if one.key[2] == "cold" and is_stateful(one.algorithm) and len(one.good) > FIRST:
        first = [r for r in sorted(one.good, key=lambda r: r.index) if r.index < FIRST]
        row["first"] = len(first)
        for name in ("accept_length", "step_time_ms"):
            found = figure(first, name, speculative=one.speculative)
            if found is not None:
                row[f"{name}_first"] = found.as_list()
    return row


def _greedy(head: Mapping[str, Any], answers: Sequence[Row], one: PassResult) -> list[dict[str, str]]:
    if head.get("temperature") != 0:
        return []
    rows = [r for r in answers if r.get("pass_name") == one.pass_name and r.get("concurrency") == one.concurrency]
    found = []
    for row in rows:
        text, prompt = row.get("text"), row.get("prompt_id")
        if row.get("phase") in (None, "measure") and isinstance(text, str) and text.strip() and prompt:
            short = text[:ANSWER_SIGNS]
            if not looks_secret(short):
                found.append({"prompt": str(prompt), "text": short})
    return found[:ANSWERS]


def _plain(table: Mapping[str, Any]) -> dict[str, Any]:
    """Scalars and lists of them: what TOML can hold and a person would read."""

    def readable(value: object) -> bool:
        if isinstance(value, list):
            return 0 < len(value) <= 64 and all(isinstance(x, (int, str)) for x in value)
        return isinstance(value, (str, int, float, bool)) and value != ""

    return {str(key): value for key, value in table.items() if readable(value)}


def added(profile: Profile, entry: Mapping[str, Any]) -> Profile:
    """The profile with this evidence; an entry of the same run and algorithm gives way to it."""
    kept = [
        old for old in profile.evidence if (old.get("run"), old.get("algorithm")) != (entry["run"], entry["algorithm"])
    ]
    return replace(profile, evidence=(*kept, entry))


def fits(profile: Profile, entry: Mapping[str, Any]) -> str | None:
    """Why this evidence is of another setting than the profile's; None when it is its own."""
    from spectui.engines.sglang.info import algorithm_matches

    asked, ran = profile.speculative.algorithm, str(entry.get("algorithm") or "none")
    if not algorithm_matches(asked, None if ran == "none" else ran).ok:
        return f"the profile asks for {asked}, the run measured {ran}"
    in_force = entry.get("settings_in_force") or {}
    for key in ("num_draft_tokens", "num_steps", "eagle_topk"):
        wanted, had = profile.speculative.knobs.get(key), in_force.get(key)
        if wanted is not None and had is not None and wanted != had and key == "num_draft_tokens":
            topk = profile.speculative.knobs.get("eagle_topk")
            if topk == 1:
                continue  # the server made steps + 1 of it
        if wanted is not None and had is not None and wanted != had:
            return f"the profile asks for {key} {wanted}, the run measured {had}"
    return None
