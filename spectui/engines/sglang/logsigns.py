"""Lines of a server's log that stand for something: settings, notes, ends, and what to look at where it hangs."""

from __future__ import annotations

import re
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Note:
    """A line that changes what a setting means."""

    key: str
    text: str
    time_s: float | None


@dataclass(frozen=True, slots=True)
class Stuck:
    phase: str
    silent_s: float
    text: str
    hint: str


NOTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("max_running_requests_reset", re.compile(r"Max running requests is reset to \d+")),
    ("draft_tokens_adjusted", re.compile(r"speculative_num_draft_tokens is adjusted to")),
    ("draft_tokens_default", re.compile(r"speculative_num_draft_tokens is set to \d+ by default")),
    ("adaptive_disabled", re.compile(r"speculative_adaptive disabled:")),
    ("adaptive_steps", re.compile(r"Adaptive spec params updated: steps \d+ -> \d+")),
    ("corpus_loaded", re.compile(r"Loaded external ngram corpus")),
    ("overlap_disabled", re.compile(r"Overlap scheduler is disabled")),
    ("mixed_chunk_disabled", re.compile(r"mixed chunked prefill (?:is|are) disabled")),
    ("cache_flushed", re.compile(r"Cache flushed successfully")),
    ("simulated_acceptance", re.compile(r"SIMULATE_ACC_LEN")),
)
FATAL = re.compile(
    r"Received sigquit from a child process|SIGQUIT received|Initialization failed\. warmup error|hit an exception"
    r"|died during initialization|Subprocess \S+ \(pid=\d+\) crashed|error while attempting to bind"
    r"|: error: (?:argument |unrecognized arguments|the following arguments|ambiguous option)"
)
FRACTION = re.compile(r"mem_fraction_static=([\d.]+)")
INTERVAL = re.compile(r"\bdecode_log_interval=(\d+)")
MODEL = re.compile(r"[(, ]model_path='([^']{1,1000})'")
DRAFT = re.compile(r"speculative_draft_model_path='([^']{1,1000})'")
STUCK_HINTS = {
    "distributed set-up": "Ranks wait for each other: check the network interface (NCCL_SOCKET_IFNAME, "
    "GLOO_SOCKET_IFNAME) and the links between GPUs",
    "weights": "Reading weights: is the disk or network file system slow or hanging?",
    "draft weights": "Reading the draft's weights: is the disk or network file system slow or hanging?",
    "compile": "Compilers may be silent for minutes: look for nvcc or ninja at work",
    "warm-up": "The first generation does not come back: see the scheduler's lines",
}
