"""One measured run: from options and arms to a spec, a runner process, and the result folded from its journal."""

from __future__ import annotations

import json
import os
import secrets
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

from spectui.core.result import RunResult, fold
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, FedBefore, Prompt, RunSpec, WorkloadRef
from spectui.hosts import own_process
from spectui.session import SessionError, history_of_feeding
from spectui.session.history_of_feeding import Kind
from spectui.session.run_ending import with_reason
from spectui.store import journal, locations
from spectui.workloads import Workload, from_file, load

RUNNER_RECORD = "runner.json"


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What the operator chose. None leaves a choice to the workload or to the server."""

    workload: str | None = None
    file: Path | None = None
    passes: tuple[str, ...] = ("warm",)
    concurrency: tuple[int, ...] = (1,)
    requests: int | None = None
    max_tokens: int | None = None
    temperature: float | None = 0.0
    seed: int | None = None
    thinking: bool | None = None
    ignore_eos: bool = False
    flush: str = "idle"
    keep_text: bool = True
    feed_limit: int = 512
    feed_tokens: int = 32_000
    block: int | None = None
    corpus: Path | None = None
    """What a primed pass loads: a file of texts, or ``answers.jsonl`` of a stored run."""
    silence_s: float = 600.0
    """So long may a request say nothing before it is given up."""


@dataclass(frozen=True, slots=True)
class RunHandle:
    """A run that was started, here or by an earlier spectui: its folder, and the process that writes it."""

    folder: Path
    pid: int
    started: float
    """Start time of the process by the kernel's record: with the pid, the proof that it is ours."""

    @property
    def journal(self) -> Path:
        return self.folder / "journal.jsonl"

    def alive(self) -> bool:
        return _start_time(self.pid) == self.started


def workload_for(options: RunOptions) -> Workload:
    """The workload that the options name, from its file of prompts or by its name."""
    if options.file is not None:
        return from_file(options.file)
    return load(options.workload or "mixed")


def build_spec(arms: Sequence[ArmSpec], options: RunOptions) -> RunSpec:
    """Raises :class:`SessionError` where the options do not make a run."""
    workload = workload_for(options)
    seed = options.seed or 0
    measuring: tuple[Prompt, ...] = workload.measuring(seed)
    feeding: tuple[Prompt, ...] = workload.feeding(seed)
    if options.requests is not None:
        if options.requests < 1:
            raise SessionError(f"--requests must be at least 1, not {options.requests}", 2)
        if options.requests > len(measuring):
            # More of the same prompts would teach the store its own answers, so there are no more.
            raise SessionError(
                f"workload {workload.name} has {len(measuring)} measuring prompts, fewer than the {options.requests} "
                "asked for; the same prompt twice would be contamination. Ask for fewer, or give --file.",
                2,
            )
        measuring = measuring[: options.requests]
    if not measuring:
        raise SessionError(f"workload {workload.name} has no prompts to measure with", 2)
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{workload.name}-{secrets.token_hex(2)}"
    folder = locations.runs_dir() / run_id
    return RunSpec(
        run_id=run_id,
        folder=str(folder),
        arms=tuple(arms),
        workload=WorkloadRef(workload.name, workload.hash(seed), tuple(workload.marks)),
        feeding=feeding,
        measuring=measuring,
        passes=options.passes,
        concurrency=options.concurrency,
        max_tokens=options.max_tokens or workload.max_tokens,
        temperature=options.temperature,
        seed=options.seed,
        thinking=options.thinking,
        ignore_eos=options.ignore_eos,
        flush=options.flush,
        block=options.block or _block_size(len(measuring)),
        feed_limit=options.feed_limit,
        feed_tokens=options.feed_tokens,
        feed_known=_fed_before(measuring) if "warm" in options.passes else (),
        keep_text=options.keep_text,
        corpus=None if options.corpus is None else str(options.corpus.absolute()),
        request_timeout_s=options.silence_s,
    )


def _fed_before(measuring: Sequence[Prompt]) -> tuple[FedBefore, ...]:
    """What runs on this node needed until text of this kind was steady, for any model: which one it is, the runner
    sees."""
    host, groups = socket.gethostname(), tuple(sorted({prompt.group for prompt in measuring}))
    prompts = frozenset(prompt.id for prompt in measuring)
    found = []
    for row in history_of_feeding.recall():
        model, settings, tokens = str(row.get("model")), str(row.get("settings")), row.get("tokens")
        if isinstance(tokens, int) and Kind(host, model, settings, groups, prompts).like(row):
            found.append(FedBefore(model, settings, tokens))
    return tuple(found)


