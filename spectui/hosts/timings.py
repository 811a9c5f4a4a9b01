"""How long each phase of a start took the last time on this node, so that what is left can be shown."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from spectui.hosts.records import ServerRecord, default_folder, write_whole

_KEPT = 200
_VOLATILE = ("--port", "--host", "--nccl-port", "--dist-init-addr", "--api-key", "--admin-api-key", "--log-level")


def command_key(argv: Sequence[str]) -> str:
    """Same for two launches that differ in ports and keys only."""
    words: list[str] = []
    skip = False
    for word in argv:
        if skip:
            skip = False
        elif word in _VOLATILE:
            skip = True
        elif word.partition("=")[0] not in _VOLATILE:
            words.append(word)
    return "command:" + hashlib.sha256("\0".join(words).encode()).hexdigest()[:16]


def remember(record: ServerRecord, seconds: Mapping[str, float], folder: Path | None = None) -> None:
    """Keep the phases of a start that became ready. A failing disk loses only the estimate."""
    try:
        known = _read(folder)
        keys = [command_key(record.argv), *([f"profile:{record.profile}"] if record.profile else [])]
        for key in keys:
            known.pop(key, None)
            known[key] = {name: round(s, 3) for name, s in seconds.items()}
        for old in list(known)[: max(0, len(known) - _KEPT)]:
            del known[old]
        path = _path(folder)
        path.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        write_whole(path, json.dumps(known))
    except OSError:
        return


def last_time(record: ServerRecord, folder: Path | None = None) -> dict[str, float]:
    """Phase -> seconds, of the same command, else of the same profile; empty when neither was ever ready here."""
    known = _read(folder)
    return known.get(command_key(record.argv)) or known.get(f"profile:{record.profile}") or {}


def whole_start_s(profile: str, folder: Path | None = None) -> float | None:
    """Seconds that the last start from this profile took on this node; None where there was none."""
    phases = _read(folder).get(f"profile:{profile}")
    return sum(phases.values()) if phases else None


def left_s(before: Mapping[str, float], done: Sequence[str], current: str | None, current_s: float) -> float | None:
    """Seconds to *ready* by the last time's phases; None without one. Never below 0."""
    if not before:
        return None
    left = sum(s for name, s in before.items() if name not in done and name != current)
    return left + max(0.0, before.get(current or "", 0.0) - current_s)


def _path(folder: Path | None) -> Path:
    return (folder or default_folder()) / "phases" / "seconds.json"


def _read(folder: Path | None) -> dict[str, dict[str, float]]:
    try:
        data = json.loads(_path(folder).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return {}
    if not isinstance(data, dict):
        return {}
    return {
        str(key): {str(n): float(s) for n, s in value.items() if isinstance(s, (int, float))}
        for key, value in data.items()
        if isinstance(value, dict)
    }
