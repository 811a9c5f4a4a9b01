"""Servers on one GPU start in turn: a start sizes its pool by the memory that is free at that moment.

Two SGLang servers that load side by side each take the other's weights and pool for memory that was lost, and the later
one ends with "Loaded weights leave no GPU memory for the KV cache" (seen on 0.5.15 with fractions that fit well).
"""

from __future__ import annotations

import fcntl
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from spectui.core.launch_line import kind_of
from spectui.hosts import elsewhere, servers
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.watch import ServerWatch
from spectui.session import SessionError
from spectui.store import locations

BEFORE_POOL = frozenset({"start", "distributed set-up", "weights", "draft weights", "memory pool", "compile"})
"""Phases of a start in which its share of the GPU is not taken yet."""
LIMIT_S = 1800.0


@contextmanager
def turn(launch: servers.LaunchPlan, say: Callable[[str], None], *, poll_s: float = 0.5) -> Iterator[None]:
    """Holds the right to start a server here: alone among all spectuis of this user, and after the starts on the same
    GPUs have taken their memory. Waits as long as that takes and says for whom; simulated servers take no memory.

    Raises :class:`SessionError` when a start that is waited for has made no room within half an hour.
    """
    deadline = time.monotonic() + LIMIT_S
    told = ""
    with open(locations.servers_dir() / "launch.lock", "w") as lock:
        while True:
            fcntl.flock(lock, fcntl.LOCK_EX)
            before = next(_starting(launch), None)
            if before is None:
                break
            # Others may launch elsewhere meanwhile.
            fcntl.flock(lock, fcntl.LOCK_UN)
            if time.monotonic() > deadline:
                raise SessionError(
                    f"{before.name} has been starting on the same GPU for half an hour: see its log "
                    f"{before.log_path}, or end it with spectui stop {before.name}"
                )
            if told != before.name:
                told = before.name
                say(f"waiting until {told} has taken its memory: both start on the same GPU")
            time.sleep(poll_s)
        yield


def _starting(launch: servers.LaunchPlan) -> Iterator[ServerRecord]:
    if launch.simulated:
        return
    mine, node = set(launch.gpus), elsewhere.node_of(kind_of(launch.argv), launch.host)
    for record in servers.records():
        if record.simulated or not record.here or not alive(record):
            continue
        if elsewhere.node_of(record.kind, record.host) != node:
            continue
        # GPUs that nobody named are those of the environment: they may be the same.
        if mine and record.gpus and not mine & set(record.gpus):
            continue
        if ServerWatch(record, token=_no_token).poll().phase in BEFORE_POOL:
            yield record


def _no_token() -> object:
    raise OSError(os.strerror(11))  # a look at the phase needs no token from the server
