"""What an arm can be pointed at: servers of this node, profiles, stored runs."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

RUNS = 50


@dataclass(frozen=True, slots=True)
class Choice:
    name: str
    """What :func:`spectui.session.arms.resolve` takes."""
    kind: str
    """server, profile or run."""
    detail: str


def servers() -> list[Choice]:
    """Those that spectui started first, then those found by their processes."""
    from spectui.hosts import discover
    from spectui.hosts import servers as started

    found: dict[str, Choice] = {}
    for record in started.records():
        if started.alive(record):
            found[record.url] = Choice(record.name, "server", f"{record.url}, started by spectui")
    for server in discover.find():
        if not server.leftover and server.url not in found:
            who = "simulated" if server.simulated else f"of {server.user}" if server.user else "found"
            found[server.url] = Choice(server.url, "server", f"pid {server.pid}, {who}")
    return list(found.values())


def choices(first: Sequence[Choice]) -> list[Choice]:
    """Servers, profiles, then stored runs, the newest first."""
    from spectui.store import locations, profiles

    found = list(first)
    for entry in profiles.list_all():
        what = entry.profile.speculative.algorithm if entry.profile else "cannot be read"
        found.append(Choice(entry.name, "profile", f"{what}{', starter' if entry.starter else ''}"))
    names = sorted((p.parent.name for p in locations.runs_dir().glob("*/journal.jsonl")), reverse=True)
    return found + [Choice(name, "run", "stored run") for name in names[:RUNS]]
