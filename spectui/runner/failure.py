"""Why a run ends before its plan does."""

from __future__ import annotations


class RunFailed(Exception):
    """The run cannot go on. The message is one sentence; ``exit_code`` 1, or 3 where no server was reached."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Stopped(Exception):
    """The run was asked to end; what was measured stays."""
