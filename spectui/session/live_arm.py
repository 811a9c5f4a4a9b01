"""One arm of the live session: a server by its URL, one that spectui started, a profile, or a stored run.

``poll`` blocks (HTTP, log files) and belongs to a thread of its own; everything else reads what it left and returns at
once. Values are replaced as a whole, never changed in place, so that the screen's thread may read at any moment.
"""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass, field
from pathlib import Path

from spectui.core.evidence import is_stateful
from spectui.core.marks import environment_marks
from spectui.core.profile import Profile
from spectui.engines.sglang.client import INFO_EVERY_S, SglangClient
from spectui.engines.sglang.errors import EngineError, NotReachable, Unauthorized
from spectui.engines.sglang.info import ServerInfo
from spectui.engines.sglang.metrics import MetricsReading, MetricsUnavailable
from spectui.hosts import timings
from spectui.hosts.records import ServerRecord, alive
from spectui.hosts.serving import NOT_SERVING, READY, SUSPECT, Poll, probe_due, states
from spectui.hosts.traffic import requests_now
from spectui.hosts.watch import ServerState, ServerWatch
from spectui.session import SessionError, stored_curve
from spectui.session.arms import Target, resolve_key
from spectui.session.behind import family_of, profile_behind, record_at
from spectui.session.comparing import ArmSource
from spectui.session.live_idle import Idle, idle_of
from spectui.session.live_log import log_tail
from spectui.session.staging import Staged
from spectui.session.standing import standing

LOG_LINES = 60
PROBE_TIMEOUT_S = 10.0


