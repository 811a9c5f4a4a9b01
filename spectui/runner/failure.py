"""Why a run ends before its plan does."""

from __future__ import annotations

import errno

EXIT_UNWRITABLE, EXIT_DISK_FULL, EXIT_FOLDER_GONE = 74, 75, 76
"""Of the runner, where it cannot even write the journal's last row: whoever started it says why in its place."""


def exit_of(error: OSError) -> int:
    """Exit code of a runner whose journal cannot be written any more."""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return EXIT_DISK_FULL
    return EXIT_FOLDER_GONE if error.errno == errno.ENOENT else EXIT_UNWRITABLE


def make_room(error: OSError) -> str:
    """What to do where a disk is full; empty for any other error."""
    if exit_of(error) != EXIT_DISK_FULL:
        return ""
    return (
        "; what was measured until then is kept. Make room (spectui runs prune --keep 100), or set SPECTUI_HOME to a "
        "folder on another disk"
    )


class RunFailed(Exception):
    """The run cannot go on. The message is one sentence; ``exit_code`` 1, or 3 where no server was reached."""

    def __init__(self, message: str, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class Stopped(Exception):
    """The run was asked to end; what was measured stays."""
