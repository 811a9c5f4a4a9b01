"""What a list says of a run: its summary out of the journal, and the marks (note, tags, pin) beside it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

if TYPE_CHECKING:
    from spectui.core.passes import PassResult
    from spectui.core.result import RunResult

MARKS = "marks.json"
FINAL = ("complete", "interrupted", "failed")
UNREADABLE = "unreadable"
"""The status of a run whose journal is there and cannot be read: by this user, or at all."""
_FIGURES = ("output_tokens_per_s", "accept_length", "step_time_ms", "requests", "failed")


class HistoryError(Exception):
    """A run that is not there, or a rule that makes no sense. Says what, where and what to do next."""

    exit_code = 2


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in a list. Arms in the order of its journal; a stored value that is not known is empty or None."""

    id: str
    when: float = 0.0
    status: str = "running"
    reason: str = ""
    workload: str = ""
    workload_hash: str = ""
    models: tuple[str, ...] = ()
    algorithms: tuple[str, ...] = ()
    versions: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    driver: str = ""
    labels: tuple[str, ...] = ()
    simulated: bool = False
    results: tuple[dict[str, Any], ...] = ()
    """One a pass: arm, concurrency, pass, and figures under the keys of the command line."""
    note: str = ""
    tags: tuple[str, ...] = ()
    pinned: bool = False

    @property
    def finished(self) -> bool:
        return self.status in FINAL


def read(folder: Path) -> RunSummary | None:
    """The summary of a run's folder, which may be that its journal cannot be read; None where it holds none."""
    from spectui.core.result import fold  # a list that comes from its index needs none of it
    from spectui.store import journal

    try:
        result = fold(journal.read(folder / "journal.jsonl"))
    except (FileNotFoundError, NotADirectoryError):
        return None
    except OSError as error:
        summary = RunSummary(folder.name, _changed(folder), UNREADABLE, str(error)[:300])
        return with_marks(summary, read_marks(folder))
    return with_marks(summarise(folder.name, result), read_marks(folder))


def _changed(folder: Path) -> float:
    try:
        return folder.stat().st_mtime
    except OSError:
        return 0.0


def summarise(name: str, result: RunResult) -> RunSummary:
    head = result.head
    arms = [arm for arm in head.get("arms") or () if isinstance(arm, Mapping)]
    node = head.get("node") or {}
    held = {uuid for arm in arms for uuid in arm.get("gpus") or ()}
    gpus = [g for g in node.get("gpus") or () if isinstance(g, Mapping) and (not held or g.get("uuid") in held)]
    workload = head.get("workload") or {}
    simulated = any(arm.get("simulated") for arm in arms)
    return RunSummary(
        id=name,
        when=float(head.get("t") or 0.0),
        status=result.status,
        reason=result.reason[:300],
        workload=str(workload.get("name") or ""),
        workload_hash=str(workload.get("hash") or ""),
        models=_distinct(arm.get("model") for arm in arms),
        algorithms=_distinct(arm.get("algorithm") for arm in arms),
        versions=_distinct(arm.get("version") for arm in arms),
        gpus=() if simulated else _distinct(g.get("name") for g in gpus),
        driver=str(node.get("driver") or ""),
        labels=_distinct(arm.get("label") or arm.get("url") for arm in arms),
        simulated=simulated,
        results=tuple(_row(one) for one in result.passes.values()),
    )


def _distinct(values: Any) -> tuple[str, ...]:
    return tuple(dict.fromkeys(str(value) for value in values if value))


def _row(one: PassResult) -> dict[str, Any]:
    row: dict[str, Any] = {"arm": one.arm, "concurrency": one.concurrency, "pass": one.pass_name}
    for name in _FIGURES:
        value = getattr(one, name)
        row[name] = round(value, 4) if isinstance(value, float) else value
    row["algorithm"] = one.algorithm
    return row


def read_marks(folder: Path) -> dict[str, Any]:
    """``{note, tags, pinned}``; a file that cannot be read counts as none."""
    try:
        kept = msgspec.json.decode((folder / MARKS).read_bytes())
    except (OSError, msgspec.MsgspecError):
        return {}
    return kept if isinstance(kept, dict) else {}


def with_marks(run: RunSummary, marks: Mapping[str, Any]) -> RunSummary:
    tags = marks.get("tags")
    return replace(
        run,
        note=str(marks.get("note") or ""),
        tags=tuple(str(tag) for tag in tags) if isinstance(tags, list) else (),
        pinned=marks.get("pinned") is True,
    )
