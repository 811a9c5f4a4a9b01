"""What a sweep is asked for on the screen: the form, and the spec that follows from it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui.predict.replay_grid import Progress
from spectui.predict.settings_grid import Axes
from spectui.session import SessionError, sweep_spec
from spectui.session.running import RunOptions
from spectui.session.sweep_state import SweepState
from spectui.store import profiles
from spectui.ui.run_options import ABOUT_PASSES, PASSES
from spectui.ui.screens.sentences import lasts
from spectui.ui.widgets.form import Field

DEFAULTS: Mapping[str, str] = {
    "profile": "",
    "algorithms": "none,NGRAM",
    "draft_tokens": "4,8,16",
    "concurrency": "1",
    "workload": "mixed",
    "passes": "warm",
    "requests": "24",
    "losers": "no",
}


def fields(values: Mapping[str, str], names: Sequence[str]) -> tuple[Field, ...]:
    """``names``: of the profiles there are."""
    algorithms = "names with commas between: none, NGRAM, EAGLE3 …; none is what all are held against"
    return (
        Field("profile", "profile", values["profile"], tuple(names), "how the server is started"),
        Field("algorithms", "algorithms", values["algorithms"], (), algorithms),
        Field("draft_tokens", "draft tokens", values["draft_tokens"], (), "values with commas between"),
        Field("concurrency", "at a time", values["concurrency"], (), "loads, such as 1,4,16"),
        Field("workload", "workload", values["workload"], _workload_names(), "what is measured with"),
        Field(
            "passes", "pass", values["passes"], tuple(PASSES), f"settings are ranked by the last pass. {ABOUT_PASSES}"
        ),
        Field("requests", "requests", values["requests"], (), "of each setting at each load", "", "all of them"),
        Field("losers", "run losers", values["losers"], ("no", "yes"), "also what is predicted to lose"),
    )


def planning_text(replayed: tuple[Progress, float] | None, now: float) -> str:
    """``replayed``: how far, and when it began (monotonic)."""
    if replayed is None:
        return "planning: settings, restarts and time come from what this node has measured …"
    progress, begun = replayed
    words = (
        f"planning: replaying {progress.settings_done} of {progress.settings} settings, {100 * progress.share:.0f} %"
    )
    if progress.share > 0.02:
        words += f", {lasts((now - begun) * (1 - progress.share) / progress.share)} left"
    return words


def start_question(state: SweepState | None) -> str:
    """What enter would do, said before it is done."""
    if state is None:
        return "start it? y or n"
    count = len(state.plan.get("launches") or ())
    clock = (state.plan.get("clock") or {}).get("text")
    profile = state.head.get("profile")
    servers = f"one server of {profile}" if count == 1 else f"{count} servers of {profile}, one after another"
    told = f"it launches {servers}, and stops each when it is measured; servers that run now are left alone"
    return f"start the sweep? {told}. {f'{clock}. ' if clock else ''}y or n"


def resume_question(state: SweepState) -> str:
    profile = state.head.get("profile")
    return f"go on with this sweep? It launches the servers of {profile} that are still to be measured. y or n"


def _workload_names() -> tuple[str, ...]:
    from spectui.workloads import names

    return names()


def spec_of(values: Mapping[str, str], live: Any) -> Any:
    """Raises ValueError, SessionError and the errors of profiles and workloads, each with a sentence."""
    if not values["profile"]:
        raise SessionError("there is no profile to sweep: s on the home screen saves one")
    names = tuple(word.strip() for word in values["algorithms"].split(",") if word.strip())
    tokens = numbers("draft tokens", values["draft_tokens"])
    requests = numbers("requests", values["requests"])
    options = RunOptions(
        workload=values["workload"],
        passes=PASSES.get(values["passes"], ("warm",)),
        concurrency=numbers("at a time", values["concurrency"]) or (1,),
        requests=requests[0] if requests else None,
    )
    known = profiles.load(values["profile"])
    axes = Axes(names, {"num_draft_tokens": tokens} if tokens else {})
    return sweep_spec.make(known, axes, options, keep_losers=values["losers"] == "yes")


def spec_again(spec: Any) -> Any:
    """The same under the time it begins at, so that two sweeps of one plan have two folders."""
    name = f"{time.strftime('%Y%m%d-%H%M%S')}-{spec.sweep_id.split('-')[2]}-{secrets.token_hex(2)}"
    return replace(spec, sweep_id=name, folder=str(Path(spec.folder).with_name(name)))


def numbers(label: str, text: str) -> tuple[int, ...]:
    parts = [part.strip() for part in text.split(",") if part.strip()]
    if not all(part.isdigit() and int(part) for part in parts):
        raise SessionError(f"{label}: whole numbers from 1 with commas between, not {text!r}")
    return tuple(int(part) for part in parts)
