"""Changes of a running server without a relaunch: accept thresholds, and external n-gram corpora."""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.session import SessionError, arms, running
from spectui.session.arms import Target

if TYPE_CHECKING:
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.info import ServerInfo

THRESHOLDS = ("accept_threshold_single", "accept_threshold_acc")
LOSSY = "LOSSY: a threshold below 1.0 accepts drafts that the model would not have written"
_NEEDS_NGRAM = "external corpora feed the NGRAM proposer"


@dataclass(frozen=True, slots=True)
class HotState:
    """What can be changed on this server now, and how it stands."""

    url: str
    version: str
    algorithm: str
    thresholds: dict[str, float] = field(default_factory=dict)
    """Empty where the server does not speculate or does not show them."""
    lossy: bool = False
    corpora: dict[str, int] | None = None
    """Loaded external corpora -> tokens; None where this server has none to list."""
    sam_budget: int | None = None
    """Draft tokens a step that external corpora may give; 0 or None: they have no effect."""
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class HotOutcome:
    applied: bool | None
    """None: the server does not show the value, so nobody can say."""
    text: str
    in_force: dict[str, Any] = field(default_factory=dict)
    lossy: bool = False
    notes: tuple[str, ...] = ()


@contextmanager
def _connected(
    target: Target | str, key: str | None, admin_key: str | None
) -> Iterator[tuple[SglangClient, ServerInfo]]:
    from spectui.engines.sglang.client import SglangClient

    if isinstance(target, str):
        target = arms.resolve(target)
    if target.url is None:
        raise SessionError(f"{target.name} is a {'profile' if target.profile else 'stored run'}, not a server", 2)
    record = arms.managed(target.url)
    key = key or (record.key if record else None)
    admin_key = admin_key or (record.admin_key if record else None)
    found = [arms.resolve_key(reference) if reference else None for reference in (key, admin_key)]
    with SglangClient(target.url, key=found[0], admin_key=found[1]) as client:
        yield client, client.probe()


def show(target: Target | str, *, key: str | None = None, admin_key: str | None = None) -> HotState:
    """How the hot settings of a server stand. Raises EngineError where it is not reachable."""
    with _connected(target, key, admin_key) as (client, info):
        thresholds = {
            name: float(info.settings[name]) for name in THRESHOLDS if isinstance(info.settings.get(name), (int, float))
        }
        corpora = client.corpora() if info.contract.external_corpora else None
        budget = _budget(info)
        notes = []
        lossy = any(value < 1 for value in thresholds.values())
        if lossy:
            notes.append(LOSSY)
        if corpora:
            notes += _corpus_notes(info)
        return HotState(client.url, info.version, info.algorithm, thresholds, lossy, corpora, budget, tuple(notes))


def set_thresholds(
    target: Target | str,
    *,
    single: float | None = None,
    acc: float | None = None,
    key: str | None = None,
    admin_key: str | None = None,
    during_run: bool = False,
) -> HotOutcome:
    """Changes accept thresholds and reads back what is in force; the server's own answer decides nothing.

    Raises :class:`SessionError` for a value outside 0 to 1, a server without speculation, or one that a run is
    measuring (unless ``during_run``); EngineError where the server refuses.
    """
    asked = {name: value for name, value in zip(THRESHOLDS, (single, acc), strict=True) if value is not None}
    if not asked:
        raise SessionError("give at least one threshold to set", 2)
    for name, value in asked.items():
        if not 0 <= value <= 1:  # the server checks no range
            raise SessionError(f"{name} must be a number from 0 to 1, not {value:g}", 2)
    with _connected(target, key, admin_key) as (client, info):
        if not info.speculates:
            raise SessionError(f"{client.url} does not speculate: it has no accept thresholds")
        run = measured_by().get(client.url)
        if run and not during_run:
            raise SessionError(f"run {run} is measuring {client.url}: a change now would make it a trial of neither")
        outcome = client.set_internal_state(asked)
        in_force = {**{k: v for k, v in info.settings.items() if k in THRESHOLDS}, **outcome.in_force}
    lossy = any(isinstance(value, (int, float)) and value < 1 for value in in_force.values())
    notes = ["the server's lifetime accept counters begin anew"] if outcome.applied else []
    if lossy:
        notes.append(LOSSY)
    told = ", ".join(f"{name} {value:g}" for name, value in asked.items())
    return HotOutcome(outcome.applied, f"{told}: {outcome.detail}", in_force, lossy, tuple(notes))


