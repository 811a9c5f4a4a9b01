"""Step times out of the runs stored on this node, each run read once."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spectui.core.accept import steps_of
from spectui.core.passes import PassResult
from spectui.core.result import RunResult, fold
from spectui.predict.breakeven import Setup, StepSample, ratio_spread
from spectui.store import journal, locations

_DETAILS = ("attention_backend", "quantization", "kv_cache_dtype", "dtype", "dp_size", "disable_cuda_graph")
_KEPT = 400
"""Runs remembered, the newest."""


def samples(folder: Path | None = None) -> tuple[StepSample, ...]:
    """From every run that has ended under ``folder`` (the node's own runs), the newest last. Never raises: a run that
    cannot be read tells nothing."""
    root = folder or locations.runs_dir()
    cache = locations.known_dir() / "step-times.json"
    known = _load(cache)
    fresh: dict[str, Any] = {}
    for path in sorted(root.glob("*/journal.jsonl"), key=lambda p: p.parent.name)[-_KEPT:]:
        try:
            stamp = [str(path), path.stat().st_size]
        except OSError:
            continue
        entry = known.get(path.parent.name)
        if not isinstance(entry, dict) or entry.get("stamp") != stamp:
            try:
                result = fold(journal.read(path))
            except OSError:
                continue
            if result.status == "running":
                continue
            entry = {"stamp": stamp, "samples": [asdict(s) for s in samples_of(result)]}
        fresh[path.parent.name] = entry
    if fresh != known:
        _save(cache, fresh)
    return tuple(s for entry in fresh.values() for row in entry["samples"] if (s := _sample(row)) is not None)


def samples_of(result: RunResult) -> tuple[StepSample, ...]:
    """One a pass of the run that has a step time and was not disturbed."""
    found = (sample_of(result, one) for one in result.passes.values())
    return tuple(s for s in found if s is not None)


def setup_of(result: RunResult, arm: str) -> Setup:
    head = result.arm(arm)
    server = head.get("server") or {}
    node = result.head.get("node") or {}
    names = [str(g.get("name")) for g in node.get("gpus") or () if isinstance(g, Mapping)]
    tp = server.get("tp_size")
    return Setup(
        model=head.get("model") or None,
        simulated=bool(head.get("simulated")),
        version=head.get("version") or None,
        tp_size=tp if isinstance(tp, int) else None,
        gpus=tuple(sorted(names)) or None,
        details=tuple((key, server[key]) for key in _DETAILS if server.get(key) is not None),
    )


_DISTURBED = ("foreign_traffic", "restarted", "both_arms_loaded", "throttled")


def sample_of(result: RunResult, one: PassResult) -> StepSample | None:
    if any(mark.get("name") in _DISTURBED for mark in one.marks):
        return None
    spans, steps = [], []
    for r in one.stepped:
        n = steps_of(r, one.speculative)
        if n and r.first_s is not None and r.last_s is not None:
            spans.append(r.last_s - r.first_s)
            steps.append(float(n))
    found = ratio_spread(spans, steps)
    if found is None:
        return None
    settings = result.arm(one.arm).get("settings_in_force") or {}
    algorithm = one.algorithm or "none"
    count = settings.get("num_steps")
    return StepSample(
        setup_of(result, one.arm),
        algorithm,
        one.draft_tokens or 1 if one.speculative else 1,
        draft_steps_of(algorithm, count if isinstance(count, int) else None),
        one.concurrency,
        1000 * found[0],
        found[1],
        overhead_s(one),
        one.output_tokens / len(one.good),
        str(result.head.get("run_id") or ""),
    )


def draft_steps_of(algorithm: str, num_steps: int | None) -> int:
    """Passes of a draft model in a step."""
    return 0 if algorithm in ("none", "NGRAM") else 1 if algorithm in ("DFLASH", "DSPARK") else num_steps or 0


def overhead_s(one: PassResult) -> float:
    """Of a request's share of the wall clock, what is not between its first and its last token."""
    if not one.good or one.wall_s <= 0:
        return 0.0
    spans = sum(r.last_s - r.first_s for r in one.good if r.first_s is not None and r.last_s is not None)
    return max(0.0, (one.wall_s * one.concurrency - spans) / len(one.good))


def _sample(row: Any) -> StepSample | None:
    try:
        setup = dict(row["setup"])
        setup["gpus"] = None if setup["gpus"] is None else tuple(setup["gpus"])
        setup["details"] = tuple((str(k), v) for k, v in setup["details"])
        return StepSample(**{**row, "setup": Setup(**setup)})
    except (TypeError, KeyError, ValueError):
        return None


def _load(path: Path) -> dict[str, Any]:
    try:
        data = json.loads(path.read_text("utf-8"))
    except (OSError, ValueError):
        return {}
    good = isinstance(data, dict) and all(
        isinstance(e, dict) and isinstance(e.get("samples"), list) for e in data.values()
    )
    return data if good else {}


def _save(path: Path, data: Mapping[str, Any]) -> None:
    from spectui.predict.tracking import write_whole

    write_whole(path, json.dumps(data))


def matching(every: Iterable[StepSample], setup: Setup) -> list[StepSample]:
    return [s for s in every if setup.matches(s.setup)]
