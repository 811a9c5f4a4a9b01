"""Relaunching a server that spectui did not start: from its own command, folder and environment, and only on request.

Nothing is ended before the difference was shown and its URL was typed. From then on it is a server like any other that
spectui started: with a record, a log and a profile.
"""

from __future__ import annotations

import os
import re
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

from spectui.core.profile import Profile, ProfileError, ServerPart
from spectui.core.redact import HIDDEN
from spectui.hosts import discover, processes, templates, traffic
from spectui.hosts import stop as stopping
from spectui.hosts.discover import FoundServer
from spectui.hosts.ports import derived_ports
from spectui.hosts.records import ServerRecord
from spectui.hosts.servers import LaunchError, LaunchPlan, check
from spectui.hosts.servers import launch as launch_plan
from spectui.hosts.templates import Template
from spectui.session import SessionError, arms, serving
from spectui.session.adopted_words import (
    OWN,
    WordChange,
    changes_of,
    is_speculative,
    settings_of,
    split,
    value_of,
    without,
)
from spectui.store import profiles

_OF_A_LOGIN = re.compile(
    r"^(_|SHLVL|PWD|OLDPWD|TERM|COLUMNS|LINES|SSH_.*|XDG_.*|DBUS_.*|TMUX.*|STY|WINDOW|DISPLAY|SPECTUI_.*|LS_COLORS)$"
)
"""Variables of a login rather than of a server."""
_LOCAL = ("localhost", "127.0.0.1", "::1", "0.0.0.0", "")  # noqa: S104 names of this node


@dataclass(frozen=True, slots=True)
class Adoption:
    """A relaunch as it would be made. :func:`relaunch` makes it, given the typed URL."""

    found: FoundServer
    template: Template
    profile: Profile
    prepared: serving.Prepared
    launch: LaunchPlan
    changes: tuple[WordChange, ...]
    missing: tuple[str, ...]
    """What of the old server could not be taken over, in words."""
    traffic: traffic.Traffic

    @property
    def url(self) -> str:
        return self.found.url

    @property
    def lines(self) -> tuple[str, ...]:
        """What the operator must see before typing the URL."""
        found = self.found
        said = [f"{found.url}: pid {found.pid}, user {found.user}, started in {found.cwd or 'a folder not known'}"]
        if self.traffic.busy:
            said.append(f"OTHERS ARE USING IT: {self.traffic.text}. Their requests end with it")
        elif self.traffic.busy is None:
            said.append(f"whether others use it is not known: {self.traffic.text}")
        said += [change.text for change in self.changes] or ["the same arguments as before"]
        said += [f"not taken over: {text}" for text in self.missing]
        return tuple(said)


def find(url: str) -> FoundServer:
    """The server of this node behind a URL. Raises :class:`SessionError`."""
    target = arms.resolve(url)
    if target.url is None:
        raise SessionError(f"{url} is no URL of a server", 2)
    parts = urlsplit(target.url)
    host = parts.hostname or ""
    here = host in _LOCAL or host.startswith("127.") or host == os.uname().nodename
    found = [s for s in discover.find() if s.port == (parts.port or 80) and not s.leftover]
    found = [s for s in found if here or s.host == host]
    if not found:
        where = "" if here else f" ({host} is not this node: run spectui there)"
        raise SessionError(f"no SGLang server of this node is at {target.url}{where}. Lists: spectui servers")
    return found[0]


def propose(
    url: str,
    *,
    algorithm: str | None = None,
    knobs: Mapping[str, Any] | None = None,
    key: str | None = None,
    admin_key: str | None = None,
    name: str | None = None,
) -> Adoption:
    """What a relaunch would be; nothing is touched. Without an algorithm the settings stay as they are.

    ``key`` and ``admin_key``: references, needed where the server has keys. Raises :class:`SessionError` with the
    reason where it must not be relaunched from here.
    """
    found = find(url)
    _refuse(found)
    template = templates.template_of(found)
    running = traffic.look(found.url, key=arms.resolve_key(key) if key else None)
    head, words = split(template.argv)
    profile = _profile(found, template, head, words, key, admin_key, name)
    if algorithm is not None:
        profile = serving.with_settings(profile, algorithm, knobs or {})
    else:
        profile = replace(profile, speculative=settings_of(words))
    ask = serving.port_ask(profile, profile.name, found.port)
    ports = (found.port, *derived_ports(found.port, ask.dp_attention, ask.dp_size))
    prepared = serving.prepare(
        profile, port=found.port, version=running.version or None, name=profile.name, all_flags=True, freed=ports
    )
    env = dict(template.env)
    launch = replace(prepared.launch, env=env, cwd=template.cwd, inherit=False)
    changes = changes_of(template.argv, launch.argv)
    return Adoption(found, template, profile, prepared, launch, changes, template.missing, running)


