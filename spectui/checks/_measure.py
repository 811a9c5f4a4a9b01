"""``python -m spectui.checks._measure RUN/spec.json``: a run that takes the server's store as it finds it.

The same runner as any other run's, but nothing is flushed, whoever started the server: after a restart the store is
empty by itself, and a check must not empty it for those who use the server.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

from spectui.runner.__main__ import Signals
from spectui.runner.arm import Arm
from spectui.runner.failure import RunFailed, Stopped
from spectui.runner.feeding import Feeding
from spectui.runner.measure import Measurement
from spectui.runner.orders import read_spec
from spectui.runner.sending import Phase
from spectui.store.journal import Writer


class AsFound(Measurement):
    def _flush(self, arm: Arm, pass_name: str, level: int) -> None:
        self._phase(arm, pass_name, "flush", level, "begin")
        reason = "a check flushes nothing"
        self._phase(arm, pass_name, "flush", level, "end", flushed=False, attempts=0, status=None, reason=reason)

    def _feed(self, arm: Arm, pass_name: str, level: int) -> None:
        """All of ``feed_limit``, as many as the stored run was fed with: a used store looks steady too soon."""
        feeding = Feeding()
        prompts = list(enumerate(self.spec.feeding[: max(0, self.spec.feed_limit)]))
        self._phase(arm, pass_name, "feed", level, "begin", prompts=len(prompts))
        if prompts:
            self._sender.send(arm, Phase(pass_name, "feed", level), prompts, seen=feeding.add)
        self._phase(arm, pass_name, "feed", level, "end", **feeding.detail())
        self._heed()


def main(arguments: list[str]) -> int:
    signals = Signals()
    signals.install()
    os.umask(0o077)
    path = Path(arguments[0])
    with Writer(path.parent / "journal.jsonl") as journal:
        status, reason, code = "complete", "", 0
        measurement = None
        try:
            measurement = AsFound(read_spec(path), journal, stopped=signals.stopped)
            measurement.run()
        except Stopped:
            status, reason, code = "interrupted", "stopped before its end; what was measured is kept", 130
        except RunFailed as failure:
            status, reason, code = "failed", str(failure), failure.exit_code
        except Exception as error:  # a fault of ours must still end the journal
            import traceback

            traceback.print_exc()
            status, reason, code = "failed", f"a fault in spectui: {type(error).__name__}: {error}"[:500], 1
        if measurement is not None:
            measurement.close()
        journal.row("end", status=status, reason=reason, exit_code=code)
    return code


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
