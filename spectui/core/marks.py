"""What the environment of a server says about its results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

_SIMULATED = ("SGLANG_SIMULATE_ACC_LEN", "SIMULATE_ACC_LEN")
"""The developers' switch that fakes a fixed accept length; the second is its name in 0.4.9 (srt/environ.py later)."""


@dataclass(frozen=True, slots=True)
class Mark:
    name: str
    """simulated_acceptance or environment_not_checked."""
    text: str


def environment_marks(env: Mapping[str, str] | None) -> tuple[Mark, ...]:
    """Marks that every result of a server with this environment carries. None: it could not be read."""
    if env is None:
        return (Mark("environment_not_checked", "the server's environment was not checked: it could not be read"),)
    for name in _SIMULATED:
        value = env.get(name, "").strip()
        try:
            forced = bool(value) and not float(value) <= 0
        except ValueError:
            forced = True  # set to something we cannot read: better one mark too many
        if forced:
            text = f"SIMULATED acceptance: {name}={value} fakes the accept length, and the text means nothing"
            return (Mark("simulated_acceptance", text),)
    return ()
