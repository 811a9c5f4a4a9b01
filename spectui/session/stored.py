"""Stored runs as they stand now: a run whose runner is gone does not run, whatever its journal still says."""

from __future__ import annotations

import time
from dataclasses import replace

from spectui.session import running
from spectui.store import locations, runs
from spectui.store.runs import Filter, RunSummary

QUIET_S = 60.0
"""A journal that goes on, perhaps on another node of the same home, has a row at least so often."""


def list_as_they_are(wanted: Filter | None = None) -> list[RunSummary]:
    """:func:`spectui.store.runs.list_runs`, each with the status that it really has."""
    return [as_it_is(one) for one in (runs.list_runs() if wanted is None else runs.list_runs(wanted))]


def as_it_is(one: RunSummary) -> RunSummary:
    """A run without a last row, whose runner is gone and writes nothing any more, does not run."""
    if one.status != "running":
        return one
    folder = locations.runs_dir() / one.id
    handle = running.handle_of(folder)
    try:
        quiet = time.time() - (folder / "journal.jsonl").stat().st_mtime > QUIET_S
    except OSError:
        quiet = True
    if not quiet or (handle is not None and handle.alive()):
        return one
    return replace(one, status="interrupted", reason=one.reason or "its runner is gone and wrote no last row")
