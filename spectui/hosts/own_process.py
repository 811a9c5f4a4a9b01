"""The environment of spectui's own further processes: they are of this very version, whatever lies in the folder that
the person works in."""

from __future__ import annotations

import os
import site
from pathlib import Path


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
