"""``/metrics``: families, labels and buckets as recorded; values that move as the real ones do."""

from __future__ import annotations

import json
import resource
import time
from functools import lru_cache
from importlib import resources
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from spectui.engines.sim.arguments import Launch

if TYPE_CHECKING:
    from spectui.engines.sim.requests import SimRequest
    from spectui.engines.sim.scheduler import Scheduler

IDLE_ZERO_S = 30.0
"""An idle server zeroes its load gauges about every 30 s; the accept length keeps its last window (0.5.15)."""

Labels = tuple[tuple[str, str], ...]


@lru_cache(maxsize=1)
def families() -> dict[str, dict[str, Any]]:
    text = resources.files("spectui.engines.sim").joinpath("data/metrics.json").read_text("utf-8")
    loaded: dict[str, dict[str, Any]] = json.loads(text)
    return loaded


class Metrics:
    """Counters of finished requests move when a request finishes, ``realtime_tokens_total`` each iteration."""

    def __init__(self, launch: Launch, pool_tokens: int) -> None:
        self._launch = launch
        self._scheduler: Scheduler | None = None
        self._ticked_s = 0.0
        self._values: dict[str, dict[Labels, float]] = {}
        self._histograms: dict[str, dict[Labels, list[float]]] = {}
        """Counts by bucket, then the sum."""
        since = launch.sim.dialect.since
        fixed = {"engine_type": "unified", "model_name": launch.model_name, "tp_rank": "0", "pp_rank": "0"}
        if since(0, 5, 10):
            fixed["moe_ep_rank"] = "0"
        self._fixed = fixed
        self._families = {n: f for n, f in families().items() if self._known(n)}
        for name, family in self._families.items():
            if family["type"] == "gauge" and not set(family["labels"]) & {"endpoint", "gt"}:
                self.set(name, 0.0)
        tokens = float(pool_tokens)
        for name, value in (("max_total_num_tokens", tokens), ("num_pages", tokens), ("page_size", 1.0),
                            ("context_len", float(launch.context_length)), ("fwd_occupancy", float("nan")),
                            ("startup_available_gpu_memory_gb", 83.09796142578125), ("new_token_ratio", 0.7),
                            ("kv_available_tokens", tokens)):  # fmt: skip
            self.set("sglang:" + name, value)
        steps = ("0", "1", "2", "3", "5", "7", "10", "20", "50", "100", "200", "+Inf")
        for low, high in pairwise(steps):
            for name in ("routing_key_running_req_count", "routing_key_all_req_count"):
                self.set("sglang:" + name, 0.0, gt=low, le=high)

    def _known(self, name: str) -> bool:
        since = self._launch.sim.dialect.since
        if name in ("sglang:spec_num_steps", "sglang:spec_num_draft_tokens", "sglang:spec_verify_calls_total"):
            return since(0, 5, 15)
        if name == "sglang:spec_accept_rate":
            return since(0, 5, 5)
        if name in ("sglang:realtime_tokens_total", "sglang:max_total_num_tokens", "sglang:full_token_usage"):
            return since(0, 5, 10)
        return True

    def _labels(self, name: str, own: dict[str, str]) -> Labels:
        wanted = self._families[name]["labels"]
        labels = {k: self._fixed[k] for k in wanted if k in self._fixed} | own
        if "pid" in wanted:
            labels["pid"] = "1"
        return tuple(sorted(labels.items()))

    def set(self, name: str, value: float, **own: str) -> None:
        if name in self._families:
            self._values.setdefault(name, {})[self._labels(name, own)] = value

    def add(self, name: str, amount: float, **own: str) -> None:
        if name in self._families:
            row = self._values.setdefault(name, {})
            labels = self._labels(name, own)
            row[labels] = row.get(labels, 0.0) + amount

    def observe(self, name: str, value: float, count: int = 1, **own: str) -> None:
        edges = self._families[name]["buckets"]
        row = self._histograms.setdefault(name, {})
        cells = row.setdefault(self._labels(name, own), [0.0] * (len(edges) + 1))
        for i, edge in enumerate(edges):
            if value <= float(edge):
                cells[i] += count
        cells[-1] += value * count

    # -- what happens on the server -----------------------------------------------------------------------------

    def requested(self, method: str, path: str) -> None:
        self.add("sglang:http_requests_total", 1, endpoint=path, method=method)
        self.add("sglang:http_requests_active", 1, endpoint=path, method=method)

    def answered(self, method: str, path: str, status: int) -> None:
        self.add("sglang:http_responses_total", 1, endpoint=path, method=method, status_code=str(status))

    def closed(self, method: str, path: str) -> None:
        self.add("sglang:http_requests_active", -1, endpoint=path, method=method)

    def prefilled(self, new: int, cached: int) -> None:
        self.add("sglang:realtime_tokens_total", new, mode="prefill_compute")
        if cached:
            self.add("sglang:realtime_tokens_total", cached, mode="prefill_cache")
        self.add("sglang:cuda_graph_passes_total", 1, mode="prefill_none")

    def decoded(self, tokens: int) -> None:
        self.add("sglang:realtime_tokens_total", tokens, mode="decode")
        self.add("sglang:cuda_graph_passes_total", 1, mode="decode_cuda_graph")

    def finished(self, request: SimRequest) -> None:
        """A request has left the batch. Health checks are not counted; of the server's own warm-up only the tokens.

        The real server counts the warm-up's verify calls too. Here they are left out, so that the counter is the sum
        over the requests that were sent to it.
        """
        queued = max(0.0, request.started - request.received)
        self.observe("sglang:queue_time_seconds", queued)
        self.observe("sglang:per_stage_req_latency_seconds", queued, stage="request_process")
        self.observe("sglang:per_stage_req_latency_seconds", request.first_s - request.started, stage="prefill_forward")
        if request.rid.startswith("HEALTH_CHECK"):
            return
        prompt, output = len(request.prompt_ids), request.count
        self.add("sglang:num_requests_total", 1)
        self.add("sglang:prompt_tokens_total", prompt)
        self.add("sglang:generation_tokens_total", output)
        if request.cached:
            self.add("sglang:cached_tokens_total", request.cached, cache_source="device")
        if self._launch.algorithm is not None:
            self.add("sglang:spec_verify_calls_total", 0 if request.internal else request.verify_steps)
        self.observe("sglang:prompt_tokens_histogram", prompt)
        self.observe("sglang:uncached_prompt_tokens_histogram", prompt - request.cached)
        self.observe("sglang:generation_tokens_histogram", output)
        self.observe("sglang:time_to_first_token_seconds", request.first_s - request.received)
        self.observe("sglang:e2e_request_latency_seconds", request.finished_s - request.received)
        if output > 1 and not request.internal:
            gap = (request.finished_s - request.first_s) / (output - 1)
            self.observe("sglang:inter_token_latency_seconds", gap, count=output - 1)

    def ticked(self, scheduler: Scheduler, size: int, length: float | None, rate: float | None, graph: bool) -> None:
        """Gauges hold what the last log interval gave, an idle server's too, until :data:`IDLE_ZERO_S`."""
        self._scheduler, self._ticked_s = scheduler, time.monotonic()
        used = float(scheduler.used_tokens)
        a = self._launch.args
        pool = max(used, 1.0, next(iter(self._values.get("sglang:num_pages", {}).values()), 1.0))
        for name, value in (("num_running_reqs", float(size)), ("num_queue_reqs", float(len(scheduler.waiting))),
                            ("gen_throughput", scheduler.last_throughput), ("cache_hit_rate", 0.0),
                            ("decode_sum_seq_lens", used), ("token_usage", round(used / pool, 2)),
                            ("full_token_usage", used / pool), ("num_used_tokens", used), ("kv_used_tokens", used),
                            ("kv_available_tokens", pool - used), ("is_cuda_graph", float(graph))):  # fmt: skip
            self.set("sglang:" + name, value)
        if length is not None:
            self.set("sglang:spec_accept_length", length)
            self.set("sglang:spec_accept_rate", rate or 0.0)
            self.set("sglang:spec_num_steps", float(a["speculative_num_steps"] or 0))
            self.set("sglang:spec_num_draft_tokens", float(a["speculative_num_draft_tokens"]))

    def page(self) -> str:
        """The exposition text."""
        if self._scheduler is not None and self._scheduler.idle and time.monotonic() - self._ticked_s >= IDLE_ZERO_S:
            for name in ("num_running_reqs", "num_queue_reqs", "gen_throughput"):
                self.set("sglang:" + name, 0.0)
        usage = resource.getrusage(resource.RUSAGE_SELF)
        self.set("sglang:process_cpu_seconds_total", usage.ru_utime + usage.ru_stime, component="tokenizer")
        self.set("sglang:process_cpu_seconds_total", 0.0, component="detokenizer")
        out: list[str] = []
        for name, family in self._families.items():
            rows, cells = self._values.get(name, {}), self._histograms.get(name, {})
            if not rows and not cells:
                continue
            out += [f"# HELP {name} {family['help']}", f"# TYPE {name} {family['type']}"]
            out += [f"{name}{_braces(labels)} {_number(value)}" for labels, value in rows.items()]
            for labels, counts in cells.items():
                out.append(f"{name}_sum{_braces(labels)} {_number(counts[-1])}")
                for edge, count in zip(family["buckets"], counts, strict=False):
                    out.append(f"{name}_bucket{_braces((*labels, ('le', edge)))} {_number(count)}")
                out.append(f"{name}_count{_braces(labels)} {_number(counts[-2])}")
        return "\n".join(out) + "\n"


def _braces(labels: Labels) -> str:
    if not labels:
        return ""
    shown = ",".join(f'{k}="{_escaped(v)}"' for k, v in sorted(labels))
    return "{" + shown + "}"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")


def _number(value: float) -> str:
    return "NaN" if value != value else repr(float(value))
