"""The live session behind the screen: two arms, the staged change of each, the run that goes on, and its figures.

Methods that act are plain and may block: a screen calls them from threads. :meth:`pump` and :meth:`snapshot` never
wait for anything and belong to the screen's own thread. A thread of the session's own looks at the servers.
"""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from spectui.hosts.gpus import GpuPanel, GpuSampler
from spectui.session import SessionError, arms, changing, comparing, finding, running, staging
from spectui.session.arms import Target
from spectui.session.changing import Changing
from spectui.session.finding import Choice
from spectui.session.following import SPAN_S
from spectui.session.live_arm import LiveArm
from spectui.session.measuring import Measuring, feeding
from spectui.session.predicting import Predictor
from spectui.session.running import RunOptions
from spectui.session.view import Prediction, Snapshot

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.session.adopting import Adoption

LETTERS = ("A", "B")
IDLE_EVERY_S = 5.0
STARTING_EVERY_S = 0.5
TROUBLED_EVERY_S = 2.0
REFOLD_EVERY_S = 2.0
GPU_EVERY_S = 0.5
NOTICE_S = 6.0
_TURN_S = 0.25


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    tone: str
    until: float


class Live:
    """``key`` and ``admin_key`` are references. ``gpus``: whether to watch the GPUs of this node."""

    def __init__(
        self,
        *,
        key: str | None = None,
        admin_key: str | None = None,
        options: RunOptions | None = None,
        gpus: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.arms: dict[str, LiveArm] = {letter: LiveArm(letter) for letter in LETTERS}
        self.focus = "A"
        self.key, self.admin_key = key, admin_key
        self.measuring = Measuring(options or RunOptions(workload="mixed"))
        self.predictor = Predictor()
        self.clock = clock
        self.notice: Notice | None = None
        self.opening = ""
        """What is being looked for at the start; empty once that is over."""
        self.gpu_panel = GpuPanel((), "starting")
        self.gpu_history: dict[str, deque[float | None]] = {}
        """The last check's result, where there was one."""
        self._closing = threading.Event()
        self.changing = Changing(self._closing.is_set, clock)
        self._sampler = GpuSampler(0.5) if gpus else None
        self._restarts: deque[tuple[float, str]] = deque(maxlen=20)
        self._gpu_at = self._refold_at = float("-inf")
        self._polled: dict[str, float] = {}
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

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

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
        if now - self._refold_at >= REFOLD_EVERY_S or self._run_over():
            self._refold_at = now
            if self.measuring.refresh(self.arms):
                self._polled.clear()
                self._say_end()

    def _run_over(self) -> bool:
        return self.measuring.run is not None and self.measuring.run.ended

    def _every(self, arm: LiveArm) -> float:
        if arm.state is not None and not arm.state.ready and arm.state.running:
            return STARTING_EVERY_S
        if arm.info is None and arm.error is None:
            return 0.0
        return IDLE_EVERY_S if arm.error is None else TROUBLED_EVERY_S

    def _say_end(self) -> None:
        run = self.measuring.run
        if run is None:
            return
        view = run.view(self.clock())
        if view.status in ("failed", "interrupted"):
            stopped = self.measuring.stopping or view.status == "interrupted"
            word = "the run was stopped" if stopped else f"the run failed: {view.reason or 'it gave no reason'}"
            self.say(f"{word}; what was measured is kept in {view.run_id}", "warn" if stopped else "bad")
            return
        for letter, length in list(self.measuring.predicted.items()):
            result = self.measuring.figures.passes.get(letter)
            if result is not None and result.accept_length is not None and letter in view.arms:
                off = 100 * (result.accept_length / length - 1)
                shown = f"accept length {result.accept_length:.2f} measured, {length:.2f} predicted"
                self.say(f"{letter}: {shown} ({off:+.0f} %)", "good")
                del self.measuring.predicted[letter]

    def say(self, text: str, tone: str = "", seconds: float = NOTICE_S) -> None:
        """Puts a sentence on the status line for a while."""
        self.notice = Notice(text, tone, self.clock() + seconds) if text else None

    # -- arms

    @property
    def focused(self) -> LiveArm:
        return self.arms[self.focus]

    def other(self, arm: LiveArm) -> LiveArm:
        return self.arms["B" if arm.letter == "A" else "A"]

    def switch_focus(self) -> None:
        self.focus = "B" if self.focus == "A" else "A"

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
        self.measuring.forget(letter)
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

    # -- staging

    def stage_algorithm(self, name: str) -> None:
        arm = self.focused
        self._stage(arm, staging.stage_algorithm(arm, name, self.other(arm)))

    def stage_step(self, direction: int) -> None:
        self._stage(self.focused, staging.stage_step(self.focused, direction))

    def stage_knobs(self, knobs: Mapping[str, Any]) -> None:
        self._stage(self.focused, staging.stage_knobs(self.focused, knobs))

    def _stage(self, arm: LiveArm, staged: staging.Staged | None) -> None:
        if arm.busy:
            raise SessionError(f"{arm.letter} is busy: {arm.busy}")
        if arm.stored is not None:
            raise SessionError(f"{arm.letter} is a stored run: o chooses a server")
        self.notice = None
        if staged is None:
            self.drop()
            self.say("that is what runs now: nothing is staged")
            return
        run, last = self.measuring.last_source(arm.letter)

        def done(prediction: Prediction) -> None:
            if arm.staged is not None and arm.staged.profile == staged.profile:
                arm.staged = replace(arm.staged, prediction=prediction)

        arm.staged = staged
        known = self.predictor.ask(staged, run, last, done)
        if arm.staged is staged:
            arm.staged = replace(staged, prediction=known)

    def drop(self) -> bool:
        """Forgets the staged change; True when there was one."""
        self.predictor.cancel()
        had = self.focused.staged is not None and self.focused.live
        if had:
            self.focused.staged = None
        return had

    # -- applying

    def apply(self) -> str:
        """Puts the staged change of the arm in focus into force. Blocks until a real token came."""
        arm = self.focused
        if arm.letter in self.measuring.measured_letters():
            raise SessionError(f"{arm.letter} is being measured: x stops the run first")
        staged = arm.staged
        said = self.changing.apply(arm)
        self._changed(arm)
        if staged is not None and arm.live and staged.changes:
            said = f"{said}, {staged.words}"
        if staged is not None and staged.prediction is not None and staged.prediction.accept_length is not None:
            self.measuring.predicted[arm.letter] = staged.prediction.accept_length
        return said

    @property
    def must_adopt(self) -> bool:
        """Whether applying means to end a server that spectui did not start."""
        arm = self.focused
        staged = arm.staged
        return arm.live and not arm.managed and staged is not None and not staged.hot and not staged.refused

    def propose(self) -> tuple[Adoption, Profile]:
        """What a relaunch of a found server would be, to be shown before its URL is asked for; and the profile of what
        it runs now. Nothing is touched. Raises SessionError with the reason where it must not be relaunched."""
        from spectui.session import adopting

        arm = self.focused
        if arm.staged is None or arm.url is None:
            raise SessionError("nothing is staged")
        wanted = arm.staged.profile.speculative
        key, admin = arm.key, arm.admin_key
        original = adopting.propose(arm.url, key=key, admin_key=admin)
        knobs = staging.asked_anew(arm, original.profile)
        proposed = adopting.propose(arm.url, algorithm=wanted.algorithm, knobs=knobs, key=key, admin_key=admin)
        return proposed, original.profile

    def adopt(self, proposed: tuple[Adoption, Profile], typed: str) -> str:
        """Relaunches the found server of the arm in focus as it was proposed."""
        arm = self.focused
        if arm.letter in self.measuring.measured_letters():
            raise SessionError(f"{arm.letter} is being measured: x stops the run first")
        said = self.changing.adopt(arm, *proposed, typed)
        self._changed(arm)
        return said

    def back(self) -> str:
        arm = self.focused
        if arm.letter in self.measuring.measured_letters():
            raise SessionError(f"{arm.letter} is being measured: x stops the run first")
        said = self.changing.back(arm)
        self._changed(arm)
        return said

    def _changed(self, arm: LiveArm) -> None:
        self._restarts.append((self.clock(), f"{arm.letter} new"))
        self._polled.pop(arm.letter, None)
        self.measuring.forget(arm.letter)

    # -- measuring

    def run(self, *, flush: str | None = None) -> str:
        """Measures the arm in focus."""
        self.measuring.begin([self.focused], self._options(flush))
        return ""

    def feed(self, *, flush: str | None = None) -> str:
        """Flushes, feeds until it is steady, measures: both arms where both were measured before."""
        chosen = [self.focused]
        other = self.other(self.focused)
        if {"A", "B"} <= self.measuring.figures.passes.keys() and other.ready:
            chosen = [self.arms[letter] for letter in LETTERS]
        self.measuring.begin(chosen, feeding(self._options(flush)))
        return ""

    def compare(self, *, flush: str | None = None) -> str:
        """Both arms in turn; a live one against a stored run on its prompts; two stored runs at once."""
        a, b = (self.arms[letter] for letter in LETTERS)
        for arm in (a, b):
            if arm.empty:
                raise SessionError(f"{arm.letter} is empty: o chooses a server or a stored run for it")
        if a.stored is not None and b.stored is not None:
            self.measuring.compare_again(self.arms)
            return "compared two stored runs"
        if a.stored is not None or b.stored is not None:
            stored, fresh = (a, b) if a.stored is not None else (b, a)
            assert stored.stored is not None
            self.measuring.begin_like(stored.stored.folder, fresh)
            return f"measuring {fresh.letter} on the prompts of {stored.name}"
        if a.url == b.url:
            raise SessionError("A and B are the same server: o chooses another, or compare with a stored run")
        self.measuring.begin([a, b], self._options(flush))
        return ""

    def flush_question(self, both: bool) -> str:
        """What must be asked before a run; nothing where the run cannot begin anyway."""
        if both and any(arm.empty for arm in self.arms.values()):
            return ""
        return self.measuring.flush_question(list(self.arms.values()) if both else [self.focused])

    def _options(self, flush: str | None) -> RunOptions:
        options = self.measuring.options
        return options if flush is None else replace(options, flush=flush)

    def stop(self) -> str:
        """Ends the run, or a start that is being waited for."""
        busy = next((arm for arm in self.arms.values() if arm.busy), None)
        if busy is not None and not self.measuring.active:
            self.changing.cancelled.add(busy.letter)
            return f"stopping the start of {busy.letter}"
        self.measuring.stop()
        return "the run was stopped; what was measured is kept"

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
        if self.notice is not None and now > self.notice.until:
            self.notice = None

    def marks(self, now: float) -> list[tuple[float, str]]:
        """What was changed lately, for the charts."""
        return [(t, word) for t, word in self._restarts if t > now - SPAN_S]

    def snapshot(self, now: float) -> Snapshot:
        """Everything that the home screen draws, at this moment."""
        from spectui.session.showing import snapshot

        return snapshot(self, now)


__all__ = ["Choice", "Live", "LiveArm", "comparing"]