def relaunch(adoption: Adoption, typed: str, say: Callable[[str], None] = lambda _text: None) -> ServerRecord:
    """Ends the found server and starts it again with the new settings; returns at once, as ``serving.launch``.

    ``typed``: its URL, as the operator typed it. Raises :class:`SessionError`: for another text nothing is touched;
    where memory or ports do not come back nothing is launched, and the old command is told.
    """
    if typed.strip().rstrip("/") not in (adoption.url, adoption.url.removeprefix("http://")):
        raise SessionError(f"not relaunched: type {adoption.url} to confirm", 2)
    again = find(adoption.url)
    if (again.pid, again.start_time) != (adoption.found.pid, adoption.found.start_time):
        raise SessionError(f"another server is at {adoption.url} than the one that was shown: look at it again")
    _refuse(again)
    old = _record_of(again)
    try:
        check(adoption.launch)
    except LaunchError as error:
        raise SessionError(f"{error} The running server was not touched") from error
    profile = _save(adoption.profile)
    outcome = stopping.stop(old, say=say)
    if not outcome.clear:
        held = "; ".join(outcome.holders)
        raise SessionError(f"not relaunched: {outcome.text}. {held}".rstrip(". ") + _how_again(adoption))
    try:
        return launch_plan(replace(adoption.launch, profile=profile.path or profile.name))
    except LaunchError as error:
        raise SessionError(f"{error}{_how_again(adoption)}") from error


def _how_again(adoption: Adoption) -> str:
    import shlex

    return f"\n  its command was: {shlex.join(adoption.template.argv)}\n  in {adoption.template.cwd}"


def _refuse(found: FoundServer) -> None:
    if found.record is not None:
        raise SessionError(
            f"{found.url} was started by spectui as {found.record.name}: spectui launch PROFILE --replace "
            f"{found.record.name}"
        )
    if processes.uid_of(found.pid) != os.getuid():
        raise SessionError(f"{found.url} belongs to user {found.user or 'unknown'}: only they can relaunch it")
    if found.supervised is not None:
        raise SessionError(f"{found.url} is not relaunched: {found.supervised.sentence}")


def _record_of(found: FoundServer) -> ServerRecord:
    """What the stop needs to know of it. It has no group of ours, so only its own descendants can be ended with it."""
    identity = processes.identify(found.pid)
    if identity is None or abs(identity.start_time - found.start_time) > 1.0:
        raise SessionError(f"{found.url} has ended by itself: launch it from a profile")
    return ServerRecord(
        name=found.url,
        id=uuid.uuid4().hex,
        pid=found.pid,
        start_time=identity.start_time,
        host=found.host,
        port=found.port,
        argv=found.argv,
        log_path="",
        ticks=identity.ticks,
        boot=identity.boot,
        node=os.uname().nodename,
        pgid=-1,
        sid=-1,
        uid=os.getuid(),
        simulated=found.simulated,
    )


def _profile(
    found: FoundServer,
    template: Template,
    head: Sequence[str],
    words: Sequence[str],
    key: str | None,
    admin_key: str | None,
    name: str | None,
) -> Profile:
    if not head:
        raise SessionError(f"{found.url}: its command could not be read, so it cannot be made again")
    for flag, reference, option in (("--api-key", key, "--key"), ("--admin-api-key", admin_key, "--admin-key")):
        if value_of(words, flag) is not None and reference is None:
            raise SessionError(
                f"{found.url} was started with {flag}, and keys are not copied: give it again with {option} env:NAME", 2
            )
    kept = without(words, lambda flag: flag in OWN or is_speculative(flag))
    if any(HIDDEN in word for word in kept):
        raise SessionError(f"{found.url}: its command holds a key that is not copied: launch it from a profile")
    env = {n: v for n, v in template.env.items() if not _OF_A_LOGIN.match(n) and os.environ.get(n) != v}
    server = ServerPart(
        command=tuple(word.replace("{", "{{").replace("}", "}}") for word in head),
        cwd=template.cwd,
        env=env,
        host=value_of(words, "--host") or found.host,
        port=found.port,
        model_path=value_of(words, "--model-path", "--model"),
        args=tuple(kept),
        api_key=key if value_of(words, "--api-key") is not None else None,
        admin_api_key=admin_key if value_of(words, "--admin-api-key") is not None else None,
    )
    notes = f"taken over from a running server, pid {found.pid}"
    return Profile(name or f"adopted-{found.port}", notes, server)


def _save(profile: Profile) -> Profile:
    """As a file among the operator's profiles; one of that name from before is kept under its own name."""
    from spectui.store import locations

    for number in range(1, 100):
        name = profile.name if number == 1 else f"{profile.name}-{number}"
        path = locations.profiles_dir() / profiles.file_name(name)
        if not path.exists():
            try:
                return profiles.save(replace(profile, name=name), path)
            except ProfileError as error:
                raise SessionError(f"its profile cannot be saved, nothing was touched: {error}") from error
    raise SessionError("there are 99 profiles of that name already: remove some")
