"""How a command fails: one sentence and an exit code, never a traceback."""

from __future__ import annotations

import os
import traceback

EXIT_FAILED = 1
EXIT_USAGE = 2
EXIT_NOT_REACHABLE = 3
EXIT_INTERRUPTED = 130


class Failure(Exception):
    """What is wrong, where, and what to do next; ``code`` is the exit code."""

    def __init__(self, message: str, code: int = EXIT_FAILED) -> None:
        super().__init__(message)
        self.code = code


def explain(error: BaseException) -> Failure:
    """Any exception as a sentence. What nobody foresaw goes to a file, and the sentence names it."""
    code = getattr(error, "exit_code", None)
    if isinstance(code, int):
        return Failure(str(error), code)
    if isinstance(error, OSError) and error.strerror:
        where = f"{error.filename}: " if error.filename else ""
        return Failure(f"{where}{error.strerror}")
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
