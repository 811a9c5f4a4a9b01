"""What a probe is: one question about a server, with what was found, what was expected, and what to do next."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from spectui.checks._subject import Subject

NEEDS = ("serves", "info", "profile", "measured")
"""What a probe may need before it can say anything; see ``Subject.lacks``."""


@dataclass(frozen=True, slots=True)
class Finding:
    """``ok``: True good, False not good, None not checked, with the reason in ``detail``."""

    ok: bool | None
    value: str = ""
    expected: str = ""
    detail: str = ""
    next: str = ""
    """What to do; empty where there is nothing to do."""
    rows: tuple[Mapping[str, Any], ...] = ()
    """For tables of the screen, such as asked / in force / changed by."""


@dataclass(frozen=True, slots=True)
class Probe:
    """Declared once by each file of this package as ``PROBE``."""

    name: str
    title: str
    why: str
    """Why it matters, one sentence."""
    run: Callable[[Subject], Finding]
    order: int = 50
    """Probes run, and are shown, from small to large."""
    needs: tuple[str, ...] = ("serves",)
    error: str | None = field(default=None)
    """Why its file could not be loaded: the probe is shown and never run."""


def not_checked(reason: str, *, value: str = "", expected: str = "", step: str = "") -> Finding:
    return Finding(None, value, expected, f"not checked: {reason}", step)
