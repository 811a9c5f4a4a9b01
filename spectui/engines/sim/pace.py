"""A clock for steps: absolute times, woken to the microsecond where the system can.

An asyncio timer is rounded up to a millisecond, about the length of a step.
"""

from __future__ import annotations

import asyncio
import ctypes
import os
import struct
import sys
import time

_TFD_NONBLOCK_CLOEXEC = 0o4000 | 0o2000000
_ABSTIME = 1
_MOST_LAG_S = 0.25


class Pace:
    """Due times that add up: a step that woke late does not make the next one late."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        self._due = 0.0
        self._fd = -1
        self._waiter: asyncio.Future[None] | None = None
        if sys.platform == "linux":
            self._libc = ctypes.CDLL(None, use_errno=True)
            fd = self._libc.timerfd_create(time.CLOCK_MONOTONIC, _TFD_NONBLOCK_CLOEXEC)
            if fd >= 0:
                self._fd = fd
                asyncio.get_running_loop().add_reader(fd, self._ring)

    def restart(self) -> None:
        """Work begins after idling: time counts from now."""
        self._due = time.monotonic()

    async def step(self, seconds: float) -> None:
        """Return when the step that takes ``seconds`` at speed 1 is over. Always lets others run once."""
        now = time.monotonic()
        self._due = max(self._due + seconds / self._speed, now - _MOST_LAG_S)
        left = self._due - now
        if left <= 20e-6:
            await asyncio.sleep(0)
        elif self._fd >= 0:
            whole, part = divmod(int(self._due * 1e9), 1_000_000_000)
            self._libc.timerfd_settime(self._fd, _ABSTIME, struct.pack("=qqqq", 0, 0, whole, part), None)
            self._waiter = asyncio.get_running_loop().create_future()
            try:
                await self._waiter
            finally:
                self._waiter = None
        else:
            await asyncio.sleep(left)

    def _ring(self) -> None:
        try:
            os.read(self._fd, 8)
        except BlockingIOError:
            return
        if self._waiter is not None and not self._waiter.done():
            self._waiter.set_result(None)

    def close(self) -> None:
        if self._fd >= 0:
            asyncio.get_running_loop().remove_reader(self._fd)
            os.close(self._fd)
            self._fd = -1
