"""Carries out a sweep: starts each setting's server, measures it, stops it, and goes on whatever fails."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from spectui.core.result import RunResult, record_of
from spectui.core.rows import Row
from spectui.core.spec import RunSpec
from spectui.hosts import servers
from spectui.hosts.records import ServerRecord
from spectui.predict import tracking
from spectui.predict.breakeven import RUN_TO_RUN, Prediction
from spectui.predict.settings_grid import Setting
from spectui.predict.sweep import Cell, Costs, EarlyStop, Launch, Measured, SweepPlan
from spectui.session import SessionError, arms, running, sweep_best, sweep_sources
from spectui.session.sweep_best import MeasuredCell
from spectui.session.sweep_knowledge import FEED_RECORD_REQUESTS, Knowledge
from spectui.session.sweep_server import ServerInHand
from spectui.session.sweep_spec import Work
from spectui.session.sweep_state import SweepState
from spectui.store import journal

PATIENCE_S = 30.0


class Ended(Exception):
    """The sweep was asked to end."""


class Sweeper:
    """One process's part of a sweep, from the state that its journal holds to the end or to an interruption."""

    def __init__(self, work: Work, writer: journal.Writer, state: SweepState, *, stopped: Callable[[], bool]) -> None:
        self.work = work
        self.state = state
        self._writer = writer
        self._stopped = stopped
        self._know = Knowledge(work, cancelled=stopped)
        self._settings = {s.name: s for s in work.settings}
        self._measured: dict[Cell, MeasuredCell] = {}
        self._server = ServerInHand(work, self._say, stopped)
        self._spent: dict[str, list[tuple[float, float]]] = {}
        """Algorithm -> (thought, taken) of its cells in this process, in seconds."""
        self._predicted: dict[Cell, Prediction] = {}
        self._costs = Costs()
        self._noise = RUN_TO_RUN

    # -- the whole

    def run(self) -> str:
        """Until nothing is left. Returns why it could not measure anything, or nothing. Raises :class:`Ended`."""
        if not self.state.head:
            self._head()
        self._take_up()
        try:
            while True:
                plan = self._plan()
                if not plan.launches:
                    break
                self._heed()
                self._launch(plan.launches[0])
        finally:
            self._server.stop()
            self._noise = self._know.model().run_to_run
            self._say("intervals", cells=[[name, level, f.low, f.high] for (name, level), f in self._figures().items()])
            self._say("best", best=sweep_best.best(self._measured.values(), self.work.options.concurrency, self._noise))
        if not self._measured:
            causes = list(dict.fromkeys(self.state.failed.values()))
            return f"nothing could be measured: {causes[0]}" if causes else "no setting of this sweep can run"
        return ""

    def _head(self) -> None:
        work, spec = self.work, self.work.spec
        self._say(
            "head",
            schema=1,
            sweep_id=spec.sweep_id,
            folder=spec.folder,
            profile=work.profile.name,
            workload={"name": work.workload.name, "hash": work.workload.hash(work.options.seed or 0)},
            concurrency=list(work.options.concurrency),
            passes=list(work.options.passes),
            requests=work.requests,
            max_tokens=work.max_tokens,
            texts=list(work.grid.texts),
            settings=[setting_json(s) for s in work.grid.settings],
        )

    def _take_up(self) -> None:
        """What an earlier process of this sweep left: servers and runners are ended, results are read back."""
        for row in self.state.servers.values():
            if row.get("state") == "stopped":
                continue
            for record in servers.records():
                if record.id == row.get("id"):
                    self._server.take(record)
                    self._server.stop()
        running_now = self.state.current
        if running_now.get("kind") == "cell" and running_now.get("folder"):
            handle = running.handle_of(Path(running_now["folder"]))
            if handle is not None:
                running.stop(handle)
        for (name, level), row in self.state.cells.items():
            folder = Path(str(row.get("folder")))
            try:
                result = running.result_of(folder)
            except (SessionError, OSError):
                continue
            self._know.learn(folder, result)
            early = str(row.get("reason") or "stopped early") if row.get("status") == "stopped early" else ""
            self._keep(name, level, folder, result, early)
        if self.state.fed_run:
            self._take_fed(Path(self.state.fed_run))

    def _plan(self) -> SweepPlan:
        self._know.pace = _pace([pair for pairs in self._spent.values() for pair in pairs])
        self._know.paces = {algorithm: _pace(pairs) for algorithm, pairs in self._spent.items()}
        plan, predicted, missing, self._costs = self._know.plan(
            time.time(),
            measured=self._figures(),
            failed=set(self.state.failed),
            done=set(self.state.cells),
            running=self._server.setting.name if self._server.setting else None,
        )
        self._predicted = predicted
        self._noise = self._know.model().run_to_run
        self._say("plan", **plan_json(plan, predicted, missing))
        return plan

    def _figures(self) -> dict[Cell, Measured]:
        found = {cell: one.figures(self._noise) for cell, one in self._measured.items()}
        return {cell: figures for cell, figures in found.items() if figures is not None}

    # -- one server

    def _launch(self, launch: Launch) -> None:
        """The first cell of a launch. A failed start is a result of its setting."""
        name, level = launch.cells[0]
        setting = self._settings[name]
        try:
            record = self._server.bring(setting, self._costs.start(name))
        except SessionError as error:
            self._heed()  # a start that we cut off ourselves is no failure of the setting
            self._say("failed", setting=name, cause=str(error))
            return
        try:
            self._measure(record, setting, level)
        except (SessionError, OSError) as error:  # one run must not end the sweep
            self._say("cell", setting=name, concurrency=level, state="end", status="failed", reason=str(error))

    # -- one cell

    def _measure(self, record: ServerRecord, setting: Setting, level: int) -> None:
        begun = time.monotonic()
        cell = (setting.name, level)
        predicted = self._predicted.get(cell)
        spec = self._spec(record, setting, (level,))
        handle = running.start(spec)
        self._say("cell", setting=setting.name, concurrency=level, state="begin", run=spec.run_id, folder=spec.folder)
        stop = self._early(level)
        speculative = setting.algorithm != "none"
        why = ""
        for row in self._follow(handle):
            if stop is None or row.get("kind") != "request" or row.get("phase") != "measure":
                continue
            if row.get("pass_name") != self.work.ranking:
                continue
            done = record_of(row)
            why = (stop.add(done, speculative=speculative) or "") if done is not None and done.ok else ""
            if why:
                running.stop(handle, PATIENCE_S)
                break
        result = running.result_of(handle.folder)
        running.exit_code(handle, result)  # its process is done with
        status, reason = ("stopped early", why) if why else ("measured", "")
        if not why and (result.status != "complete" or self.work.ranking not in [p for _, _, p in result.passes]):
            status, reason = "failed", result.reason or "the run ended without a reason"
        taken = time.monotonic() - begun
        pace = self._know.paces.get(setting.algorithm, self._know.pace)
        self._spent.setdefault(setting.algorithm, []).append((self._costs.run(cell) / max(pace, 1e-6), taken))
        self._know.learn(handle.folder, result)
        kept = None if status == "failed" else self._keep(setting.name, level, handle.folder, result, why)
        said = None if kept is None else kept.as_json(self._noise, self._baseline(level))
        self._say(
            "cell", setting=setting.name, concurrency=level, state="end", status=status, reason=reason,
            run=spec.run_id, folder=str(handle.folder), measured=said,
            predicted=None if predicted is None else {"setting": setting.name, **predicted.as_json()},
            seconds=round(taken, 3),
        )  # fmt: skip
        if kept is not None and predicted is not None and status == "measured":
            for miss in misses_of(kept, predicted, simulated=bool(result.arm("A").get("simulated"))):
                tracking.note(miss)
        if not speculative and self._know.needs_feeding_text:
            self._record_feeding(record, setting)

    def _spec(self, record: ServerRecord, setting: Setting, levels: tuple[int, ...]) -> RunSpec:
        profile = self.work.profile
        target = arms.Target(record.name, url=record.url, server=record.name)
        arm = arms.arm_spec(
            "A", target, key=profile.server.api_key, admin_key=profile.server.admin_api_key, trusted=True
        )
        arm = replace(arm, label=setting.name, settings_asked=dict(setting.knobs))
        return running.build_spec([arm], replace(self.work.options, concurrency=levels))

    def _follow(self, handle: running.RunHandle) -> Iterator[Row]:
        """Rows of the run. A stop of the sweep stops the run too, and is raised once its rows are read."""
        follower = journal.Follower(handle.journal)
        while True:
            gone = not handle.alive()
            yield from follower.new()
            if gone:
                return
            if self._stopped():
                running.stop(handle, PATIENCE_S)
                raise Ended
            time.sleep(0.05)

    def _early(self, level: int) -> EarlyStop | None:
        """Against the fastest fair one at this concurrency, which is then in no danger itself."""
        if self.work.spec.keep_losers:
            return None
        rows = [(f.tokens_per_s, one) for cell, one in self._measured.items() if cell[1] == level
                and (f := one.figures(self._noise)) is not None and f.fair]  # fmt: skip
        if not rows:
            return None
        best = max(rows, key=lambda pair: pair[0])[1]
        return EarlyStop(
            best.one.good,
            name=best.setting,
            speculative=best.one.speculative,
            planned=self.work.requests,
            noise=self._noise,
        )

    def _baseline(self, level: int) -> MeasuredCell | None:
        return next((c for (_, at), c in self._measured.items() if at == level and not c.one.speculative), None)

    def _keep(self, name: str, level: int, folder: Path, result: RunResult, early: str) -> MeasuredCell | None:
        """``early``: why it was stopped before its end."""
        one = next((p for (_, c, n), p in result.passes.items() if c == level and n == self.work.ranking), None)
        if one is None or not one.good:
            return None
        self._measured[name, level] = MeasuredCell(name, level, folder, result, one, bool(early), early)
        return self._measured[name, level]

    def _record_feeding(self, record: ServerRecord, setting: Setting) -> None:
        """The feeding prompts once through the server without speculation: their text is what NGRAM will know. Several
        at a time, since only the text is wanted."""
        spec = self._spec(record, setting, (4,))
        spec = replace(spec, measuring=spec.feeding[:FEED_RECORD_REQUESTS], feeding=spec.feeding[:1], passes=("cold",))
        handle = running.start(spec)
        self._say(
            "cell", setting=setting.name, concurrency=4, state="feeding text", run=spec.run_id, folder=spec.folder
        )
        for _ in self._follow(handle):
            pass
        self._take_fed(handle.folder)
        self._say("recording", run=str(handle.folder))

    def _take_fed(self, folder: Path) -> None:
        with contextlib.suppress(OSError):
            self._know.fed = tuple(sweep_sources.ids_of(folder, phase="measure"))

    # -- rows

    def _say(self, kind: str, **values: Any) -> None:
        row: Row = {"t": round(time.time(), 3), "kind": kind, **values}
        self._writer.write(row)
        self.state.add(row)

    def _heed(self) -> None:
        if self._stopped():
            raise Ended


