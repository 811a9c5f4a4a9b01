"""The measured run of a check: few requests, prompts that were not sent before, nothing flushed, a bounded time."""

from __future__ import annotations

import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from spectui import workloads
from spectui.checks import Subject
from spectui.checks._rotation import Rotation
from spectui.core.profile import Profile
from spectui.core.result import RunResult, fold
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec, RunSpec
from spectui.hosts import own_process
from spectui.session import running
from spectui.session.running import RunOptions
from spectui.store import journal, locations

REQUESTS = 8
LEAST_REQUESTS = 4
MOST_REQUESTS = 24
QUICK_S = 10.0
"""A server that answers as many prompts as its evidence has within this time is asked all: more of a shift is seen."""
BUDGET_S = 25.0
"""Planned for the measured run, by the speed that the profile knows; the whole check stays below a minute."""
LIMIT_S = 35.0
"""After which the measured run is stopped; what it has is used."""
KEPT = 30
"""Folders of measured runs of checks that are kept."""


@dataclass(frozen=True, slots=True)
class CheckOptions:
    workload: str | None = None
    file: Path | None = None
    requests: int | None = None
    feed: bool = False
    key: str | None = None
    admin_key: str | None = None
    limit_s: float = LIMIT_S


DEFAULTS = CheckOptions()


@dataclass(frozen=True, slots=True)
class Target:
    name: str
    url: str
    profile: Profile | None = None
    key: str | None = None
    admin_key: str | None = None


def measure(
    subject: Subject,
    target: Target,
    options: CheckOptions,
    state: Rotation,
    say: Callable[[str], None],
    on_row: Callable[[Row], None],
) -> str:
    """Fills ``measured`` and what it is held against. Returns the run's folder."""
    entry = _entry(subject, options)
    spec = _spec(subject, target, options, entry)
    life = "" if subject.server is None else f"{subject.server.pid}:{subject.server.start_time:.0f}"
    if state.meet(life, subject.generated_before) and state.history:
        subject.notes.append("the server was restarted since the last check")
    run = _stored_run(entry)
    known = {record.prompt_id for records in _records(run).values() for record in records}
    pool = sorted(spec.measuring, key=lambda prompt: prompt.id not in known) if known else list(spec.measuring)
    if subject.stateful and not options.feed:
        pool += spec.feeding  # as fresh to this server as the others, and of the same kind
    count, max_tokens = _size(options, entry, spec)
    prompts, subject.reused = state.choose(pool, count)
    subject.workload, subject.workload_hash, subject.max_tokens = spec.workload.name, spec.workload.hash, max_tokens
    subject.fed = options.feed and subject.stateful
    if options.feed and not subject.fed:
        subject.notes.append(f"--feed changes nothing: {subject.algorithm} learns nothing from answers")
    if subject.reused:
        subject.notes.append(
            f"{subject.reused} of {len(prompts)} prompts were sent to this server before: the workload "
            f"{spec.workload.name} has no more that are fresh"
        )
    spec = replace(
        spec,
        measuring=prompts,
        max_tokens=max_tokens,
        passes=("warm",) if subject.fed else ("cold",),
        concurrency=(_concurrency(entry),),
        flush="idle",
        feed_limit=_fed_requests(entry) or spec.feed_limit,
    )
    say("feeding and measuring" if subject.fed else "measuring")
    limit = options.limit_s * (4 if subject.fed else 1)
    result = _run(spec, limit, on_row)
    subject.measured = result.last
    if subject.measured is None:
        subject.measured_why = f"the measured run gave nothing: {result.reason or 'no request ended'}"
    folder = Path(spec.folder)
    subject.answers = _answers(folder)
    subject.stored_records = _records(run)
    subject.stored_answers = _answers(run) if run is not None else _kept_answers(entry)
    return str(folder)


def _entry(subject: Subject, options: CheckOptions) -> Mapping[str, Any] | None:
    """The evidence to be held against: of the workload asked for, else the newest."""
    wanted = options.workload
    if options.file is not None:
        return None
    for entry in subject.stored:
        workload = entry.get("workload")
        if isinstance(workload, Mapping) and wanted in (None, workload.get("name")):
            return entry
    return None


def _spec(subject: Subject, target: Target, options: CheckOptions, entry: Mapping[str, Any] | None) -> RunSpec:
    kept = entry.get("workload") if entry is not None else None
    stored: Mapping[str, Any] = kept if isinstance(kept, Mapping) else {}
    of_profile = dict(subject.profile.workload) if subject.profile is not None else {}
    file = options.file
    name = options.workload or stored.get("name")
    if file is None and name is None and of_profile.get("file"):
        file = Path(str(of_profile["file"])).expanduser()
    if file is None and stored.get("file") and options.workload is None:
        file = Path(str(stored["file"]))
    temperature = stored.get("temperature", of_profile.get("temperature", 0.0))
    name = str(name or of_profile.get("name") or workloads.DEFAULT)
    prompts = None
    if file is None and options.workload is None and name not in workloads.names():
        prompts = _stored_prompts(entry)  # of a file: the run still has what it sent
        if prompts is None:
            subject.notes.append(f"workload {name} is not here: {workloads.DEFAULT} in its place")
            name = workloads.DEFAULT
    run_options = RunOptions(
        workload=None if file is not None else workloads.DEFAULT if prompts is not None else name,
        file=file,
        passes=("cold",),
        max_tokens=_whole(stored.get("max_tokens")) or _whole(of_profile.get("max_tokens")),
        temperature=float(temperature) if isinstance(temperature, (int, float)) else 0.0,
        seed=_whole(stored.get("seed")),
        thinking=stored.get("thinking") if isinstance(stored.get("thinking"), bool) else of_profile.get("thinking"),
        flush="idle",
    )
    arm = ArmSpec(
        "A",
        target.url,
        target.name,
        target.key,
        target.admin_key,
        server_pid=None if subject.server is None else subject.server.pid,
    )
    spec = running.build_spec([arm], run_options)
    if prompts is not None:
        spec = replace(spec, workload=prompts.workload, feeding=prompts.feeding, measuring=prompts.measuring)
    run_id = f"{time.strftime('%Y%m%d-%H%M%S')}-check-{secrets.token_hex(2)}"
    return replace(spec, run_id=run_id, folder=str(_folder() / run_id))


