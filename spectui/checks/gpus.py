"""Are all GPUs of the server there, awake and not slowed down?"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

_HARD = ("thermal", "hardware", "power brake")
"""Slowdowns that come from heat or hardware; a power cap is the work's own doing."""


def run(subject: Subject) -> Finding:
    panel, server = subject.gpus, subject.server
    if panel is None:
        return not_checked(subject.gpus_why)
    if not panel.readings:
        return not_checked(panel.state)
    wanted = _world(subject)
    lost = [r for r in panel.readings if r.lost]
    held = set(server.gpus) if server is not None else set()
    visible = set(server.visible.indices) if server is not None and server.visible is not None else set()
    mine = held or visible
    if not held and subject.info is not None and subject.info.simulated:
        return not_checked("a simulated server holds no GPU")
    if not mine:
        return not_checked("the driver shows no process of this server on a GPU (a container, perhaps)")
    readings = [r for r in panel.readings if r.index in mine]
    expected = f"{wanted} GPUs, none lost, none throttled" if wanted else "none lost, none throttled"
    value = f"{len(readings)} GPUs: {', '.join(sorted({r.name for r in readings}))}"
    names = _stored_names(subject)
    step = "Look at the kernel log for Xid errors (dmesg), at cooling and power; then restart the server"
    gone = [r for r in lost if r.index in mine]
    if gone:
        return Finding(False, value, expected, f"GPU {', '.join(str(r.index) for r in gone)} is lost", step)
    absent = server.visible.invalid if server is not None and server.visible is not None else None
    if absent:
        detail = f"the server was given GPU {absent} (CUDA_VISIBLE_DEVICES), and the driver knows no such GPU"
        return Finding(False, value, expected, detail, step)
    sliced = server is not None and server.visible is not None and server.visible.mig
    if wanted and len(mine) < wanted and not sliced:
        has = f"its processes hold {len(held)}" if held else f"it can see {len(mine)}"
        detail = f"the server's {wanted} ranks should hold as many GPUs, {has}"
        return Finding(False, value, expected, detail, step)
    hot = [f"GPU {r.index}: {', '.join(r.throttle)}" for r in readings if any(_hard(t) for t in r.throttle)]
    if hot:
        return Finding(False, value, expected, f"slowed down: {'; '.join(hot)}", step)
    if names and sorted({r.name for r in readings}) != sorted(set(names)):
        detail = f"the profile was measured on {', '.join(sorted(set(names)))}"
        return Finding(False, value, ", ".join(sorted(set(names))), detail, "Measure again on these GPUs")
    return Finding(True, value, expected, "all are there")


def _hard(reason: str) -> bool:
    return any(word in reason.lower() for word in _HARD)


def _world(subject: Subject) -> int | None:
    """GPUs that the server should hold on this node."""
    if subject.info is None:
        return None
    size = 1
    for key in ("tp_size", "pp_size", "dp_size"):
        value = subject.info.server.get(key)
        if key == "dp_size" and subject.info.raw.get("enable_dp_attention"):
            continue
        size *= value if isinstance(value, int) and value > 0 else 1
    nodes = subject.info.raw.get("nnodes")
    return max(1, size // nodes) if isinstance(nodes, int) and nodes > 0 else size


def _stored_names(subject: Subject) -> list[str]:
    for entry in subject.stored:
        names = entry.get("gpus")
        if isinstance(names, list) and names:
            return [str(name) for name in names]
    return []


PROBE = Probe(
    "gpus",
    "Are all its GPUs there and not slowed down?",
    "A lost or throttled GPU makes every step wait for the slowest.",
    run,
    order=80,
    needs=(),
)
