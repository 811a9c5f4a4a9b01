"""A program on a pseudo-terminal that is read at full speed, or no faster than a slow line would take it."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pty
import select
import signal
import struct
import termios
import time
from collections.abc import Callable

SLICE_S = 0.02
QUESTION = b"\x1b[?2026$p"


class Pty:
    """``seen`` keeps the end of what came; ``heard`` is given each piece. ``answers``: as most terminals do, it says
    that it can show a frame at once when it is asked, at the end of the line where it sits."""

    def __init__(
        self,
        command: list[str],
        env: dict[str, str],
        columns: int = 160,
        rows: int = 48,
        *,
        bytes_per_s: float | None = None,
        heard: Callable[[bytes], object] = len,
        answers: bool = True,
    ) -> None:
        self.started = time.perf_counter()
        self.pid, self.fd = pty.fork()
        if self.pid == 0:
            fcntl.ioctl(0, termios.TIOCSWINSZ, struct.pack("HHHH", rows, columns, 0, 0))
            os.execve(command[0], command, env)
        self.seen = b""
        self._rate, self._heard = bytes_per_s, heard
        self._answers, self._asked = answers, b""
        self._may_from = self.started

    def read(self, seconds: float, until: Callable[[bytes], bool] | None = None) -> int:
        """Bytes that came within the time, or until what was seen is enough."""
        end, count = time.perf_counter() + seconds, 0
        while (now := time.perf_counter()) < end:
            if now < self._may_from:
                time.sleep(min(self._may_from, end) - now)
                continue
            if not select.select([self.fd], [], [], end - now)[0]:
                break
            try:
                data = os.read(self.fd, 1 << 16 if self._rate is None else max(1, int(self._rate * SLICE_S)))
            except OSError:
                break
            if self._rate is not None:  # each byte takes its time on the line
                self._may_from = max(self._may_from, time.perf_counter()) + len(data) / self._rate
            count += len(data)
            self.seen = (self.seen + data)[-100_000:]
            self._heard(data)
            self._answer(data)
            if until is not None and until(self.seen):
                break
        return count

    def _answer(self, data: bytes) -> None:
        self._asked += data
        many = self._asked.count(QUESTION)
        self._asked = self._asked[-len(QUESTION) + 1 :]
        if self._answers and many:
            os.write(self.fd, b"\x1b[?2026;2$y" * many)

    def until(self, seconds: float, enough: Callable[[bytes], bool]) -> bool:
        """Reads until what was seen is enough; False when it was not within the time."""
        end = time.perf_counter() + seconds
        while not enough(self.seen):
            if time.perf_counter() > end:
                return False
            self.read(min(1.0, max(0.01, end - time.perf_counter())), enough)
        return True

    def keys(self, text: str) -> None:
        os.write(self.fd, text.encode())

    def end(self) -> None:
        self._rate, self._may_from = None, 0.0
        with contextlib.suppress(ProcessLookupError):
            os.kill(self.pid, signal.SIGTERM)
        self.read(6.0)
        os.waitpid(self.pid, 0)
        os.close(self.fd)


def environment(home: str) -> dict[str, str]:
    """That of a usual terminal, and compiled modules kept, as an installation has them."""
    more = {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
    left_out = ("PYTHONDONTWRITEBYTECODE", "NO_COLOR", "SSH_CONNECTION")
    return {k: v for k, v in os.environ.items() if k not in left_out} | more | {"SPECTUI_HOME": home}