def _block_size(requests: int) -> int:
    """Eight blocks an arm where the concurrency allows, so that drift falls on both arms alike and is seen."""
    return max(1, -(-requests // 8))


def start(spec: RunSpec) -> RunHandle:
    """Starts the runner in a process session of its own, so that the run outlives this terminal."""
    folder = Path(spec.folder)
    folder.mkdir(parents=True, mode=0o700, exist_ok=False)
    path = folder / "spec.json"
    # The prompts are in it: the operator's own texts, so nobody else's to read.
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(spec), file)
    with open(folder / "runner.log", "wb") as log:
        process = own_process.start("spectui.runner", path, log)
    handle = RunHandle(folder, process.pid, _start_time(process.pid) or 0.0)
    (folder / RUNNER_RECORD).write_text(json.dumps({"pid": handle.pid, "started": handle.started}))
    _children[process.pid] = process
    return handle


_children: dict[int, subprocess.Popen[bytes]] = {}
"""Runners started by this process: kept so that the ended ones are reaped."""


def running() -> list[RunHandle]:
    """Runs in progress on this node, whoever of this user started them."""
    found = []
    root = locations.runs_dir()
    for record in sorted(root.glob(f"*/{RUNNER_RECORD}"), reverse=True) if root.is_dir() else []:
        handle = handle_of(record.parent)
        if handle is not None and handle.alive():
            found.append(handle)
    return found


def handle_of(folder: Path) -> RunHandle | None:
    try:
        record = json.loads((folder / RUNNER_RECORD).read_text())
        return RunHandle(folder, int(record["pid"]), float(record["started"]))
    except (OSError, ValueError, KeyError, TypeError):
        return None


def rows(handle: RunHandle, poll_s: float = 0.1) -> Iterator[Row]:
    """Rows as they are written, until the run has ended or its process is gone."""
    yield from journal.tail(handle.journal, alive=lambda: _alive(handle), poll_s=poll_s)


def wait(handle: RunHandle, on_row: Callable[[Row], None] | None = None) -> RunResult:
    """Follows a run to its end. An interrupt here stops the run, keeps what it has, and is raised again."""
    seen: list[Row] = []
    try:
        for row in rows(handle):
            seen.append(row)
            if on_row is not None:
                on_row(row)
    except KeyboardInterrupt:
        stop(handle)
        raise
    return with_reason(fold(seen), handle.folder, _ended_with(handle))


def _ended_with(handle: RunHandle) -> int | None:
    """Exit code of the runner, where it is our child."""
    child = _children.get(handle.pid)
    return None if child is None else child.wait()


def result_of(folder: Path) -> RunResult:
    """The result of a stored run."""
    path = folder / "journal.jsonl"
    if not path.is_file():
        raise SessionError(f"no run in {folder}: there is no journal.jsonl. List runs with: spectui runs")
    return fold(journal.read(path))


def exit_code(handle: RunHandle, result: RunResult) -> int:
    """0 measured, 1 failed, 3 not reachable, 130 interrupted: the runner's own code where it is our child."""
    code = _ended_with(handle)
    if code is not None and (code in (1, 3, 130) or (code == 0 and result.status != "failed")):
        return code
    return {"complete": 0, "interrupted": 130}.get(result.status, 1)


def stop(handle: RunHandle, patience_s: float = 10.0) -> None:
    """Ends a run early; what it measured is kept. Only the process that the record proves is signalled."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        if not handle.alive():
            return
        os.kill(handle.pid, number)
        deadline = time.monotonic() + patience_s
        while _alive(handle) and time.monotonic() < deadline:
            time.sleep(0.05)


def _alive(handle: RunHandle) -> bool:
    child = _children.get(handle.pid)
    if child is not None and child.poll() is not None:
        return False
    return handle.alive()


def _start_time(pid: int) -> float | None:
    """Start time in clock ticks since boot (``/proc/PID/stat`` field 22); None when there is no such process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            fields = file.read().rpartition(b")")[2].split()
    except OSError:
        return None
    # A zombie has ended, though its number is not free yet.
    return None if fields[0] == b"Z" else float(fields[19])
