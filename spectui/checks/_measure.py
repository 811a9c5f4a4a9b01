"""``python -m spectui.checks._measure RUN/spec.json``: a run that takes the server's store as it finds it.

The same runner as any other run's, but nothing is flushed, whoever started the server: after a restart the store is
empty by itself, and a check must not empty it for those who use the server.
"""

from __future__ import annotations

import sys
from dataclasses import replace

from spectui.core.spec import AS_FOUND, RunSpec
from spectui.runner.__main__ import main


def as_found(spec: RunSpec) -> RunSpec:
    """Where the check does not feed, what it finds is what it measures."""
    passes = tuple(AS_FOUND if name == "cold" else name for name in spec.passes)
    return replace(spec, passes=passes, keep_store=True)


if __name__ == "__main__":
    sys.exit(main(adjust=as_found))
