"""History: every run of this user, found fast by an index beside the runs, with notes, tags and pins.

A run is a folder; its journal is the truth. ``marks.json`` in the folder holds note, tags and pin. ``index.json``
beside the folders holds a summary of each, made anew for every run whose folder or journal has changed since; a torn,
foreign or missing index costs time and nothing else.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from operator import attrgetter
from pathlib import Path

import msgspec

from spectui.store import locations
from spectui.store.run_summary import (
    FINAL,
    MARKS,
    UNREADABLE,
    HistoryError,
    RunSummary,
    read,
    read_marks,
    summarise,
    with_marks,
)

SCHEMA = 1
INDEX = "index.json"


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
    count = 0
    for name, folder_ns in _folders(place):
        seen.add(name)
        known = index.known.get(name)
        if (
            known is None
            or known.folder_ns != folder_ns
            or (known.run.status not in FINAL and _grown(place / name, known))
        ):
            made = read(place / name)
            if made is None:
                index.known.pop(name, None)
                continue
            if made.status == UNREADABLE:  # not for the index: rights may be given without a trace in its times
                index.known.pop(name, None)
                found.append(made)
                continue
            known = _Known(folder_ns, _journal_ns(place / name), made)
            index.known[name] = known
            index.changed = True
            count += 1
            on_read(count)
            if count % 500 == 0:
                _save(place, index)
        found.append(known.run)
    gone = index.known.keys() - seen
    for name in gone:
        del index.known[name]
    if index.changed or gone:
        _save(place, index)
    if wanted is not None:
        found = [run for run in found if wanted.holds(run)]
    return sorted(found, key=attrgetter("when", "id"), reverse=True)


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
    made = read(folder)
    if made is None or made.status == UNREADABLE:
        why = f": {made.reason}" if made is not None else ""
        raise HistoryError(f"{folder} holds no journal that can be read{why}")
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


__all__ = [
    "MARKS",
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
