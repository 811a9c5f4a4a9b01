"""Workloads: what is asked of a server while it is measured. One file a workload, found by its name.

A file declares ``WORKLOAD``; form, help, the table in the docs and the tests that run on all of them follow from it.
A file that cannot be loaded is an entry with its error, and stops nothing else.
"""

from __future__ import annotations

import difflib
import importlib
import pkgutil
from dataclasses import dataclass

from spectui.workloads._file import from_file
from spectui.workloads._workload import MARKS, Sets, Workload, WorkloadError

__all__ = [
    "DEFAULT",
    "MARKS",
    "Entry",
    "Sets",
    "Workload",
    "WorkloadError",
    "catalogue",
    "from_file",
    "load",
    "marks_of_source",
    "names",
    "resolve",
]

DEFAULT = "mixed"
_HERE = "spectui.workloads"


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the chooser: a workload, or the reason why it cannot be chosen."""

    name: str
    workload: Workload | None
    error: str | None = None


def names(package: str = _HERE) -> tuple[str, ...]:
    """Names of the workload files, without loading any."""
    where = importlib.import_module(package).__path__
    return tuple(sorted(m.name for m in pkgutil.iter_modules(where) if not m.name.startswith("_")))


def load(name: str, package: str = _HERE) -> Workload:
    """The workload of that name. Raises WorkloadError for an unknown name and for a file that is broken."""
    known = names(package)
    if name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        hint = f"Did you mean {near[0]}? " if near else ""
        raise WorkloadError(f"there is no workload {name!r}", what_next=f"{hint}There are: {', '.join(known)}")
    where = f"workload file {name}.py"
    try:
        workload = importlib.import_module(f"{package}.{name}").WORKLOAD
    except Exception as fault:  # whatever an extension file does wrong must not end the program
        raise WorkloadError(f"{type(fault).__name__}: {fault}", where=where, what_next="Mend or remove it") from fault
    if not isinstance(workload, Workload):
        raise WorkloadError("WORKLOAD is not a Workload", where=where, what_next="Mend or remove it")
    if workload.name != name:
        raise WorkloadError(f"it calls itself {workload.name!r}", where=where, what_next="Give both the same name")
    return workload


def catalogue(package: str = _HERE) -> tuple[Entry, ...]:
    """All workloads, the default one first; broken ones with their error."""
    entries = []
    for name in sorted(names(package), key=lambda n: (n != DEFAULT, n)):
        try:
            workload = load(name, package)
            workload.build(0)
        except Exception as fault:
            text = str(fault) if isinstance(fault, WorkloadError) else f"workload file {name}.py: {fault!r}"
            entries.append(Entry(name, None, text))
        else:
            entries.append(Entry(name, workload))
    return tuple(entries)


def resolve(source: str) -> Workload:
    """From how a profile, a run or a command line names it: ``mixed``, ``builtin:mixed`` or ``file:PATH``."""
    if source.startswith("file:"):
        return from_file(source.removeprefix("file:"))
    return load(source.removeprefix("builtin:"))


def marks_of_source(source: str) -> tuple[str, ...]:
    """Marks of a workload that is known by its source only, e.g. of a result that another program made.

    Random token ids (``random_ids``, ``random``, ``random-ids``) are synthetic; a file or a list of texts is not.
    """
    plain_name = source.strip().lower().replace("-", "_")
    if plain_name.removeprefix("builtin:") in {"random", "random_ids", "random_tokens"}:
        return ("synthetic",)
    plain_name = source.removeprefix("builtin:")
    if plain_name in names():
        return load(plain_name).marks
    return ()
