"""What this terminal, node and driver can do, and what will be in the way."""

from __future__ import annotations

import argparse
import json
import os
import shutil
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict, dataclass

from spectui.cli import options
from spectui.core.safe import safe_text

EXAMPLES = """examples:
  spectui doctor
  spectui doctor --json          for a bug report; no key is in it

exit code 0: nothing is in the way; 1: something is.
"""
LEAST_FREE = 1024**3
CLOCK_OFF_S = 2.0


@dataclass(frozen=True, slots=True)
class Row:
    """``ok``: True good, False in the way, None not known or only worth knowing."""

    name: str
    ok: bool | None
    value: str
    detail: str = ""
    next: str = ""


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    rows = list(examine())
    good = all(row.ok is not False for row in rows)
    if args.json:
        print(json.dumps({"ok": good, "rows": [asdict(row) for row in rows]}))
        return 0 if good else 1
    signs = {True: "good", False: "IN THE WAY", None: "–"}
    for row in rows:
        print(safe_text(f"{signs[row.ok]:<11} {row.name:<10} {row.value}", 400))
        for text in (row.detail, row.next and f"next: {row.next}"):
            if text:
                print(safe_text(f"{'':<22} {text}", 600))
    return 0 if good else 1


def examine() -> Iterator[Row]:
    """All rows; one that fails is a row that says so, never an end."""
    parts: tuple[tuple[str, Callable[[], Row]], ...] = (
        ("version", version),
        ("terminal", terminal),
        ("colours", colours),
        ("locale", locale_row),
        ("gpus", gpus),
        ("proxies", proxies),
        ("ports", ports),
        ("disk", disk),
        ("clock", clock),
        ("login", login),
        ("config", config),
        ("folders", folders),
    )
    for name, look in parts:
        try:
            yield look()
        except Exception as fault:  # a doctor that dies of what it should find helps nobody
            yield Row(name, None, f"could not be found out ({type(fault).__name__}: {fault})"[:300])


def version() -> Row:
    import platform

    from spectui import __version__

    return Row("version", None, f"spectui {__version__}, Python {platform.python_version()}, {platform.platform()}")


def terminal(environ: Mapping[str, str] = os.environ) -> Row:
    name = environ.get("TERM", "")
    columns, lines = shutil.get_terminal_size((0, 0))
    inside = [
        word for word, key in (("tmux", "TMUX"), ("screen", "STY"), ("ssh", "SSH_CONNECTION")) if environ.get(key)
    ]
    value = f"TERM={name or 'unset'}, {columns}×{lines}{', inside ' + ' and '.join(inside) if inside else ''}"
    if not sys.stdout.isatty():
        return Row("terminal", None, f"TERM={name or 'unset'}, output is not a terminal", "the screen needs one")
    if name in ("", "dumb"):
        step = "Set TERM to what your terminal is, for example xterm-256color; all commands work without the screen"
        return Row("terminal", False, value, "the screen cannot be drawn", step)
    if columns and (columns < 80 or lines < 24):
        return Row("terminal", False, value, "the screen needs 80×24", "Make the window larger")
    return Row("terminal", True, value)


def colours(environ: Mapping[str, str] = os.environ) -> Row:
    if environ.get("NO_COLOR"):
        return Row("colours", None, "NO_COLOR is set", "the screen is drawn without colours")
    name, deep = environ.get("TERM", ""), environ.get("COLORTERM", "").lower()
    if deep in ("truecolor", "24bit"):
        return Row("colours", True, "16 million")
    if "256color" in name:
        hint = (
            "ssh does not forward COLORTERM; export COLORTERM=truecolor there if your terminal can"
            if deep == ""
            else ""
        )
        return Row("colours", True, "256", hint)
    return Row("colours", None, "16 or fewer", "charts and tables use the terminal's own colours")


def locale_row(environ: Mapping[str, str] = os.environ) -> Row:
    import locale

    encoding = (sys.stdout.encoding or "").lower()
    named = next((f"{key}={environ[key]}" for key in ("LC_ALL", "LC_CTYPE", "LANG") if environ.get(key)), "none set")
    value = f"{named}, output {encoding or 'unknown'}, {locale.getpreferredencoding(False)}"
    if "utf" in encoding:
        return Row("locale", True, value)
    return Row(
        "locale", False, value, "curves in braille cannot be drawn", "export LC_ALL=C.UTF-8, or start with --ascii"
    )


def gpus() -> Row:
    from spectui.hosts.gpu_facts import OTHER_SERVER, local_processes, owners, utilization_mean
    from spectui.hosts.gpus import read_once

    panel = read_once()
    if not panel.readings:
        return Row("gpus", None, panel.state, "GPU figures will be missing; everything else works")
    names = sorted({reading.name for reading in panel.readings})
    lost = [str(reading.index) for reading in panel.readings if reading.lost]
    value = f"{len(panel.readings)} × {', '.join(names)}, driver {panel.driver or 'unknown'}"
    if lost:
        return Row(
            "gpus", False, value, f"GPU {', '.join(lost)} is lost", "Look at the kernel log (dmesg) for Xid errors"
        )
    mean = utilization_mean(panel.readings)
    told = [f"utilization {mean.text}"] if mean.value is not None else []
    for reading in panel.readings:
        parts = ", ".join(f"{used / _GIB:.1f}/{total / _GIB:.1f}" for used, total in reading.slices)
        told += [f"GPU {reading.index}: {len(reading.slices)} MIG slices, {parts} GiB"] if parts else []
    told += [
        f"GPU {held.gpu}: {(held.used_bytes or 0) / _GIB:.1f} GiB {_HELD.get(held.owner, held.owner)}"
        for held in owners(panel.readings, local_processes(panel.readings))
        if held.owner != OTHER_SERVER
    ]
    missing = sorted({f"{name}: {why}" for reading in panel.readings for name, why in reading.missing.items()})
    return Row("gpus", True, value, "; ".join([*told, *missing])[:600])


