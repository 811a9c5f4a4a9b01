"""The GPUs of this node for the screen: which are there, whose they are, and what contradicts what they read."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping, Sequence
from functools import cache
from typing import TYPE_CHECKING

from spectui.core.gpu import GpuReading
from spectui.hosts.gpu_facts import (
    NAME_DIFFERS,
    OUTSIDE,
    UNSEEN,
    GpuOwner,
    LocalProcess,
    busy_hint,
    gpus_of,
    owners,
    utilization_mean,
)
from spectui.session.live_arm import LiveArm

if TYPE_CHECKING:
    from spectui.session.live import Live

_GIB = 1024**3


@cache
def _host() -> str:
    return os.uname().nodename


def node_of(live: Live) -> str:
    panel = live.gpu_panel
    names: dict[str, int] = {}
    for reading in panel.readings:
        short = reading.name.removeprefix("NVIDIA ").split(" ")[0] or reading.name
        names[short] = names.get(short, 0) + 1
    gpus = " + ".join(f"{count}×{name}" for name, count in names.items())
    parts = [_host(), gpus or "no GPU", f"driver {panel.driver}" if panel.driver else ""]
    return " · ".join(part for part in parts if part)


def arms_of(live: Live) -> dict[str, str]:
    """UUID of a GPU -> letter of the arm whose processes hold it, ``AB`` where both do."""
    found: dict[str, str] = {}
    readings = live.gpu_panel.readings
    heads = live.measuring.run.fold.head.get("arms") if live.measuring.run is not None else None
    for head in heads or ():
        for uuid in head.get("gpus") or ():
            found[str(uuid)] = _also(found.get(str(uuid)), str(head.get("name")))
    by_index = {reading.index: reading.uuid for reading in readings}
    for letter, arm in live.arms.items():
        for index in gpus_of(arm.pids, readings) if arm.pids else ():
            found[by_index[index]] = _also(found.get(by_index[index]), letter)
    return found


def _also(letters: str | None, letter: str) -> str:
    return "".join(sorted({*(letters or ""), letter}))


def gpu_words(live: Live, arm: LiveArm, now: float) -> str:
    """``GPU 0: busy but no output, maybe stuck``: of a server whose requests run and bring no token."""
    if arm.quiet_tokens_per_s is None:
        return ""
    found = []
    for reading in live.gpu_panel.readings:
        if arm.pids and set(reading.pids or ()).intersection(arm.pids):
            hint = busy_hint(
                reading.utilization,
                reading.power_w,
                reading.power_limit_w,
                arm.quiet_tokens_per_s,
                arm.idle.running,
                arm.prefill_age(now),
            )
            found += [f"GPU {reading.index}: {hint}"] if hint else []
    return ", ".join(found)


def mean_words(live: Live) -> str:
    """``97 % now, 91 % over the last 0:30``: of the GPUs that report it; empty without any."""
    now = utilization_mean(live.gpu_panel.readings)
    if now.value is None:
        return ""
    seen = [value for history in live.gpu_history.values() for value in history if value is not None]
    long = max((len(history) for history in live.gpu_history.values()), default=0) // 2  # two readings a second
    over = f", {sum(seen) / len(seen):.0f} % over the last {long // 60}:{long % 60:02d}" if seen and long >= 5 else ""
    return f"{now.text} now{over}"


def pids_at(url: str) -> tuple[int, ...]:
    """The processes of a server of this node that spectui did not start; none where it cannot be told. Blocks."""
    from spectui.hosts import discover

    return next((found.pids for found in discover.find() if found.url == url and not found.leftover), ())


def holders(readings: Sequence[GpuReading], local: Mapping[int, LocalProcess], arms: Collection[int]) -> dict[str, str]:
    """UUID -> who else holds the GPU, in words. ``arms``: the pids of both arms' servers, of which nothing is said."""
    by_index = {reading.index: reading.uuid for reading in readings}
    found: dict[str, list[str]] = {}
    for owner in owners(readings, local, arms):
        if owner.pid not in arms:
            found.setdefault(by_index[owner.gpu], []).append(holder_words(owner, local))
    return {uuid: ", ".join(dict.fromkeys(words)) for uuid, words in found.items()}


def holder_words(owner: GpuOwner, local: Mapping[int, LocalProcess]) -> str:
    used = f"{owner.used_bytes / _GIB:.0f} GiB " if owner.used_bytes else ""
    if owner.owner == UNSEEN:
        return f"{used}used by processes that cannot be seen from here"
    if owner.owner == OUTSIDE or owner.pid is None or owner.pid not in local:
        return f"{used}held from outside this container"
    who = f"{local[owner.pid].name} (pid {owner.pid})"
    return f"{used}held by {who}, no model server" if owner.owner == NAME_DIFFERS else f"{used}held by {who}"
