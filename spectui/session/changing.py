"""Putting a staged change into force: live where it is hot, else by a relaunch of the server that spectui started."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.core.profile import Profile
from spectui.hosts import servers
from spectui.hosts.records import ServerRecord, alive
from spectui.session import SessionError, serving, staging
from spectui.session.arms import Target
from spectui.session.live_arm import LiveArm
from spectui.store import locations, profiles

if TYPE_CHECKING:
    from spectui.session.adopting import Adoption

_POLL_S = 0.25
KEPT_READY = 8


class Changing:
    """One arm at a time each; ``closing`` ends every wait."""

    def __init__(self, closing: Callable[[], bool], clock: Callable[[], float] = time.time) -> None:
        self._closing = closing
        self._clock = clock
        self.cancelled: set[str] = set()

    def apply(self, arm: LiveArm) -> str:
        """Returns what was done, in a sentence. Raises SessionError."""
        staged = arm.staged
        if staged is None:
            return self._start_again(arm)
        if staged.refused:
            raise SessionError(f"the server would refuse this: {staged.refused}")
        if staged.hot:
            return self._hot(arm, staged)
        if arm.live and not arm.managed:
            raise SessionError(
                f"{arm.letter} was not started by spectui, so it is not relaunched unasked: y writes the command that "
                "would start it with these settings"
            )
        return self.relaunch(arm, staged.profile)

    def _start_again(self, arm: LiveArm) -> str:
        if arm.profile is not None and staging.can_start(arm):
            return self.relaunch(arm, arm.profile)
        raise SessionError(staging.nothing_staged(arm))

    def _hot(self, arm: LiveArm, staged: staging.Staged) -> str:
        arm.busy = "setting it while the server runs"
        try:
            outcome = arm.client().set_internal_state(staging.hot_values(staged))
        finally:
            arm.busy = ""
        if outcome.applied is False:
            raise SessionError(f"{arm.letter}: {outcome.detail}")
        arm.profile, arm.staged = staged.profile, None
        return f"{arm.letter}: {staged.words}, {outcome.detail}"

    def back(self, arm: LiveArm) -> str:
        """Relaunches with the last settings that were ready. They stay the last ones until a server has them again."""
        if not arm.ready_before:
            raise SessionError(f"{arm.letter} has no earlier settings to go back to")
        return self.relaunch(arm, arm.ready_before[-1], back=True)

    def relaunch(self, arm: LiveArm, profile: Profile, *, back: bool = False) -> str:
        """Stops the server of this arm where there is one, starts it with ``profile``, waits for a real token."""
        old, was_ready, record = arm.profile, arm.ready, arm.record
        name = record.name if record is not None else profile.name
        port = port_of(record, profile, name)
        freed = serving.ports_of(record) if record is not None else ()
        speculative = old is not None and old.speculative.algorithm != "none"
        like = old if speculative and profile.speculative.algorithm == "none" else None
        kept = profile

        def start() -> ServerRecord:
            nonlocal kept
            # All that can be found wrong beforehand is, so that a running server is not ended for nothing.
            prepared = serving.prepare(profile, port=port, version=arm.version, name=name, like=like, freed=freed)
            kept = keep(profile, name)
            prepared = serving.kept_as(prepared, kept)
            say = self._say(arm)
            now = servers.find_record(name) if record is not None else None
            if now is not None and record is not None and now.id != record.id and alive(now):
                raise SessionError(
                    f"{name} was started anew from elsewhere (pid {now.pid}): choose it again for this arm"
                )
            made = serving.launch(prepared, say) if now is None else serving.relaunch(prepared, name, say)
            serving.ask_help(prepared)
            return made

        before = old if was_ready and not back else None
        said = self._begin(arm, start, lambda _record: kept, before, back=back)
        return said if record is not None else said + _until_when()

    def adopt(self, arm: LiveArm, adoption: Adoption, original: Profile, typed: str) -> str:
        """Relaunches a server that spectui did not start, once its URL was typed; from then on it is one of ours."""
        from spectui.session import adopting

        def start() -> ServerRecord:
            return adopting.relaunch(adoption, typed, self._say(arm))

        return self._begin(arm, start, lambda record: serving.profile_of(record) or adoption.profile, original)

    def _say(self, arm: LiveArm) -> Callable[[str], None]:
        def say(text: str) -> None:
            arm.busy = f"stopping: {text}"

        return say

    def _begin(
        self,
        arm: LiveArm,
        start: Callable[[], ServerRecord],
        profile_of: Callable[[ServerRecord], Profile],
        before: Profile | None,
        *,
        back: bool = False,
    ) -> str:
        """``before``: the settings that were ready, to go back to; ``back``: it is those that are gone back to."""
        if arm.busy:
            raise SessionError(f"{arm.letter} is busy: {arm.busy}")
        arm.busy, arm.failure = "starting", ""
        self.cancelled.discard(arm.letter)
        remembered = arm.ready_before if before is None else (*arm.ready_before, before)[-KEPT_READY:]
        taken = False
        try:
            record = start()
            arm.busy, taken = "starting", True
            arm.ready_before = remembered[:-1] if back else remembered
            arm.take(record, profile_of(record))
            arm.staged = None
            self._wait(arm)
        except SessionError as error:
            if taken or not arm.live or (arm.record is not None and not alive(arm.record)):
                arm.failure = str(error).splitlines()[0]  # what ran before runs no more
                arm.ready_before = arm.ready_before if taken else remembered
            raise
        finally:
            arm.busy = ""
        return f"{arm.letter} is ready: {arm.algorithm}"

    def _stop(self, arm: LiveArm) -> None:
        assert arm.record is not None
        outcome = serving.stop(arm.record.name, self._say(arm))
        if outcome.ended is False:
            raise SessionError(outcome.text)

    def _wait(self, arm: LiveArm) -> None:
        """Slow is not failed: it is waited for as long as the operator does."""
        while not self._closing():
            arm.poll(self._clock())
            state = arm.state
            if state is not None and state.ready and arm.info is not None:
                return
            if state is not None and not state.running:
                assert arm.record is not None
                raise SessionError(serving.failure_text(arm.record, state))
            if arm.letter in self.cancelled:
                self._stop(arm)
                raise SessionError("the start was stopped")
            time.sleep(_POLL_S)
        raise SessionError("spectui ends; the server goes on starting")


def port_of(record: ServerRecord | None, profile: Profile, name: str) -> int:
    """Its own one again, unless somebody else took it meanwhile and the profile names none."""
    from spectui.hosts import ports

    if record is not None and (alive(record) or profile.server.port == record.port or ports.is_free(record.port)):
        return record.port
    return profile.server.port or port_for(name)


def port_for(name: str) -> int:
    """For a profile that names none: the first port that is free and that no other server was promised, ten apart as
    their communication ports want room."""
    from spectui.hosts import ports, servers

    taken = {r.port + n for r in servers.records() if r.name != name and alive(r) for n in range(10)}
    return ports.free_port(30000, taken)


def _until_when() -> str:
    """A first server of ours here: does this node end it with the login?"""
    from spectui.hosts.lasting import lasting

    keeps = lasting()
    return f" — {keeps.sentence}" if keeps.survives is False else ""


def keep(profile: Profile, name: str) -> Profile:
    """The profile as launched, in a file of spectui's own: the operator's file stays as it is, and a later spectui
    finds what the server was started from. The file of a server that is still recorded is left to it."""
    folder = locations.state_dir() / "launched"
    used = {record.profile for record in servers.records()}
    places = (folder / profiles.file_name(name if n == 1 else f"{name}-{n}") for n in range(1, 1000))
    fresh = replace(profile, path=None, digest=None)
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        return profiles.save(fresh, next(p for p in places if str(p) not in used), replace_existing=True)
    except (OSError, profiles.ProfileError) as error:
        raise SessionError(f"these settings cannot be launched: {error}") from error


def target_of(text: str) -> Target:
    from spectui.session import arms

    return arms.resolve(text)


def save_profile(arm: LiveArm, name: str) -> Path:
    """What the arm runs, or would after the staged change, as a profile of the operator's own."""
    if not name.strip():
        raise SessionError("a profile needs a name")
    saved = profiles.save(staging.renamed(staging.ground(arm), name.strip()))
    return Path(saved.path or "")


def write_command(arm: LiveArm) -> Path:
    """The launch command as a shell script, keys as variables. It says where it is, since nothing can be copied."""
    from spectui.core.launch_line import launch_arguments
    from spectui.engines.sglang.contract import contract_for
    from spectui.store import export

    profile = staging.ground(arm)
    name = arm.name or profile.name
    port = arm.record.port if arm.record is not None else profile.server.port or 30000
    profile = replace(profile, server=replace(profile.server, port=port))
    arguments = launch_arguments(profile, contract_for(arm.version or serving.NEWEST).flags(), port=port)
    path = locations.exports_dir() / f"launch-{profiles.file_name(name).removesuffix('.toml')}.sh"
    told = " ".join(f"{name}: {profile.speculative.algorithm}".split())
    path.write_text(f"#!/bin/sh\n# {told}\n{export.shell(profile, arguments)}")
    path.chmod(0o700)
    return path
