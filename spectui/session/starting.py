"""Servers that one command starts for itself, and ends again."""

from __future__ import annotations

import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import Any

from spectui.core.launch_line import kind_of
from spectui.core.profile import Profile
from spectui.hosts import elsewhere, ports, servers
from spectui.hosts.records import ServerRecord, alive
from spectui.session import SessionError, preflight, serving
from spectui.session.arms import Target
from spectui.store import profiles


@dataclass(frozen=True, slots=True)
class _Ask:
    target: Target
    profile: Profile
    name: str


@contextmanager
def started(
    targets: Sequence[Target], say: Callable[[str], None] = lambda _text: None
) -> Iterator[list[tuple[Target | None, bool]]]:
    """For each target a live one and whether this command started it; None for a stored run.

    Everything is planned before anything is started: ports of all, draft and target, the limits of a baseline (those
    of the speculative side). Two that claim the same GPUs are refused unless their memory fractions fit; then, and
    wherever they may share one, the second starts when the first is ready, since each sizes its pool by what is free.
    What was started is stopped at the end whatever happens: a terminal that is gone (SIGHUP) does not end it before.
    """
    say = _bearing_a_lost_line(say)
    mine: list[ServerRecord] = []
    asks = _asks(targets)
    together = _together(asks)
    prepared = _prepare(asks, targets)
    for one in prepared:
        for note in one.notes:
            say(f"note: {one.launch.name}: {note}")
    before = _ignore_hangup() if prepared else None
    try:
        for one in prepared:
            record = serving.launch(one, say)
            mine.append(record)
            say(f"starting {record.name} on port {record.port}")
            if not together:
                _wait(record, say)
        if together:
            for record in mine:
                _wait(record, say)
        urls = {id(ask.target): record for ask, record in zip(asks, mine, strict=True)}
        live: list[tuple[Target | None, bool]] = []
        for target in targets:
            own = urls.get(id(target))
            if own is not None:
                live.append((Target(target.name, url=own.url, server=own.name), True))
            else:
                live.append((target if target.url else None, False))
        yield live
    finally:
        for record in mine:
            say(f"stopping {record.name}")
            try:
                outcome = serving.stop(record.name)
            except SessionError as error:  # ended from elsewhere meanwhile; the other must end all the same
                say(str(error))
                continue
            if not outcome.ended:
                say(outcome.text)
        if before is not None:
            signal.signal(signal.SIGHUP, before)


def _ignore_hangup() -> Any:
    """What stood there before; None where it cannot be set, outside the main thread."""
    if threading.current_thread() is not threading.main_thread():
        return None
    return signal.signal(signal.SIGHUP, signal.SIG_IGN)


def _bearing_a_lost_line(say: Callable[[str], None]) -> Callable[[str], None]:
    def told(text: str) -> None:
        with suppress(OSError):
            say(text)

    return told


def _wait(record: ServerRecord, say: Callable[[str], None]) -> None:
    serving.wait_ready(record, lambda state: say(f"{record.name}: {state.phase}"))


def _asks(targets: Sequence[Target]) -> list[_Ask]:
    found = []
    for number, target in enumerate(targets):
        if target.profile is not None:
            profile = profiles.load(target.profile)
            name = f"{profile.name}-{'AB'[number]}" if len(targets) > 1 else profile.name
            found.append(_Ask(target, profile, name))
    return found


def _together(asks: Sequence[_Ask]) -> bool:
    """Whether they may load side by side. Raises :class:`SessionError` where they cannot be up at once."""
    if len(asks) < 2:
        return True
    a, b = (ask.profile for ask in asks)
    if any(_takes_no_gpu(profile) for profile in (a, b)) or _node(a) != _node(b):
        return True
    why = preflight.share_gpus(a, b)
    if why is not None:
        raise SessionError(
            f"profiles {a.name} and {b.name} cannot run at once: {why}. Give each its own gpus, or a "
            "mem_fraction_static that leaves room for the other, or measure one with spectui run and compare the "
            "other against that run"
        )
    return not preflight.gpu_set(a) & preflight.gpu_set(b)


def _takes_no_gpu(profile: Profile) -> bool:
    return serving.is_simulated(serving.command_of(profile)) and profile.server.gpus is None


def _node(profile: Profile) -> str:
    return elsewhere.node_of(kind_of(serving.command_of(profile)), profile.server.host)


def _prepare(asks: Sequence[_Ask], targets: Sequence[Target]) -> list[serving.Prepared]:
    placed = _place(asks)
    limits = {ask.name: limits_for(ask.profile, ask.target, targets) for ask in asks}
    return [
        serving.prepare(ask.profile, name=ask.name, port=port, like=limits[ask.name])
        for ask, port in zip(asks, placed, strict=True)
    ]


def _place(asks: Sequence[_Ask]) -> list[int]:
    """A port for each such that none of all their ports collide. Raises :class:`SessionError` where typed ones do."""
    used = {record.port for record in servers.records() if alive(record)}
    wanted: list[int] = []
    nodes = [_node(ask.profile) for ask in asks]
    for ask, node in zip(asks, nodes, strict=True):
        typed = ask.profile.server.port
        beside = {port for port, other in zip(wanted, nodes, strict=False) if other == node}
        if typed is None or typed in beside:  # two starters have the same: the second moves
            typed = ports.free_port((typed or 30000) + (20 if wanted else 0), {*used, *wanted})
        wanted.append(typed)
    for node in dict.fromkeys(nodes):
        own = [(a, port) for a, port, other in zip(asks, wanted, nodes, strict=True) if other == node]
        asked = [serving.port_ask(ask.profile, ask.name, port) for ask, port in own]
        plan = ports.plan(asked, busy={}, free=lambda _port: True) if node else ports.plan(asked)
        if not plan.ok:
            near = "; ".join(use.text for use in plan.proposal)
            raise SessionError(f"{'; '.join(plan.conflicts)}. Free instead: {near}")
    return wanted


def limits_for(profile: Profile, own: Target, targets: Sequence[Target]) -> Profile | preflight.Limits | None:
    """What a baseline must have in common with the other side, where that speculates; None where nothing is known."""
    if profile.speculative.algorithm != "none":
        return None
    for other in targets:
        if other is own:
            continue
        if other.profile is not None:
            speculative = profiles.load(other.profile)
            return speculative if speculative.speculative.algorithm != "none" else None
        if other.url is not None:
            return limits_in_force(profile, other.url)
    return None


def limits_in_force(profile: Profile, url: str, key: str | None = None) -> preflight.Limits | None:
    """The limits of a running server, for a baseline; None where it cannot be asked (its start will show)."""
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.errors import EngineError
    from spectui.session import arms

    try:
        with SglangClient(url, key=arms.resolve_key(key) if key else None, timeout=3.0) as client:
            info = client.probe()
    except EngineError:
        return None
    if not info.speculates:
        return None
    return preflight.limits_of(profile, info.server, url)
