"""What to measure with, between the texts of a form and the session's options."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path

from spectui.core.spec import AS_FOUND
from spectui.session.running import RunOptions

PASSES = {"warm": ("warm",), "cold": ("cold",), "both": ("cold", "warm"), AS_FOUND: (AS_FOUND,)}
ABOUT_PASSES = "cold: flush, measure. warm: flush, feed, measure. as-found: measure, flush nothing. Only NGRAM needs it"


def now_words(options: RunOptions) -> str:
    what = options.file.name if options.file is not None else options.workload or "mixed"
    passes = next((name for name, value in PASSES.items() if value == options.passes), "+".join(options.passes))
    return f"{what}, {passes} pass, {','.join(map(str, options.concurrency))} at a time"


def texts_of(options: RunOptions) -> dict[str, str]:
    return {
        "passes": next((name for name, value in PASSES.items() if value == options.passes), "warm"),
        "concurrency": ",".join(map(str, options.concurrency)),
        "requests": str(options.requests or ""),
        "max_tokens": str(options.max_tokens or ""),
        "file": str(options.file or ""),
    }


def faults_of(values: Mapping[str, str], measuring: int | None) -> dict[str, str]:
    """Field -> what is wrong with it. ``measuring``: how many prompts there are; None: not known before it is read."""
    found: dict[str, str] = {}
    parts = [part.strip() for part in values["concurrency"].split(",") if part.strip()]
    if not parts or not all(part.isdigit() and int(part) for part in parts):
        found["concurrency"] = "at a time: whole numbers from 1, such as 1,4,16"
    for key, label in (("requests", "requests"), ("max_tokens", "output limit")):
        text = values[key].strip()
        if text and not (text.isdigit() and int(text)):
            found[key] = f"{label}: a whole number from 1, or nothing"
    count = values["requests"].strip()
    if "requests" not in found and count and measuring is not None and int(count) > measuring:
        found["requests"] = f"it has {measuring} prompts to measure with: the same one twice would be contamination"
    return found


def options_of(values: Mapping[str, str], name: str, base: RunOptions) -> RunOptions:
    file = values["file"].strip()
    return replace(
        base,
        workload=None if file else name,
        file=Path(file).expanduser() if file else None,
        passes=PASSES.get(values["passes"], ("warm",)),
        concurrency=tuple(int(part) for part in values["concurrency"].split(",") if part.strip()),
        requests=int(values["requests"]) if values["requests"].strip() else None,
        max_tokens=int(values["max_tokens"]) if values["max_tokens"].strip() else None,
    )
