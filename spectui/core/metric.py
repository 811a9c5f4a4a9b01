"""The table of metrics: one row each, for the screen's table, comparisons and exports. A new metric is a new row."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from spectui.core.passes import PassResult

Better = Literal["high", "low", "none"]


@dataclass(frozen=True, slots=True)
class Value:
    """A figure, or why there is none. ``text`` is for people: ``372``, ``25.3 ms``, ``n/a (reason)`` without value."""

    number: float | None
    text: str
    reason: str = ""

    @property
    def short(self) -> str:
        """Without the reason, for narrow cells."""
        return self.text if self.number is not None else "n/a"


@dataclass(frozen=True, slots=True)
class Metric:
    key: str
    label: str
    unit: str
    better: Better
    read: Callable[[PassResult], float | None]
    missing: Callable[[PassResult], str]
    """Why ``read`` gave None."""
    whole: bool = False
    """A count: shown in full."""

    def of(self, result: PassResult) -> Value:
        number = self.read(result)
        if number is None:
            why = self.missing(result)
            return Value(None, f"n/a ({why})", why)
        shown = f"{number:,.0f}" if self.whole else significant(number)
        return Value(number, f"{shown} {self.unit}" if self.unit else shown)


def significant(number: float, digits: int = 3) -> str:
    """Three digits that mean something: 372, 25.3, 4.90, 0.0123; thousands in full."""
    rounded = f"{number:.{digits - 1}e}"
    places = digits - 1 - int(rounded.partition("e")[2])
    return f"{float(rounded) if places > 0 else number:,.{max(0, places)}f}" if number else "0"


def _nothing(result: PassResult) -> str:
    if not result.records:
        return "nothing was measured"
    return "no request ended well" if not result.good else "not told on this route"


def _no_steps(result: PassResult) -> str:
    if not result.good:
        return _nothing(result)
    return "streams join several steps" if result.joined else "no verify steps on this route"


def _no_draft(result: PassResult) -> str:
    return "no speculation" if not result.speculative else _no_steps(result)


def _part(name: str, share: str) -> Callable[[PassResult], float | None]:
    def read(result: PassResult) -> float | None:
        values: dict[str, float] | None = getattr(result, name)
        return values[share] if values else None

    return read


def _gaps(result: PassResult) -> str:
    return result.gaps_hidden or _nothing(result)


METRICS: tuple[Metric, ...] = (
    Metric("output_tokens_per_s", "output tok/s", "", "high", lambda r: r.output_tokens_per_s, _nothing),
    Metric("accept_length", "accept length", "", "high", lambda r: r.accept_length, _no_steps),
    Metric("step_time_ms", "step time", "ms", "low", lambda r: r.step_time_ms, _no_steps),
    Metric("ttft_p50_ms", "TTFT p50", "ms", "low", _part("ttft_ms", "p50"), _nothing),
    Metric("ttft_p99_ms", "TTFT p99", "ms", "low", _part("ttft_ms", "p99"), _nothing),
    Metric("tpot_p50_ms", "TPOT p50", "ms", "low", _part("tpot_ms", "p50"), _nothing),
    Metric("tpot_p99_ms", "TPOT p99", "ms", "low", _part("tpot_ms", "p99"), _nothing),
    Metric("chunk_gap_p50_ms", "chunk gap p50", "ms", "low", _part("chunk_gap_ms", "p50"), _gaps),
    Metric("e2e_p50_ms", "E2E latency p50", "ms", "low", _part("e2e_ms", "p50"), _nothing),
    Metric("e2e_p99_ms", "E2E latency p99", "ms", "low", _part("e2e_ms", "p99"), _nothing),
    Metric("accept_rate", "accept rate", "", "high", lambda r: r.accept_rate, _no_draft),
    Metric("accept_length_sglang", "accept length (SGLang)", "", "high", lambda r: r.accept_length_sglang, _no_steps),
    Metric("joules_per_token", "J per token", "", "low", lambda r: r.joules_per_token, lambda r: r.joules_missing),
    Metric("verify_steps", "verify steps", "", "none", lambda r: r.verify_steps, _no_steps, whole=True),
    Metric("output_tokens", "output tokens", "", "none", lambda r: r.output_tokens, _nothing, whole=True),
    Metric("wall_s", "measured for", "s", "none", lambda r: r.wall_s if r.records else None, _nothing),
    Metric("requests", "requests", "", "none", lambda r: r.requests, _nothing, whole=True),
    Metric("failed", "failed", "", "low", lambda r: r.failed, _nothing, whole=True),
)

BY_KEY: dict[str, Metric] = {m.key: m for m in METRICS}


def row(result: PassResult) -> dict[str, float | None]:
    """All metrics of a pass by key, for exports; an absent value is None, never 0."""
    return {m.key: m.read(result) for m in METRICS}
