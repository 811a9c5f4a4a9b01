"""The live session behind the screen: two arms, the staged change of each, the run that goes on, and its figures.

Methods that act are plain and may block: a screen calls them from threads. :meth:`pump` and :meth:`snapshot` never
wait for anything and belong to the screen's own thread. A thread of the session's own looks at the servers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Sequence
from pathlib import Path

from spectui.core.gpu import GpuReading
from spectui.session import SessionError, arms, changing, finding, running, staging
from spectui.session.arms import Target
from spectui.session.finding import Choice
from spectui.session.following import SPAN_S
from spectui.session.live_arm import LiveArm
from spectui.session.live_base import LETTERS
from spectui.session.live_flip import Flips
from spectui.session.live_runs import Runs
from spectui.session.running import RunOptions
from spectui.session.view import Snapshot

IDLE_EVERY_S = 5.0
STARTING_EVERY_S = 0.5
TROUBLED_EVERY_S = 2.0
REFOLD_EVERY_S = 2.0
GPU_EVERY_S = 0.5
HOLDERS_EVERY_S = 5.0
_TURN_S = 0.25


class Live(Flips, Runs):
    """See :class:`LiveBase` for what it is made with."""

    def __init__(
        self,
        *,
        key: str | None = None,
        admin_key: str | None = None,
        options: RunOptions | None = None,
        gpus: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        super().__init__(key=key, admin_key=admin_key, options=options, gpus=gpus, clock=clock)
        self._gpu_at = self._refold_at = self._holders_at = float("-inf")
        self._poll_lock = threading.Lock()
        self._thread: threading.Thread | None = None

    # -- life

    def start(self) -> None:
        """Begins to look at servers and GPUs, in threads that end with the program."""
        if self._sampler is not None:
            self._sampler.start()
        if self._thread is None:
            self._thread = threading.Thread(target=self._watch, name="live-session", daemon=True)
            self._thread.start()

    def close(self) -> None:
        """Servers and runs go on. Waits for nothing that could hang."""
        self._closing.set()
        self.predictor.cancel()
        if self._sampler is not None:
            self._sampler.stop(0.3)
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(0.5)
        for arm in self.arms.values():
            arm.close()

    def _watch(self) -> None:
        while not self._closing.wait(_TURN_S):
            try:
                self.look(self.clock())
            except Exception as error:  # a fault in looking must not end the looking
                self.say(f"looking at the servers failed: {type(error).__name__}: {error}", "bad")

    def look(self, now: float) -> None:
        """Polls what is due, and works out figures. Blocks."""
        measured = self.measuring.measured_letters()
        for letter, arm in self.arms.items():
            if arm.busy or not arm.live or now - self._polled.get(letter, float("-inf")) < self._every(arm):
                continue
            self._polled[letter] = now
            with self._poll_lock:
                arm.poll(now, measured=letter in measured)
        if now - self._holders_at >= HOLDERS_EVERY_S:
            self._holders_at = now
            self._look_at_holders()
        if now - self._refold_at >= REFOLD_EVERY_S or self._run_over():
            self._refold_at = now
            if self.measuring.refresh(self.arms):
                self._polled.clear()
                self._say_end()
                self.predict_again()

    def _look_at_holders(self) -> None:
        readings = self.gpu_panel.readings
        if readings:
            from psutil import pid_exists

            from spectui.hosts.gpu_facts import local_processes
            from spectui.session.showing_gpu import holders, pids_at

            for arm in self.arms.values():
                if arm.live and not arm.managed and not any(map(pid_exists, arm.pids[:1])):
                    arm.pids = pids_at(arm.url or "")
            ours = {pid for arm in self.arms.values() for pid in arm.pids}
            self.gpu_holders = holders(readings, local_processes(readings), ours)

    def _run_over(self) -> bool:
        return self.measuring.run is not None and self.measuring.run.ended

    def _every(self, arm: LiveArm) -> float:
        if arm.state is not None and not arm.state.ready and arm.state.running:
            return STARTING_EVERY_S
        if arm.info is None and arm.error is None:
            return 0.0
        return IDLE_EVERY_S if arm.error is None else TROUBLED_EVERY_S

    # -- arms

    def open(self, names: Sequence[str]) -> None:
        """At the start: the arms that were named, else runs in progress, else servers found on this node. Blocks.

        Raises SessionError for a name that stands for nothing.
        """
        try:
            self.opening = "looking for servers on this node …"
            attached = self._attach()
            for letter, name in zip(LETTERS, names, strict=False):
                self.choose(letter, name)
            if not names and not attached:
                for letter, choice in zip(LETTERS, self.servers(), strict=False):
                    self.choose(letter, choice.name)
        finally:
            self.opening = ""

    def _attach(self) -> bool:
        """Picks up a run that an earlier spectui began."""
        going_on = running.running()
        if not going_on:
            return False
        run = self.measuring.attach(going_on[0])
        for head in run.fold.head.get("arms") or ():
            letter, url = str(head.get("name")), head.get("url")
            if letter in self.arms and url:
                self.arms[letter].aim(arms.resolve(str(url)), key=self.key, admin_key=self.admin_key)
        self.say(f"run {run.folder.name} is going on; it was begun before", "good")
        return True

    def choose(self, letter: str, name: str) -> None:
        """Points an arm at a server, profile or stored run. Raises SessionError."""
        target: Target = arms.resolve(name)
        arm = self.arms[letter]
        if letter in self.measuring.measured_letters() and target.url != arm.url:
            raise SessionError("a run is going on with this arm: x stops it")
        with self._poll_lock:
            arm.aim(target, key=self.key, admin_key=self.admin_key)
        self._polled.pop(letter, None)
        self.forget(arm)
        if arm.stored is not None:
            self.measuring.compare_again(self.arms)
        if arm.profile is not None and not arm.live:
            arm.staged = staging.stage(arm, arm.profile)

    def choices(self) -> list[Choice]:
        """All that an arm can be pointed at. Blocks."""
        return finding.choices(self.servers())

    def servers(self) -> list[Choice]:
        """Servers of this node. Blocks."""
        return finding.servers()

    # -- keeping

    def save_profile(self, name: str) -> Path:
        return changing.save_profile(self.focused, name)

    def write_command(self) -> Path:
        return changing.write_command(self.focused)

    # -- showing

    def pump(self, now: float) -> None:
        """Takes what is new: rows of the run and readings of the GPUs. Never waits."""
        run = self.measuring.run
        if run is not None and not run.ended:
            run.pump()
        if self._sampler is not None and now - self._gpu_at >= GPU_EVERY_S:
            self._gpu_at = now
            self.gpu_panel = self._sampler.latest()
            for reading in self.gpu_panel.readings:
                history = self.gpu_history.setdefault(reading.uuid, deque(maxlen=60))
                history.append(reading.utilization if reading.age_s < 5 and not reading.lost else None)
            self._note_gpus()
        if self.notice is not None and now > self.notice.until:
            self.notice = None

    def _note_gpus(self) -> None:
        """Which arm holds which GPU; of one that is lost, which arm held it when it was last seen."""
        readings = self.gpu_panel.readings
        for letter, arm in self.arms.items():
            ours = set(arm.pids) if arm.live else set()
            for reading in readings:
                if not reading.lost and ours.intersection(reading.pids or ()):
                    self.gpu_held[reading.uuid] = letter
                elif not reading.lost and self.gpu_held.get(reading.uuid) == letter:
                    self.gpu_held.pop(reading.uuid)
            arm.lost_gpus = tuple(r.index for r in readings if r.lost and self._was_of(arm, r))

    def _was_of(self, arm: LiveArm, reading: GpuReading) -> bool:
        if reading.uuid in self.gpu_held:
            return self.gpu_held[reading.uuid] == arm.letter
        given = arm.record.gpus if arm.record is not None and arm.live else ()
        return str(reading.index) in given or reading.uuid in given

    def marks(self, now: float) -> list[tuple[float, str]]:
        """What was changed lately, for the charts."""
        return [(t, word) for t, word in self._restarts if t > now - SPAN_S]

    def snapshot(self, now: float) -> Snapshot:
        """Everything that the home screen draws, at this moment."""
        from spectui.session.showing import snapshot

        return snapshot(self, now)
