"""spectui's own further processes, and their environment: they are of this very version, whatever lies in the folder
that the person works in."""

from __future__ import annotations

import os
import site
import subprocess
import sys
from pathlib import Path
from typing import BinaryIO


def start(module: str, path: Path, log: BinaryIO) -> subprocess.Popen[bytes]:
    """``python -m module path`` in a session of its own, which outlives the terminal; ``log`` takes all it says."""
    return subprocess.Popen(
        [sys.executable, "-m", module, str(path)],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=subprocess.STDOUT,
        start_new_session=True,
        env=environment(),
    )


def environment() -> dict[str, str]:
    """This process's own, and what its further processes need beside it."""
    return {**os.environ, **additions()}


def additions() -> dict[str, str]:
    """What keeps ``python -m`` from importing out of the current folder (Python ≥ 3.11), and leads it to this package
    where it is not installed."""
    found = {"PYTHONSAFEPATH": "1"}
    root = str(Path(__file__).resolve().parents[2])
    if root not in (*site.getsitepackages(), site.getusersitepackages()):
        before = os.environ.get("PYTHONPATH", "").split(os.pathsep)
        found["PYTHONPATH"] = os.pathsep.join([root, *(part for part in before if part and part != root)])
    return found
