"""How requests arrive: closed loop, so many at a time, the next one sent when one ends."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass

from spectui.core.spec import Prompt
from spectui.runner.record import Ending, Identity
from spectui.runner.stream import StreamFold
from spectui.runner.transport import Call, Exchange, Transport

TICK_S = 0.25
_POLL_S = 0.05
"""A signal is heeded within this time: the wait for the network is taken up again after its handler."""


@dataclass(frozen=True, slots=True)
class Job:
    """A request to send."""

    who: Identity
    prompt: Prompt
    call: Call
    ids: list[int] | None
    incremental: bool | None
    """What the server's settings say of the native route; None on the others."""


class Request:
    """A request in flight: the sink of its exchange."""

    __slots__ = ("ending", "exchange", "fold", "job", "received", "sent")

    def __init__(self, job: Job) -> None:
        self.job = job
        self.fold = StreamFold(job.incremental)
        self.sent = self.fold.sent
        self.received = self.fold.take
        self.exchange: Exchange | None = None
        self.ending: Ending | None = None

    def ended(self, ending: Ending) -> None:
        self.ending = ending


class ClosedLoop:
    """Keeps ``concurrency`` requests in flight until the jobs are used up, or no more are wanted."""

    def __init__(
        self,
        transport: Transport,
        concurrency: int,
        *,
        ended: Callable[[Request], None],
        tick: Callable[[list[Request]], None],
        stopped: Callable[[], bool],
        enough: Callable[[], bool] = lambda: False,
    ) -> None:
        self._transport = transport
        self._concurrency = concurrency
        self._ended = ended
        self._tick = tick
        self._stopped = stopped
        self._enough = enough

    def run(self, jobs: Iterator[Job]) -> None:
        """Returns when nothing is in flight any more. Stopped: what is in flight is ended by closing."""
        running: list[Request] = []
        left = True
        due = time.monotonic() + TICK_S
        while True:
            if self._stopped():
                for request in running:
                    if request.exchange is not None:
                        self._transport.stop(request.exchange)
                left = False
            gone = [request for request in running if request.ending is not None]
            if gone:
                running = [request for request in running if request.ending is None]
            while left and len(running) < self._concurrency:
                job = None if self._enough() else next(jobs, None)
                if job is None:
                    left = False
                    break
                request = Request(job)
                running.append(request)
                request.exchange = self._transport.start(job.call, request)
            # The next request is on its way before anything is written about the last.
            for request in gone:
                self._ended(request)
            if not running and not (left and gone):
                break
            now = time.monotonic()
            if now >= due:
                self._transport.settle()
                self._tick(running)
                due = max(due + TICK_S, now)
            if running:
                self._transport.poll(min(max(due - now, 0.0), _POLL_S))
        self._tick([])
