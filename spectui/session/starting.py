"""Servers that one command starts for itself, and ends again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

from spectui.hosts.records import ServerRecord
from spectui.session import SessionError, serving
from spectui.session.arms import Target
from spectui.store import profiles


@contextmanager
def started(
    targets: Sequence[Target], say: Callable[[str], None] = lambda _text: None
) -> Iterator[list[tuple[Target | None, bool]]]:
    """For each target a live one and whether this command started it; None for a stored run.

    Profiles are launched side by side, and stopped at the end whatever happens; two that claim the same GPU are
    refused, since loading both at once would be a trial of neither.
    """
    mine: list[ServerRecord] = []
    live: list[tuple[Target | None, bool]] = []
    _refuse_overlap(targets)
    try:
        for number, target in enumerate(targets):
            if target.profile is None:
                live.append((target if target.url else None, False))
                continue
            profile = profiles.load(target.profile)
            name = f"{profile.name}-{'AB'[number]}" if len(targets) > 1 else profile.name
            port = None if number == 0 else _another_port(profile.server.port, mine)
            record = serving.launch(serving.prepare(profile, name=name, port=port))
            mine.append(record)
            say(f"starting {name} on port {record.port}")
            serving.wait_ready(record, lambda state, name=name: say(f"{name}: {state.phase}"))  # type: ignore[misc]
            live.append((Target(target.name, url=record.url, server=record.name), True))
        yield live
    finally:
        for record in mine:
            say(f"stopping {record.name}")
            serving.stop(record.name)


def _another_port(wanted: int | None, taken: Sequence[ServerRecord]) -> int | None:
    from spectui.hosts import ports

    used = {record.port for record in taken}
    return ports.free_port((wanted or 30000) + 20, used) if wanted in used or wanted is None else wanted


def _refuse_overlap(targets: Sequence[Target]) -> None:
    sets = []
    for target in targets:
        if target.profile is not None:
            gpus = profiles.load(target.profile).server.gpus
            sets.append((target.name, {str(gpu) for gpu in gpus or ()}))
    if len(sets) == 2:
        shared = sets[0][1] & sets[1][1]
        if shared:
            raise SessionError(
                f"profiles {sets[0][0]} and {sets[1][0]} both use GPU {', '.join(sorted(shared))}: measure one with "
                "spectui run, then compare the other against that stored run"
            )
