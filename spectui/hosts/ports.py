"""Ports of servers on one node, those that nobody typed included, planned before anything is loaded.

Besides its own port a server opens one for collective communication (``--nccl-port``; random when not given) and,
with data-parallel attention, a block of 6 + dp size ports from its own port + 233 (SGLang 0.4.9 to 0.5.23).
"""

from __future__ import annotations

import errno
import socket
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import psutil

DERIVED_OFFSET = 233
_LAST_PORT = 65535
_PROPOSED_FROM = 30000  # where nothing fits above the port that was asked for
_NCCL_FROM = 120  # between the server's own port and its derived block


@dataclass(frozen=True, slots=True)
class PortAsk:
    """What one server wants. ``nccl_port`` None lets the plan choose."""

    name: str
    port: int
    dp_attention: bool = False
    dp_size: int = 1
    nccl_port: int | None = None


@dataclass(frozen=True, slots=True)
class PortUse:
    """All ports of one server."""

    name: str
    port: int
    derived: tuple[int, ...]
    nccl_port: int

    @property
    def all(self) -> tuple[int, ...]:
        return (self.port, self.nccl_port, *self.derived)

    @property
    def text(self) -> str:
        block = f", block {self.derived[0]} to {self.derived[-1]}" if self.derived else ""
        return f"{self.name}: port {self.port}{block}, communication port {self.nccl_port}"


@dataclass(frozen=True, slots=True)
class PortPlan:
    ok: bool
    uses: tuple[PortUse, ...]
    """As asked, with communication ports filled in; empty when refused."""
    conflicts: tuple[str, ...] = ()
    """One sentence for each fault, with the holder where it can be seen."""
    proposal: tuple[PortUse, ...] = ()
    """Free and distinct ports near those asked for, when refused."""


@dataclass(frozen=True, slots=True)
class Holder:
    port: int
    pid: int | None
    text: str
    """Who, as far as it can be seen."""


def derived_ports(port: int, dp_attention: bool, dp_size: int = 1) -> tuple[int, ...]:
    if not dp_attention:
        return ()
    return tuple(range(port + DERIVED_OFFSET, port + DERIVED_OFFSET + 6 + dp_size))


def listening() -> dict[int, Holder]:
    """TCP ports that listen on this machine, with their holders where the system shows them."""
    found: dict[int, Holder] = {}
    try:
        connections = psutil.net_connections(kind="tcp")
    except (psutil.Error, OSError):
        return found
    for c in connections:
        if c.status != psutil.CONN_LISTEN or not c.laddr:
            continue
        if c.laddr.port not in found or c.pid is not None:
            found[c.laddr.port] = Holder(c.laddr.port, c.pid, _describe(c.pid))
    return found


def holder(port: int) -> Holder | None:
    """Who listens on the port, or None when it is free."""
    found = listening().get(port)
    if found is not None or is_free(port):
        return found
    return Holder(port, None, _describe(None))


