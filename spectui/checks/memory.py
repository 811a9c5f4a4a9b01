"""Is GPU memory as it was: the same room for tokens, and no stranger on the server's GPUs?

Servers that spectui itself started beside this one are no strangers.
"""

from __future__ import annotations

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

SHARE = 0.1
"""How much smaller the token pool may be than it was."""


def run(subject: Subject) -> Finding:
    info = subject.info
    assert info is not None
    pool = info.server.get("max_total_num_tokens")
    pool = pool if isinstance(pool, int) else info.memory.token_capacity
    value = "n/a" if pool is None else f"room for {pool:,} tokens"
    strangers = _strangers(subject)
    if strangers:
        return Finding(
            False,
            value,
            "its GPUs to itself",
            strangers,
            "See whose it is: nvidia-smi; spectui servers lists left-overs. Then restart this server",
        )
    stored = next((e["token_capacity"] for e in subject.stored if isinstance(e.get("token_capacity"), int)), None)
    if pool is None:
        return not_checked("this version does not tell its token pool")
    if stored is None:
        return not_checked("the profile holds no token pool to compare with", value=value)
    expected = f"room for {stored:,} tokens"
    if pool < (1 - SHARE) * stored:
        detail = f"the pool is {100 * (1 - pool / stored):.0f} % smaller: something held GPU memory when it started"
        return Finding(False, value, expected, detail, "Look for left-over processes on its GPUs, then restart it")
    if pool > (1 + SHARE) * stored:
        return Finding(True, value, expected, "more room than when the profile was measured")
    return Finding(True, value, expected, "as when the profile was measured")


def _strangers(subject: Subject) -> str:
    panel, server = subject.gpus, subject.server
    if panel is None or server is None or not server.gpus:
        return ""
    ours = set(server.pids) | _managed()
    found = []
    for reading in panel.readings:
        if reading.index in server.gpus:
            others = [(pid, used) for pid, used in reading.processes if pid not in ours]
            large = [(pid, used) for pid, used in others if (used or 0) >= 1024**3]
            found += [
                f"GPU {reading.index}: process {pid} holds {(used or 0) / 1024**3:.1f} GiB" for pid, used in large
            ]
    return "; ".join(found)


def _managed() -> set[int]:
    """Processes of all servers that spectui started here: two arms on one GPU are meant."""
    from spectui.hosts import servers
    from spectui.hosts.processes import same, tree

    roots = (same(record.identity) for record in servers.records() if record.here)
    return {process.pid for root in roots if root is not None for process in tree(root)}


PROBE = Probe(
    "memory",
    "Is GPU memory as expected?",
    "Memory that was taken at the start leaves a smaller token pool, and queues where there were none.",
    run,
    order=81,
    needs=("info",),
)
