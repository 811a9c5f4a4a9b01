"""The rows of a run's journal, the truth that screens, exports and results are folds of.

``journal.jsonl`` holds one JSON object a line. Every row has ``t`` (epoch seconds on the runner's clock) and ``kind``.
Unknown kinds and keys are skipped by readers, so that an older spectui reads a newer journal.

==========  =====================================================================================================
kind        other keys
==========  =====================================================================================================
head        first row. ``schema`` (1), ``run_id``, ``spectui`` (version), ``arms`` (list of :class:`ArmHead` as
            dicts), ``workload`` {name, hash, marks, feeding, measuring}, ``passes``, ``concurrency``, ``requests``,
            ``max_tokens``, ``temperature``, ``seed``, ``thinking``, ``ignore_eos``, ``flush``,
            ``node`` {host, gpus, driver, cpus}
phase       ``arm``, ``pass_name``, ``phase`` (flush, prime, warmup, feed, measure), ``concurrency``, ``block``,
            ``state`` (begin, end), ``detail`` {…}. End of a flush: {flushed, attempts, status, reason}; end of a
            feed: {requests, tokens, steady, accept_length, rising, ended, least}: ``ended`` says what ended it (steady,
            tokens, requests, prompts or stopped), ``rising`` that accept length still rose then, ``least`` the
            tokens below which no feed counts as steady
sample      4 a second while requests run: ``arm``, ``pass_name``, ``phase``, ``concurrency``, ``tokens`` (output
            tokens since the pass began, all of this arm), ``steps`` (events after the first, where one event is one
            step), ``step_tokens`` (tokens of those events), ``running``, ``done``, ``failed``
request     every field of :class:`spectui.core.request.RequestRecord`
metrics     ``arm``, ``at`` (before, during, after), ``counters`` {name: sum over labels}, ``gauges`` {…}; or
            ``unavailable`` with the reason
gpu         ``gpus``: list of dicts as in :class:`spectui.core.gpu.GpuReading`
mark        ``arm`` (or null), ``name`` (foreign_traffic, restarted, both_arms_loaded, throttled, simulated_acceptance,
            route_joined_steps, seed_not_sent, lossy, proxy, flush_refused, no_feeding, route, clock_drift,
            info_unreadable …),
            ``detail`` (one sentence)
client      ``cpu_s``, ``wall_s``, ``lag_ms_p99``, ``late_share``, ``bound`` (bool), ``transport``, ``stamps``
            (kernel or user), ``pass_name``, ``arm``, ``concurrency``
end         last row. ``status`` (complete, interrupted, failed), ``reason``, ``exit_code`` (the runner's: 0, 1, 3 no
            server was reached, 130)
==========  =====================================================================================================

Beside it, mode 0600 and only where text is kept: ``answers.jsonl`` (arm, pass_name, phase, concurrency, index,
prompt_id, prompt_ids, output_ids, text, thoughts) and ``live.jsonl`` (arm, index, rid, pieces: list of
[tokens, text], ``done``), the answer of one request at a time as it streams.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

Row = dict[str, Any]
SCHEMA = 1


@dataclass(frozen=True, slots=True)
class ArmHead:
    """What a run knew of an arm when it began."""

    name: str
    url: str
    label: str
    version: str
    algorithm: str
    """Neutral name: none, NGRAM, EAGLE3 …"""
    model: str
    settings_asked: dict[str, Any] = field(default_factory=dict)
    settings_in_force: dict[str, Any] = field(default_factory=dict)
    """Neutral speculative knobs as the server resolved them."""
    server: dict[str, Any] = field(default_factory=dict)
    """max_running_requests, page_size, tp_size, dp_size, mem_fraction_static, attention_backend, context_len …"""
    route: str = ""
    simulated: bool = False
    marks: tuple[str, ...] = ()
    gpus: tuple[str, ...] = ()
    """UUIDs of the GPUs that its processes hold, where they could be seen."""
    owned: bool = False
