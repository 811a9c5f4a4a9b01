"""Tuning profiles on disk: read with every fault named, written so that comments stay and nothing is ever lost."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Mapping
from dataclasses import dataclass, replace
from importlib import resources
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.profile import Fault, Profile, ProfileError, SpeculativePart, line_numbers, migrate
from spectui.core.profile_check import check
from spectui.core.settings import Knob
from spectui.store import locations
from spectui.store.toml_file import ProfileConflict, digest_of, save_table, tomllib

_LARGEST = 64 * 1024**2
"""Of a file that is read at all: a profile with years of evidence has some megabytes."""


@dataclass(frozen=True, slots=True)
class Listed:
    """A profile in a list; one that cannot be read is listed with its faults."""

    name: str
    path: str
    starter: bool
    profile: Profile | None
    faults: tuple[Fault, ...] = ()


def known_knobs() -> dict[str, Knob]:
    """Every neutral knob of every algorithm."""
    return {knob.key: knob for algorithm in reversed(algorithms.every()) for knob in algorithm.knobs}


def validate(text: str, file: str = "", *, name: str = "") -> Profile:
    """The profile in TOML text. Raises ProfileError with all faults."""
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise ProfileError(file, (_not_toml(error),)) from None
    except RecursionError:
        raise ProfileError(file, (Fault("", "is nested too deeply"),)) from None
    tables, lines, _ = migrate(tables, line_numbers(text))
    profile, faults = check(
        tables, algorithms.find, algorithms.nearest, lines=lines, knobs=known_knobs(), name=name or "unnamed"
    )
    if profile is None:
        raise ProfileError(file, tuple(fault for fault in faults if fault.level == "fault"))
    return profile


def load(path_or_name: str | os.PathLike[str]) -> Profile:
    """A profile by path, or by the name of one in the user's folder or among the starters. Raises ProfileError."""
    path = _resolve(path_or_name)
    file = os.fspath(path_or_name) if path == Path(path_or_name) else str(path)
    content = _read(path, file)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content[: error.start].count(b"\n") + 1
        raise ProfileError(file, (Fault("", "is not UTF-8 text", line),)) from None
    profile = validate(text.replace("\r\n", "\n"), file, name=path.stem)
    return replace(profile, path=os.path.abspath(path), digest=digest_of(content))


def find(name: str) -> Path | None:
    """Where the profile of this name is: a file, else one in the user's folder, else a starter. None: nowhere."""
    try:
        if Path(name).is_file():
            return Path(name)
    except (OSError, ValueError):
        return None
    if not name or "/" in name or "\0" in name or name.startswith("."):
        return None
    for folder in (locations.profiles_dir(), starters_dir()):
        path = folder / f"{name.removesuffix('.toml')}.toml"
        if path.is_file():
            return path
    for entry in list_all():
        if entry.name == name:
            return Path(entry.path)
    return None


def starters_dir() -> Path:
    """The profiles that come with spectui."""
    return Path(str(resources.files("spectui.store").joinpath("starters")))


def list_all() -> tuple[Listed, ...]:
    """The user's profiles by name, then the starters that none of them hides."""
    found: list[Listed] = []
    for folder, starter in ((locations.profiles_dir(), False), (starters_dir(), True)):
        for path in sorted(folder.glob("*.toml")):
            try:
                profile = load(path)
                entry = Listed(profile.name, str(path), starter, profile)
            except ProfileError as error:
                entry = Listed(path.stem, str(path), starter, None, error.faults)
            if not starter or entry.name not in {other.name for other in found}:
                found.append(entry)
    return tuple(found)


def file_name(name: str) -> str:
    """A file name for a profile's name."""
    stem = re.sub(r"[^A-Za-z0-9._-]+", "-", name).strip("-.")[:80]
    return f"{stem or 'profile'}.toml"


def save(profile: Profile, path: str | os.PathLike[str] | None = None, *, replace_existing: bool = False) -> Profile:
    """Write a profile; comments and unknown keys of a file that is there stay. Returns it with its place.

    Without a path it goes back to where it was read from, or into the user's folder; a starter is never written to.
    Raises ProfileConflict when the file has changed since it was read, or is there and was not read
    (``replace_existing`` allows that), and ProfileError when it cannot be written. The old file is then untouched.
    """
    target = Path(path) if path is not None else _home_of(profile)
    table = profile.as_table()
    _refuse_faults(table, str(target))
    content = save_table(
        table, target, digest=profile.digest if _same(profile.path, target) else None, replace_existing=replace_existing
    )
    return replace(profile, path=str(target), digest=digest_of(content))


