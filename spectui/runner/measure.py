"""A run from its first contact to its last row: passes, phases, flushes, feeding, alternating blocks.

Cold: flush, measure. Warm: flush, feed until accept length is steady, measure. An arm whose drafter does not learn
needs neither: its passes are a short warm-up request and the measuring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui import __version__
from spectui.core.request import all_failed
from spectui.core.rows import SCHEMA
from spectui.core.spec import ArmSpec, Prompt, RunSpec, enough_name
from spectui.engines.sglang.errors import EngineError, NotReachable, NotSglang, StillStarting
from spectui.runner.answers import Answers, Live
from spectui.runner.arm import Arm, Cost, Tally
from spectui.runner.counters import Sent, foreign_traffic, joined_steps, restarted
from spectui.runner.failure import RunFailed, Stopped
from spectui.runner.node import environment_of, gpus_of, node_head
from spectui.runner.orders import check
from spectui.runner.preparing import Preparing
from spectui.runner.priming import Priming
from spectui.runner.sending import Outcome, Phase, Sender
from spectui.runner.watch import Followed, Watch
from spectui.store.journal import Writer

if TYPE_CHECKING:
    from spectui.hosts.gpus import GpuPanel

CLOCK_DRIFT_S = 0.005
"""Realtime against monotonic over a run; beyond it, times across the run are marked."""


class Measurement:
    """Carries out a spec. ``stopped`` is asked often; once it says yes the run ends, and what it has stays."""

    def __init__(
        self, spec: RunSpec, journal: Writer, *, stopped: Callable[[], bool], transport: str | None = None
    ) -> None:
        self.spec = spec
        self._journal = journal
        self._stopped = stopped
        self._transport = transport
        self._arms: list[Arm] = []
        self._priming: Priming | None = None
        folder = Path(spec.folder)
        self._answers = Answers(folder) if spec.keep_text else None
        self._live = Live(folder) if spec.keep_text else None
        self._sender = Sender(spec, journal, stopped, self._answers, self._live)
        self._watch = Watch(journal, gpus=spec.sample_gpus)
        self._preparing = Preparing(spec, self._sender, self._watch, self, stopped)
        self._offset = time.time() - time.monotonic()

    def close(self) -> None:
        self._watch.close()
        if self._priming is not None:
            self._priming.close()
        for arm in self._arms:
            arm.close()
        for file in (self._answers, self._live):
            if file is not None:
                file.close()

    def run(self) -> None:
        """Raises RunFailed or Stopped; rows are written as things happen."""
        spec = self.spec
        check(spec)
        priming = self._priming = Priming(spec, self.phase, self.mark)
        for side in spec.arms:
            self._connect(side)
        self._head(self._watch.start())
        for arm in self._arms:
            self._preparing.refuse(arm)
        for level in spec.concurrency:
            for pass_name in spec.passes:
                self._pass(pass_name, level, priming)
        drift = abs(time.time() - time.monotonic() - self._offset)
        if drift > CLOCK_DRIFT_S:
            self.mark(None, "clock_drift", f"the node's clock was set by {1000 * drift:.0f} ms during the run")

    # -- before the first row

    def _connect(self, spec: ArmSpec) -> None:
        try:
            arm = Arm(spec, self.spec, transport=self._transport)
            self._arms.append(arm)
            arm.open()
        except EngineError as error:
            missing = isinstance(error, NotReachable | NotSglang | StillStarting)
            raise RunFailed(f"arm {spec.name}: {error}", 3 if missing else 1) from None
        self._prove(arm)

    def _prove(self, arm: Arm) -> None:
        """A few tokens before anything is promised: a route that fails here gives way to the next."""
        while True:
            outcome = self._preparing.short(arm, Phase("", "warmup", 1), silent=True)
            if outcome.record.ok:
                return
            words = f"arm {arm.name}: {arm.client.url}: {str(outcome.record.error).rstrip('.')}"
            if outcome.ending.status in (401, 403):
                raise RunFailed(f"{words}. It needs a key, or another one: give it with --key env:NAME or file:PATH")
            if outcome.ending.state in ("refused", "unreachable"):
                raise RunFailed(words, 3)
            if outcome.ending.state != "status" or not arm.next_route(True, f"HTTP {outcome.ending.status}"):
                came = outcome.record.completion_tokens
                raise RunFailed(f"{words}. {'The first request did not end well' if came else 'No token came'}")

    def _head(self, panel: GpuPanel | None) -> None:
        spec = self.spec
        heads, marks = [], []
        for arm in self._arms:
            environment = environment_of(arm.spec.server_pid)
            arm.gpus = frozenset(gpus_of(arm.spec.server_pid, panel))
            heads.append(arm.head(tuple(m.name for m in environment)))
            marks += [(arm.name, m.name, m.text) for m in environment]
            if arm.proxy:
                words = "measured through a proxy, whose time is in every figure; httpx stamps once it has read"
                marks.append((arm.name, "proxy", words))
            if arm.lossy:
                greedy = "; at temperature 0 that changes nothing" if spec.temperature == 0 else ""
                words = f"it may accept drafts that the model would not have written ({arm.lossy}, exact is 1){greedy}"
                marks.append((arm.name, "lossy", words))
            if arm.route_change:
                marks.append((arm.name, "route", f"not the best route: {arm.route_change}"))
            if spec.seed is not None and spec.temperature != 0 and not arm.takes_seed:
                words = f"SGLang {arm.info.version} takes no sampling seed on this route: seed {spec.seed} was not sent"
                marks.append((arm.name, "seed_not_sent", words))
        self._journal.row(
            "head",
            schema=SCHEMA,
            run_id=spec.run_id,
            spectui=__version__,
            arms=heads,
            workload={**asdict(spec.workload), "feeding": len(spec.feeding), "measuring": len(spec.measuring)},
            passes=spec.passes,
            concurrency=spec.concurrency,
            requests=len(spec.measuring),
            max_tokens=spec.max_tokens,
            temperature=spec.temperature,
            seed=spec.seed,
            thinking=spec.thinking,
            ignore_eos=spec.ignore_eos,
            flush=spec.flush,
            node=node_head(panel),
        )
        for name, mark, detail in marks:
            self.mark(name, mark, detail)

    # -- passes

    def _pass(self, pass_name: str, level: int, priming: Priming) -> None:
        for arm in self._arms:
            arm.tally, arm.cost = Tally(), Cost()
            self._preparing.prepare(arm, pass_name, level)
            priming.begin(arm, pass_name, level)
            arm.transport.lag.clear()
        before = [(arm.info.algorithm, arm.info.settings) for arm in self._arms]
        prompts = list(enumerate(self.spec.measuring))
        outcomes: dict[str, list[Outcome]] = {arm.name: [] for arm in self._arms}
        if len(self._arms) == 1:
            outcomes[self._arms[0].name] += self._measure(
                self._arms[0], Phase(pass_name, "measure", level, None), prompts
            )
        else:
            size = self.spec.block_at(level)
            for number, at in enumerate(range(0, len(prompts), size)):
                if self._enough(pass_name, level):
                    break
                # ABBA: what drifts in time falls on both arms alike.
                for arm in self._arms if number % 2 == 0 else self._arms[::-1]:
                    phase = Phase(pass_name, "measure", level, number)
                    outcomes[arm.name] += self._measure(arm, phase, prompts[at : at + size])
        for arm, was in zip(self._arms, before, strict=True):
            priming.end(arm)
            self._check_settings(arm, was)
            records = [outcome.record for outcome in outcomes[arm.name]]
            why = all_failed(records)
            if why:
                raise RunFailed(f"arm {arm.name}, {pass_name} pass: {why}")

    def _enough(self, pass_name: str, level: int) -> bool:
        """Whoever follows the run has seen enough of this pass: a file of this name in its folder says so."""
        return (Path(self.spec.folder) / enough_name(pass_name, level)).exists()

    def _measure(self, arm: Arm, phase: Phase, prompts: Sequence[tuple[int, Prompt]]) -> list[Outcome]:
        block = phase.block or 0
        before = arm.read_counters()
        self._journal.row("metrics", arm=arm.name, at="before", **before)
        self.phase(arm, phase.pass_name, "measure", phase.concurrency, "begin", block)
        self._watch.follow(Followed(arm.name, arm.read_counters, arm.gpus))
        self._watch.edge()
        sent = Sent()
        cpu, wall = time.process_time(), time.monotonic()
        outcomes = self._sender.send(arm, phase, prompts, seen=sent.add)
        arm.cost.add(time.process_time() - cpu, time.monotonic() - wall)
        self._watch.follow(None)
        self._watch.edge()
        failed = sum(outcome.record.status in ("failed", "cut off") for outcome in outcomes)
        self.phase(
            arm, phase.pass_name, "measure", phase.concurrency, "end", block, requests=len(outcomes), failed=failed
        )
        after = self._counters_after(arm, before, sent)
        self._journal.row("metrics", arm=arm.name, at="after", **after)
        self._traffic(arm, before, after, sent)
        joined = joined_steps([outcome.record for outcome in outcomes], before, after, arm.draft_tokens)
        if joined:
            self.mark(arm.name, "route_joined_steps", joined)
        self._journal.row(
            "client",
            arm=arm.name,
            pass_name=phase.pass_name,
            concurrency=phase.concurrency,
            transport=arm.transport.name,
            stamps=arm.transport.stamps,
            **arm.cost.row(arm.transport.lag),
        )
        self.heed()
        return outcomes

    def _counters_after(self, arm: Arm, before: dict[str, Any], sent: Sent) -> dict[str, Any]:
        """The counters once they hold what we received: a server may count a request just after its last byte."""
        after = arm.read_counters()
        name = "generation_tokens_total"
        for _ in range(4):
            if "counters" not in before or "counters" not in after or sent.unsure or self._stopped():
                break
            if after["counters"].get(name, 0.0) - before["counters"].get(name, 0.0) >= sent.tokens:
                break
            time.sleep(0.1)
            after = arm.read_counters()
        return after

    def _traffic(self, arm: Arm, before: dict[str, Any], after: dict[str, Any], sent: Sent) -> None:
        if "counters" not in before or "counters" not in after:
            return
        if restarted(before["counters"], after["counters"]):
            self.mark(arm.name, "restarted", "the server's counters went back: it was restarted while it was measured")
            return
        others = foreign_traffic(before["counters"], after["counters"], sent)
        if others:
            self.mark(arm.name, "foreign_traffic", f"others used the server while it was measured: {others}")

    def _check_settings(self, arm: Arm, was: tuple[str, dict[str, Any]]) -> None:
        try:
            info = arm.client.info(force=True)
        except EngineError as error:
            self.mark(arm.name, "info_unreadable", f"the server's settings could not be read afterwards: {error}")
            return
        if (info.algorithm, info.settings) != was and not arm.info.unreadable:
            detail = f"the server's settings changed while it was measured: {was[0]} before, {info.algorithm} after"
            self.mark(arm.name, "restarted", detail)
        arm.info = info

    # -- rows

    def phase(
        self, arm: Arm, pass_name: str, phase: str, level: int, state: str, block: int = 0, **detail: Any
    ) -> None:
        self._journal.row(
            "phase",
            arm=arm.name,
            pass_name=pass_name,
            phase=phase,
            concurrency=level,
            block=block,
            state=state,
            detail=detail,
        )

    def mark(self, arm: str | None, name: str, detail: str) -> None:
        self._journal.row("mark", arm=arm, name=name, detail=detail)

    def pause(self, seconds: float) -> None:
        """Waits, but not beyond a stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.heed()
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))

    def heed(self) -> None:
        if self._stopped():
            raise Stopped