_GIB = 1024**3
_HELD = {
    "outside this container": "held by a process outside this container",
    "not ours (name differs)": "held by a process that is no model server",
}


def proxies(environ: Mapping[str, str] = os.environ) -> Row:
    from spectui.core.redact import redact

    names = [name for name in ("http_proxy", "https_proxy", "all_proxy") for name in (name, name.upper())]
    found = [f"{name}={redact(environ[name])}" for name in names if environ.get(name)]
    if not found:
        return Row("proxies", True, "none")
    kept = environ.get("no_proxy") or environ.get("NO_PROXY") or ""
    detail = "spectui does not use it for loopback; other tools may" + (f"; no_proxy={kept}" if kept else "")
    return Row("proxies", None, ", ".join(found), detail)


def ports() -> Row:
    from spectui.hosts.ports import is_free

    taken = [port for port in (30000, 30001) if not is_free(port)]
    if not taken:
        return Row("ports", True, "30000 and 30001 are free")
    return Row("ports", None, f"{', '.join(map(str, taken))} taken", "by a server, perhaps: spectui servers")


def disk() -> Row:
    from spectui.store import locations

    place = locations.runs_dir()
    free = shutil.disk_usage(place).free
    value = f"{free / 1024**3:.1f} GiB free at {place}"
    if free < LEAST_FREE:
        step = "Make room: spectui runs prune --keep 100, or set SPECTUI_HOME to another disk"
        return Row("disk", False, value, "runs and logs may be cut off", step)
    return Row("disk", True, value)


def clock() -> Row:
    """Realtime against monotonic over a moment, the kernel's view of its own synchronisation, and stamps."""
    import socket

    before = time.time() - time.monotonic()
    stamps = hasattr(socket, "SO_TIMESTAMPNS") or sys.platform == "linux"
    synced = _synchronised()
    moved = abs((time.time() - time.monotonic()) - before)
    value = f"kernel time stamps {'available' if stamps else 'not available'}"
    if moved > CLOCK_OFF_S:
        return Row(
            "clock", False, value, f"the clock moved by {moved:.1f} s while looking", "Let it be set, then measure"
        )
    if synced is None:
        return Row("clock", None, value, "whether it is synchronised cannot be seen; times of one node agree anyway")
    if not synced:
        return Row("clock", None, value, "not synchronised: times of other nodes cannot be compared with it")
    return Row("clock", True, f"{value}, synchronised")


def _synchronised() -> bool | None:
    from pathlib import Path

    if Path("/run/systemd/timesync/synchronized").exists():
        return True
    return None


def login() -> Row:
    from spectui.hosts.lasting import lasting

    found = lasting()
    return Row("login", found.survives, "what stays when the login ends", found.sentence)


def config() -> Row:
    """The program's own settings: what the screen would pass over without a word."""
    from spectui.store import locations
    from spectui.store.toml_file import tomllib

    path = locations.config_file()
    try:
        told = tomllib.loads(path.read_text("utf-8"))
    except FileNotFoundError:
        return Row("config", None, f"{path} is not there: all as it comes")
    except (OSError, ValueError) as error:
        return Row("config", False, str(path), f"cannot be read: {error}", "Mend it; until then it counts as empty")
    wrong = []
    if "theme" in told:
        from spectui.ui.themes import KNOWN

        if told["theme"] not in KNOWN:
            wrong.append(f"theme {told['theme']!r} is none of {', '.join(sorted(KNOWN))}")
    if keys := told.get("keys"):
        from spectui.ui.commands import BY_ID

        known = keys if isinstance(keys, dict) else {str(keys): ""}
        wrong += [f"keys.{name} names no command (docs/keys.md lists them)" for name in known if name not in BY_ID]
    wrong += [f"{name} is no setting of spectui" for name in told if name not in ("theme", "keys")]
    if wrong:
        return Row("config", False, str(path), "; ".join(wrong), "Mend it; what is wrong counts as not there")
    return Row("config", True, str(path))


def folders() -> Row:
    from spectui.store import locations

    try:
        places = (locations.config_dir(), locations.data_dir(), locations.state_dir())
    except OSError as error:
        said = f"cannot be made: {os.strerror(error.errno or 0)}"
        return Row("folders", False, str(error.filename), said, "Set SPECTUI_HOME to a folder of yours")
    shut = [str(place) for place in places if not os.access(place, os.W_OK)]
    value = ", ".join(map(str, places))
    if shut:
        return Row(
            "folders", False, value, f"cannot be written: {', '.join(shut)}", "Set SPECTUI_HOME to a folder of yours"
        )
    return Row("folders", True, value)
