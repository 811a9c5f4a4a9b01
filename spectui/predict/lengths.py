"""Accept lengths of the settings of a sweep that need no run of their own: n-gram replay, shorter chains."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectui.core.ngram import NgramSettings
from spectui.core.ngram.settings import NgramSettingsError
from spectui.predict import tracking
from spectui.predict.breakeven import Length, Prediction, StepTimeModel, predict
from spectui.predict.chain import chain_lengths
from spectui.predict.replay import Source, replay
from spectui.predict.replay_grid import Cancelled, Watch
from spectui.predict.settings_grid import Setting
from spectui.predict.step_times import draft_steps_of
from spectui.predict.sweep import Cell
from spectui.predict.tracking import Spread

_KNOBS = {
    "num_draft_tokens": "num_draft_tokens",
    "max_trie_depth": "ngram.max_trie_depth",
    "min_bfs_breadth": "ngram.min_bfs_breadth",
    "max_bfs_breadth": "ngram.max_bfs_breadth",
    "match_type": "ngram.match_type",
    "capacity": "ngram.capacity",
    "external_sam_budget": "ngram.external_sam_budget",
    "min_match_window": "ngram.min_match_window_size",
    "max_match_window": "ngram.max_match_window_size",
}


@dataclass(frozen=True, slots=True)
class ChainRun:
    """A measured chain (topk 1) that shorter ones are read from."""

    algorithm: str
    num_steps: int
    concurrency: int
    histogram: tuple[int, ...]
    draft_model: str = ""
    thresholds: tuple[float, float] = (1.0, 1.0)
    """Accept thresholds in force, single and accumulated."""


def ngram_settings(setting: Setting, version: str | None) -> NgramSettings | None:
    """The store that the server would have; None for another algorithm, or where the store would refuse."""
    if setting.algorithm != "NGRAM":
        return None
    in_force = setting.plan.in_force
    values: dict[str, Any] = {name: in_force[key] for name, key in _KNOBS.items() if in_force.get(key) is not None}
    if "ngram.branch_length" in in_force:
        values["max_trie_depth"] = in_force["ngram.branch_length"]
    if version:
        values["version"] = version
    values["overlap"] = in_force.get("server.overlap_schedule") is not False
    try:
        return NgramSettings(**values)
    except (NgramSettingsError, TypeError):
        return None


def ngram_lengths(
    settings: Iterable[Setting],
    source: Source,
    concurrency: Sequence[int],
    *,
    version: str | None,
    spreads: Mapping[str, Spread],
    mode: str | None = None,
    processes: int | None = None,
    watch: Watch | None = None,
    cancelled: Cancelled | None = None,
) -> dict[Cell, Length]:
    """By replaying the source at each load. Exact only for text that the very setting wrote, one request at a time. A
    replay that was ended early tells nothing."""
    stores = {s.name: store for s in settings if (store := ngram_settings(s, version)) is not None}
    if not stores:
        return {}
    found: dict[Cell, Length] = {}
    for number, level in enumerate(concurrency):
        done = replay(
            source.at_load(level),
            list(stores.values()),
            mode=mode,
            processes=processes,
            watch=_part(watch, number, len(concurrency)),
            cancelled=cancelled,
        )
        for name, result in zip(stores, done, strict=True):
            if result.accept_length is None or result.not_replayed:
                continue
            several = level > 1
            kind = tracking.SEVERAL if several else tracking.EXACT if result.nearly_exact else tracking.OTHER_TEXT
            why = f"{level} requests at a time" if several else (result.why_not or "")
            error = spreads[kind].log_error if kind in spreads else tracking.ASSUMED[kind]
            found[name, level] = Length(result.accept_length, error, kind, f"estimate: {why}" if why else "")
    return found


def _part(watch: Watch | None, number: int, parts: int) -> Watch | None:
    """Tells one of several replays as its part of the whole."""
    if watch is None:
        return None
    return lambda progress: watch(replace(progress, share=(number + progress.share) / parts))


def chain_estimates(
    settings: Iterable[Setting], runs: Sequence[ChainRun], concurrency: Sequence[int], *, spreads: Mapping[str, Spread]
) -> dict[Cell, Length]:
    """From the longest chain of the same draft that was measured, at the same concurrency where there is one."""
    error = spreads[tracking.CHAIN].log_error if tracking.CHAIN in spreads else tracking.ASSUMED[tracking.CHAIN]
    found: dict[Cell, Length] = {}
    for setting in settings:
        steps = setting.num_steps
        if not setting.chain or steps is None:
            continue
        draft = str(setting.plan.in_force.get("draft_model_path") or "")
        usable = [
            r
            for r in runs
            if (r.algorithm, r.draft_model, r.thresholds)
            == (setting.algorithm, draft, thresholds_of(setting.plan.in_force))
            and r.num_steps >= steps
            and any(r.histogram)
        ]
        for level in concurrency:
            if not usable:
                continue
            run = max(usable, key=lambda r: (r.concurrency == level, r.num_steps))
            try:
                lengths = {e.num_steps: e.accept_length for e in chain_lengths(run.histogram, run.num_steps)}
            except ValueError:
                continue
            note = f"from a chain of {run.num_steps} steps"
            found[setting.name, level] = Length(lengths[steps], error, tracking.CHAIN, note)
    return found


def thresholds_of(in_force: Mapping[str, Any]) -> tuple[float, float]:
    """Unset means 1: only what the model itself would write is accepted."""
    found = (in_force.get(f"accept_threshold_{name}") for name in ("single", "acc"))
    single, acc = (float(v) if isinstance(v, (int, float)) else 1.0 for v in found)
    return single, acc


def predictions(
    settings: Iterable[Setting], concurrency: Sequence[int], lengths: Mapping[Cell, Length], model: StepTimeModel
) -> tuple[dict[Cell, Prediction], dict[Cell, str]]:
    """Throughput by cell, and for the others why there is none. Without speculation the accept length is 1."""
    found: dict[Cell, Prediction] = {}
    missing: dict[Cell, str] = {}
    for setting in settings:
        for level in concurrency:
            cell = (setting.name, level)
            length = Length(1.0, 0.0, "none") if setting.algorithm == "none" else lengths.get(cell)
            steps = draft_steps_of(setting.algorithm, setting.num_steps)
            step = model.at(setting.algorithm, setting.width, level, draft_steps=steps)
            if length is None:
                missing[cell] = "its accept length cannot be known without a run: " + _why_no_length(setting)
            elif step is None:
                missing[cell] = (
                    f"no run of {setting.algorithm} with this model on this node: its step time is not known"
                )
            else:
                request = model.request(level)
                made = predict(
                    length, step, level, tokens=request and request[0], overhead_s=request[1] if request else 0
                )
                found[cell] = replace(made, note=made.note)
    return found, missing


def _why_no_length(setting: Setting) -> str:
    if setting.algorithm == "NGRAM":
        return "no recording of this workload with token ids is here"
    if setting.chain:
        return "no run of this chain, or of a longer one, is here"
    return f"{setting.algorithm} drafts from weights that only a run can show"
