"""Servers from profiles: the plan before a launch, the launch, waiting for a real token, and the stop."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.launch_line import TemplateError, arrange, kind_of, launch_command
from spectui.core.plan import Plan, resolve
from spectui.core.profile import Profile, SpeculativePart
from spectui.core.safe import safe_text
from spectui.engines.sglang.contract import contract_for
from spectui.hosts import commands, elsewhere, interpreter, memory, ports, serverlog, servers
from spectui.hosts import stop as stopping
from spectui.hosts.gpus import GpuSampler
from spectui.hosts.leftovers import leftovers
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.watch import ServerState, ServerWatch
from spectui.session import SessionError, preflight, turns
from spectui.store import locations, model_files, profiles

NEWEST = "0.5.15"
"""Whose flags are used where the version of the target is not known before it runs."""


@dataclass(frozen=True, slots=True)
class Prepared:
    """A launch as it would be made: what the server will make of it, and the exact command."""

    profile: Profile
    plan: Plan
    launch: servers.LaunchPlan
    left_out: tuple[tuple[str, str], ...]
    notes: tuple[str, ...]
    version: str | None = None
    """What the target's interpreter says of itself; None where it could not be asked."""
    head: tuple[str, ...] = ()
    """The command without the server's arguments."""


def plan_for(profile: Profile, version: str | None = None) -> Plan:
    """What a server of this version makes of the profile; never starts anything."""
    server = profile.server.arguments()
    target = model_files.read_config(profile.server.model_path)
    draft_path = profile.speculative.knobs.get("draft_model_path")
    draft = model_files.read_config(draft_path if isinstance(draft_path, str) else None)
    return resolve(
        algorithms.for_name(profile.speculative.algorithm),
        profile.speculative.knobs,
        server,
        version,
        model=model_files.facts(target, draft),
        env=profile.server.env,
    )


def version_of(profile: Profile) -> str | None:
    """The SGLang version that this profile would start, asked of its interpreter; None where that cannot be."""
    args = profile.server.arguments()
    if args.get("sglang_version"):  # only the simulated server has such an argument
        return str(args["sglang_version"])
    head = command_of(profile)
    if is_simulated(head):
        from spectui.engines.sim import dialect

        return dialect.DEFAULT
    return interpreter.version_of(head, _environment(profile), profile.server.cwd)


def prepare(
    profile: Profile,
    *,
    port: int | None = None,
    version: str | None = None,
    name: str | None = None,
    like: Profile | preflight.Limits | None = None,
    all_flags: bool = False,
    freed: Collection[int] = (),
) -> Prepared:
    """Raises :class:`SessionError` where the plan is refused, draft and target do not fit, or the ports collide.

    ``like``: for a baseline, the speculative profile (or the limits in force on its server) that it will be held
    against. ``all_flags``: pass also what the target's ``--help`` does not list. ``freed``: ports of the server that it
    takes the place of, which will be free by then.
    """
    version = version or version_of(profile)
    plan = plan_for(profile, version)
    draft = preflight.check_draft(profile)
    reasons = [finding.text for finding in plan.refusals] + list(draft.blocks)
    if why := elsewhere.returns_at_once(command_of(profile)):
        reasons.append(f"{why}, so its start could not be followed nor its end be made: use a command that stays.")
    if reasons:
        told = "\n".join(f"  {reason}" for reason in reasons)
        raise SessionError(f"profile {profile.name} would not start:\n{told}")
    if isinstance(like, Profile):
        like = preflight.equal_limits(profile, plan_for(like, version), like.server.arguments(), like.name)
    limits = like or preflight.Limits({})
    wanted = port or profile.server.port or ports.free_port(30000)
    head = _head(profile, wanted, name)
    away = elsewhere.on_another_node(kind_of(head), profile.server.host)
    use = _ports(profile, name or profile.name, wanted, freed, away=away)
    contract = contract_for(version or NEWEST)
    # Without incremental streaming an event repeats all the text before it: 167 MB for 6,000 tokens.
    more = {**limits.args, "nccl_port": use.nccl_port, "incremental_streaming": True}
    arranged = arrange(
        profile,
        contract.flags(),
        port=wanted,
        listed=None if all_flags else interpreter.listed(head, version),
        more={key: value for key, value in more.items() if contract.supports(key)},
    )
    argv = _command(profile, list(arranged.words), wanted, name)
    gpus = tuple(str(gpu) for gpu in profile.server.gpus or ())
    launch = servers.LaunchPlan(
        name=name or profile.name,
        argv=tuple(argv),
        host=profile.server.host,
        port=wanted,
        log_path=str(locations.logs_dir() / f"{_file(name or profile.name)}-{time.strftime('%Y%m%d-%H%M%S')}.log"),
        env=dict(profile.server.env),
        cwd=profile.server.cwd,
        gpus=gpus,
        profile=profile.path or profile.name,
        simulated=is_simulated(argv),
        nccl_port=use.nccl_port,
        derived_ports=use.derived,
        key=profile.server.api_key,
        admin_key=profile.server.admin_api_key,
    )
    notes = [*commands.notes(argv, gpus, _environment(profile)), *draft.notes, *limits.notes]
    return Prepared(profile, plan, launch, arranged.left_out, tuple(notes), version, tuple(head))


