"""``python -m spectui.runner RUN/spec.json``: one run, a process of its own, ending in one row of its journal.

Exit codes: 0 complete, 1 failed, 3 no server was reached, 130 interrupted (SIGINT or SIGTERM; what was measured is
kept); 74 to 76 where the journal itself cannot be written (runner/failure.py). A hang-up of the terminal does not end a
run.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import FrameType

from spectui.core.spec import RunSpec
from spectui.runner.failure import RunFailed, Stopped, exit_of, make_room
from spectui.runner.orders import forget_prompts, read_spec
from spectui.store.journal import Writer


class _AtOnce(BaseException):
    """A second signal."""


class Signals:
    """The first SIGTERM or SIGINT asks the run to end, a second one ends it where it stands."""

    def __init__(self) -> None:
        self.seen = 0

    def install(self) -> None:
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        signal.signal(signal.SIGINT, self._take)
        signal.signal(signal.SIGTERM, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.seen += 1
        if self.seen == 2:
            raise _AtOnce

    def stopped(self) -> bool:
        return self.seen > 0


def main(arguments: list[str] | None = None, adjust: Callable[[RunSpec], RunSpec] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        sys.stderr.write("usage: python -m spectui.runner RUN/spec.json\n")
        return 2
    signals = Signals()
    signals.install()
    os.umask(0o077)
    path = Path(given[0])
    try:
        with Writer(path.parent / "journal.jsonl") as journal:
            return run(path, journal, signals, adjust)
    except OSError as error:
        with suppress(OSError):  # its log lies on the same disk
            sys.stderr.write(f"spectui.runner: the journal of {path.parent} cannot be written: {error.strerror}\n")
        return exit_of(error)


def run(path: Path, journal: Writer, signals: Signals, adjust: Callable[[RunSpec], RunSpec] | None = None) -> int:
    """Carries out the spec at ``path``, as ``adjust`` has changed it; whatever happens, the journal's last row says how
    it ended."""
    status, reason, code = "complete", "", 0
    measurement = None
    try:
        spec = read_spec(path)
        if not spec.keep_text:
            forget_prompts(path, spec)
        if adjust is not None:
            spec = adjust(spec)
        from spectui.runner.measure import Measurement

        measurement = Measurement(spec, journal, stopped=signals.stopped)
        measurement.run()
    except (Stopped, _AtOnce):
        status, reason, code = "interrupted", "stopped before its end; what was measured is kept", 130
    except RunFailed as failure:
        status, reason, code = "failed", str(failure), failure.exit_code
    except OSError as error:
        reason = f"the run's folder cannot be written: {error.strerror or error}{make_room(error)}"
        status, code = "failed", 1
    except Exception as error:  # a fault of ours must still end the journal
        import traceback

        traceback.print_exc()
        status, reason, code = "failed", f"a fault in spectui: {type(error).__name__}: {error}"[:500], 1
    try:
        if measurement is not None:
            measurement.close()
    except _AtOnce:
        pass
    finally:
        journal.row("end", status=status, reason=reason, exit_code=code)
    return code


if __name__ == "__main__":
    sys.exit(main())
