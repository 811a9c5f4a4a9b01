"""What comes before a pass is measured: a short request, the flush, the feed."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any, Protocol

from spectui.core.spec import AS_FOUND, Prompt, RunSpec
from spectui.runner.arm import Arm
from spectui.runner.failure import RunFailed
from spectui.runner.feeding import Feeding, least_tokens
from spectui.runner.sending import Outcome, Phase, Sender
from spectui.runner.watch import Followed, Watch

WARM_UP_TOKENS = 16
FED = ("warm",)
"""Passes that feed a store before they measure."""


class Rows(Protocol):
    """Where a run writes what it does, and where it heeds a stop."""

    def phase(
        self, arm: Arm, pass_name: str, phase: str, level: int, state: str, block: int = 0, **detail: Any
    ) -> None: ...

    def mark(self, arm: str | None, name: str, detail: str) -> None: ...

    def pause(self, seconds: float) -> None: ...

    def heed(self) -> None: ...


class Preparing:
    """Of one run. Raises RunFailed where a pass cannot be prepared as it must be, and what ``rows.heed`` raises."""

    def __init__(self, spec: RunSpec, sender: Sender, watch: Watch, rows: Rows, stopped: Callable[[], bool]) -> None:
        self._spec = spec
        self._sender = sender
        self._watch = watch
        self._rows = rows
        self._stopped = stopped

    def refuse(self, arm: Arm) -> None:
        """Before anything is sent: a run that may not flush measures no store from its beginning."""
        spec = self._spec
        first = next((name for name in spec.passes if name != AS_FOUND), None)
        if first and arm.stateful and spec.flush == "no" and not arm.spec.owned and not spec.keep_store:
            raise RunFailed(
                f"arm {arm.name}: a {first} pass of {arm.info.algorithm} begins with a flush, and this "
                "run may not flush a server that it did not start; allow it with --flush, or take the store as it is "
                f"with --pass {AS_FOUND}"
            )

    def prepare(self, arm: Arm, pass_name: str, level: int) -> None:
        if pass_name == AS_FOUND:
            return  # what the first contact sent was warm-up enough; more would only teach the store
        # Feeding leaves what all prompts begin with in the prefix cache; where nothing is fed, the warm-up must do it.
        late = pass_name in FED and not arm.stateful
        if not late:
            self._warm_up(arm, pass_name, level)
        if not self._spec.keep_store:
            self._flush(arm, pass_name, level)
        if late:
            self._warm_up(arm, pass_name, level)
        if arm.stateful and pass_name in FED:
            self._feed(arm, pass_name, level)

    def short(self, arm: Arm, phase: Phase, *, silent: bool = False) -> Outcome:
        """One short request with a feeding prompt, never with one that will be measured."""
        spec = self._spec
        prompt = next(iter(spec.feeding), None)
        if prompt is None:
            hello = "Say hello."
            chat = spec.measuring[0].messages is not None
            prompt = Prompt("warm-up", "", ({"role": "user", "content": hello},) if chat else None, hello)
        limit = min(WARM_UP_TOKENS, spec.max_tokens)
        found = self._sender.send(arm, phase, [(0, replace(prompt, max_tokens=limit))], silent=silent)
        self._rows.heed()
        return found[0]

    def _warm_up(self, arm: Arm, pass_name: str, level: int) -> None:
        """Before the flush, so that what it leaves in a store is emptied with the rest."""
        self._rows.phase(arm, pass_name, "warmup", level, "begin")
        record = self.short(arm, Phase(pass_name, "warmup", 1)).record
        self._rows.phase(arm, pass_name, "warmup", level, "end", status=record.status)
        if not record.ok:
            raise RunFailed(f"arm {arm.name}: the warm-up request {record.status}: {record.error}")

    def _flush(self, arm: Arm, pass_name: str, level: int) -> None:
        rows = self._rows
        mode = "yes" if arm.spec.owned else self._spec.flush
        rows.phase(arm, pass_name, "flush", level, "begin")
        reason = ""
        if not arm.stateful and (mode == "no" or (mode == "idle" and not self._prompts_return(pass_name, level))):
            reason = f"not needed: {arm.info.algorithm} learns nothing from answers"
            rows.phase(arm, pass_name, "flush", level, "end", flushed=False, attempts=0, status=None, reason=reason)
            return
        if mode == "idle":
            free, reason = arm.idle(rows.pause)
            if not free:
                reason = f"not flushed, since {reason}; allow it with --flush"
        if reason:
            detail: dict[str, Any] = {"flushed": False, "attempts": 0, "status": None, "reason": reason}
        else:
            outcome = arm.client.flush(sleep=rows.pause)
            reason = outcome.reason
            detail = {
                "flushed": outcome.flushed,
                "attempts": outcome.attempts,
                "status": outcome.status,
                "reason": outcome.reason,
            }
        rows.phase(arm, pass_name, "flush", level, "end", **detail)
        if detail["flushed"]:
            return
        rows.mark(arm.name, "flush_refused", reason)
        if arm.stateful:
            raise RunFailed(f"arm {arm.name}: a {pass_name} pass begins with a flush: {reason}")

    def _prompts_return(self, pass_name: str, level: int) -> bool:
        """Whether these prompts were sent before in this run, or go to another arm that is flushed: then the prefix
        cache would hold them for one side only."""
        spec = self._spec
        first = (pass_name, level) == (spec.passes[0], spec.concurrency[0])
        return len(spec.arms) > 1 or not first

    def _feed(self, arm: Arm, pass_name: str, level: int) -> None:
        spec, info = self._spec, arm.info
        least = least_tokens(spec, info.served_name or info.model_path, info.algorithm, dict(info.settings))
        feeding = Feeding(least, spec.feed_tokens, whole=spec.keep_store)
        prompts = list(enumerate(spec.feeding[: max(0, spec.feed_limit)]))
        self._rows.phase(arm, pass_name, "feed", level, "begin", prompts=len(prompts))
        if prompts:
            self._watch.follow(Followed(arm.name, arm.read_counters))
            phase = Phase(pass_name, "feed", level)
            self._sender.send(arm, phase, prompts, seen=feeding.add, enough=lambda: feeding.enough)
            self._watch.follow(None)
        else:
            words = "the workload has no feeding prompts: the store is as empty as when cold"
            self._rows.mark(arm.name, "no_feeding", words)
        limited = len(prompts) < len(spec.feeding)
        detail = feeding.detail(limited=limited, stopped=self._stopped())
        self._rows.phase(arm, pass_name, "feed", level, "end", **detail)
        self._rows.heed()
