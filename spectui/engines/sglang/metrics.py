"""Reading ``/metrics``: counters summed over their labels, gauges a data-parallel rank, and what two readings say.

Counters of tokens and verify steps move when a request finishes; gauges hold the last log window, also while idle
(srt/observability/metrics_collector.py).
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace

PREFIX = "sglang:"
COUNTERS = (
    "generation_tokens_total",
    "prompt_tokens_total",
    "cached_tokens_total",
    "num_requests_total",
    "num_aborted_requests_total",
    "spec_verify_calls_total",
)
REALTIME = "realtime_tokens_total"
"""≥ 0.5.10, counts every iteration; its ``mode`` label is kept: ``realtime_decode_tokens_total``."""
GRAPH_PASSES = "cuda_graph_passes_total"
GAUGES = (
    "num_running_reqs",
    "num_queue_reqs",
    "gen_throughput",
    "token_usage",
    "num_used_tokens",
    "cache_hit_rate",
    "spec_accept_length",
    "spec_accept_rate",
    "spec_num_steps",
    "spec_num_draft_tokens",
    "max_total_num_tokens",
    "utilization",
)
_WANTED = frozenset(PREFIX + name for name in (*COUNTERS, *GAUGES, REALTIME, GRAPH_PASSES))


@dataclass(frozen=True, slots=True)
class MetricsReading:
    counters: dict[str, float] = field(default_factory=dict)
    """Name without prefix -> sum over all label sets."""
    gauges: dict[str, dict[str, float]] = field(default_factory=dict)
    """Name without prefix -> rank ("0" where there is one) -> value."""

    def total(self, name: str) -> float | None:
        """A gauge summed over ranks (throughput, running requests)."""
        ranks = self.gauges.get(name)
        return sum(ranks.values()) if ranks else None

    @property
    def running(self) -> int | None:
        value = self.total("num_running_reqs")
        return None if value is None else int(value)

    @property
    def queued(self) -> int | None:
        value = self.total("num_queue_reqs")
        return None if value is None else int(value)

    def with_requests(self, running: int | None, queued: int | None) -> MetricsReading:
        """The same with these in place of the gauges, which hold the last log interval's value when all has ended."""
        told = {"num_running_reqs": running, "num_queue_reqs": queued}
        gauges = self.gauges | {name: {"0": float(value)} for name, value in told.items() if value is not None}
        return replace(self, gauges=gauges)

    @property
    def gauge_accept_length(self) -> float | None:
        """Last window over ranks, weighted by verify steps; zero is no measurement."""
        lengths = {rank: value for rank, value in self.gauges.get("spec_accept_length", {}).items() if value >= 1.0}
        rates = self.gauges.get("gen_throughput", {})
        busy = [(rates[rank], length) for rank, length in lengths.items() if rates.get(rank, 0) > 0]
        if busy:
            return sum(rate for rate, _ in busy) / sum(rate / length for rate, length in busy)
        return sum(lengths.values()) / len(lengths) if lengths else None


@dataclass(frozen=True, slots=True)
class MetricsUnavailable:
    """Why there is no reading."""

    kind: str
    """off (404), unauthorized, down or broken."""
    reason: str


@dataclass(frozen=True, slots=True)
class Delta:
    """What happened between two readings. A part whose counter is missing is None."""

    finished_tokens: float | None
    verify_steps: float | None
    accept_length: float | None
    """As the counters give it: tokens / verify steps, the first token of each request included."""
    accept_length_decode: float | None
    """The same without the first token of each finished request; needs their number."""
    requests: float | None
    realtime_tokens: float | None
    reset: bool
    """A counter went down: the server was restarted in between, and nothing can be said."""
    reason: str = ""
    """Why accept_length is None."""


