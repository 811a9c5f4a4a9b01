"""What earlier runs, of the sweep itself or stored on this node, tell about settings that have not run."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectui.core.result import RunResult, fold
from spectui.core.rows import Row
from spectui.predict.lengths import ChainRun, thresholds_of
from spectui.predict.replay import Pair, ReplaySourceError, Source
from spectui.session.sweep_spec import Work
from spectui.store import journal, locations

_LOOKED_AT = 60
"""Stored runs that are looked through, the newest."""


@dataclass(frozen=True, slots=True)
class Recording:
    """Token ids of the workload: those that are measured, and those that feed the store before."""

    measured: tuple[Pair, ...]
    fed: tuple[Pair, ...]
    written_by: Mapping[str, Any]
    exact: bool
    """One request at a time, greedy, from a flush on."""

    def source(self, name: str) -> Source:
        reasons = () if self.exact else ("the text was not recorded one request at a time from a flush on",)
        return Source({name: self.measured}, {name: self.fed}, {name: reasons}, {name: self.written_by})


def ids_of(folder: Path, *, phase: str, pass_name: str | None = None, concurrency: int | None = None) -> list[Pair]:
    """Prompt and output ids of one phase of a run of one arm, in the order in which they ended; empty without ids."""
    path = folder / "answers.jsonl"
    if not path.is_file():
        return []
    found = []
    for row in journal.read(path):
        if row.get("phase") != phase or (pass_name is not None and row.get("pass_name") != pass_name):
            continue
        if concurrency is not None and row.get("concurrency") != concurrency:
            continue
        prompt, output = row.get("prompt_ids"), row.get("output_ids")
        if prompt and output:
            found.append(Pair(prompt, output))
    return found


def recording_of(folder: Path, result: RunResult, work: Work, fed: Iterable[Pair] = ()) -> Recording | None:
    """From a run of the sweep's workload. ``fed``: feeding texts recorded elsewhere, for a run that fed nothing."""
    names = [p for _, _, p in result.passes]
    wanted = work.ranking if work.ranking in names else names[-1] if names else ""
    level = next((c for _, c, p in result.passes if p == wanted), None)
    measured = ids_of(folder, phase="measure", pass_name=wanted, concurrency=level)
    if len(measured) < work.requests:
        return None
    own = ids_of(folder, phase="feed", pass_name=wanted, concurrency=level)
    arm = result.arm(next(iter(result.arms), "A"))
    written = {**(arm.get("settings_in_force") or {}), "algorithm": arm.get("algorithm") or "none"}
    greedy = (result.head.get("temperature") or 0) == 0
    return Recording(tuple(measured), tuple(own or fed), written, level == 1 and greedy and bool(own))


def usable(head: Row, work: Work, model: str | None) -> bool:
    """Whether a stored run is of this very work: prompts, limit, sampling and model."""
    seed = work.options.seed or 0
    arms = [a for a in head.get("arms") or () if isinstance(a, dict)]
    return (
        len(arms) == 1
        and (head.get("workload") or {}).get("hash") == work.workload.hash(seed)
        and head.get("requests") == work.requests
        and head.get("max_tokens") == work.max_tokens
        and head.get("temperature") == work.options.temperature
        and head.get("thinking") == work.options.thinking
        and (model is None or arms[0].get("model") in (model, None))
    )


def stored(work: Work, root: Path | None = None) -> list[tuple[Path, RunResult]]:
    """Runs of this workload with this model on this node, the newest first."""
    found = []
    folders = sorted((root or locations.runs_dir()).glob("*/journal.jsonl"), key=lambda p: p.parent.name)
    for path in folders[: -_LOOKED_AT - 1 : -1]:
        try:
            head = next(iter(journal.read(path)), {})
            if head.get("kind") == "head" and usable(head, work, work.profile.server.model_path):
                result = fold(journal.read(path))
                if result.passes and result.status == "complete":
                    found.append((path.parent, result))
        except OSError:
            continue
    return found


def best_recording(work: Work, runs: Iterable[tuple[Path, RunResult]], fed: Iterable[Pair] = ()) -> Recording | None:
    """The one that promises most: NGRAM's own text one at a time, then any that fed, then any."""
    ranked: list[tuple[int, Recording]] = []
    texts = tuple(fed)
    for folder, result in runs:
        try:
            one = recording_of(folder, result, work, texts)
        except (OSError, ReplaySourceError):
            continue
        if one is not None:
            own = str(one.written_by.get("algorithm")).upper() == "NGRAM"
            ranked.append((2 * int(own and one.exact) + int(bool(one.fed)), one))
    return max(ranked, key=lambda entry: entry[0])[1] if ranked else None


def chain_runs(runs: Iterable[tuple[Path, RunResult]]) -> list[ChainRun]:
    """Chains among them, with their histograms."""
    found = []
    for _, result in runs:
        for (arm, level, _), one in result.passes.items():
            settings = result.arm(arm).get("settings_in_force") or {}
            steps, histogram = settings.get("num_steps"), one.histogram
            if one.algorithm in ("none", "NGRAM") or settings.get("eagle_topk") != 1 or not histogram:
                continue
            if isinstance(steps, int) and steps > 0:
                draft = str(settings.get("draft_model_path") or "")
                found.append(ChainRun(one.algorithm, steps, level, tuple(histogram), draft, thresholds_of(settings)))
    return found
