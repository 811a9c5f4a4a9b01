"""Writes the tables of a profile into a TOML file that is whole at every moment, and keeps what others wrote in it."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import importlib
import os
import sys
import tempfile
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.profile import DEFAULT_HOST, Fault, ProfileError, migrate, without_unset
from spectui.core.profile_check import WORKLOAD_KEYS
from spectui.core.profile_server import SERVER_KEYS

tomllib: Any = importlib.import_module("tomllib" if sys.version_info >= (3, 11) else "tomli")

_LOCK_WAIT_S = 2.0
_TOP = frozenset({"schema", "name", "notes", "server", "speculative", "workload", "evidence"})
_WHOLE = ("server.args", "server.env")
"""Tables of which every key is the profile's."""


class ProfileConflict(ProfileError):
    """The file has changed since it was read, exists already, or is being written by another spectui."""


def digest_of(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()


def save_table(
    table: Mapping[str, Any],
    path: str | os.PathLike[str],
    *,
    digest: str | None = None,
    replace_existing: bool = False,
) -> bytes:
    """Write tables as TOML into a file that is whole at every moment. Unset (None) values are left out.

    ``digest``: of the content that the caller has read. Returns the bytes written.
    """
    target = Path(os.path.realpath(path))
    file = os.fspath(path)
    try:
        target.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with _lock(target.parent, file):
            old = target.read_bytes() if target.exists() else None
            if old is not None and not replace_existing:
                if digest is None:
                    raise ProfileConflict(file, (Fault("", "is there already: choose another name, or replace it"),))
                if digest_of(old) != digest:
                    text = "was changed by someone else since it was read: nothing was overwritten; load it again"
                    raise ProfileConflict(file, (Fault("", text),))
            content = _render(without_unset(table), old).encode("utf-8")
            if old is not None:
                _keep_older_schema(target, old)
            _write_whole(target, content)
            return content
    except (OSError, ValueError) as error:
        why = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise ProfileError(file, (Fault("", f"cannot be saved: {why}; nothing was overwritten"),)) from None


def _render(table: Mapping[str, Any], old: bytes | None) -> str:
    import tomlkit

    document = tomlkit.document()
    if old is not None:
        # a file that is no TOML is only written over when that was asked for
        with contextlib.suppress(UnicodeDecodeError, ValueError):
            document = tomlkit.parse(old.decode("utf-8-sig"))
        for before, now in (("spec", "speculative"), ("note", "notes")):
            if before in document and now not in document and now in table:
                document.remove(before)
    _update(document, table, "")
    return tomlkit.dumps(document)


def _update(container: Any, table: Mapping[str, Any], path: str) -> None:
    """Make a container say what the table says, touching only what differs."""
    import tomlkit

    for key in [key for key in container if key not in table and _ours(path, str(key))]:
        container.remove(key)
    for key, value in table.items():
        if (path, key, value) == ("server", "host", DEFAULT_HOST) and key not in container and len(container):
            continue  # it goes without saying, as it did in the file
        there = container.get(key)
        if isinstance(value, Mapping) and isinstance(there, Mapping):
            _update(there, value, f"{path}.{key}" if path else key)
        elif _plain(there) == value and type(_plain(there)) is type(value):
            continue
        elif isinstance(there, list) and isinstance(value, list) and value[: len(there)] == _plain(there):
            for entry in value[len(there) :]:
                there.append(tomlkit.item(entry) if isinstance(entry, Mapping) else entry)
        else:
            container[key] = tomlkit.item(value)


def _ours(path: str, key: str) -> bool:
    """Is a key that the profile no longer has one that it could have? Others are somebody's own and stay."""
    if path in _WHOLE:
        return True
    if path == "":
        return key in _TOP
    if path == "server":
        return key in SERVER_KEYS
    if path == "workload":
        return key in WORKLOAD_KEYS
    knobs = {knob.key for algorithm in algorithms.every() for knob in algorithm.knobs}
    if path == "speculative":
        return key in knobs or key == "plugin" or any(knob.startswith(f"{key}.") for knob in knobs)
    return f"{path.removeprefix('speculative.')}.{key}" in knobs


def _plain(value: Any) -> Any:
    return value.unwrap() if hasattr(value, "unwrap") else value


def _keep_older_schema(target: Path, old: bytes) -> None:
    """Before a file of an older schema is written anew, a copy of it is put beside it."""
    try:
        tables = tomllib.loads(old.decode("utf-8-sig"))
    except ValueError:
        return
    if migrate(tables, {})[2]:
        kept = target.with_name(f"{target.name}.schema0")
        if not kept.exists():
            _write_whole(kept, old)


def _write_whole(target: Path, content: bytes) -> None:
    """The new content, or the old file untouched and no other file left."""
    mode = target.stat().st_mode & 0o777 if target.exists() else 0o600
    handle, name = tempfile.mkstemp(prefix=f".{target.name}.", dir=target.parent)
    try:
        with os.fdopen(handle, "wb") as stream:
            stream.write(content)
            stream.flush()
            os.fsync(stream.fileno())
        os.chmod(name, mode)
        os.replace(name, target)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(name)
        raise


@contextlib.contextmanager
def _lock(folder: Path, file: str) -> Iterator[None]:
    """One writer a folder at a time. Where the file system has no locks, the digest alone has to do."""
    import fcntl

    handle = os.open(folder, os.O_RDONLY)
    try:
        end = time.monotonic() + _LOCK_WAIT_S
        while True:
            try:
                fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
                break
            except OSError as error:
                if error.errno not in (errno.EWOULDBLOCK, errno.EAGAIN):
                    break
                if time.monotonic() > end:
                    text = "another spectui is saving here at this moment: nothing was overwritten; try again"
                    raise ProfileConflict(file, (Fault("", text),)) from None
                time.sleep(0.02)
        yield
    finally:
        os.close(handle)
