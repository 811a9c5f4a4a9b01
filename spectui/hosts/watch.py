"""Watches a server that spectui started: phase, signs of life, readiness by a real token, and why it failed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from spectui.engines.sglang.failure import Failure
from spectui.engines.sglang.log import LogReader, Note
from spectui.hosts import children, elsewhere, serverlog, timings
from spectui.hosts.records import ServerRecord, alive

_TOKEN_EVERY_S = 2.0
_NO_LINE_AFTER_S = 60.0


@dataclass(frozen=True, slots=True)
class PhaseTime:
    name: str
    seconds: float | None
    """None while it lasts."""
    last_time_s: float | None = None
    """The same phase of the last start on this node."""


@dataclass(frozen=True, slots=True)
class ServerState:
    phase: str
    """By the log: start, weights, graph capture …, ready; or failed, stopping, ended, on another node."""
    elapsed_s: float
    """Since the launch; of a server that is ready, what the start took."""
    phase_elapsed_s: float | None = None
    last_sign_of_life_s: float | None = None
    """Age of the last line in the log."""
    ready: bool = False
    """It produced a token, or its own warm-up did."""
    running: bool = False
    """Its first process is there, proved by pid and start time."""
    failure: Failure | None = None
    stuck: str | None = None
    """A sentence with a hint when a start shows no sign of life; nothing is ended because of it."""
    left_s: float | None = None
    """To *ready*, by the last start of the same command or profile."""
    progress: tuple[int, int] | None = None
    phases: tuple[PhaseTime, ...] = ()
    notes: tuple[Note, ...] = ()
    log_trouble: str | None = None
    exit_code: int | None = None
    elsewhere: str = ""
    """Of one behind docker, srun or ssh whose client has ended: what may still run there, in a sentence."""


class ServerWatch:
    """One server's state over time; call :meth:`poll` as often as wanted.

    ``token`` asks the server for one token and raises when none comes; by default the engine's client does. It is
    asked once the log says that the server is up, and may take up to 10 s.
    """

    def __init__(
        self,
        record: ServerRecord,
        *,
        token: Callable[[], object] | None = None,
        folder: Path | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.record = record
        self.log = LogReader()
        """What the server's log tells; also holds its batch lines."""
        self._token = token or self._ask_token
        self._folder = folder
        self._clock = clock
        self._tail = serverlog.LogTail(record.log_path)
        self._written: float | None = None
        self._ready_at: float | None = None
        self._asked_at = float("-inf")
        self._gone = False
        self._elsewhere = ""
        self._before = timings.last_time(record, folder)

    def poll(self) -> ServerState:
        children.reap()
        running = alive(self.record)  # before the log is read: what is said last must not be missed
        if not self.record.here:
            return ServerState("on another node", 0.0)
        self._read_log()
        now = self._clock()
        if not running and not self._gone:
            self._gone = True
            behind = elsewhere.look(self.record)
            self._elsewhere = behind.text if behind is not None and behind.runs is not False else ""
            self.log.ended(children.exit_code(self.record.pid), now)
        if running and self._ready_at is None:
            self._try_ready(now)
        if running and serverlog.turn_over(self.record.log_path):
            self._tail = serverlog.LogTail(self.record.log_path)
        return self._state(now, running)

    def _read_log(self) -> None:
        while True:
            new = self._tail.read()
            self._written = new.written_s if new.written_s is not None else self._written
            self.log.feed(new.text, new.written_s)
            if not new.more:
                return

    def _try_ready(self, now: float) -> None:
        up = self.log.state == "ready"
        skipped = "--skip-server-warmup" in self.record.argv
        silent = now - self.record.when > _NO_LINE_AFTER_S and self.log.state == "http-up"
        if not (up or (self.log.state == "http-up" and skipped) or silent):
            return
        if now - self._asked_at < _TOKEN_EVERY_S:
            return
        try:
            self._token()
        except Exception:  # whatever the reason, it does not serve yet; the log tells why
            self._asked_at = self._clock()
            return
        # The log tells whole seconds; it is needed only where the server was found ready long after its start.
        at, said = self._clock(), self.log.ready_s
        self._ready_at = said if said is not None and self.record.when <= said < at - 5 else at
        seconds = {p.name: p.seconds for p in self.log.phases if p.seconds is not None and p.name != "ready"}
        if seconds:
            timings.remember(self.record, seconds, self._folder)

    def _ask_token(self) -> object:
        from spectui.engines.sglang.client import SglangClient
        from spectui.store.secrets import resolve

        key = resolve(self.record.key) if self.record.key else None
        with SglangClient(self.record.url, key=key) as client:
            return client.generate_one(timeout=10.0)

    def _state(self, now: float, running: bool) -> ServerState:
        phase = self.log.phase
        ready = running and self._ready_at is not None
        name = phase.name if phase is not None else "start"
        failure = self.log.failure
        if not running:
            name = "failed" if failure is not None else "ended"
        elif self.log.state == "stopping":
            name = "stopping"
        elif ready:
            name = "ready"
        elif name == "ready":
            name = "warm-up"  # it says so, and has not yet shown it
        begin = phase.begin_s if phase is not None else self.record.when
        in_phase = max(0.0, now - begin) if begin is not None else None
        stuck = None if ready or not running else self.log.stuck(now)
        until = self._ready_at if self._ready_at is not None else now
        left = None
        if running and not ready:
            done = [p.name for p in self.log.phases if p.seconds is not None]
            left = timings.left_s(self._before, done, name, in_phase or 0.0)
        return ServerState(
            phase=name,
            elapsed_s=max(0.0, until - self.record.when),
            phase_elapsed_s=in_phase,
            last_sign_of_life_s=None if self._written is None else max(0.0, now - self._written),
            ready=ready,
            running=running,
            failure=None if running and self.log.state != "failed" else failure,
            stuck=None if stuck is None else f"{stuck.text}. {stuck.hint}".rstrip(". ") + ".",
            left_s=left,
            progress=phase.progress if phase is not None else None,
            phases=tuple(PhaseTime(p.name, p.seconds, self._before.get(p.name)) for p in self.log.phases),
            notes=tuple(self.log.notes),
            log_trouble=serverlog.trouble(self.record.log_path) if running else None,
            exit_code=children.exit_code(self.record.pid),
            elsewhere=self._elsewhere,
        )


_watches: dict[str, ServerWatch] = {}


def watch(record: ServerRecord, *, folder: Path | None = None) -> ServerState:
    """The server's state now. Reads only what its log gained since the last call for the same server."""
    one = _watches.get(record.id)
    if one is None:
        one = _watches[record.id] = ServerWatch(record, folder=folder)
    return one.poll()