def is_free(port: int, host: str = "") -> bool:
    """Whether a server could open the port now: tried as servers do, so a connection still closing is no obstacle."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as s:
        s.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            s.bind((host, port))
            s.listen(1)
        except OSError as error:
            # An address this machine does not have is a fault of the host's name, not of the port.
            return error.errno == errno.EADDRNOTAVAIL
        except OverflowError:
            return False
    return True


def free_port(start: int = 30000, taken: Iterable[int] = ()) -> int:
    """The first free port from ``start`` up. Raises ``OSError`` when there is none."""
    avoid = set(taken)
    for port in range(max(1024, start), _LAST_PORT + 1):
        if port not in avoid and is_free(port):
            return port
    raise OSError(errno.EADDRINUSE, f"no free port from {start} up")


def plan(
    asks: Sequence[PortAsk],
    *,
    busy: Mapping[int, str] | None = None,
    others: Sequence[PortUse] = (),
    free: Callable[[int], bool] | None = None,
) -> PortPlan:
    """Whether these servers can run side by side, and if not, on which ports they could.

    ``busy``: port -> holder; by default what listens on this machine now. ``others``: ports of servers that run or
    start already. ``free`` decides about ports that are not listed as busy (default: by trying, unless ``busy`` is
    given).
    """
    if busy is None:
        busy = {port: h.text for port, h in listening().items()}
        free = free or is_free
    free = free or (lambda _port: True)
    taken = dict(busy) | {p: f"server {u.name}" for u in others for p in u.all}
    conflicts: list[str] = []
    for ask in asks:
        conflicts += _faults(ask, taken, free)
    for i, a in enumerate(asks):
        for b in asks[i + 1 :]:
            conflicts += _overlaps(a, b)
    if conflicts:
        return PortPlan(False, (), tuple(conflicts), tuple(_place(asks, taken, free, move=True)))
    return PortPlan(True, tuple(_place(asks, taken, free, move=False)))


def wait_free(
    ports: Iterable[int],
    timeout_s: float = 60.0,
    *,
    clock: Callable[[], float] = time.monotonic,
    sleep: Callable[[float], None] = time.sleep,
    free: Callable[[int], bool] = is_free,
) -> tuple[int, ...]:
    """Wait until ports of a server that ended are closed; returns those still open after ``timeout_s``."""
    until = clock() + timeout_s
    while True:
        left = tuple(p for p in ports if not free(p))
        if not left or clock() >= until:
            return left
        sleep(0.1)


def _faults(ask: PortAsk, taken: Mapping[int, str], free: Callable[[int], bool]) -> list[str]:
    kinds = [("port", ask.port)]
    kinds += [("derived port", p) for p in derived_ports(ask.port, ask.dp_attention, ask.dp_size)]
    if ask.nccl_port is not None:
        kinds.append(("communication port", ask.nccl_port))
    faults = []
    for kind, port in kinds:
        if not 1 <= port <= _LAST_PORT:
            faults.append(f"{ask.name}: {kind} {port} is no port number")
        elif port in taken:
            faults.append(f"{ask.name}: {kind} {port} is taken by {taken[port]}")
        elif not free(port):
            faults.append(f"{ask.name}: {kind} {port} is taken by a process that cannot be seen")
    return faults


def _overlaps(a: PortAsk, b: PortAsk) -> list[str]:
    block_a = derived_ports(a.port, a.dp_attention, a.dp_size)
    block_b = derived_ports(b.port, b.dp_attention, b.dp_size)
    if a.port == b.port:
        return [f"{a.name} and {b.name} have the same port {a.port}"]
    found = []
    if set(block_a) & set(block_b):
        found.append(
            f"{a.name} and {b.name}: derived ports {block_a[0]} to {block_a[-1]} "
            f"and {block_b[0]} to {block_b[-1]} overlap"
        )
    for one, block, other in ((a, block_a, b), (b, block_b, a)):
        if other.port in block:
            found.append(f"{other.name}: port {other.port} is among the derived ports of {one.name}")
        if other.nccl_port is not None and other.nccl_port in (one.port, *block):
            found.append(f"{other.name}: communication port {other.nccl_port} is used by {one.name}")
    if a.nccl_port is not None and a.nccl_port == b.nccl_port:
        found.append(f"{a.name} and {b.name} have the same communication port {a.nccl_port}")
    return found


def _place(
    asks: Sequence[PortAsk], taken: Mapping[int, str], free: Callable[[int], bool], *, move: bool
) -> list[PortUse]:
    """Ports for each, in order; with ``move``, a server's own port goes up in tens until all its ports are free."""
    used: set[int] = set(taken)
    fixed = (
        {p for a in asks for p in (a.port, *derived_ports(a.port, a.dp_attention, a.dp_size))} if not move else set()
    )
    uses: list[PortUse] = []

    def good(ports: Iterable[int]) -> bool:
        return all(1024 <= p <= _LAST_PORT and p not in used and free(p) for p in ports)

    for ask in asks:
        port = ask.port
        if move:
            above = range(max(port, 1024), _LAST_PORT + 1, 10)
            fitting = (p for p in chain(above, range(_PROPOSED_FROM, _LAST_PORT + 1, 10))
                       if good((p, *derived_ports(p, ask.dp_attention, ask.dp_size))))  # fmt: skip
            port = next(fitting, 0)
            if not port:
                return []
        derived = derived_ports(port, ask.dp_attention, ask.dp_size)
        used.update((port, *derived))
        nccl = ask.nccl_port
        if nccl is None or (move and not good((nccl,))):
            nccl = next((p for p in range(port + _NCCL_FROM, _LAST_PORT) if p not in fixed and good((p,))), 0)
            nccl = nccl or next((p for p in range(port, 1024, -1) if p not in fixed and good((p,))), 0)
        used.add(nccl)
        uses.append(PortUse(ask.name, port, derived, nccl))
    return uses


def _describe(pid: int | None) -> str:
    if pid is None:
        return "a process that cannot be seen (another user's, or outside this container)"
    try:
        process = psutil.Process(pid)
        with process.oneshot():
            words = process.cmdline()
            return f"{_short(words) or process.name()} (pid {pid}, {process.username()})"
    except (psutil.Error, KeyError):
        return f"pid {pid}"


def _short(words: Sequence[str]) -> str:
    from spectui.core.redact import hide_argv

    text = " ".join(hide_argv(words[:6]))
    return text if len(text) <= 80 else text[:79] + "…"
