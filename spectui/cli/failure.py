"""How a command fails: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import errno
import os
import traceback

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_REACHABLE = 3
EXIT_INTERRUPTED = 130


_CODES = {
    "NotReachable": EXIT_NOT_REACHABLE,
    "StillStarting": EXIT_NOT_REACHABLE,
    "EngineError": EXIT_FAILED,
    "LaunchError": EXIT_FAILED,
    "MissingSecret": EXIT_USAGE,
    "ProfileError": EXIT_USAGE,
    "ProfileConflict": EXIT_FAILED,
    "WorkloadError": EXIT_USAGE,
    "ReplaySourceError": EXIT_USAGE,
    "NgramSettingsError": EXIT_USAGE,
    "TemplateError": EXIT_USAGE,
}
"""By class name, so that a failing command imports nothing more than it already has."""


_NEXT = {
    errno.ENOSPC: ". Make room (spectui runs prune --keep 100), or set SPECTUI_HOME to a folder on another disk",
    errno.EDQUOT: ". Make room (spectui runs prune --keep 100), or set SPECTUI_HOME to a folder on another disk",
}


class Failure(Exception):
    """What is wrong, where, and what to do next; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.code = code


class Misused(Failure):
    """A command line that its parser refuses; ``str()`` also says which command it was and where its help is."""

    def __init__(self, prog: str, message: str) -> None:
        super().__init__(message, EXIT_USAGE)
        self.prog = prog

    def __str__(self) -> str:
        return f"{self.prog}: {self.args[0]}\nTry: {self.prog} --help"


def explain(error: BaseException) -> Failure:
    """Any exception as a sentence. What nobody foresaw goes to a file, and the sentence names it."""
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return Failure(str(error), code)
    for kind in type(error).__mro__:
        if kind.__name__ in _CODES and kind.__module__.startswith("spectui."):
            return Failure(str(error), _CODES[kind.__name__])
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return Failure(f"{where}{error.strerror}{_NEXT.get(error.errno or 0, '')}")
    path = _write_report(error)
    place = f" The details are in {path}." if path else ""
    return Failure(f"something went wrong inside spectui ({type(error).__name__}).{place}")


def _write_report(error: BaseException) -> str | None:
    from spectui.store import locations

    try:
        folder = locations.state_dir()
        folder.mkdir(parents=True, exist_ok=True)
        path = folder / f"crash-{os.getpid()}.txt"
        path.write_text("".join(traceback.format_exception(error)))
        path.chmod(0o600)
    except OSError:
        return None
    return str(path)
