"""Where to dial for the address that a person or a server gave, and whose keys to use."""

from __future__ import annotations

import ipaddress
import os
from collections.abc import Mapping
from urllib.parse import SplitResult, urlsplit, urlunsplit

from spectui.engines.sglang.errors import BadAddress
from spectui.store import secrets

_ANY = {"0.0.0.0": "127.0.0.1", "::": "::1"}  # noqa: S104  (what servers listen on, not what we bind)
ENV = "env"
"""A choice of proxy: whatever the environment names."""
_PROXY_VARIABLES = {"http": ("http_proxy", "HTTP_PROXY"), "https": ("https_proxy", "HTTPS_PROXY")}


def _split(text: str) -> SplitResult:
    given = text.strip()
    if given.isdigit():
        given = f"127.0.0.1:{given}"
    if "://" not in given:
        given = f"http://{given}"
    try:
        parts = urlsplit(given)
        port = parts.port
    except ValueError as error:
        raise BadAddress(f"not an address ({error})", shown(text), "Write it as http://HOST:PORT") from None
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0 or any(c <= " " for c in given):
        raise BadAddress("not an http address", shown(text), "Write it as http://HOST:PORT")
    return parts


def shown(text: str) -> str:
    """An address fit to be shown: no user, no password, no query, no control characters."""
    clean = "".join(character if character.isprintable() else "?" for character in text.strip())[:200]
    head, separator, tail = clean.rpartition("@")
    if separator:
        scheme, mark, _ = head.partition("://")
        clean = f"{scheme}{mark}{tail}" if mark else tail
    return clean.partition("?")[0]


def dialled(text: str) -> str:
    """The base URL to dial: scheme added, 0.0.0.0 and :: become loopback, a trailing ``/v1`` falls away.

    Raises :class:`BadAddress` for what cannot be an address.
    """
    parts = _split(text)
    host = _ANY.get(parts.hostname or "", parts.hostname or "")
    netloc = f"[{host}]" if ":" in host else host
    if parts.port is not None:
        netloc += f":{parts.port}"
    if parts.username is not None:
        netloc = f"{parts.netloc.rpartition('@')[0]}@{netloc}"
    path = parts.path.rstrip("/")
    if path.endswith("/v1"):
        path = path[:-3]
    return urlunsplit((parts.scheme, netloc, path, "", ""))


def is_loopback(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    if host == "localhost" or host.endswith(".localhost"):
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def proxy_variable(url: str, environment: Mapping[str, str] | None = None) -> str | None:
    """Name of the environment variable whose proxy would be used for this address, if any."""
    values: Mapping[str, str] = os.environ if environment is None else environment
    names: list[str] = [*_PROXY_VARIABLES.get(urlsplit(url).scheme, ()), "all_proxy", "ALL_PROXY"]
    for name in names:
        if values.get(name):
            return name
    return None


def proxy_of(url: str, choice: str | None) -> str | None:
    """The proxy for an address, None for none: for loopback there never is one. ``choice``: a proxy's address, or
    :data:`ENV`, whose NO_PROXY is heeded."""
    if not choice or is_loopback(dialled(url)):
        return None
    if choice != ENV:
        return choice if "://" in choice else f"http://{choice}"
    from urllib import request

    found = request.getproxies_environment()
    parts = urlsplit(dialled(url))
    if request.proxy_bypass_environment(parts.netloc.rpartition("@")[2], found):  # type: ignore[attr-defined]
        return None
    return found.get(parts.scheme) or found.get("all")


def read_key(reference: str | None, environment: Mapping[str, str] | None = None) -> str | None:
    """The key behind a reference; None for none.

    Raises :class:`BadAddress`, as every fault of what a client is given, when the reference leads nowhere or is the
    key itself.
    """
    if not reference:
        return None
    try:
        return secrets.reveal(reference, environment)
    except secrets.SecretError as error:
        raise BadAddress(str(error), "key", "Set it, or name another variable or file") from None
