"""A launch as it would be made: everything that can be known of it before anything starts."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from spectui import algorithms
from spectui.core.launch_line import TemplateError, arrange, kind_of, launch_command
from spectui.core.plan import Plan, resolve
from spectui.core.profile import Profile, SpeculativePart
from spectui.engines.sglang.contract import contract_for
from spectui.hosts import commands, elsewhere, interpreter, ports, servers
from spectui.hosts.records import ServerRecord, alive, file_name
from spectui.session import SessionError, places, preflight
from spectui.store import locations, model_files

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
    target, draft = (model_files.read_config(folder) for folder in preflight.folders(profile))
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
    head = command_of(profile)
    found = _known(profile, head)
    reasons = [finding.text for finding in plan.refusals] + list(found.blocks)
    if reasons:
        told = "\n".join(f"  {reason}" for reason in reasons)
        raise SessionError(f"profile {profile.name} would not start:\n{told}")
    if isinstance(like, Profile):
        like = preflight.equal_limits(profile, plan_for(like, version), like.server.arguments(), like.name)
    limits = like or preflight.Limits({})
    wanted = port or profile.server.port or ports.free_port(30000)
    head = _head(profile, wanted, name)
    node = elsewhere.node_of(kind_of(head), profile.server.host)
    use = _ports(profile, name or profile.name, wanted, freed, node)
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
        log_path=str(locations.logs_dir() / f"{file_name(name or profile.name)}-{time.strftime('%Y%m%d-%H%M%S')}.log"),
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
    notes = [*commands.notes(argv, gpus, _environment(profile)), *found.notes, *limits.notes]
    return Prepared(profile, plan, launch, arranged.left_out, tuple(notes), version, tuple(head))


@dataclass(frozen=True, slots=True)
class Foreseen:
    """What a launch of a profile would come to, ports and the plan apart."""

    errors: tuple[str, ...]
    """A launch would be refused, or a run."""
    notes: tuple[str, ...]


def foresee(profile: Profile, version: str | None = None) -> Foreseen:
    """Everything but the plan's own refusals, without starting anything: template, program, folder, keys, models,
    workload. Ports in use now say nothing about a profile."""
    errors = list(places.workload(profile))
    try:
        head = command_of(profile)
    except SessionError as error:
        return Foreseen((*errors, str(error)), ())
    found = _known(profile, head)
    launch = servers.LaunchPlan(
        name=profile.name,
        argv=tuple(head),
        host=profile.server.host,
        port=profile.server.port or 0,
        log_path="",
        env=dict(profile.server.env),
        cwd=profile.server.cwd,
        key=profile.server.api_key,
        admin_key=profile.server.admin_api_key,
    )
    try:
        servers.check(launch)
    except servers.LaunchError as error:
        errors.append(f"{error.what}. {error.next}")
    gpus = tuple(str(gpu) for gpu in profile.server.gpus or ())
    notes = [*found.notes, *commands.notes(head, gpus, _environment(profile))]
    if version is None and interpreter.runs_sglang(head):
        notes.append(f"the SGLang version of {head[0]} could not be asked: planned as for {NEWEST}")
    return Foreseen((*errors, *found.blocks), tuple(notes))


def _known(profile: Profile, head: Sequence[str]) -> preflight.Draft:
    """What the files and the command say against it, and what should be known."""
    draft = preflight.check_draft(profile)
    blocks, notes = list(draft.blocks), list(draft.notes)
    if why := elsewhere.returns_at_once(head):
        blocks.append(f"{why}, so its start could not be followed nor its end be made: use a command that stays.")
    if not is_simulated(head):
        argv = [*head, *(["--model-path"] if profile.server.arguments().get("model_path") else [])]
        named = places.models(profile, argv)
        blocks += named.blocks
        notes += named.notes
    return preflight.Draft(tuple(blocks), tuple(notes))


def kept_as(prepared: Prepared, profile: Profile) -> Prepared:
    """The same launch, recorded as one of this profile's file."""
    return replace(prepared, profile=profile, launch=replace(prepared.launch, profile=profile.path or profile.name))


def ask_help(prepared: Prepared) -> None:
    """Has the target's own ``--help`` asked in the background, once a version, for the launches to come."""
    if prepared.launch.simulated or interpreter.listed(prepared.head, prepared.version) is not None:
        return
    env = _environment(prepared.profile)
    interpreter.ask_in_background(prepared.head, prepared.version, env, prepared.profile.server.cwd)


def is_simulated(argv: Sequence[str]) -> bool:
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


def _ports(profile: Profile, name: str, port: int, freed: Collection[int], node: str) -> ports.PortUse:
    ask = port_ask(profile, name, port)
    others = [
        _use(record)
        for record in servers.records()
        if alive(record) and record.port not in freed and elsewhere.node_of(record.kind, record.host) == node
    ]
    if node:  # of another node's ports no more is known than which of our own servers there have
        ported = ports.plan([ask], busy={}, others=others, free=lambda _port: True)
    else:
        busy = {number: holder.text for number, holder in ports.listening().items() if number not in freed}
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


def with_settings(profile: Profile, algorithm: str, knobs: Mapping[str, Any]) -> Profile:
    """The profile with another algorithm or other knobs, everything else the same."""
    chosen = algorithms.for_name(algorithm)
    kept = {key: value for key, value in knobs.items() if value is not None}
    return replace(profile, speculative=SpeculativePart(chosen.name, kept, chosen.plugin))
