"""A run from its first contact to its last row: passes, phases, flushes, feeding, alternating blocks.

Cold: flush, measure. Warm: flush, feed until accept length is steady, measure. An arm whose drafter does not learn
needs neither: its passes are a short warm-up request and the measuring.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui import __version__
from spectui.core.rows import SCHEMA
from spectui.core.spec import ArmSpec, Prompt, RunSpec, enough_name
from spectui.engines.sglang.errors import EngineError, NotReachable, NotSglang, StillStarting
from spectui.runner.answers import Answers, Live
from spectui.runner.arm import Arm, Cost, Sent, Tally, foreign_traffic, restarted
from spectui.runner.failure import RunFailed, Stopped
from spectui.runner.feeding import Feeding
from spectui.runner.node import environment_of, gpus_of, node_head
from spectui.runner.orders import check
from spectui.runner.priming import Priming
from spectui.runner.sending import Outcome, Phase, Sender
from spectui.runner.watch import Followed, Watch
from spectui.store.journal import Writer

if TYPE_CHECKING:
    from spectui.hosts.gpus import GpuPanel

WARM_UP_TOKENS = 16
FED = ("warm",)
"""Passes that feed a store before they measure."""
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
        priming = self._priming = Priming(spec, self._phase, self._mark)
        for side in spec.arms:
            self._connect(side)
        self._head(self._watch.start())
        for arm in self._arms:
            if arm.stateful and spec.flush == "no" and not arm.spec.owned:
                raise RunFailed(
                    f"arm {arm.name}: a {spec.passes[0]} pass of {arm.info.algorithm} begins with a flush, and this "
                    "run may not flush a server that it did not start; allow it with --flush"
                )
        for level in spec.concurrency:
            for pass_name in spec.passes:
                self._pass(pass_name, level, priming)
        drift = abs(time.time() - time.monotonic() - self._offset)
        if drift > CLOCK_DRIFT_S:
            self._mark(None, "clock_drift", f"the node's clock was set by {1000 * drift:.0f} ms during the run")

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
            outcome = self._short(arm, Phase("", "warmup", 1), silent=True)
            if outcome.record.ok:
                return
            words = f"arm {arm.name}: {arm.client.url}: {outcome.record.error}"
            if outcome.ending.status in (401, 403):
                raise RunFailed(f"{words}. It needs a key, or another one: give it with --key env:NAME or file:PATH")
            if outcome.ending.state in ("refused", "unreachable"):
                raise RunFailed(words, 3)
            if outcome.ending.state != "status" or not arm.next_route(True, f"HTTP {outcome.ending.status}"):
                raise RunFailed(f"{words}. No token came")

    def _short(self, arm: Arm, phase: Phase, *, silent: bool = False) -> Outcome:
        """One short request with a feeding prompt, never with one that will be measured."""
        prompt = next(iter(self.spec.feeding), None)
        if prompt is None:
            hello = "Say hello."
            chat = self.spec.measuring[0].messages is not None
            prompt = Prompt("warm-up", "", ({"role": "user", "content": hello},) if chat else None, hello)
        limit = min(WARM_UP_TOKENS, self.spec.max_tokens)
        found = self._sender.send(arm, phase, [(0, replace(prompt, max_tokens=limit))], silent=silent)
        self._heed()
        return found[0]

    def _head(self, panel: GpuPanel | None) -> None:
        spec = self.spec
        heads, marks = [], []
        for arm in self._arms:
            environment = environment_of(arm.spec.server_pid)
            arm.gpus = frozenset(gpus_of(arm.spec.server_pid, panel))
            heads.append(arm.head(tuple(m.name for m in environment)))
            marks += [(arm.name, m.name, m.text) for m in environment]
            if arm.route_change:
                marks.append((arm.name, "route", f"not the best route: {arm.route_change}"))
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
            self._mark(name, mark, detail)

    # -- passes

    def _pass(self, pass_name: str, level: int, priming: Priming) -> None:
        for arm in self._arms:
            arm.tally, arm.cost = Tally(), Cost()
            self._warm_up(arm, pass_name, level)
            self._flush(arm, pass_name, level)
            if arm.stateful and pass_name in FED:
                self._feed(arm, pass_name, level)
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
            size = max(1, self.spec.block)
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
            if records and not any(record.ok for record in records):
                raise RunFailed(f"arm {arm.name}: no request of this {pass_name} pass succeeded: {records[0].error}")

    def _enough(self, pass_name: str, level: int) -> bool:
        """Whoever follows the run has seen enough of this pass: a file of this name in its folder says so."""
        return (Path(self.spec.folder) / enough_name(pass_name, level)).exists()

    def _warm_up(self, arm: Arm, pass_name: str, level: int) -> None:
        """Before the flush, so that what it leaves in a store is emptied with the rest."""
        self._phase(arm, pass_name, "warmup", level, "begin")
        record = self._short(arm, Phase(pass_name, "warmup", 1)).record
        self._phase(arm, pass_name, "warmup", level, "end", status=record.status)
        if not record.ok:
            raise RunFailed(f"arm {arm.name}: the warm-up request {record.status}: {record.error}")

    def _flush(self, arm: Arm, pass_name: str, level: int) -> None:
        mode = "yes" if arm.spec.owned else self.spec.flush
        self._phase(arm, pass_name, "flush", level, "begin")
        reason = ""
        if not arm.stateful and (mode == "no" or (mode == "idle" and not self._prompts_return(pass_name, level))):
            reason = f"not needed: {arm.info.algorithm} learns nothing from answers"
            self._phase(arm, pass_name, "flush", level, "end", flushed=False, attempts=0, status=None, reason=reason)
            return
        if mode == "idle":
            free, reason = arm.idle(self._pause)
            if not free:
                reason = f"not flushed, since {reason}; allow it with --flush"
        if reason:
            detail: dict[str, Any] = {"flushed": False, "attempts": 0, "status": None, "reason": reason}
        else:
            outcome = arm.client.flush(sleep=self._pause)
            reason = outcome.reason
            detail = {
                "flushed": outcome.flushed,
                "attempts": outcome.attempts,
                "status": outcome.status,
                "reason": outcome.reason,
            }
        self._phase(arm, pass_name, "flush", level, "end", **detail)
        if detail["flushed"]:
            return
        self._mark(arm.name, "flush_refused", reason)
        if arm.stateful:
            raise RunFailed(f"arm {arm.name}: a {pass_name} pass begins with a flush: {reason}")

    def _prompts_return(self, pass_name: str, level: int) -> bool:
        """Whether these prompts were sent before in this run, or go to another arm that is flushed: then the prefix
        cache would hold them for one side only."""
        first = (pass_name, level) == (self.spec.passes[0], self.spec.concurrency[0])
        return len(self.spec.arms) > 1 or not first

    def _feed(self, arm: Arm, pass_name: str, level: int) -> None:
        feeding = Feeding()
        prompts = list(enumerate(self.spec.feeding[: max(0, self.spec.feed_limit)]))
        self._phase(arm, pass_name, "feed", level, "begin", prompts=len(prompts))
        if prompts:
            self._watch.follow(Followed(arm.name, arm.read_counters))
            phase = Phase(pass_name, "feed", level)
            self._sender.send(arm, phase, prompts, seen=feeding.add, enough=lambda: feeding.steady)
            self._watch.follow(None)
        else:
            self._mark(
                arm.name, "no_feeding", "the workload has no feeding prompts: the store is as empty as when cold"
            )
        self._phase(arm, pass_name, "feed", level, "end", **feeding.detail())
        self._heed()

    def _measure(self, arm: Arm, phase: Phase, prompts: Sequence[tuple[int, Prompt]]) -> list[Outcome]:
        block = phase.block or 0
        before = arm.read_counters()
        self._journal.row("metrics", arm=arm.name, at="before", **before)
        self._phase(arm, phase.pass_name, "measure", phase.concurrency, "begin", block)
        self._watch.follow(Followed(arm.name, arm.read_counters, arm.gpus))
        sent = Sent()
        cpu, wall = time.process_time(), time.monotonic()
        outcomes = self._sender.send(arm, phase, prompts, seen=sent.add)
        arm.cost.add(time.process_time() - cpu, time.monotonic() - wall)
        self._watch.follow(None)
        failed = sum(outcome.record.status in ("failed", "cut off") for outcome in outcomes)
        self._phase(
            arm, phase.pass_name, "measure", phase.concurrency, "end", block, requests=len(outcomes), failed=failed
        )
        after = self._counters_after(arm, before, sent)
        self._journal.row("metrics", arm=arm.name, at="after", **after)
        self._traffic(arm, before, after, sent)
        joined = sum("route_joined_steps" in outcome.record.marks for outcome in outcomes)
        if joined:
            detail = f"{joined} of {len(outcomes)} streams held several verify steps in one event"
            self._mark(arm.name, "route_joined_steps", detail)
        self._journal.row(
            "client",
            arm=arm.name,
            pass_name=phase.pass_name,
            concurrency=phase.concurrency,
            transport=arm.transport.name,
            stamps=arm.transport.stamps,
            **arm.cost.row(arm.transport.lag),
        )
        self._heed()
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
            self._mark(arm.name, "restarted", "the server's counters went back: it was restarted while it was measured")
            return
        others = foreign_traffic(before["counters"], after["counters"], sent)
        if others:
            self._mark(arm.name, "foreign_traffic", f"others used the server while it was measured: {others}")

    def _check_settings(self, arm: Arm, was: tuple[str, dict[str, Any]]) -> None:
        try:
            info = arm.client.info(force=True)
        except EngineError as error:
            self._mark(arm.name, "info_unreadable", f"the server's settings could not be read afterwards: {error}")
            return
        if (info.algorithm, info.settings) != was and not arm.info.unreadable:
            detail = f"the server's settings changed while it was measured: {was[0]} before, {info.algorithm} after"
            self._mark(arm.name, "restarted", detail)
        arm.info = info

    # -- rows

    def _phase(
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

    def _mark(self, arm: str | None, name: str, detail: str) -> None:
        self._journal.row("mark", arm=arm, name=name, detail=detail)

    def _pause(self, seconds: float) -> None:
        """Waits, but not beyond a stop."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self._heed()
            time.sleep(min(0.05, max(0.0, until - time.monotonic())))

    def _heed(self) -> None:
        if self._stopped():
            raise Stopped