def from_server(
    info: Mapping[str, Any],
    name: str,
    *,
    settings: Mapping[str, Any] | None = None,
    algorithm: str | None = None,
    url: str | None = None,
    notes: str | None = None,
) -> Profile:
    """A profile of a running server: ``info`` as ``/server_info`` gives it, ``settings`` its neutral knobs in force.

    Only arguments that matter to a fair comparison are taken over; keys become references.
    """
    from spectui.core.plan_rows import SERVER_KEYS
    from spectui.core.profile import ServerPart

    skip = {"model_path", "overlap_schedule", "cuda_graph_bs", "schedule_policy", "trust_remote_code"}
    args = {
        key: info[key]
        for key in SERVER_KEYS
        if key not in skip
        and info.get(key) not in (None, False, "", "auto")
        and not isinstance(info[key], (dict, list))
    }
    if info.get("trust_remote_code") is True:
        args["trust_remote_code"] = True
    host, port = info.get("host"), info.get("port")
    if url:
        from urllib.parse import urlsplit

        parts = urlsplit(url)
        host, port = parts.hostname or host, parts.port or port
    server = ServerPart(
        host=str(host or ServerPart().host),
        port=port if isinstance(port, int) else None,
        model_path=info.get("model_path"),
        args=args,
        api_key="env:SGLANG_API_KEY" if info.get("api_key") else None,
        admin_api_key="env:SGLANG_ADMIN_API_KEY" if info.get("admin_api_key") else None,
    )
    chosen = algorithms.for_name(algorithm if algorithm is not None else info.get("speculative_algorithm"))
    known = {knob.key for knob in chosen.knobs}
    knobs = {key: value for key, value in (settings or {}).items() if key in known and value is not None}
    return Profile(name, notes, server, SpeculativePart(chosen.name, knobs, chosen.plugin))


def _resolve(given: str | os.PathLike[str]) -> Path:
    path = Path(given)
    text = os.fspath(given)
    if not text.strip():
        raise ProfileError("profile", (Fault("", "has no name; spectui profiles lists those there are"),))
    if path.exists() or "/" in text or text.endswith(".toml"):
        return path
    found = find(text)
    if found is not None:
        return found
    import difflib

    names = [entry.name for entry in list_all()]
    close = difflib.get_close_matches(text, names, n=1)
    perhaps = f"; did you mean {close[0]}?" if close else ""
    raise ProfileError(text, (Fault("", f"there is no such file or profile{perhaps}"),))


def _read(path: Path, file: str) -> bytes:
    try:
        found = path.stat()
        if stat.S_ISFIFO(found.st_mode) or stat.S_ISSOCK(found.st_mode) or stat.S_ISCHR(found.st_mode):
            raise ProfileError(file, (Fault("", "is a pipe or a device, not a profile"),))
        if found.st_size > _LARGEST:
            raise ProfileError(file, (Fault("", f"is larger than {_LARGEST // 1024**2} MiB: no profile is"),))
        return path.read_bytes()
    except FileNotFoundError:
        raise ProfileError(file, (Fault("", "there is no such file"),)) from None
    except IsADirectoryError:
        raise ProfileError(file, (Fault("", "is a folder, not a profile"),)) from None
    except (OSError, ValueError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else str(error)
        raise ProfileError(file, (Fault("", f"cannot be read: {why}"),)) from None


def _not_toml(error: ValueError) -> Fault:
    found = re.search(r"\(at line (\d+), column (\d+)\)", str(error))
    line = int(found[1]) if found else None
    what = re.sub(r"\s*\(at .*\)$", "", str(error))
    column = f", column {found[2]}" if found else ""
    return Fault("", f"is not TOML: {what}{column}", line)


def _refuse_faults(table: Mapping[str, Any], file: str) -> None:
    """What could not be read back is not written, and a key never is."""
    profile, faults = check(table, algorithms.find, algorithms.nearest, knobs=known_knobs())
    if profile is None:
        raise ProfileError(file, tuple(fault for fault in faults if fault.level == "fault"))


def _home_of(profile: Profile) -> Path:
    if profile.path and not Path(profile.path).is_relative_to(starters_dir()):
        return Path(profile.path)
    return locations.profiles_dir() / file_name(profile.name)


def _same(path: str | None, target: Path) -> bool:
    return path is not None and os.path.realpath(path) == os.path.realpath(target)


__all__ = [
    "Listed",
    "ProfileConflict",
    "ProfileError",
    "file_name",
    "find",
    "from_server",
    "known_knobs",
    "list_all",
    "load",
    "save",
    "save_table",
    "starters_dir",
    "validate",
]
