"""Servers from profiles: the plan before a launch, the launch, waiting for a real token, and the stop."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.launch_line import arrange
from spectui.core.plan import Plan, resolve
from spectui.core.profile import Profile, SpeculativePart
from spectui.engines.sglang.contract import SETTINGS, Contract, contract_for
from spectui.hosts import commands, ports, servers
from spectui.hosts import stop as stopping
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.watch import ServerState, ServerWatch
from spectui.session import SessionError
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


def prepare(
    profile: Profile, *, port: int | None = None, version: str | None = None, name: str | None = None
) -> Prepared:
    """Raises :class:`SessionError` where the plan is refused or the ports collide."""
    plan = plan_for(profile, version)
    if not plan.ok:
        reasons = "\n".join(f"  {finding.text}" for finding in plan.refusals)
        raise SessionError(f"profile {profile.name} would not start:\n{reasons}")
    wanted = port or profile.server.port or ports.free_port(30000)
    server = profile.server.arguments()
    ask = ports.PortAsk(
        name or profile.name,
        wanted,
        dp_attention=bool(server.get("enable_dp_attention")),
        dp_size=int(server.get("dp_size") or 1),
    )
    ported = ports.plan([ask], others=[_use(record) for record in servers.records() if alive(record)])
    if not ported.ok:
        near = "; ".join(use.text for use in ported.proposal)
        raise SessionError(f"{'; '.join(ported.conflicts)}. Free instead: {near}")
    contract = contract_for(version or NEWEST)
    arranged = arrange(profile, _flags(contract), port=wanted)
    words = list(arranged.words)
    use = ported.uses[0]
    if "--nccl-port" not in words:
        words += ["--nccl-port", str(use.nccl_port)]
    incremental = contract.flag("incremental_streaming")
    if incremental and incremental not in words:
        words.append(incremental)  # without it an event repeats all the text before it: 167 MB for 6,000 tokens
    argv = _command(profile, words, wanted)
    gpus = tuple(str(gpu) for gpu in profile.server.gpus or ())
    launch = servers.LaunchPlan(
        name=name or profile.name,
        argv=tuple(argv),
        host=profile.server.host,
        port=wanted,
        log_path=str(locations.logs_dir() / f"{name or profile.name}-{time.strftime('%Y%m%d-%H%M%S')}.log"),
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
    return Prepared(profile, plan, launch, arranged.left_out, tuple(commands.notes(argv, gpus, dict(launch.env))))


def is_simulated(argv: list[str]) -> bool:
    return any(word in ("sim", "spectui.engines.sim") for word in argv[:5]) and any("spectui" in w for w in argv[:5])


def _command(profile: Profile, words: list[str], port: int) -> list[str]:
    command = profile.server.command
    template = commands.PLAIN if command is None else command if isinstance(command, str) else " ".join(command)
    if "{args}" not in template:
        template += " {args}"
    places = {
        "python": sys.executable if "spectui" in template else "python3",
        "host": profile.server.host,
        "port": str(port),
        "name": profile.name,
        "gpus": ",".join(str(gpu) for gpu in profile.server.gpus or ()),
        "model": profile.server.model_path or "",
        "cwd": profile.server.cwd or "",
    }
    try:
        return commands.expand(template, words, places)
    except commands.TemplateError as error:
        raise SessionError(f"{profile.path or profile.name}: server.command: {error}", 2) from error


def _flags(contract: Contract) -> dict[str, str]:
    return {key: flag for key in SETTINGS if (flag := contract.flag(key)) is not None}


def _use(record: ServerRecord) -> ports.PortUse:
    return ports.PortUse(record.name, record.port, record.derived_ports, record.nccl_port or record.port)


def launch(prepared: Prepared) -> ServerRecord:
    """Starts it and returns at once; :func:`wait_ready` follows the start."""
    try:
        return servers.launch(prepared.launch)
    except servers.LaunchError as error:
        raise SessionError(str(error)) from error


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
    """Why a start failed, with the lines that show it and where the whole log is."""
    failure = state.failure
    if failure is None:
        return f"{record.name} ended by itself, exit code {state.exit_code}; the log says no reason: {record.log_path}"
    shown = "".join(f"\n  {line[:160]}" for line in failure.lines[-4:])
    hint = f" {failure.hint}" if failure.hint else ""
    return f"{record.name} failed: {failure.cause}.{hint}{shown}\n  whole log: {record.log_path}"


def stop(
    name: str, say: Callable[[str], None] = lambda _text: None, *, leftovers: bool = False
) -> stopping.StopOutcome:
    """Ends a server that spectui started, by its name. Raises :class:`SessionError` when there is none."""
    record = servers.find_record(name)
    if record is None:
        known = ", ".join(r.name for r in servers.records()) or "none"
        raise SessionError(f"spectui has started no server named {name!r}; started: {known}", 2)

    def abort() -> None:
        from spectui.engines.sglang.client import SglangClient
        from spectui.store.secrets import resolve as secret

        reference = record.admin_key or record.key
        key = secret(reference) if reference else None
        with SglangClient(record.url, key=key, admin_key=key, timeout=3.0) as client:
            client.abort("spectui")

    return stopping.stop(record, abort=abort, say=say, with_leftovers=leftovers)


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
