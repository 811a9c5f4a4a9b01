"""Servers from profiles: the launch of what was prepared, waiting for a real token, and the stop."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

from spectui.core.profile import Profile
from spectui.core.safe import safe_text
from spectui.hosts import elsewhere, memory, ports, serverlog, servers
from spectui.hosts import stop as stopping
from spectui.hosts.gpus import GpuSampler
from spectui.hosts.leftovers import leftovers
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.watch import ServerState, ServerWatch
from spectui.session import SessionError, turns
from spectui.session.preparing import (
    NEWEST,
    Foreseen,
    Prepared,
    ask_help,
    command_of,
    foresee,
    is_simulated,
    kept_as,
    plan_for,
    port_ask,
    ports_of,
    prepare,
    version_of,
    with_settings,
)
from spectui.store import profiles

__all__ = [
    "NEWEST",
    "Foreseen",
    "Prepared",
    "ask_help",
    "command_of",
    "failure_text",
    "foresee",
    "is_simulated",
    "kept_as",
    "launch",
    "plan_for",
    "port_ask",
    "ports_of",
    "prepare",
    "profile_of",
    "relaunch",
    "stop",
    "version_of",
    "wait_ready",
    "with_settings",
]


def launch(prepared: Prepared, say: Callable[[str], None] = lambda _text: None) -> ServerRecord:
    """Starts it and returns at once; :func:`wait_ready` follows the start.

    Where a server of the same name has only just ended, its memory is waited for first, at most 60 s; so are starts on
    the same GPU (:mod:`spectui.session.turns`). Raises
    :class:`SessionError` when it stays taken, or when that server has left workers behind.
    """
    old = servers.find_record(prepared.launch.name)
    if old is not None and old.here and not alive(old):
        _wait_for(old, say)
    try:
        with turns.turn(prepared.launch, say):
            return servers.launch(prepared.launch)
    except servers.LaunchError as error:
        raise SessionError(str(error)) from error


def _wait_for(old: ServerRecord, say: Callable[[str], None]) -> None:
    left = leftovers(old)
    if left:
        named = ", ".join(f"{row.name} ({row.pid})" for row in left)
        raise SessionError(
            f"the last {old.name} is gone but left behind: {named}. End them first: spectui stop {old.name} --leftovers"
        )
    written = serverlog.written_s(old.log_path)
    if old.simulated or not old.memory_before or written is None or time.time() - written > stopping.JUST_ENDED_S:
        return
    with GpuSampler(0.5) as sampler:
        sampler.wait_first(5.0)
        back = memory.wait(old.memory_before, sampler.latest, others_before=old.others_before, say=say)
    if not back.free:
        raise SessionError(f"not launched: {back.text}. {'; '.join(back.holders)}")


def wait_ready(
    record: ServerRecord,
    say: Callable[[ServerState], None] = lambda _state: None,
    *,
    cancelled: Callable[[], bool] = lambda: False,
    poll_s: float = 0.25,
) -> ServerState:
    """Until it produced a token. A failed start raises :class:`SessionError` with its cause; a slow one is waited for
    as long as the operator does: nothing is ended because it is slow."""
    watch = ServerWatch(record)
    while True:
        state = watch.poll()
        say(state)
        if state.ready or cancelled():
            return state
        if not state.running:
            raise SessionError(failure_text(record, state))
        time.sleep(poll_s)


def failure_text(record: ServerRecord, state: ServerState) -> str:
    """Why a start failed, with the lines that show it, what is left of it, and where the whole log is."""
    failure = state.failure
    behind = f"\n  {state.elsewhere}" if state.elsewhere else ""
    if failure is None:
        told = f"{record.name} ended by itself, exit code {state.exit_code}; the log says no reason: {record.log_path}"
        return told + behind
    telling = [line for line in failure.lines if "Traceback (most recent call last)" not in line]
    shown = "".join(f"\n  {safe_text(line, 160)}" for line in telling[-4:])
    hint = f" {failure.hint}." if failure.hint else ""
    away = elsewhere.on_another_node(record.kind, record.host)
    if failure.kind == "port taken" and not away and (holder := ports.holder(record.port)):
        hint += f" Port {record.port} is held by {holder.text}."
    left = "" if state.running else ", ".join(f"{row.name} ({row.pid})" for row in leftovers(record))
    if left:
        shown += f"\n  left behind: {left}; end them with: spectui stop {record.name} --leftovers"
    cause = safe_text(failure.cause, 400).rstrip(". ")
    return f"{record.name} failed, {failure.kind}: {cause}.{hint}{shown}{behind}\n  whole log: {record.log_path}"


def stop(
    name: str, say: Callable[[str], None] = lambda _text: None, *, leftovers: bool = False
) -> stopping.StopOutcome:
    """Ends a server that spectui started, by its name. Raises :class:`SessionError` when there is none."""
    record = servers.find_record(name)
    if record is None:
        known = ", ".join(r.name for r in servers.records()) or "none"
        raise SessionError(f"spectui has started no server named {name!r}; started: {known}", 2)
    return stopping.stop(record, abort=lambda: _abort_ours(record), say=say, with_leftovers=leftovers)


def _abort_ours(record: ServerRecord) -> None:
    from spectui.engines.sglang.client import SglangClient
    from spectui.store import secrets

    key, admin = (secrets.resolve(reference) if reference else None for reference in (record.key, record.admin_key))
    with SglangClient(record.url, key=key, admin_key=admin, timeout=3.0) as client:
        client.abort("spectui")


def relaunch(prepared: Prepared, old: str, say: Callable[[str], None] = lambda _text: None) -> ServerRecord:
    """Stops the managed server ``old``, waits until its memory and ports are back, and launches in its place.

    Raises :class:`SessionError`, naming who holds what, where they do not come back: nothing is launched then.
    """
    try:
        servers.check(prepared.launch)
    except servers.LaunchError as error:
        raise SessionError(f"{error} {old} was not touched") from error
    outcome = stop(old, say)
    if not outcome.clear:
        held = "; ".join(outcome.holders)
        raise SessionError(f"not relaunched: {outcome.text}{'. ' if held else ''}{held}")
    return launch(prepared, say)


def profile_of(record: ServerRecord) -> Profile | None:
    """The profile that a managed server was started from, where it can still be read."""
    if record.profile is None or not Path(record.profile).is_file():
        return None
    return profiles.load(record.profile)
