"""What the operator names as an arm: a URL, a profile, a managed server, or a stored run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import urlsplit

from spectui.core.spec import ArmSpec
from spectui.session import SessionError
from spectui.store import locations, secrets

if TYPE_CHECKING:
    from spectui.hosts.records import ServerRecord


@dataclass(frozen=True, slots=True)
class Target:
    """What a name stands for; exactly one of url, profile and run is set."""

    name: str
    url: str | None = None
    profile: Path | None = None
    run: Path | None = None
    run_arm: str | None = None
    """Which arm of a stored run of two."""
    server: str | None = None
    """Name of the managed server behind ``url``."""


def resolve(text: str) -> Target:
    """Raises :class:`SessionError` when nothing answers to the name."""
    if "://" in text or _looks_like_address(text):
        from spectui.engines.sglang.address import dialled, shown
        from spectui.engines.sglang.errors import BadAddress

        try:
            url = dialled(text)
        except BadAddress as error:
            raise SessionError(
                f"{shown(text)} is not a URL that a server can have; write http://HOST:PORT", 2
            ) from error
        # A user and password in an address would be stored with the run; keys have an option of their own.
        return Target(shown(text), url=shown(url))
    run = _run_folder(text)
    if run is not None:
        return Target(text, run=run)
    name, colon, letter = text.rpartition(":")
    if colon and letter and (run := _run_folder(name)) is not None:
        return Target(text, run=run, run_arm=letter)
    from spectui.hosts import servers

    for record in servers.records():
        if record.name == text:
            return Target(text, url=record.url, server=record.name)
    from spectui.store import profiles

    path = profiles.find(text)
    if path is not None:
        return Target(text, profile=path)
    raise SessionError(
        f"{text!r} is neither a URL nor a managed server, a profile or a stored run. "
        "Lists: spectui servers, spectui profiles, spectui runs",
        2,
    )


def _looks_like_address(text: str) -> bool:
    host, colon, port = text.rpartition(":")
    return bool(colon and host and port.isdigit() and "/" not in host)


def _run_folder(text: str) -> Path | None:
    for folder in (Path(text), locations.runs_dir() / text):
        if (folder / "journal.jsonl").is_file():
            return folder
    return None


def arm_spec(
    name: str, target: Target, *, key: str | None = None, admin_key: str | None = None, trusted: bool = False
) -> ArmSpec:
    """The runner's view of a live arm. ``trusted``: started by this very command, so ours to flush. A managed server's
    own key references hold where none are given.

    Raises :class:`SessionError` where a key's reference leads nowhere.
    """
    assert target.url is not None, "a live arm has a URL"
    record = managed(target.url)
    if record is not None:
        key, admin_key = key or record.key, admin_key or record.admin_key
    for reference in (key, admin_key):
        if reference is not None:
            resolve_key(reference)
    return ArmSpec(
        name=name,
        url=target.url,
        label=target.name,
        key=key,
        admin_key=admin_key,
        owned=trusted or record is not None,
        server_pid=stranger(target.url) if record is None else record.pid,
    )


def stranger(url: str) -> int | None:
    """First process of a server on this node that spectui did not start, to tie GPUs and environment to its arm.

    None for addresses of other nodes, and where no process of this node is seen to serve there.
    """
    from spectui.engines.sglang.address import is_loopback
    from spectui.hosts import discover

    if not is_loopback(url):
        return None
    port = urlsplit(url).port
    here = [s for s in discover.find() if s.port == port and not s.leftover and is_loopback(s.url)]
    heard = [server for server in here if server.listening is not False]
    return heard[0].pid if heard else None


def managed(url: str) -> ServerRecord | None:
    """The record of the running server that spectui started at this address, however its host is spelled."""
    from spectui.engines.sglang.address import is_loopback
    from spectui.hosts import records, servers

    here, port = is_loopback(url), urlsplit(url).port
    for record in servers.records():
        same = record.url == url or (here and is_loopback(record.url) and record.port == port)
        if same and records.alive(record):
            return record
    return None


def resolve_key(reference: str) -> str:
    """The secret behind a reference, as :func:`spectui.store.secrets.reveal`; raises :class:`SessionError`."""
    try:
        return secrets.reveal(reference)
    except secrets.SecretError as error:
        raise SessionError(str(error), error.exit_code) from None
