"""Words for people: faults, ages, durations, sizes."""

from __future__ import annotations

import time


def sentence(fault: BaseException) -> str:
    """An exception as a sentence; a known one says what, where and what to do next by itself."""
    text = " ".join(str(fault).split())
    if isinstance(fault, OSError) and fault.strerror:
        where = f"{fault.filename}: " if fault.filename else ""
        return f"{where}{fault.strerror}"
    if type(fault).__module__.startswith("spectui.") and text:
        return text
    return f"something went wrong inside spectui ({type(fault).__name__}: {text})"


def age(seconds: float | None) -> str:
    """``12 s``, ``3 min``, ``5 h``, ``2 days``."""
    if seconds is None:
        return "n/a"
    seconds = max(0.0, seconds)
    if seconds < 90:
        return f"{seconds:.0f} s"
    if seconds < 90 * 60:
        return f"{seconds / 60:.0f} min"
    if seconds < 36 * 3600:
        return f"{seconds / 3600:.0f} h"
    return f"{seconds / 86400:.0f} days"


def lasts(seconds: float | None) -> str:
    """``0:48`` or ``1:02:10``."""
    if seconds is None:
        return "n/a"
    whole = max(0, round(seconds))
    hours, rest = divmod(whole, 3600)
    minutes, left = divmod(rest, 60)
    return f"{hours}:{minutes:02d}:{left:02d}" if hours else f"{minutes}:{left:02d}"


def when(epoch: float | None) -> str:
    """``11-30 16:04`` by this node's clock."""
    return time.strftime("%m-%d %H:%M", time.localtime(epoch)) if epoch else "n/a"


def many(count: int, word: str) -> str:
    return f"{count} {word}" if count == 1 else f"{count} {word}s"
