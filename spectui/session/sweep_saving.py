"""What a sweep found to be best, kept as profiles with the runs that prove it."""

from __future__ import annotations

import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.core.profile import Profile
from spectui.predict.settings_grid import Setting
from spectui.session import SessionError, evidence, running, sweep_spec
from spectui.session.sweep_spec import Work, work_of
from spectui.session.sweep_state import SweepState
from spectui.session.sweeping import state_of
from spectui.store import journal, locations, profiles


def save_best(folder: Path, name: str, *, replace_existing: bool = False) -> list[Profile]:
    """The best setting as a profile; where it differs by concurrency, one profile each, named NAME-cN."""
    work, state = work_of(sweep_spec.load(folder / "spec.json")), state_of(folder)
    settings = {s.name: s for s in work.settings}
    winners: dict[str, list[dict[str, Any]]] = {}
    for entry in state.best:
        if entry.get("setting") in settings:
            winners.setdefault(entry["setting"], []).append(entry)
    if not winners:
        raise SessionError("no setting was shown to be the best in a fair trial, so there is nothing to save")
    saved = []
    for setting, entries in winners.items():
        levels = [entry["concurrency"] for entry in entries]
        called = name if len(winners) == 1 else f"{name}-c{'-'.join(map(str, levels))}"
        made = replace(
            work.profile_for(settings[setting]),
            name=called,
            notes=f"Best of sweep {folder.name} at {', '.join(map(str, levels))} at a time.",
            workload=_workload(work, levels),
            evidence=tuple(_evidence(work, state, folder, entry, settings[setting]) for entry in entries),
            path=None,
            digest=None,
        )
        saved.append(profiles.save(made, locations.profiles_dir() / profiles.file_name(called),
                                   replace_existing=replace_existing))  # fmt: skip
    return saved


def _workload(work: Work, levels: list[int]) -> dict[str, Any]:
    options = work.options
    source = {"file": str(options.file)} if options.file is not None else {"name": work.workload.name}
    return {**source, "concurrency": levels, "passes": list(options.passes), "max_tokens": work.max_tokens}


def _evidence(work: Work, state: SweepState, folder: Path, entry: dict[str, Any], setting: Setting) -> dict[str, Any]:
    """The same as of any run (:mod:`spectui.session.evidence`), with the sweep that it belongs to."""
    level = entry["concurrency"]
    end = state.cells.get((setting.name, level), {})
    more = {"sweep": folder.name, "tied_with": list(entry["tied_with"])}
    over = entry.get("over_none")
    if over and over.get("ratio") is not None:
        more["over_none"] = [round(v, 4) for v in (over["ratio"], *(over["interval"] or ()))]
    guess = state.predicted.get((setting.name, level))
    measured = end.get("measured") or {}
    predictions = [] if not guess else [
        {"concurrency": level, "kind": guess.get("kind"), "accept_length": guess.get("accept_length"),
         "tokens_per_s": guess.get("tokens_per_s"), "measured_accept_length": measured.get("accept_length"),
         "measured_tokens_per_s": measured.get("tokens_per_s")}
    ]  # fmt: skip
    run = Path(str(end.get("folder") or locations.runs_dir() / str(entry.get("run"))))
    try:
        result = running.result_of(run)
        answers = list(journal.read(run / "answers.jsonl")) if (run / "answers.jsonl").is_file() else []
        kept = evidence.entry_of(
            result, result.arms[0], run.name, answers=answers, predictions=predictions,
            model_path=work.profile.server.model_path,
        )  # fmt: skip
    except (SessionError, OSError, IndexError):  # the run was removed: what the sweep itself kept of it
        kept = _remembered(work, entry, setting, predictions)
    return {**kept, **more}


def _remembered(work: Work, entry: dict[str, Any], setting: Setting, predictions: list[Any]) -> dict[str, Any]:
    in_force = {k: v for k, v in setting.plan.in_force.items() if not k.startswith("server.") and v is not None}
    result = {
        "concurrency": entry["concurrency"],
        "pass": work.ranking,
        "output_tokens_per_s": [round(v, 3) for v in (entry["tokens_per_s"], *entry["interval"])],
    }
    return {
        "date": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
        "run": entry.get("run"),
        "algorithm": setting.algorithm,
        "settings_asked": dict(setting.knobs),
        "settings_in_force": in_force,
        "workload": {"name": work.workload.name, "hash": work.workload.hash(work.options.seed or 0),
                     "requests": work.requests, "max_tokens": work.max_tokens},
        "result": [result],
        "prediction": predictions,
    }  # fmt: skip
