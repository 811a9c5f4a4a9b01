"""What the screen and the command line both drive: connect, plan, apply, run, compare, check, save.

Everything here is plain synchronous Python that may block; the screen calls it from threads.
"""

from __future__ import annotations


class SessionError(Exception):
    """Something the operator asked for cannot be done. The message says what, where and what to do next."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code
