"""What a person says of a run, kept in ``marks.json`` in its folder: note, tags, pin; and which runs a rule removes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import time
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import msgspec

from spectui.store import locations
from spectui.store.run_summary import UNREADABLE
from spectui.store.runs import MARKS, HistoryError, RunSummary, list_runs, read_marks, summary_of, write_whole


def mark(
    folder: Path,
    *,
    note: str | None = None,
    add_tags: Sequence[str] = (),
    drop_tags: Sequence[str] = (),
    pinned: bool | None = None,
) -> RunSummary:
    """Changes what is given and leaves the rest. Raises OSError where the folder cannot be written."""
    with _locked(folder):
        marks = read_marks(folder)
        tags = [tag for tag in marks.get("tags") or () if isinstance(tag, str) and tag not in drop_tags]
        marks["tags"] = list(dict.fromkeys([*tags, *(tag.strip() for tag in add_tags if tag.strip())]))
        if note is not None:
            marks["note"] = note
        if pinned is not None:
            marks["pinned"] = pinned
        write_whole(folder / MARKS, msgspec.json.encode(marks))
    return summary_of(folder)


@contextlib.contextmanager
def _locked(folder: Path) -> Iterator[None]:
    handle = os.open(folder, os.O_RDONLY)
    try:
        with contextlib.suppress(OSError):  # a file system without locks
            fcntl.flock(handle, fcntl.LOCK_EX)
        yield
    finally:
        os.close(handle)


EVIDENCE = "evidence"
"""The tag of a run that a profile rests on, wherever the profile lies; no rule removes it while it has it."""


@dataclass(frozen=True, slots=True)
class Rule:
    """What to remove. A run goes when any part of the rule says so."""

    keep: int | None = None
    """All but the newest so many."""
    older_than_days: float | None = None
    failed: bool = False
    """Runs that failed or measured nothing."""
    tag: str | None = None

    @property
    def empty(self) -> bool:
        return self.keep is None and self.older_than_days is None and not self.failed and self.tag is None


def to_prune(
    rule: Rule, *, root: Path | None = None, protected: Collection[str] = (), now: float | None = None
) -> list[RunSummary]:
    """The runs that a rule would remove: never a pinned one, one that a profile rests on, or one that has not ended.

    Raises HistoryError for a rule that says nothing.
    """
    if rule.empty:
        raise HistoryError("say what to remove: --keep N, --older-than DAYS, --failed or --tag TAG")
    today = time.time() if now is None else now
    runs = list_runs(root=root)
    kept = {run.id for run in runs if run.pinned or EVIDENCE in run.tags} | set(protected)
    free = [run for run in runs if run.id not in kept and _ended(run, today)]
    beyond = {run.id for run in free[rule.keep :]} if rule.keep is not None else set()
    gone = []
    for run in free:
        old = rule.older_than_days is not None and today - run.when > 86400 * rule.older_than_days
        failed = rule.failed and (run.status == "failed" or not run.results)
        tagged = rule.tag is not None and rule.tag in run.tags
        if run.id in beyond or old or failed or tagged:
            gone.append(run)
    return gone


def _ended(run: RunSummary, now: float) -> bool:
    """A run without its last row was torn off when it began more than a day ago. Of one that cannot be read, nobody
    knows."""
    return run.status != UNREADABLE and (run.finished or now - run.when > 86400)


def remove(run: RunSummary, *, root: Path | None = None) -> None:
    """Removes a run's folder, looking once more whether it has been pinned. Raises HistoryError and OSError."""
    folder = (root or locations.runs_dir()) / run.id
    if read_marks(folder).get("pinned") is True:
        raise HistoryError(f"{run.id} has been pinned: it stays")
    shutil.rmtree(folder)