def _pace(pairs: Sequence[tuple[float, float]]) -> float:
    thought, taken = (sum(column) for column in zip(*pairs, strict=True)) if pairs else (0.0, 0.0)
    return min(5.0, max(0.2, taken / thought)) if thought > 0 else 1.0


def setting_json(setting: Setting) -> dict[str, Any]:
    in_force = {k: v for k, v in setting.plan.in_force.items() if not k.startswith("server.")}
    return {
        "name": setting.name,
        "algorithm": setting.algorithm,
        "knobs": dict(setting.knobs),
        "in_force": in_force,
        "width": setting.width,
        "same_as": setting.same_as,
        "refused": None if setting.same_as else setting.refused,
        "warnings": [f.text for f in (*setting.plan.dangers, *setting.plan.warnings)],
    }


def plan_json(plan: SweepPlan, predicted: dict[Cell, Prediction], missing: dict[Cell, str]) -> dict[str, Any]:
    return {
        "launches": [
            {"cells": [list(cell) for cell in launch.cells], "seconds": round(launch.seconds, 1)}
            for launch in plan.launches
        ],
        "skipped": [[name, level, why] for (name, level), why in plan.skipped.items()],
        "clock": {**asdict(plan.clock), "text": plan.clock.text},
        "predicted": [{"setting": name, **one.as_json()} for (name, _), one in predicted.items()],
        "missing": [[name, level, why] for (name, level), why in missing.items()],
    }


def misses_of(kept: MeasuredCell, predicted: Prediction, *, simulated: bool) -> list[tracking.Miss]:
    """What the prediction was off by. Of a simulated server nothing: it tells nothing of this node."""
    if simulated:
        return []
    guess = (predicted.accept_length, predicted.tokens_per_s)
    found = (kept.one.accept_length, kept.one.output_tokens_per_s)
    return tracking.compared(predicted.kind, guess, found, kept.setting, kept.folder.name)