def measured_by() -> dict[str, str]:
    """URL -> the run of ours that is measuring it now."""
    found: dict[str, str] = {}
    for handle in running.running():
        try:
            spec = json.loads((handle.folder / "spec.json").read_text(encoding="utf-8"))
            found |= {str(arm["url"]): handle.folder.name for arm in spec["arms"]}
        except (OSError, ValueError, KeyError, TypeError):
            continue
    return found


# -- external corpora


def answers_of(run: str | Path, last: int, arm: str | None = None) -> list[str]:
    """The texts of the last answers that a stored run kept, oldest first; empty ones are left out.

    Raises :class:`SessionError` where there is no such run, or it kept no texts.
    """
    folder = Path(run)
    if not (folder / "journal.jsonl").is_file():
        found = arms.resolve(str(run)).run
        if found is None:
            raise SessionError(f"{run} is no stored run. List runs with: spectui runs", 2)
        folder = found
    path = folder / "answers.jsonl"
    if not path.is_file():
        raise SessionError(f"run {folder.name} kept no answers (it was made with --no-text)")
    from spectui.store import journal

    kept: deque[str] = deque(maxlen=last)
    for row in journal.read(path):
        text = row.get("text")
        if isinstance(text, str) and text.strip() and (arm is None or row.get("arm") == arm):
            kept.append(text)
    if not kept:
        raise SessionError(f"run {folder.name} has no answers{f' of arm {arm}' if arm else ''}")
    return list(kept)


def add_corpus(
    target: Target | str,
    run: str | Path,
    *,
    last: int = 100,
    arm: str | None = None,
    corpus_id: str | None = None,
    key: str | None = None,
    admin_key: str | None = None,
) -> HotOutcome:
    """Loads the last answers of a stored run into the server as an external corpus."""
    documents = answers_of(run, last, arm)
    with _connected(target, key, admin_key) as (client, info):
        _refuse_corpora(info, client.url)
        made = client.add_corpus(documents=documents, corpus_id=corpus_id or Path(run).name)
        notes = _corpus_notes(info)
    if not made.ok:
        raise SessionError(f"the corpus was not loaded: {made.message}")
    tokens = f", {made.tokens} tokens" if made.tokens is not None else ""
    return HotOutcome(
        True, f"corpus {made.corpus_id} loaded: {len(documents)} answers{tokens}", {}, False, tuple(notes)
    )


def remove_corpus(
    target: Target | str, corpus_id: str, *, key: str | None = None, admin_key: str | None = None
) -> HotOutcome:
    """Raises :class:`SessionError` where it is not loaded."""
    with _connected(target, key, admin_key) as (client, info):
        _refuse_corpora(info, client.url)
        loaded = client.corpora()
        if loaded is not None and corpus_id not in loaded:
            raise SessionError(f"no corpus {corpus_id!r} is loaded; loaded: {', '.join(sorted(loaded)) or 'none'}", 2)
        gone = client.remove_corpus(corpus_id)
    if not gone.ok:
        raise SessionError(f"corpus {corpus_id} was not removed: {gone.message}")
    return HotOutcome(True, f"corpus {corpus_id} removed")


def _refuse_corpora(info: ServerInfo, url: str) -> None:
    if not info.contract.external_corpora:
        raise SessionError(f"SGLang {info.version} takes no external corpora (they came with 0.5.12)")
    if not info.unreadable and info.algorithm != "NGRAM":
        raise SessionError(f"{url} runs {info.algorithm}: {_NEEDS_NGRAM}")


def _budget(info: ServerInfo) -> int | None:
    value = info.settings.get("ngram.external_sam_budget")
    return value if isinstance(value, int) and not isinstance(value, bool) else None


def _corpus_notes(info: ServerInfo) -> list[str]:
    if _budget(info):
        return []
    return [
        "the SAM budget is 0, so an external corpus has no effect: relaunch with ngram.external_sam_budget above 0 "
        "(--speculative-ngram-external-sam-budget)"
    ]
