"""The server that a sweep has in hand: one at a time, started for a setting, changed while it runs, stopped."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable
from typing import Any

from spectui.core.settings import Value
from spectui.hosts import servers
from spectui.hosts.records import ServerRecord, alive
from spectui.predict import tracking
from spectui.predict.settings_grid import HOT, Setting, launch_groups
from spectui.session import SessionError, arms, serving
from spectui.session.sweep_knowledge import start_keys
from spectui.session.sweep_spec import Work

START_LIMIT_S = 1800.0
"""After which a start counts as failed, or after four times what it took before: nobody is there to judge."""


class ServerInHand:
    """``say`` writes a row of the sweep's journal; ``stopped`` is asked while a start is waited for."""

    def __init__(self, work: Work, say: Callable[..., None], stopped: Callable[[], bool]) -> None:
        self._work = work
        self._say = say
        self._stopped = stopped
        self.record: ServerRecord | None = None
        self.setting: Setting | None = None
        """In force on it."""

    def bring(self, setting: Setting, expected_s: float) -> ServerRecord:
        """A server with this setting: the one in hand, changed where that needs no restart, else a new one.

        Raises :class:`SessionError` with the cause where it did not come up, and leaves none behind then.
        """
        current = self.setting
        if self.record is not None and not alive(self.record):
            why = serving.failure_text(self.record, servers.watch(self.record))
            same = current is not None and current.name == setting.name
            self.stop()
            if same:
                raise SessionError(why)
        if self.record is not None and current is not None and _hot(current, setting):
            self._change(setting)
        if self.record is None or self.setting is None or self.setting.name != setting.name:
            self.stop()
            self._start(setting, expected_s)
        assert self.record is not None
        return self.record

    def take(self, record: ServerRecord) -> None:
        """One that an earlier process of the sweep left."""
        self.record = record

    def stop(self) -> None:
        record, self.record = self.record, None
        was, self.setting = self.setting, None
        if record is None:
            return
        with contextlib.suppress(SessionError):
            serving.stop(record.name)
        state = "left" if alive(record) else "stopped"
        self._say("server", id=record.id, name=record.name, setting=was and was.name, state=state)

    def _start(self, setting: Setting, expected_s: float) -> None:
        begun = time.monotonic()
        work = self._work
        number = [s.name for s in work.settings].index(setting.name) + 1
        name = f"sweep-{work.spec.sweep_id[-4:]}-{number}"
        limit = begun + max(START_LIMIT_S, 4 * expected_s)

        def given_up() -> bool:
            return self._stopped() or time.monotonic() > limit

        try:
            prepared = serving.prepare(work.profile_for(setting), version=work.spec.version, name=name)
            self.record = serving.launch(prepared)
            self._row("starting", setting, log=self.record.log_path)
            state = serving.wait_ready(self.record, self._phases(setting), cancelled=given_up, poll_s=0.1)
            if not state.ready:
                minutes = (time.monotonic() - begun) / 60
                stuck = f" {state.stuck}" if state.stuck else ""
                raise SessionError(f"not ready after {minutes:.0f} minutes, in phase {state.phase}.{stuck}")
        except SessionError:
            self.stop()
            raise
        except Exception as error:  # one setting must not end the sweep
            self.stop()
            raise SessionError(f"a fault in spectui: {type(error).__name__}: {error}") from error
        seconds = round(time.monotonic() - begun, 3)
        for key in start_keys(work, setting.name, setting.algorithm):
            tracking.note_start(key, seconds)
        self.setting = setting
        self._row("ready", setting, seconds=seconds)

    def _phases(self, setting: Setting) -> Callable[[Any], None]:
        last = ""

        def say(state: Any) -> None:
            nonlocal last
            if state.phase != last:
                last = state.phase
                self._say("phase", setting=setting.name, phase=last, left_s=state.left_s)

        return say

    def _change(self, setting: Setting) -> None:
        """While the server runs; where it refuses, a restart follows."""
        from spectui.engines.sglang.client import SglangClient
        from spectui.engines.sglang.errors import EngineError

        assert self.record is not None
        in_force = setting.plan.in_force
        values: dict[str, Value] = {key: in_force[key] for key in HOT if key in in_force}
        server = self._work.profile.server
        key, admin = (ref and arms.resolve_key(ref) for ref in (server.api_key, server.admin_api_key))
        try:
            with SglangClient(self.record.url, key=key, admin_key=admin) as client:
                applied = client.set_internal_state(values).applied
        except EngineError as error:
            applied = None
            self._say("note", text=f"{setting.name}: not changed while running ({error}); it is started anew")
        if applied:
            self.setting = setting
            self._row("ready", setting, hot=True)

    def _row(self, state: str, setting: Setting, **more: Any) -> None:
        record = self.record
        assert record is not None
        self._say("server", id=record.id, name=record.name, url=record.url, setting=setting.name, state=state, **more)


def _hot(current: Setting, wanted: Setting) -> bool:
    return current.name != wanted.name and len(launch_groups([current, wanted])) == 1
