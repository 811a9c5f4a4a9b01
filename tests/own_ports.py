"""Ports that no other test process is given: each takes a block for itself, below those the kernel hands out."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from functools import cache

from spectui.hosts.ports import is_free

_FIRST, _LAST, _SIZE = 12_000, 29_000, 200


@cache
def _block() -> Iterator[int]:
    """The block's first port is held as a datagram port while this process lives, which keeps others out."""
    for first in range(_FIRST, _LAST, _SIZE):
        held = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
        try:
            held.bind(("127.0.0.1", first))
        except OSError:
            held.close()
            continue
        return _given_out(held, first)
    raise OSError("no block of ports is left: do other test runs hang?")


def _given_out(held: socket.socket, first: int) -> Iterator[int]:
    with held:
        while True:
            yield from range(first + 1, first + _SIZE)


def own_port() -> int:
    """A free port, another one each time until the block is through."""
    return next(port for port in _block() if is_free(port))
