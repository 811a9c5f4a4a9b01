"""Does the server's log hold errors since its start?"""

from __future__ import annotations

import re

from spectui.checks._probe import Finding, Probe, not_checked
from spectui.checks._subject import Subject

_ERROR = re.compile(
    r"Traceback \(most recent call last\)|\bERROR\b|hit an exception|CUDA error|[Oo]ut of memory|OutOfMemoryError|"
    r"\bwatchdog\b.{0,40}timeout|\bXid\b"
)
"""Case matters: models that are left out are told as "Ignore import error", and warnings say what "will error"."""
_STAMP = re.compile(r"\[\d{4}-\d\d-\d\d ")
_HARMLESS = re.compile(r"log_level_?=.?.?error|error_rate|\bno error|--log-level", re.I)


def errors_in(lines: tuple[str, ...]) -> list[str]:
    """Lines that tell an error, settings that only mention one left out."""
    return [line for line in lines if _ERROR.search(line) and not _HARMLESS.search(line) and "ServerArgs(" not in line]


def without_route_errors(lines: tuple[str, ...]) -> tuple[tuple[str, ...], int]:
    """The lines without exceptions of single HTTP routes, and how many of those there were.

    A route that fails (``/tokenize`` with a fastapi that does not fit, say) answers 500 and touches no request that is
    being generated; its trace goes on until the next line with a time stamp.
    """
    kept: list[str] = []
    inside, count = False, 0
    for line in lines:
        if "Exception in ASGI application" in line:
            inside, count = True, count + 1
        elif inside and _STAMP.match(line):
            inside = False
        if not inside:
            kept.append(line)
    return tuple(kept), count


def run(subject: Subject) -> Finding:
    log = subject.log
    if log is None:
        return not_checked(subject.log_why, expected="no error")
    never = log.never_accepted
    lines, routes = without_route_errors(subject.log_lines)
    found = errors_in(lines)
    if log.failure is not None and log.state == "failed":
        return Finding(False, "failed", "no error", f"{log.failure.kind}: {log.failure.cause}", log.failure.hint)
    if found:
        text = f"{len(found)} lines, the last: {found[-1].strip()[:160]}"
        return Finding(
            False, f"{len(found)} lines", "no error", text, "Read the log around these lines: spectui servers"
        )
    notes = f"; {never}" if never else ""
    if routes:
        notes += f"; {routes} exceptions of single HTTP routes, which no generation depends on"
    return Finding(True, "none", "no error", f"{len(subject.log_lines)} lines read{notes}")


PROBE = Probe(
    "log_errors",
    "Are there no errors in the log since the start?",
    "A server can go on after an exception and answer some requests only.",
    run,
    order=85,
    needs=(),
)