def parse_metrics(text: str) -> MetricsReading:
    """The exposition text as a reading. Lines of other names, and lines that do not parse, are skipped."""
    wanted = [line for line in text.split("\n") if line.startswith(PREFIX) and _name(line) in _WANTED]
    reading = MetricsReading()
    if not wanted:
        return reading
    from prometheus_client.parser import text_string_to_metric_families

    def samples(lines: list[str]) -> list[tuple[str, Mapping[str, str], float]]:
        families = text_string_to_metric_families("\n".join(lines) + "\n")
        return [(sample.name, sample.labels, float(sample.value)) for family in families for sample in family.samples]

    try:
        found = samples(wanted)
    except (ValueError, KeyError, IndexError):
        found = []
        for line in wanted:  # one bad line must not cost the others
            try:
                found += samples([line])
            except (ValueError, KeyError, IndexError):
                continue
    for name, labels, value in found:
        if math.isfinite(value):
            _add(reading, name[len(PREFIX) :], labels, value)
    return reading


def _name(line: str) -> str:
    end = line.find("{")
    space = line.find(" ")
    if end < 0 or 0 <= space < end:
        end = space
    return line[:end] if end >= 0 else line


def _add(reading: MetricsReading, name: str, labels: Mapping[str, str], value: float) -> None:
    if name in (REALTIME, GRAPH_PASSES):
        stem = "realtime_{}_tokens_total" if name == REALTIME else "passes_{}_total"
        name = stem.format(labels.get("mode", "unknown"))
    if name in GAUGES:
        # One series a DP rank; other labels (priority, pipeline stage) only split it further.
        ranks = reading.gauges.setdefault(name, {})
        rank = labels.get("dp_rank", "0")
        ranks[rank] = max(ranks[rank], value) if rank in ranks else value
    else:
        reading.counters[name] = reading.counters.get(name, 0.0) + value


def difference(before: MetricsReading, after: MetricsReading, finished_requests: int | None = None) -> Delta:
    """The run between two readings. ``finished_requests`` where the caller knows it better than the counter."""

    def moved(name: str) -> float | None:
        if name not in after.counters:
            return None
        return after.counters[name] - before.counters.get(name, 0.0)

    tokens, steps, requests = (
        moved("generation_tokens_total"),
        moved("spec_verify_calls_total"),
        moved("num_requests_total"),
    )
    realtime = moved("realtime_decode_tokens_total")
    if any(value is not None and value < 0 for value in (tokens, steps, requests, realtime)):
        return Delta(
            None, None, None, None, None, None, True, "counters went down: the server was restarted in between"
        )
    if finished_requests is not None:
        requests = float(finished_requests)
    if tokens is None:
        return Delta(None, steps, None, None, requests, realtime, False, "no token counter")
    if steps is None:
        return Delta(tokens, None, None, None, requests, realtime, False, "this version counts no verify steps")
    if not tokens or not steps:
        return Delta(tokens, steps, None, None, requests, realtime, False, "no data: no request finished in between")
    decode = (tokens - requests) / steps if requests is not None and requests <= tokens else None
    return Delta(tokens, steps, tokens / steps, decode, requests, realtime, False)


@dataclass(frozen=True, slots=True)
class Live:
    """Gauges as they may be shown."""

    state: str
    """busy, idle or unknown (first reading)."""
    throughput: float | None
    """Tokens/s; 0 while idle, whatever the gauge still says."""
    accept_length: float | None
    """Only while busy and speculating."""
    shown_accept_length: str
    """"2.87", "last 2.87" while idle, "off" without speculation, "n/a"."""

    @property
    def counts(self) -> bool:
        """Whether these values may enter an average."""
        return self.state == "busy"


def live(before: MetricsReading | None, now: MetricsReading, *, speculates: bool) -> Live:
    """What the gauges mean now: with no request running and no counter moved since ``before``, the server is idle."""
    running, queued = now.running or 0, now.queued or 0
    progress = before is not None and any(
        value > before.counters.get(name, 0.0)
        for name, value in now.counters.items()
        if name.startswith("realtime_") or name == "generation_tokens_total"
    )
    if running or queued or progress:
        state = "busy"
    elif before is None:
        state = "unknown"
    else:
        state = "idle"
    length = now.gauge_accept_length if speculates else None
    if not speculates:
        shown = "off"
    elif length is None:
        shown = "n/a"
    else:
        shown = f"{length:.2f}" if state == "busy" else f"last {length:.2f}"
    throughput = 0.0 if state == "idle" else now.total("gen_throughput")
    return Live(state, throughput, length if state == "busy" else None, shown)
