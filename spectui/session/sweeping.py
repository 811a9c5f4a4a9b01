"""A sweep as a process of its own: started, followed, ended early, taken up again.

``python -m spectui.session.sweeping SWEEP/spec.json`` carries it out, in its own process session, so that it outlives
the terminal; ``SWEEP/journal.jsonl`` says what happens, and screens and the command line follow that. SIGTERM or SIGINT
ends it early: the run in progress and the server that it started are stopped, what was measured stays. Exit codes: 0
complete, 1 nothing could be measured, 2 a spec that cannot be used, 130 interrupted.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

from spectui.core.rows import Row
from spectui.hosts import own_process
from spectui.hosts.processes import start_ticks
from spectui.session import SessionError, sweep_spec
from spectui.session.running import RunHandle
from spectui.session.sweep_spec import SweepSpec, Work, sweeps_dir, work_of
from spectui.session.sweep_state import SweepState, fold
from spectui.store import journal

if TYPE_CHECKING:
    from spectui.predict.replay_grid import Cancelled, Watch

RECORD = "process.json"
STOP_PATIENCE_S = 180.0
"""A server may take its time to give back its memory."""


@dataclass(frozen=True, slots=True)
class SweepHandle:
    folder: Path
    process: RunHandle | None
    """None: it does not run."""

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def alive(self) -> bool:
        return self.process is not None and self.process.alive()


def find(text: str) -> Path:
    """The folder of a sweep by its name, its end, or its path. Raises :class:`SessionError`."""
    for folder in (Path(text), sweeps_dir() / text):
        if (folder / "spec.json").is_file():
            return folder
    ends = [p.parent for p in sweeps_dir().glob("*/spec.json") if text and p.parent.name.endswith(text)]
    if len(ends) == 1:
        return ends[0]
    known = sorted((p.parent.name for p in sweeps_dir().glob("*/spec.json")), reverse=True)[:5]
    raise SessionError(f"there is no sweep {text!r}. The newest: {', '.join(known) or 'none'}", 2)


def handle_of(folder: Path) -> SweepHandle:
    try:
        record = json.loads((folder / RECORD).read_text())
        process = RunHandle(folder, int(record["pid"]), float(record["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return SweepHandle(folder, None)
    return SweepHandle(folder, process if process.alive() else None)


def in_progress() -> list[SweepHandle]:
    """Sweeps that run on this node now."""
    found = [handle_of(path.parent) for path in sorted(sweeps_dir().glob(f"*/{RECORD}"), reverse=True)]
    return [handle for handle in found if handle.alive()]


def plan_only(
    spec: SweepSpec,
    now: float | None = None,
    *,
    watch: Watch | None = None,
    cancelled: Cancelled | None = None,
) -> SweepState:
    """What would be done, from what this node knows; starts nothing and writes nothing. ``watch`` and ``cancelled``
    are of the replay that it may need; ended early, the plan goes without it."""
    from spectui.session.sweep_knowledge import Knowledge
    from spectui.session.sweep_work import plan_json, setting_json

    work = work_of(spec)
    know = Knowledge(work, processes=None, watch=watch, cancelled=cancelled)
    plan, predicted, missing, _ = know.plan(time.time() if now is None else now, measured={})
    head = {
        "kind": "head",
        "sweep_id": None,
        "profile": work.profile.name,
        "workload": {"name": work.workload.name, "hash": work.workload.hash(work.options.seed or 0)},
        "concurrency": list(work.options.concurrency),
        "texts": list(work.grid.texts),
        "settings": [setting_json(s) for s in work.grid.settings],
    }
    state = fold([head, {"kind": "plan", **plan_json(plan, predicted, missing)}])
    state.status = "planned"
    return state


def start(spec: SweepSpec) -> SweepHandle:
    """Raises :class:`SessionError` where another sweep runs, or its port is taken."""
    work = work_of(spec)
    if not work.settings:
        reasons = "".join(f"\n  {s.name}: {s.refused}" for s in work.grid.settings if s.refused)
        raise SessionError(f"no setting of this sweep can run:{reasons}")
    _refuse_taken(work)
    sweep_spec.save(spec)
    return _spawn(Path(spec.folder))


def resume(folder: Path) -> SweepHandle:
    """Goes on where it ended; one that still runs, or is complete, is only followed."""
    spec = sweep_spec.load(folder / "spec.json")
    handle = handle_of(folder)
    if handle.alive() or state_of(folder).status == "complete":
        return handle
    _refuse_taken(work_of(spec), state_of(folder))
    return _spawn(folder)


def _refuse_taken(work: Work, state: SweepState | None = None) -> None:
    """Before anything is started: what would make every setting fail."""
    from spectui.hosts import ports, servers

    others = [h.folder.name for h in in_progress()]
    if others:
        raise SessionError(
            f"sweep {others[0]} runs on this node, and both would disturb each other. Follow it with: "
            f"spectui sweep --resume {others[0]}"
        )
    port = work.profile.server.port
    mine = {str(row.get("id")) for row in state.servers.values()} if state is not None else set()
    holder = ports.holder(port) if port is not None else None
    if holder is not None and not any(r.port == port and r.id in mine for r in servers.records()):
        raise SessionError(
            f"port {port} of profile {work.profile.name} is taken by {holder.text}: a sweep starts its own servers. "
            "Stop that one, or set another port in the profile."
        )


def _spawn(folder: Path) -> SweepHandle:
    with open(folder / "sweep.log", "ab") as log:
        process = own_process.start("spectui.session.sweeping", folder / "spec.json", log)
    _children.append(process)
    handle = RunHandle(folder, process.pid, float(start_ticks(process.pid) or 0))
    (folder / RECORD).write_text(json.dumps({"pid": handle.pid, "started": handle.started}))
    return SweepHandle(folder, handle)


_children: list[subprocess.Popen[bytes]] = []
"""Kept so that the ended ones are reaped."""


def rows(handle: SweepHandle, poll_s: float = 0.1) -> Iterator[Row]:
    """All rows from the first on, until the process that writes them is gone."""
    follower = journal.Follower(handle.journal)
    while True:
        alive = handle.alive()
        yield from follower.new()
        if not alive:
            _children[:] = [child for child in _children if child.poll() is None]
            return
        time.sleep(poll_s)


def wait(handle: SweepHandle, on_row: Callable[[SweepState, Row], None] | None = None) -> SweepState:
    """Follows it to its end. An interrupt here ends the sweep, keeps what it has, and is raised again."""
    state = SweepState()
    try:
        for row in rows(handle):
            state.add(row)
            if on_row is not None:
                on_row(state, row)
    except KeyboardInterrupt:
        stop(handle)
        raise
    if state.status == "running":
        state.status = "failed"
        state.reason = f"the sweep's process ended without a word: {handle.folder / 'sweep.log'} may tell why"
    return state


def state_of(folder: Path) -> SweepState:
    path = folder / "journal.jsonl"
    state = fold(journal.read(path)) if path.is_file() else SweepState()
    if state.status == "running" and not handle_of(folder).alive():
        state.status, state.reason = "interrupted", "its process is gone; go on with --resume"
    return state


def stop(handle: SweepHandle, patience_s: float = STOP_PATIENCE_S) -> None:
    """Ends a sweep early, and waits until it has stopped its server. Nothing is killed: that would leave one behind."""
    if handle.process is None or not handle.alive():
        return
    os.kill(handle.process.pid, signal.SIGTERM)
    deadline = time.monotonic() + patience_s
    while handle.alive() and time.monotonic() < deadline:
        time.sleep(0.05)
    _children[:] = [child for child in _children if child.poll() is None]


# -- the process


class _Signals:
    """The first SIGTERM or SIGINT asks the sweep to end."""

    def __init__(self) -> None:
        self.seen = False
        signal.signal(signal.SIGHUP, signal.SIG_IGN)
        for number in (signal.SIGTERM, signal.SIGINT):
            signal.signal(number, self._take)

    def _take(self, number: int, frame: FrameType | None) -> None:
        self.seen = True

    def stopped(self) -> bool:
        return self.seen


def main(arguments: list[str] | None = None) -> int:
    given = sys.argv[1:] if arguments is None else arguments
    if len(given) != 1:
        sys.stderr.write("usage: python -m spectui.session.sweeping SWEEP/spec.json\n")
        return 2
    signals = _Signals()
    os.umask(0o077)
    path = Path(given[0])
    try:
        spec = sweep_spec.load(path)
        work = work_of(spec)
    except Exception as error:
        sys.stderr.write(f"{error}\n")
        with journal.Writer(path.parent / "journal.jsonl") as writer:
            writer.row("end", status="failed", reason=str(error))
        return 2
    before = list(journal.read(path.parent / "journal.jsonl")) if (path.parent / "journal.jsonl").is_file() else []
    with journal.Writer(path.parent / "journal.jsonl") as writer:
        return _carry_out(work, writer, before, signals)


def _carry_out(work: Work, writer: journal.Writer, before: list[Row], signals: _Signals) -> int:
    """Whatever happens, the journal's last row says how it ended."""
    from spectui.session.sweep_work import Ended, Sweeper

    state = fold(before)
    if before:
        row = {"t": round(time.time(), 3), "kind": "resumed", "before": before[-1].get("t")}
        if state.ended is not None:
            row["before"] = None  # its time was counted when it ended
        writer.write(row)
        state.add(row)
    status, reason, code = "complete", "", 0
    try:
        reason = Sweeper(work, writer, state, stopped=signals.stopped).run()
        if reason:
            status, code = "failed", 1
    except Ended:
        status, reason, code = "interrupted", "ended before all was measured; go on with --resume", 130
    except Exception as error:  # a fault of ours must still end the journal
        import traceback

        traceback.print_exc()
        status, reason, code = "failed", f"a fault in spectui: {type(error).__name__}: {error}"[:500], 1
    writer.row("end", status=status, reason=reason)
    return code


if __name__ == "__main__":
    sys.exit(main())
