"""The real program on a pseudo-terminal, read by a terminal emulator."""

from __future__ import annotations

import os
import re
import shlex
import signal
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

import pexpect
import pyte

MODES = re.compile(rb"\x1b\[\?([\d;]+)([hl])")
WANTED_OFF = {"1049", "1000", "1002", "1003", "1006", "2004", "1004"}


class Terminal:
    """``wait`` reads until what is shown satisfies a test; nothing here sleeps for a fixed time."""

    def __init__(
        self,
        words: Sequence[str],
        home: Path,
        *,
        size: tuple[int, int] = (120, 40),
        env: Mapping[str, str] | None = None,
        errors_to: Path | None = None,
    ) -> None:
        columns, rows = size
        self.screen = pyte.Screen(columns, rows)
        self.stream = pyte.ByteStream(self.screen)
        self.raw = b""
        self.gone = False
        base = {k: v for k, v in os.environ.items() if k not in ("NO_COLOR", "SSH_CONNECTION", "COLORTERM")}
        fresh = {**base, "SPECTUI_HOME": str(home), "TERM": "xterm-256color", "LANG": "C.UTF-8", "LC_ALL": "C.UTF-8"}
        command = [sys.executable, "-m", "spectui", *words]
        if errors_to is not None:
            command = ["/bin/sh", "-c", f"exec {shlex.join(command)} 2>{shlex.quote(str(errors_to))}"]
        self.child = pexpect.spawn(
            command[0],
            command[1:],
            dimensions=(rows, columns),
            env={**fresh, **(env or {})},
            timeout=30,
        )

    def read(self, timeout: float = 0.2) -> bool:
        """Takes what has come; False when the program has gone."""
        try:
            data = self.child.read_nonblocking(65536, timeout)
        except pexpect.TIMEOUT:
            return True
        except pexpect.EOF:
            return False
        self.raw += data
        self.stream.feed(data)
        return True

    @property
    def text(self) -> str:
        return "\n".join(line.rstrip() for line in self.screen.display)

    def wait(self, wanted: str | Callable[[str], bool], timeout: float = 30.0) -> str:
        test = (lambda text: wanted in text) if isinstance(wanted, str) else wanted
        end = time.monotonic() + timeout
        while not test(self.text):
            if not self.read() or time.monotonic() > end:
                raise AssertionError(f"never saw {wanted!r}; the screen:\n{self.text}")
        return self.text

    def keys(self, text: str) -> None:
        self.child.send(text)

    def ended(self, timeout: float = 10.0) -> int:
        """Reads to the end of the program; its exit status, or 128 and the signal."""
        end = time.monotonic() + timeout
        while self.read() and time.monotonic() < end:
            continue
        if time.monotonic() >= end:
            raise AssertionError(f"it did not end; the screen:\n{self.text}")
        self.child.wait()
        if self.child.signalstatus is not None:
            return 128 + int(self.child.signalstatus)
        return int(self.child.exitstatus or 0)

    def left_on(self) -> set[str]:
        """Terminal modes that were switched on and not off again; "25" for a cursor that stays hidden."""
        on: set[str] = set()
        for found in MODES.finditer(self.raw):
            for mode in found[1].decode().split(";"):
                on = on | {mode} if found[2] == b"h" else on - {mode}
                if mode == "25":
                    on = on | {"hidden"} if found[2] == b"l" else on - {"hidden"}
        return on & (WANTED_OFF | {"hidden"})

    def kill(self, number: int) -> None:
        os.kill(self.child.pid, number)

    def drop_line(self) -> None:
        """The other side is gone, as when a connection breaks; waits until the program is gone too."""
        self.child.ptyproc.fileobj.close()  # by its owner: a number closed twice may be another file's by then
        self.child.ptyproc.closed = self.child.closed = True
        os.waitpid(self.child.pid, 0)
        self.child.ptyproc.terminated = self.child.terminated = True
        self.gone = True

    def close(self) -> None:
        if self.gone:
            return
        if self.child.isalive():
            self.kill(signal.SIGKILL)
        self.child.close(force=True)
