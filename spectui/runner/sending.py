"""Sends the prompts of one phase and writes what comes of them: request rows, samples, answers, the live text."""

from __future__ import annotations

import gc
import itertools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, fields

from spectui.core.request import RequestRecord
from spectui.core.spec import Prompt, RunSpec
from spectui.engines.sglang.errors import EngineError
from spectui.runner.answers import Answers, Live
from spectui.runner.arm import Arm
from spectui.runner.arrival import ClosedLoop, Job, Request
from spectui.runner.failure import RunFailed, Stopped
from spectui.runner.record import Ending, Identity, record_of
from spectui.runner.routes import IDS, call
from spectui.store.journal import Writer

GONE_AFTER = 3
"""So many requests in a row that reach no server end the run: it is not there any more."""
_FIELDS = tuple(field.name for field in fields(RequestRecord))


@dataclass(frozen=True, slots=True)
class Phase:
    """Where in a run requests belong."""

    pass_name: str
    name: str
    """warmup, feed or measure."""
    concurrency: int
    block: int | None = 0
    """None: the spec's block size numbers them, where nothing alternates."""


@dataclass(frozen=True, slots=True)
class Outcome:
    record: RequestRecord
    ending: Ending


class Sender:
    """Of one run. ``stopped`` ends what is in flight; what has ended by then is written."""

    def __init__(
        self,
        spec: RunSpec,
        journal: Writer,
        stopped: Callable[[], bool],
        answers: Answers | None = None,
        live: Live | None = None,
    ) -> None:
        self._spec = spec
        self._journal = journal
        self._stopped = stopped
        self._answers = answers
        self._live = live
        self._numbers = itertools.count()

    def send(
        self,
        arm: Arm,
        phase: Phase,
        prompts: Sequence[tuple[int, Prompt]],
        *,
        seen: Callable[[RequestRecord], None] | None = None,
        enough: Callable[[], bool] = lambda: False,
        silent: bool = False,
    ) -> list[Outcome]:
        """Sends prompts (with their indices) so many at a time as the phase says, and returns when all have ended.

        ``seen`` is told each record, ``enough`` ends the phase early. ``silent``: nothing is written.
        Raises RunFailed when the server is gone.
        """
        self._tokenize(arm, (prompt for _, prompt in prompts))
        done: list[Outcome] = []
        lost: list[Ending] = []

        def ended(request: Request) -> None:
            outcome = self._outcome(request)
            done.append(outcome)
            gone = outcome.ending.state in ("refused", "unreachable")
            lost.append(outcome.ending) if gone else lost.clear()
            arm.sent.add(outcome.record)
            if not silent:
                self._write(arm, request, outcome.record)
            if seen is not None:
                seen(outcome.record)

        def tick(running: list[Request]) -> None:
            if not silent:
                self._sample(arm, phase, running)

        loop = ClosedLoop(
            arm.transport,
            phase.concurrency,
            ended=ended,
            tick=tick,
            stopped=self._stopped,
            enough=lambda: len(lost) >= GONE_AFTER or enough(),
        )
        # A collection in the middle would stand between a byte and its reading; little here makes cycles.
        gc.collect()
        gc.freeze()
        gc.disable()
        try:
            loop.run(self._jobs(arm, phase, prompts))
        finally:
            gc.enable()
            gc.unfreeze()
        if len(lost) >= GONE_AFTER and not silent and not self._stopped():
            raise RunFailed(f"arm {arm.name}: the server is not there any more: {lost[-1].detail}")
        return done

    def _tokenize(self, arm: Arm, prompts: Iterable[Prompt]) -> None:
        """Before any request is timed, so that no control call stands between two of them."""
        for prompt in prompts:
            if arm.route_of(prompt).kind != IDS:
                continue
            if self._stopped():
                raise Stopped
            try:
                ids = arm.ids_of(prompt)
            except EngineError as error:
                raise RunFailed(f"arm {arm.name}: {error}") from None
            if ids is None:
                raise RunFailed(f"arm {arm.name}: {arm.client.url} does not tokenize prompt {prompt.id}")

    def _jobs(self, arm: Arm, phase: Phase, prompts: Sequence[tuple[int, Prompt]]) -> Iterator[Job]:
        spec = self._spec
        for place, (index, prompt) in enumerate(prompts):
            route = arm.route_of(prompt)
            ids = arm.ids_of(prompt) if route.kind == IDS else None
            rid = f"{spec.run_id}-{arm.name}-{next(self._numbers)}"
            who = Identity(
                index,
                prompt.id,
                prompt.group,
                arm.name,
                phase.pass_name,
                phase.name,
                phase.concurrency,
                place // max(spec.block, 1) if phase.block is None else phase.block,
                rid,
            )
            limit = prompt.max_tokens or spec.max_tokens
            model = arm.info.served_name or "default"
            request = call(route, prompt, spec, model=model, rid=rid, ids=ids, limit=limit)
            yield Job(who, prompt, request, ids, arm.incremental if route.native else None)

    def _outcome(self, request: Request) -> Outcome:
        ending = request.ending
        assert ending is not None
        request.fold.close()
        return Outcome(record_of(request.fold, request.job.who, ending), ending)

    def _write(self, arm: Arm, request: Request, record: RequestRecord) -> None:
        fold, tally = request.fold, arm.tally
        tally.tokens += record.completion_tokens or 0
        if fold.counts:
            tally.steps += len(fold.counts) - 1
            tally.step_tokens += fold.counts[-1] - fold.counts[0]
        tally.done += 1
        if not record.ok and record.status != "stopped":
            tally.failed += 1
        self._journal.row("request", **{name: getattr(record, name) for name in _FIELDS})
        if self._answers is not None and record.completion_tokens:
            self._answers.keep(request)

    def _sample(self, arm: Arm, phase: Phase, running: list[Request]) -> None:
        tally = arm.tally
        tokens, steps, step_tokens = tally.tokens, tally.steps, tally.step_tokens
        in_flight = 0
        for request in running:
            in_flight += request.ending is None
            fold = request.fold
            tokens += fold.tokens or fold.text_events
            if fold.counts:
                steps += len(fold.counts) - 1
                step_tokens += fold.counts[-1] - fold.counts[0]
        self._journal.row(
            "sample",
            arm=arm.name,
            pass_name=phase.pass_name,
            phase=phase.name,
            concurrency=phase.concurrency,
            tokens=tokens,
            steps=steps,
            step_tokens=step_tokens,
            running=in_flight,
            done=tally.done,
            failed=tally.failed,
        )
        if self._live is not None:
            self._live.tick(running)
