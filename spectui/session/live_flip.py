"""The live session's flip: a change is staged with its prediction, applied, and can be taken back."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from spectui.core.changes import Change
from spectui.session import SessionError, serving, staging
from spectui.session.live_arm import LiveArm
from spectui.session.live_base import LiveBase
from spectui.session.view import Prediction

if TYPE_CHECKING:
    from spectui.core.profile import Profile
    from spectui.session.adopting import Adoption

METRICS = "enable_metrics"
AFTER_THE_RUN = Prediction(note="predicted once this run has ended")


class Flips(LiveBase):
    # -- staging

    def stage_algorithm(self, name: str) -> None:
        arm = self.focused
        self._stage(arm, staging.stage_algorithm(arm, name, self.other(arm)))

    def stage_step(self, direction: int) -> None:
        self._stage(self.focused, staging.stage_step(self.focused, direction))

    def stage_knobs(self, knobs: Mapping[str, Any], *, metrics: bool = False) -> None:
        """``metrics``: launch it with ``--enable-metrics`` from now on."""
        arm = self.focused
        here = staging.ground(arm)
        profile = serving.with_settings(here, here.speculative.algorithm, knobs)
        if not metrics or here.server.arguments().get(METRICS):
            self._stage(arm, staging.stage(arm, profile))
            return
        args = profile.server.args
        more = (*args, "--enable-metrics") if isinstance(args, tuple) else {**args, METRICS: True}
        profile = replace(profile, server=replace(profile.server, args=more))
        change = Change(METRICS, "metrics", "off", "on", "relaunch", "server")
        staged = staging.stage(arm, profile)
        if staged is None:
            plan = serving.plan_for(profile, arm.version)
            staged = staging.Staged(profile, plan, (change,), False, staging.start_seconds(arm))
        else:
            staged = replace(staged, changes=(*staged.changes, change), hot=False)
        self._stage(arm, staged)

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
        arm.staged = staged
        self._predict(arm)

    def _predict(self, arm: LiveArm) -> None:
        """Asks for the prediction of what is staged; while the arm is measured there is nothing to ask yet."""
        staged = arm.staged
        if staged is None:
            return
        if arm.letter in self.measuring.measured_letters():
            self.predictor.cancel()
            arm.staged = replace(staged, prediction=AFTER_THE_RUN)
            return
        run, last = self.measuring.last_source(arm.letter)

        def done(prediction: Prediction) -> None:
            if arm.staged is not None and arm.staged.profile == staged.profile:
                arm.staged = replace(arm.staged, prediction=prediction)

        arm.staged = replace(staged, prediction=Prediction(pending=True))
        known = self.predictor.ask(staged, run, last, done)
        if not known.pending:
            done(known)

    def predict_again(self) -> None:
        """A run has ended: what was staged meanwhile can be predicted now."""
        waiting = [a for a in self.arms.values() if a.staged is not None and a.staged.prediction == AFTER_THE_RUN]
        for arm in sorted(waiting, key=lambda a: a is self.focused):  # a later one ends the one before
            self._predict(arm)

    def drop(self) -> bool:
        """Forgets the staged change; True when there was one."""
        self.predictor.cancel()
        had = self.focused.staged is not None and self.focused.live
        if had:
            self.focused.staged = None
        return had

    @property
    def nothing_to_apply(self) -> str:
        """Why, and what leads on; empty where enter does something."""
        arm = self.focused
        if arm.staged is not None or staging.can_start(arm):
            return ""
        return staging.nothing_staged(arm, self.opening)

    # -- applying

    def apply(self) -> str:
        """Puts the staged change of the arm in focus into force. Blocks until a real token came."""
        arm = self.focused
        self._not_measured(arm)
        staged = arm.staged
        said = self.changing.apply(arm)
        self._changed(arm)
        if staged is None:
            return said
        if arm.live and staged.changes:
            said = f"{said}, {staged.words}"
        prediction = staged.prediction
        if prediction is not None and prediction.accept_length is not None:
            self.predicted[arm.letter] = prediction
            said = f"{said}; r measures what was predicted: accept length {prediction.accept_length:.2f}"
        return said

    def _not_measured(self, arm: LiveArm) -> None:
        if arm.letter in self.measuring.measured_letters():
            raise SessionError(f"{arm.letter} is being measured: x stops the run first")

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
        self._not_measured(arm)
        said = self.changing.adopt(arm, *proposed, typed)
        self._changed(arm)
        return said

    def back(self) -> str:
        """To the last settings that were ready."""
        arm = self.focused
        self._not_measured(arm)
        said = self.changing.back(arm)
        self._changed(arm)
        return said

    def _changed(self, arm: LiveArm) -> None:
        self._restarts.append((self.clock(), f"{arm.letter} new"))
        self._polled.pop(arm.letter, None)
        self.forget(arm)
