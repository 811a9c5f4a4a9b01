"""The server's log: standard error with a time, as SGLang's logging writes; access lines go to standard output."""

from __future__ import annotations

import sys
import time
from typing import TextIO


class Log:
    def __init__(self, err: TextIO | None = None, out: TextIO | None = None) -> None:
        self._err = err or sys.stderr
        self._out = out or sys.stdout
        self._second = 0
        self._stamp = ""

    def line(self, text: str) -> None:
        """One message with the time before it."""
        self.raw(f"[{self._now()}] {text}")

    def raw(self, text: str) -> None:
        self._write(self._err, text)

    def access(self, client: str, method: str, path: str, status: int, phrase: str) -> None:
        self._write(self._out, f'[{self._now()}] INFO:     {client} - "{method} {path} HTTP/1.1" {status} {phrase}')

    def _now(self) -> str:
        second = int(time.time())
        if second != self._second:
            self._second, self._stamp = second, time.strftime("%Y-%m-%d %H:%M:%S", time.localtime(second))
        return self._stamp

    @staticmethod
    def _write(stream: TextIO, text: str) -> None:
        try:
            stream.write(text + "\n")
            stream.flush()
        except (OSError, ValueError):
            pass  # whoever read the log is gone; the real server goes on too