@dataclass
class LiveArm:
    letter: str
    target: Target | None = None
    url: str | None = None
    key: str | None = None
    """References, never keys."""
    admin_key: str | None = None
    info: ServerInfo | None = None
    error: EngineError | None = None
    record: ServerRecord | None = None
    state: ServerState | None = None
    profile: Profile | None = None
    """What the running server was started from: the ground of the next relaunch."""
    stored: ArmSource | None = None
    stored_at: float | None = None
    """From when on a stored run's curve is drawn where no live one sets the clock: it ended when it was chosen."""
    staged: Staged | None = None
    busy: str = ""
    """What is being done to it; while set, nothing else may be begun."""
    failure: str = ""
    """Why the last change failed; stays until another works."""
    died: str = ""
    ready_before: tuple[Profile, ...] = ()
    """Settings that were ready, the latest last."""
    idle: Idle = field(default_factory=Idle)
    log: tuple[str, ...] = ()
    last_start: dict[str, float] = field(default_factory=dict)
    """Phase -> seconds of the last start of such a server on this node, else of what stood on this arm before."""
    simulated_acceptance: str = ""
    pids: tuple[int, ...] = ()
    lost_gpus: tuple[int, ...] = ()
    """Indices of GPUs that it held and whose driver no longer answers for them."""
    hidden: bool = False
    """A letter that was emptied by the operator."""
    _client: SglangClient | None = None
    _watch: ServerWatch | None = None
    _metrics: MetricsReading | None = None
    _polls: deque[Poll] = field(default_factory=lambda: deque(maxlen=120))
    _serves: str = READY
    _info_at: float = float("-inf")
    _probes: bool = True

    # -- what it is

    @property
    def empty(self) -> bool:
        return self.target is None

    @property
    def live(self) -> bool:
        return self.url is not None

    @property
    def managed(self) -> bool:
        return self.record is not None

    @property
    def algorithm(self) -> str:
        if self.info is not None and not self.info.unreadable:
            return self.info.algorithm
        if self.stored is not None:
            return str(self.stored.head().get("algorithm") or "")
        return self.profile.speculative.algorithm if self.profile is not None else ""

    @property
    def version(self) -> str | None:
        return (self.info.version or None) if self.info is not None else None

    @property
    def simulated(self) -> bool:
        if self.stored is not None:
            return bool(self.stored.head().get("simulated"))
        return bool(self.info and self.info.simulated) or bool(self.record and self.record.simulated)

    @property
    def name(self) -> str:
        if self.record is not None:
            return self.record.name
        return self.target.name if self.target is not None else ""

    @property
    def ready(self) -> bool:
        """A run may begin on it."""
        return self.live and not self.busy and self.error is None and self.info is not None and self._serves == READY

    # -- connecting

    def aim(self, target: Target | None, *, key: str | None = None, admin_key: str | None = None) -> None:
        """Points the arm at something else. Raises SessionError and ProfileError; the arm is then left as it was."""
        if self.busy:
            raise SessionError(f"{self.letter} is busy: {self.busy}")
        profile, stored, record = None, None, None
        if target is not None and target.run is not None:
            from spectui.session import comparing

            stored = comparing.source_of(target.run, target.run_arm)
        if target is not None and target.profile is not None:
            from spectui.store import profiles

            profile = profiles.load(target.profile)
        if target is not None and target.url is not None:
            record = record_at(target.url)
            profile = profile_behind(record)
            key = key or (record.key if record else None)
            admin_key = admin_key or (record.admin_key if record else None)
            for reference in (key, admin_key):
                if reference is not None:
                    resolve_key(reference)
        self.close()
        fresh = LiveArm(self.letter)
        for name in ("info", "error", "state", "staged", "failure", "died", "ready_before", "idle", "log"):
            setattr(self, name, getattr(fresh, name))
        self.last_start = {}
        self.simulated_acceptance, self.pids, self.lost_gpus = "", (), ()
        self._watch, self._metrics, self._serves, self._info_at = None, None, READY, float("-inf")
        self._polls.clear()
        self.target, self.url = target, target.url if target is not None else None
        self.key, self.admin_key = key, admin_key
        self.profile, self.stored, self.record = profile, stored, record
        self.stored_at = None if stored is None else stored_curve.begin_if_ended(stored.folder, stored.arm, time.time())

    def take(self, record: ServerRecord, profile: Profile) -> None:
        """The server of this arm was started anew."""
        self.close()
        phases = self.state.phases if self.state is not None and self.state.ready else ()
        took = {phase.name: phase.seconds for phase in phases if phase.seconds is not None and phase.name != "ready"}
        self.last_start = took or self.last_start
        self.record, self.profile, self.url = record, profile, record.url
        self.target = Target(record.name, url=record.url, server=record.name)
        self.info, self.error, self.state, self.died = None, None, None, ""
        self.idle, self._metrics, self._serves, self._info_at = Idle(), None, READY, float("-inf")
        self._polls.clear()
        self._watch = None

    def client(self) -> SglangClient:
        """Raises SessionError where a key's reference leads nowhere."""
        if self.url is None:
            raise SessionError(f"{self.letter} is no running server")
        if self._client is None:
            key = resolve_key(self.key) if self.key else None
            admin = resolve_key(self.admin_key) if self.admin_key else None
            self._client = SglangClient(self.url, key=key, admin_key=admin, timeout=4.0)
        return self._client

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None

    # -- polling

    def poll(self, now: float, *, measured: bool = False) -> None:
        """Looks at the server. ``measured``: a run is going on, so nothing is asked of it that could disturb it."""
        if not self.live:
            return
        self._poll_process()
        if self.state is not None and not self.state.ready:
            return
        if measured and (self.info is not None or self.error is not None):
            return
        try:
            if measured:  # picked up in the middle of a run: who it is must be known, once
                self.info, self._info_at = self.client().probe(), now
            else:
                self._poll_server(now)
            self.error = None
        except EngineError as error:
            if self.info is not None and isinstance(error, NotReachable) and self.error is None:
                self.died = f"it answered until now, and no longer does: {error.what}"
            self.error = error
        except SessionError as error:
            self.error = Unauthorized(str(error), self.url or "", "")

    def _poll_process(self) -> None:
        if self.record is None:
            return
        if self._watch is None or self._watch.record is not self.record:
            self._watch = ServerWatch(self.record)
            self.last_start = timings.last_time(self.record) or self.last_start
        self.state = self._watch.poll()
        self.log = log_tail(self.record.log_path)
        if alive(self.record):
            self.pids = family_of(self.record.pid)
            self._check_environment(self.record.pid)

    def _check_environment(self, pid: int) -> None:
        if self.simulated_acceptance:
            return
        try:
            raw = Path(f"/proc/{pid}/environ").read_bytes()
        except OSError:
            return
        pairs = (part.partition(b"=") for part in raw.split(b"\0"))
        env = {name.decode("utf-8", "replace"): value.decode("utf-8", "replace") for name, _, value in pairs}
        for mark in environment_marks(env):
            if mark.name == "simulated_acceptance":
                self.simulated_acceptance = mark.text

    def _poll_server(self, now: float) -> None:
        client = self.client()
        if self.info is None or self.error is not None:
            self.info, self._info_at = client.probe(), now
        elif now - self._info_at >= INFO_EVERY_S:
            self._info_at = now
            if not self.info.unreadable:
                self.info = client.info()
        reading = client.metrics(timeout=3.0)
        health = client.health(timeout=3.0) if self._slow_turn(now) else 200
        if isinstance(reading, MetricsUnavailable) and reading.kind == "down":
            raise NotReachable(reading.reason, self.url or "", "")
        if isinstance(reading, MetricsReading):
            reading = reading.with_requests(*requests_now(client, reading))
        self._note(now, reading, health if isinstance(health, int) else None)
        if probe_due(tuple(self._polls), now, allowed=self._probes):
            self._probe(now)

    def _slow_turn(self, now: float) -> bool:
        """From 0.5.5 on each health call makes a token, so it is asked once a minute, and when something is wrong."""
        last = next((p.t for p in reversed(self._polls)), None)
        return self._serves != READY or last is None

    def _note(self, now: float, reading: MetricsReading | MetricsUnavailable, health: int | None) -> None:
        assert self.info is not None
        running = tokens = None
        lines = self._watch.log.decode_lines if self._watch is not None else ()
        self.idle = idle_of(self.info, self._metrics, reading, tuple(lines)[-4:], now)
        if isinstance(reading, MetricsReading):
            self._metrics = reading
            running = reading.running
            moved = [v for n, v in reading.counters.items() if n.startswith(("realtime_", "generation_tokens"))]
            tokens = sum(moved) if moved else None
        self._polls.append(Poll(now, health, running, tokens))
        self._serves = states(self._polls)[-1].serves

    def _probe(self, now: float) -> None:
        try:
            self.client().generate_one(timeout=PROBE_TIMEOUT_S)
            outcome = "ok"
        except EngineError as error:
            outcome = type(error).__name__
        last = self._polls[-1]
        self._polls.append(Poll(now, last.health, last.running, last.tokens_total, outcome))
        self._serves = states(self._polls)[-1].serves

    # -- how it stands

    def standing(self) -> tuple[str, str]:
        """(state, trouble in words; empty when all is well)."""
        return standing(self)

    @property
    def serves(self) -> str:
        """ready, suspect, not serving …: what its tokens say, whatever its health says."""
        return self._serves

    @property
    def left_s(self) -> float | None:
        """Seconds until the start that goes on is ready, by the last one; None without one."""
        state = self.state
        if state is None or state.ready or not state.running:
            return None
        if state.left_s is not None:
            return state.left_s
        done = [phase.name for phase in state.phases if phase.seconds is not None]
        return timings.left_s(self.last_start, done, state.phase, state.phase_elapsed_s or 0.0)

    @property
    def never_accepted(self) -> str | None:
        """Not of a drafter that learns: with an empty store that is how it begins."""
        if self._watch is None or is_stateful(self.algorithm):
            return None
        return self._watch.log.never_accepted

    @property
    def without_graphs(self) -> str:
        """How much of the decoding its log shows outside captured graphs, in few words."""
        log = self._watch.log if self._watch is not None else None
        if log is None or not log.windows_without_graph:
            return ""
        share = 100 * log.windows_without_graph / log.windows
        return f"{share:.0f} % of decode windows without graphs (from {log.first_running_without_graph} running)"

    @property
    def quiet_tokens_per_s(self) -> float | None:
        """0.0 where requests run and their counter stands still, whatever the server's gauge says; else None."""
        return 0.0 if self._serves in (SUSPECT, NOT_SERVING) else None

    def prefill_age(self, now: float) -> float | None:
        """Seconds since the log's last prefill line; None without one."""
        lines = self._watch.log.prefill_lines if self._watch is not None else ()
        at = lines[-1].time_s if lines else None
        return None if at is None else max(0.0, now - at)
