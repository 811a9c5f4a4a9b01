"""History: every run of this user, found fast by an index beside the runs, with notes, tags and pins.

A run is a folder; its journal is the truth. ``marks.json`` in the folder holds note, tags and pin. ``index.json``
beside the folders holds a summary of each, made anew for every run whose folder or journal has changed since; a torn,
foreign or missing index costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import msgspec

from spectui.core.passes import PassResult
from spectui.core.result import RunResult, fold
from spectui.store import journal, locations

SCHEMA = 1
INDEX = "index.json"
MARKS = "marks.json"
FINAL = ("complete", "interrupted", "failed")
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


@dataclass(frozen=True, slots=True)
class Filter:
    """All that are given must hold; texts are looked for anywhere, whatever the case."""

    model: str | None = None
    gpu: str | None = None
    version: str | None = None
    algorithm: str | None = None
    workload: str | None = None
    text: str | None = None
    tag: str | None = None
    pinned: bool | None = None
    since: float | None = None

    def holds(self, run: RunSummary) -> bool:
        return (
            _among(self.model, run.models)
            and _among(self.gpu, run.gpus)
            and _among(self.version, run.versions)
            and _among(self.algorithm, run.algorithms)
            and (self.workload is None or self.workload.lower() in run.workload.lower())
            and (self.tag is None or self.tag in run.tags)
            and (self.pinned is None or run.pinned is self.pinned)
            and (self.since is None or run.when >= self.since)
            and (self.text is None or _has_words(self.text, run))
        )


def _among(wanted: str | None, have: Sequence[str]) -> bool:
    if wanted is None:
        return True
    small = wanted.lower()
    return any(small in one.lower() for one in have)


def _has_words(text: str, run: RunSummary) -> bool:
    parts = (
        run.id,
        run.note,
        run.workload,
        *run.tags,
        *run.labels,
        *run.models,
        *run.algorithms,
        *run.versions,
        *run.gpus,
    )
    whole = " ".join(parts).lower()
    return all(word in whole for word in text.lower().split())


class _Known(msgspec.Struct):
    """What the index holds of a run, and when it was true."""

    folder_ns: int
    journal_ns: int
    run: RunSummary


class _File(msgspec.Struct):
    schema: int
    runs: list[_Known] = []


@dataclass(slots=True)
class _Index:
    known: dict[str, _Known] = field(default_factory=dict)
    changed: bool = False


def list_runs(
    wanted: Filter | None = None,
    *,
    root: Path | None = None,
    on_read: Callable[[int], None] = lambda _count: None,
) -> list[RunSummary]:
    """Runs that pass the filter, the newest first. ``on_read`` is told of each journal that had to be read."""
    place = root or locations.runs_dir()
    index = _load(place)
    found: list[RunSummary] = []
    seen: set[str] = set()
    read = 0
    for name, folder_ns in _folders(place):
        seen.add(name)
        known = index.known.get(name)
        if (
            known is None
            or known.folder_ns != folder_ns
            or (known.run.status not in FINAL and _grown(place / name, known))
        ):
            made = _summarise(place / name)
            if made is None:
                index.known.pop(name, None)
                continue
            known = _Known(folder_ns, _journal_ns(place / name), made)
            index.known[name] = known
            index.changed = True
            read += 1
            on_read(read)
            if read % 500 == 0:
                _save(place, index)
        found.append(known.run)
    gone = index.known.keys() - seen
    for name in gone:
        del index.known[name]
    if index.changed or gone:
        _save(place, index)
    if wanted is not None:
        found = [run for run in found if wanted.holds(run)]
    return sorted(found, key=lambda run: (run.when, run.id), reverse=True)


def find(name: str, *, root: Path | None = None) -> Path:
    """The folder of a run by its id, by a beginning of it that fits one only, or by its path. Raises HistoryError."""
    place = root or locations.runs_dir()
    for folder in (Path(name), place / name):
        if (folder / "journal.jsonl").is_file():
            return folder
    close = [other for other, _ in _folders(place) if name and other.startswith(name)]
    if len(close) == 1:
        return place / close[0]
    if close:
        raise HistoryError(f"{name} fits {len(close)} runs, among them {', '.join(close[:3])}: give more of its name")
    raise HistoryError(f"there is no run {name}: spectui runs lists them")


def summary_of(folder: Path) -> RunSummary:
    """Raises HistoryError where the folder holds no journal that can be read."""
    made = _summarise(folder)
    if made is None:
        raise HistoryError(f"{folder} holds no journal that can be read")
    return made


def _folders(place: Path) -> Iterator[tuple[str, int]]:
    try:
        entries = os.scandir(place)
    except OSError:
        return
    with entries:
        for entry in entries:
            try:
                if entry.name[0] != "." and entry.is_dir():
                    yield entry.name, entry.stat().st_mtime_ns
            except OSError:
                continue


def _grown(folder: Path, known: _Known) -> bool:
    """Asked of runs that had not ended: nobody writes to a journal after its end."""
    return _journal_ns(folder) != known.journal_ns


def _journal_ns(folder: Path) -> int:
    try:
        return (folder / "journal.jsonl").stat().st_mtime_ns
    except OSError:
        return 0


def _summarise(folder: Path) -> RunSummary | None:
    try:
        result = fold(journal.read(folder / "journal.jsonl"))
    except OSError:
        return None
    return with_marks(summarise(folder.name, result), read_marks(folder))


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


# -- the index


def _load(place: Path) -> _Index:
    import gc

    paused = gc.isenabled()
    gc.disable()  # thousands of small values at once, none of them garbage
    try:
        kept = msgspec.json.decode((place / INDEX).read_bytes(), type=_File)
    except (OSError, msgspec.MsgspecError, RecursionError):
        return _Index(changed=True)
    finally:
        if paused:
            gc.enable()
    if kept.schema != SCHEMA:
        return _Index(changed=True)
    return _Index({one.run.id: one for one in kept.runs})


def _save(place: Path, index: _Index) -> None:
    """Whole or not at all; where it cannot be written, the next list takes longer."""
    with contextlib.suppress(OSError):
        write_whole(place / INDEX, msgspec.json.encode(_File(SCHEMA, list(index.known.values()))))
        index.changed = False


def write_whole(target: Path, content: bytes) -> None:
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


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


__all__ = [
    "Filter",
    "HistoryError",
    "RunSummary",
    "find",
    "list_runs",
    "read_marks",
    "summarise",
    "summary_of",
    "with_marks",
    "write_whole",
]