def kept_as(prepared: Prepared, profile: Profile) -> Prepared:
    """The same launch, recorded as one of this profile's file."""
    return replace(prepared, profile=profile, launch=replace(prepared.launch, profile=profile.path or profile.name))


def ask_help(prepared: Prepared) -> None:
    """Has the target's own ``--help`` asked in the background, once a version, for the launches to come."""
    if prepared.launch.simulated or interpreter.listed(prepared.head, prepared.version) is not None:
        return
    env = _environment(prepared.profile)
    interpreter.ask_in_background(prepared.head, prepared.version, env, prepared.profile.server.cwd)


def is_simulated(argv: list[str]) -> bool:
    return any(word in ("sim", "spectui.engines.sim") for word in argv[:5]) and any("spectui" in w for w in argv[:5])


def _environment(profile: Profile) -> dict[str, str]:
    return {**os.environ, **profile.server.env}


def command_of(profile: Profile) -> list[str]:
    """The command without the server's arguments. Raises :class:`SessionError` for a template that is none."""
    return _head(profile, profile.server.port or 0, None)


def _head(profile: Profile, port: int, name: str | None) -> list[str]:
    return _command(profile, [], port, name)


def _command(profile: Profile, words: list[str], port: int, name: str | None) -> list[str]:
    ours = "spectui" in str(profile.server.command)
    python = sys.executable if ours else "python3"
    try:
        return launch_command(profile, words, port=port, name=name, python=python)
    except TemplateError as error:
        raise SessionError(f"{profile.path or profile.name}: {error}", 2) from error


def _file(name: str) -> str:
    from spectui.hosts.records import file_name

    return file_name(name)


def port_ask(profile: Profile, name: str, port: int) -> ports.PortAsk:
    """All ports that a server of this profile takes, those that nobody types included."""
    args = profile.server.arguments()

    def whole(key: str) -> int:
        value = args.get(key)
        return value if isinstance(value, int) and not isinstance(value, bool) else 0

    width = whole("attn_dp_size")  # 0.5.23's name for data-parallel attention
    return ports.PortAsk(
        name,
        port,
        dp_attention=bool(args.get("enable_dp_attention")) or width > 1,
        dp_size=max(1, whole("dp_size"), width),
        nccl_port=whole("nccl_port") or None,
    )


def _ports(profile: Profile, name: str, port: int, freed: Collection[int], *, away: bool) -> ports.PortUse:
    ask = port_ask(profile, name, port)
    if away:  # the ports are another node's, and nothing is known of them
        ported = ports.plan([ask], busy={}, free=lambda _port: True)
    else:
        busy = {number: holder.text for number, holder in ports.listening().items() if number not in freed}
        others = [_use(record) for record in servers.records() if alive(record) and record.port not in freed]
        ported = ports.plan(
            [ask], busy=busy, others=others, free=lambda number: number in freed or ports.is_free(number)
        )
    if not ported.ok:
        near = "; ".join(use.text for use in ported.proposal)
        raise SessionError(f"{'; '.join(ported.conflicts)}. Free instead: {near}")
    return ported.uses[0]


def ports_of(record: ServerRecord) -> tuple[int, ...]:
    """All ports of a managed server, to be given as ``freed`` when another takes its place."""
    return _use(record).all


def _use(record: ServerRecord) -> ports.PortUse:
    return ports.PortUse(record.name, record.port, record.derived_ports, record.nccl_port or record.port)


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


def with_settings(profile: Profile, algorithm: str, knobs: Mapping[str, Any]) -> Profile:
    """The profile with another algorithm or other knobs, everything else the same."""
    chosen = algorithms.for_name(algorithm)
    kept = {key: value for key, value in knobs.items() if value is not None}
    return replace(profile, speculative=SpeculativePart(chosen.name, kept, chosen.plugin))


def profile_of(record: ServerRecord) -> Profile | None:
    """The profile that a managed server was started from, where it can still be read."""
    if record.profile is None or not Path(record.profile).is_file():
        return None
    return profiles.load(record.profile)
