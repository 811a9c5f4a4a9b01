"""Whether one of some processes listens on a port, asked of many servers at the price of one.

The kernel's table of TCP sockets is read once a network namespace (a container has its own), and a process's
descriptors only where something listens on the port in question.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

import psutil

_LISTEN = "0A"


class Sockets:
    """One look at the sockets of this machine; make a new one for the next look."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = proc
        self._tables: dict[int, dict[int, set[str]]] = {}

    def listens(self, pids: Iterable[int], port: int) -> bool | None:
        """None where another user's descriptors hide whose the listening socket is."""
        if not (self._proc / "self/net/tcp").exists():
            return _by_psutil(pids, port)
        hidden = False
        for pid in pids:
            inodes = self._listening(pid).get(port)
            if inodes is None:
                continue
            owned = self._inodes(pid)
            if owned is None:
                hidden = True
            elif owned & inodes:
                return True
        if hidden:
            return None
        return False if any((self._proc / str(pid)).exists() for pid in pids) else None

    def _listening(self, pid: int) -> dict[int, set[str]]:
        """Port -> inodes of the sockets that listen on it, in this process's network namespace."""
        folder = self._proc / str(pid)
        try:
            space = os.stat(folder / "ns/net").st_ino
        except OSError:
            space = -1  # another user's: most likely in the namespace that we are in
            folder = self._proc / "self"
        if space not in self._tables:
            table: dict[int, set[str]] = {}
            for name in ("tcp", "tcp6"):
                try:
                    lines = (folder / "net" / name).read_text().splitlines()[1:]
                except OSError:
                    continue
                for line in lines:
                    fields = line.split()
                    if len(fields) > 9 and fields[3] == _LISTEN:
                        table.setdefault(int(fields[1].rpartition(":")[2], 16), set()).add(fields[9])
            self._tables[space] = table
        return self._tables[space]

    def _inodes(self, pid: int) -> set[str] | None:
        """Inodes of a process's sockets; None where they may not be looked at."""
        folder = self._proc / str(pid) / "fd"
        found: set[str] = set()
        try:
            names = os.listdir(folder)
        except FileNotFoundError:
            return set()
        except OSError:
            return None
        for name in names:
            try:
                target = os.readlink(folder / name)
            except OSError:
                continue
            if target.startswith("socket:["):
                found.add(target[8:-1])
        return found


def _by_psutil(pids: Iterable[int], port: int) -> bool | None:
    hidden = False
    for pid in pids:
        try:
            connections = psutil.Process(pid).net_connections(kind="tcp")
        except (psutil.Error, OSError):
            hidden = True
            continue
        if any(c.status == psutil.CONN_LISTEN and c.laddr.port == port for c in connections):
            return True
    return None if hidden else False
