"""The scheduler loop: continuous batching, one forward pass an iteration, one event a request and step."""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field

from spectui.engines.sim import loglines
from spectui.engines.sim.arguments import Launch
from spectui.engines.sim.log import Log
from spectui.engines.sim.metrics import Metrics
from spectui.engines.sim.pace import Pace
from spectui.engines.sim.proposers import Proposer
from spectui.engines.sim.requests import SimRequest
from spectui.engines.sim.steps import StepTimes

POOL_TOKENS = 2_577_736
_CACHED_SEQUENCES = 128


@dataclass(slots=True)
class AcceptCounts:
    """SGLang's own accept counters: an interval that is folded into the lifetime at each tick, and only then."""

    tokens: int = 0
    forwards: int = 0
    generated: int = 0
    all_tokens: int = 0
    all_forwards: int = 0
    tick_s: float = field(default_factory=time.monotonic)

    @property
    def average(self) -> float | None:
        return self.all_tokens / self.all_forwards if self.all_forwards else None


class Scheduler:
    def __init__(self, launch: Launch, proposer: Proposer, log: Log, metrics: Metrics) -> None:
        self._launch = launch
        self.proposer = proposer
        self._log = log
        self._metrics = metrics
        a = launch.args
        self._interval = max(1, int(a["decode_log_interval"]))
        graph = a.get("cuda_graph_config")
        self._largest_graph = 0 if a["disable_cuda_graph"] else int(graph["decode"]["max_bs"]) if graph else 256
        self._times = StepTimes(launch.sim.profile, proposer.width, proposer.draft_passes, self._largest_graph)
        self.running: list[SimRequest] = []
        self.waiting: deque[SimRequest] = deque()
        self.counts = AcceptCounts()
        self.last_throughput = 0.0
        self.paused = False
        self.stopped = False
        """The worker is gone: nothing moves any more."""
        self.thresholds = {name: a[name] for name in
                           ("speculative_accept_threshold_single", "speculative_accept_threshold_acc")}  # fmt: skip
        self._iterations = 0
        self._cache: deque[list[int]] = deque(maxlen=_CACHED_SEQUENCES)
        self._wake = asyncio.Event()
        self._idle_waiters: list[asyncio.Future[None]] = []
        self._rest_waiters: list[asyncio.Future[None]] = []
        self._prefill_s = time.monotonic()

    @property
    def idle(self) -> bool:
        return not self.running and not self.waiting

    @property
    def used_tokens(self) -> int:
        return sum(r.length for r in self.running)

    def submit(self, request: SimRequest) -> None:
        request.dispatched = time.time()
        self.waiting.append(request)
        self._wake.set()

    def abort(self, request: SimRequest, message: str = "Abort in waiting queue") -> None:
        """End a request wherever it is; its waiter hears of it."""
        if request.finish is not None:
            return
        request.abort(message)
        if request in self.waiting:
            self.waiting.remove(request)
        if request in self.running:
            self.running.remove(request)
            self.proposer.end(request)
        request.on_step(request)
        self._tell_idle()

    def abort_all(self, requests: Sequence[SimRequest]) -> None:
        """The client of these requests is gone."""
        for request in requests:
            self.abort(request, "client gone")

    def abort_matching(self, prefix: str, everything: bool) -> int:
        """Abort by the beginning of a request id, as SGLang does; returns how many."""
        hit = [r for r in [*self.running, *self.waiting] if everything or (prefix and r.rid.startswith(prefix))]
        for request in hit:
            self.abort(request, "Aborted")
        return len(hit)

    async def pause(self) -> None:
        """Hold all tokens back, from the end of the pass that is under way; returns then."""
        self.paused = True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._rest_waiters.append(waiter)
        self._wake.set()
        await waiter

    def resume(self) -> None:
        self.paused = False
        self._wake.set()

    def flush(self) -> bool:
        """Empty caches and counters; False, and nothing done, while requests run or wait."""
        if not self.idle:
            self._log.line(
                f"Cache not flushed because there are pending requests. #queue-req: {len(self.waiting)}, "
                f"#running-req: {len(self.running)}"
            )
            return False
        self._cache.clear()
        self.proposer.flush()
        self.counts = AcceptCounts(tick_s=self.counts.tick_s)
        self._iterations = 0
        self._log.line("Cache flushed successfully!")
        return True

    async def until_idle(self, timeout: float) -> bool:
        """Wait for the last request to end; False when it has not within ``timeout`` seconds."""
        if self.idle:
            return True
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._idle_waiters.append(waiter)
        try:
            await asyncio.wait_for(waiter, timeout)
        except asyncio.TimeoutError:
            return False
        return True

    def reset_lifetime(self) -> None:
        """What an accepted ``/set_internal_state`` does to the average."""
        self.counts.all_tokens = self.counts.all_forwards = 0

    async def run(self) -> None:
        pace = Pace(self._launch.sim.speed)
        try:
            while True:
                if self.stopped or self.paused or self.idle:
                    self._wake.clear()
                    for waiter in self._rest_waiters:
                        if not waiter.done():
                            waiter.set_result(None)
                    self._rest_waiters.clear()
                    await self._wake.wait()
                    pace.restart()
                    continue
                if self.waiting and len(self.running) < self._launch.max_running:
                    await self._prefill(pace)
                else:
                    await self._decode(pace)
        finally:
            pace.close()

    # -- prefill ------------------------------------------------------------------------------------------------

    async def _prefill(self, pace: Pace) -> None:
        batch: list[SimRequest] = []
        room = self._launch.max_running - len(self.running)
        new = cached = 0
        while self.waiting and len(batch) < room:
            request = self.waiting[0]
            request.cached = self._known_prefix(request.prompt_ids)
            fresh = len(request.prompt_ids) - request.cached
            if batch and new + fresh > int(self._launch.args["chunked_prefill_size"]):
                break
            self.waiting.popleft()
            request.started = time.time()
            batch.append(request)
            new, cached = new + fresh, cached + request.cached
        before = len(self.running)
        self.running.extend(batch)
        since = time.monotonic()
        speed = new / max(1e-6, since - self._prefill_s)
        self._prefill_s = since
        await pace.step(self._times.prefill(new))
        self._log.line(
            loglines.prefill(self._launch.sim.dialect, len(batch), new, cached, self.used_tokens / POOL_TOKENS, before,
                             len(self.waiting), speed)
        )  # fmt: skip
        self._metrics.prefilled(new, cached)
        self.proposer.prefilled()
        for request in batch:
            if request.finish is None:
                request.first_s = time.time()
                request.take(1)
                self.proposer.begin(request)
                self._report(request)

    def _known_prefix(self, prompt: list[int]) -> int:
        """Tokens of a prompt whose cache an earlier request left, the last token always computed anew."""
        if self._launch.args["disable_radix_cache"]:
            return 0
        best = 0
        for known in self._cache:
            limit = min(len(known), len(prompt) - 1)
            if limit <= best or known[:best] != prompt[:best]:
                continue
            at = best
            while at < limit and known[at] == prompt[at]:
                at += 1
            best = max(best, at)
        return best

    # -- decode -------------------------------------------------------------------------------------------------

    async def _decode(self, pace: Pace) -> None:
        size = len(self.running)
        await pace.step(self._times.decode(size, self.used_tokens / size))
        batch = list(self.running)  # whoever was aborted meanwhile is gone from it
        accepted = [self.proposer.accepted(r) for r in batch]
        self.proposer.drafted()
        tokens = 0
        for request, drafts in zip(batch, accepted, strict=True):
            put = request.take(drafts + 1)
            if self.proposer.speculates:
                request.verified(drafts)
                self.proposer.commit(request, put)
            tokens += drafts + 1
        self.counts.tokens += tokens
        self.counts.forwards += len(batch)
        self.counts.generated += tokens
        self._metrics.decoded(tokens)
        self._iterations += 1
        for request in batch:
            self._report(request)
        if batch and self._iterations % self._interval == 0:
            self._tick(size)

    def _report(self, request: SimRequest) -> None:
        if request.finish is not None and request in self.running:
            self.running.remove(request)
            self.proposer.end(request)
            self._cache.append([*request.prompt_ids, *request.answer.ids[: max(0, request.count - 1)]])
            self._metrics.finished(request)
        request.on_step(request)
        if request.finish is not None:
            self._tell_idle()

    def _tell_idle(self) -> None:
        if self.idle:
            for waiter in self._idle_waiters:
                if not waiter.done():
                    waiter.set_result(None)
            self._idle_waiters.clear()

    def _tick(self, size: int) -> None:
        counts, now = self.counts, time.monotonic()
        self.last_throughput = counts.generated / max(1e-9, now - counts.tick_s)
        length: float | None = None
        rate: float | None = None
        if self.proposer.speculates and counts.forwards:
            length = counts.tokens / counts.forwards
            rate = self._log_rate(counts)
            counts.all_tokens += counts.tokens
            counts.all_forwards += counts.forwards
        counts.tokens = counts.forwards = counts.generated = 0
        counts.tick_s = now
        graph = size <= self._largest_graph
        self._log.line(
            loglines.decode(self._launch.sim.dialect, size, self.used_tokens, self.used_tokens / POOL_TOKENS, length,
                            rate, graph, self.last_throughput, len(self.waiting))
        )  # fmt: skip
        self._metrics.ticked(self, size, length, rate, graph)

    def _log_rate(self, counts: AcceptCounts) -> float | None:
        """The log's accept rate, whose meaning changed with the version."""
        dialect, a = self._launch.sim.dialect, self._launch.args
        if not dialect.since(0, 5, 5):
            return None
        if not dialect.since(0, 5, 10):
            return counts.tokens / (counts.forwards * (int(a["speculative_num_steps"] or 0) + 1))
        width = int(a["speculative_num_draft_tokens"])
        if not dialect.since(0, 5, 12):
            return counts.tokens / (counts.forwards * width)
        return (counts.tokens - counts.forwards) / (counts.forwards * max(1, width - 1))
