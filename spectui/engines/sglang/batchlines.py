"""The batch lines of SGLang's log, all versions and variants.

Source: 0.4.9 srt/managers/scheduler.py, 0.5.5 srt/managers/scheduler_metrics_mixin.py, 0.5.10 to 0.5.15
srt/observability/scheduler_metrics_mixin.py and srt/managers/scheduler_components/metrics_reporter.py (0.5.23 too).
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import datetime

_ANSI = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)|[@-Z\\-_])")
_PREFIX = re.compile(r"^\[(\d{4}-\d\d-\d\d \d\d:\d\d:\d\d)(?:[.,](\d+))?((?: [A-Z_]+\d+)*)\] ?")
_RANK = re.compile(r"([A-Z_]+)(\d+)")
_DECODE = re.compile(
    r"Decode batch(?:\.| \[(?P<it>\d+)\])?,? #?.*?#?running-req: (?P<run>\d+),(?P<mid>.*?)"
    r"(?:cuda|cpu|npu|musa|xpu|hip) graph: (?P<graph>\w+), gen throughput \(token/s\): (?P<tps>[\d.]+(?:e[+-]?\d+)?),"
    r" #queue-req: (?P<q>\d+)"
)
_ACCEPT_LENGTH = re.compile(r"(?<!block )accept len: ([\d.]+)")
_ACCEPT_RATE = re.compile(r"accept rate: ([\d.]+)")
_USAGE = re.compile(r"(?:full )?token usage: ([\d.]+)")
_TOKENS = re.compile(r"#(?:full )?token: (\d+)")
_PREFILL = re.compile(r"Prefill batch.*?#new-seq: (\d+), #new-token: (\d+), #cached-token: (\d+)")
_RUNNING = re.compile(r"#running-req: (\d+)")
_QUEUED = re.compile(r"#queue-req: (\d+)")
_NO_GRAPH = frozenset({"false", "none", "eager", "0", "disabled"})


@dataclass(frozen=True, slots=True)
class Line:
    """A log line without its colours and prefix."""

    message: str
    time_s: float | None
    """The prefix's local time as epoch seconds; None without prefix."""
    ranks: dict[str, int]
    """{"TP": 0, "DP": 1 …}; empty for the main process."""

    @property
    def first_rank(self) -> bool:
        """Written by the main process or by rank 0 of everything: with several ranks most lines repeat."""
        return not any(self.ranks.values())


@dataclass(frozen=True, slots=True)
class DecodeLine:
    """One decode window: ``decode_log_interval`` iterations, of one data-parallel rank."""

    time_s: float | None
    dp_rank: int
    running: int
    queued: int
    throughput: float
    """Tokens/s since the last window; far too low where ``after_idle``."""
    graph: bool
    """Whether the last batch of the window ran in a captured graph."""
    accept_length: float | None
    """Bonus token included; None without speculation."""
    accept_rate: float | None
    """The server's own share, whose meaning depends on its version."""
    usage: float | None
    tokens: int | None
    after_idle: bool = False
    """The window spans a time in which nothing ran, so its throughput means nothing."""


@dataclass(frozen=True, slots=True)
class PrefillLine:
    time_s: float | None
    dp_rank: int
    new_requests: int
    new_tokens: int
    cached_tokens: int
    running: int | None
    queued: int | None


def clean(text: str) -> str:
    """Text without colour and cursor sequences."""
    return _ANSI.sub("", text) if "\x1b" in text else text


def read_line(text: str) -> Line:
    found = _PREFIX.match(text)
    if not found:
        return Line(text, None, {})
    try:
        seconds = datetime.strptime(found[1], "%Y-%m-%d %H:%M:%S").timestamp()
    except (ValueError, OverflowError, OSError):
        return Line(text, None, {})
    if found[2]:
        seconds += float(f"0.{found[2][:9]}")
    ranks = {name: int(number[:6]) for name, number in _RANK.findall(found[3])}
    return Line(text[found.end() :], seconds, ranks)


def _number(pattern: re.Pattern[str], text: str) -> float | None:
    found = pattern.search(text)
    try:
        return float(found[1]) if found else None
    except ValueError:
        return None


def read_batch(line: Line, *, after_idle: bool = False) -> DecodeLine | PrefillLine | None:
    """The values of a batch line; None for any other line."""
    message = line.message
    rank = line.ranks.get("DP", 0)
    if "Decode batch" in message:
        found = _DECODE.search(message)
        if not found:
            return None
        middle = found["mid"]
        try:
            throughput = float(found["tps"])
        except ValueError:
            return None
        tokens = _number(_TOKENS, message)
        return DecodeLine(
            line.time_s,
            rank,
            int(found["run"][:9]),
            int(found["q"][:9]),
            throughput,
            found["graph"].lower() not in _NO_GRAPH,
            _number(_ACCEPT_LENGTH, middle),
            _number(_ACCEPT_RATE, middle),
            _number(_USAGE, message),
            None if tokens is None else int(tokens),
            after_idle,
        )
    if "Prefill batch" in message:
        found = _PREFILL.search(message)
        if not found:
            return None
        running, queued = _number(_RUNNING, message), _number(_QUEUED, message)
        return PrefillLine(
            line.time_s,
            rank,
            int(found[1][:9]),
            int(found[2][:9]),
            int(found[3][:9]),
            None if running is None else int(running),
            None if queued is None else int(queued),
        )
    return None