def _stored_prompts(entry: Mapping[str, Any] | None) -> RunSpec | None:
    """The spec of the run that the evidence came from, where it is still there."""
    import msgspec

    folder = _stored_run(entry)
    try:
        return None if folder is None else msgspec.json.decode((folder / "spec.json").read_bytes(), type=RunSpec)
    except (OSError, msgspec.MsgspecError):
        return None


def _folder() -> Path:
    return locations.data_dir() / "checks"


def _whole(value: object) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _results(entry: Mapping[str, Any] | None) -> list[Mapping[str, Any]]:
    kept = (entry or {}).get("result")
    return [row for row in kept if isinstance(row, Mapping)] if isinstance(kept, list) else []


def _concurrency(entry: Mapping[str, Any] | None) -> int:
    return min((n for row in _results(entry) if (n := _whole(row.get("concurrency")))), default=1)


def _fed_requests(entry: Mapping[str, Any] | None) -> int | None:
    return max((n for row in _results(entry) if (n := _whole(row.get("fed_requests")))), default=None)


def _size(options: CheckOptions, entry: Mapping[str, Any] | None, spec: RunSpec) -> tuple[int, int]:
    """(requests, output limit) that fit the time, by the speed that is known."""
    count, max_tokens = options.requests or REQUESTS, spec.max_tokens
    speeds = [
        row["output_tokens_per_s"][0]
        for row in _results(entry)
        if isinstance(row.get("output_tokens_per_s"), list) and row["output_tokens_per_s"]
    ]
    if options.requests is not None:
        return count, max_tokens
    speed = min(speeds) if speeds else None
    if speed is None:
        return count, min(max_tokens, 160)
    whole = max((n for row in _results(entry) if (n := _whole(row.get("requests")))), default=0)
    if count < whole <= MOST_REQUESTS and whole * max_tokens / speed <= QUICK_S:
        return whole, max_tokens
    while count > LEAST_REQUESTS and count * max_tokens / speed > BUDGET_S:
        count -= 1
    if count * max_tokens / speed > BUDGET_S:
        max_tokens = max(48, int(BUDGET_S * speed / count))
    return count, min(max_tokens, spec.max_tokens)


def _stored_run(entry: Mapping[str, Any] | None) -> Path | None:
    """The folder of the run that the evidence came from, where it is still there."""
    name = (entry or {}).get("run")
    if not isinstance(name, str) or not name or "/" in name:
        return None
    folder = locations.runs_dir() / name
    return folder if (folder / "journal.jsonl").is_file() else None


def _records(folder: Path | None) -> dict[str, Sequence[Any]]:
    if folder is None:
        return {}
    result = running.result_of(folder)
    least = min((one.concurrency for one in result.passes.values()), default=1)
    return {one.pass_name: one.good for one in result.passes.values() if one.concurrency == least}


def _answers(folder: Path) -> list[Row]:
    path = folder / "answers.jsonl"
    return [row for row in journal.read(path) if row.get("phase") in (None, "measure")] if path.is_file() else []


def _kept_answers(entry: Mapping[str, Any] | None) -> list[Row]:
    kept = (entry or {}).get("greedy")
    rows = kept if isinstance(kept, list) else []
    return [{"prompt_id": r.get("prompt"), "text": r.get("text")} for r in rows if isinstance(r, Mapping)]


def _run(spec: RunSpec, limit_s: float, on_row: Callable[[Row], None]) -> RunResult:
    """The run in a process of its own; stopped at its limit, and when this one is interrupted."""
    folder = Path(spec.folder)
    folder.mkdir(parents=True, mode=0o700)
    _forget_old(folder.parent)
    path = folder / "spec.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(spec), file)
    with open(folder / "runner.log", "wb") as log:
        process = own_process.start("spectui.checks._measure", path, log)
    rows: list[Row] = []
    end = time.monotonic() + limit_s

    def alive() -> bool:
        if time.monotonic() > end and process.poll() is None:
            process.send_signal(signal.SIGTERM)
        return process.poll() is None

    try:
        for row in journal.tail(folder / "journal.jsonl", alive=alive, poll_s=0.05):
            rows.append(row)
            on_row(row)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGTERM)
        try:
            process.wait(10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    return fold(rows)


def _forget_old(folder: Path) -> None:
    old = sorted(path for path in folder.glob("*-check-*") if path.is_dir())
    for path in old[:-KEPT]:
        shutil.rmtree(path, ignore_errors=True)
