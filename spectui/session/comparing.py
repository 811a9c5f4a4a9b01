"""Two arms compared: two servers in turn, a server against a stored run, or two stored runs."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectui.core.answers import compare_all
from spectui.core.compare import Comparison, compare, compare_json
from spectui.core.fairness import Side, evidence_from, side_of
from spectui.core.proposer import proposer_state
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.core.spec import ArmSpec
from spectui.session import SessionError, arms, running
from spectui.session.arms import Target
from spectui.session.running import RunHandle, RunOptions
from spectui.store import journal


@dataclass(frozen=True, slots=True)
class ArmSource:
    """One side: an arm's name inside a run's result, with the folder that holds its answers."""

    result: RunResult
    arm: str
    folder: Path

    def answers(self) -> list[Row]:
        path = self.folder / "answers.jsonl"
        return [row for row in journal.read(path) if row.get("arm") == self.arm] if path.is_file() else []

    def head(self) -> Mapping[str, Any]:
        return self.result.arm(self.arm)


@dataclass(frozen=True, slots=True)
class Compared:
    rows: tuple[Comparison, ...]
    """One a concurrency, of the last pass that both arms have."""
    a: ArmSource
    b: ArmSource
    pass_name: str
    answers: str
    """Whether greedy answers agree, in words; empty where texts were not kept."""

    def as_json(self) -> dict[str, Any]:
        said = compare_json(self.rows, [_arm_json(self.a, "A"), _arm_json(self.b, "B")])
        said["pass"] = self.pass_name
        said["answers"] = self.answers
        said["passes"] = {
            name: {p.pass_name: p.as_json() for key, p in source.result.passes.items() if key[0] == source.arm}
            for name, source in (("A", self.a), ("B", self.b))
        }
        return said


def _arm_json(source: ArmSource, name: str) -> dict[str, Any]:
    head = dict(source.head())
    return {**head, "name": name, "run": source.folder.name}


def compare_sources(a: ArmSource, b: ArmSource, pass_name: str | None = None) -> Compared:
    """Raises :class:`SessionError` where the arms have no pass at the same concurrency in common."""
    keys_a = {(c, p): (n, c, p) for n, c, p in a.result.passes if n == a.arm}
    keys_b = {(c, p): (n, c, p) for n, c, p in b.result.passes if n == b.arm}
    common = [key for key in keys_a if key in keys_b]
    names = list(dict.fromkeys(p for _, p in common))
    if pass_name is not None and pass_name not in names:
        names = []
    if not names:
        raise SessionError(
            "nothing to compare: the arms were not measured in the same pass at the same concurrency "
            f"(A: {_listed(keys_a)}; B: {_listed(keys_b)})"
        )
    chosen = pass_name or names[-1]
    answers_a, answers_b = a.answers(), b.answers()
    rows = []
    for concurrency in dict.fromkeys(c for c, p in common if p == chosen):
        key = (concurrency, chosen)
        rows.append(compare(_side(a, keys_a[key], answers_a, "A"), _side(b, keys_b[key], answers_b, "B")))
    first = rows[0].concurrency
    greedy = compare_all(*(_of(answers, first, chosen) for answers in (answers_b, answers_a)))
    return Compared(tuple(rows), a, b, chosen, greedy.detail if greedy else "")


def _of(answers: list[Row], concurrency: int, pass_name: str) -> list[Row]:
    return [r for r in answers if r.get("concurrency") == concurrency and r.get("pass_name") == pass_name]


def _side(source: ArmSource, key: tuple[str, int, str], answers: list[Row], name: str) -> Side:
    state = proposer_state(evidence_from(source.result, key, answers))
    return side_of(source.result, key, name=name, state=state)


def _listed(keys: Mapping[tuple[int, str], object]) -> str:
    return ", ".join(f"{p} ×{c}" for c, p in keys) or "nothing"


def source_of(folder: Path, arm: str | None = None) -> ArmSource:
    """A stored run as a side: its only arm, or the one named."""
    result = running.result_of(folder)
    names = result.arms
    if not names:
        raise SessionError(f"run {folder.name} measured nothing: {result.reason or 'it has no finished request'}")
    if arm is None and len(names) > 1:
        raise SessionError(f"run {folder.name} has arms {' and '.join(names)}; name one as {folder.name}:{names[0]}", 2)
    if arm is not None and arm not in names:
        raise SessionError(f"run {folder.name} has no arm {arm}; it has {', '.join(names)}", 2)
    return ArmSource(result, arm or names[0], folder)


def compare_live(
    a: ArmSpec, b: ArmSpec, options: RunOptions, on_row: Callable[[Row], None] | None = None
) -> tuple[RunHandle, RunResult]:
    """Measures both servers in one run, in alternating blocks of the same prompts."""
    spec = running.build_spec([replace(a, name="A"), replace(b, name="B")], options)
    handle = running.start(spec)
    return handle, running.wait(handle, on_row)


def rerun_like(folder: Path, arm: ArmSpec, options: RunOptions) -> RunHandle:
    """Starts a run of a live arm on the prompts of a stored one, so that the two can be paired."""
    import msgspec

    from spectui.core.spec import RunSpec

    path = folder / "spec.json"
    try:
        stored = msgspec.convert(msgspec.json.decode(path.read_bytes()), RunSpec)
    except (OSError, msgspec.MsgspecError) as error:
        raise SessionError(f"run {folder.name} cannot be repeated: its spec.json cannot be read ({error})") from error
    fresh = running.build_spec([arm], replace(options, workload="short", file=None, requests=None))
    name = fresh.run_id.replace("-short-", f"-{stored.workload.name}-")
    return running.start(
        replace(
            stored,
            run_id=name,
            folder=str(Path(fresh.folder).with_name(name)),
            arms=(arm,),
            flush=options.flush,
        )
    )


def live_target(target: Target) -> bool:
    return target.url is not None


def split_run(text: str) -> tuple[Target, str | None]:
    """``RUN:B`` names one arm of a run of two; anything else is one name."""
    try:
        return arms.resolve(text), None
    except SessionError:
        name, colon, arm = text.rpartition(":")
        if colon and arm in ("A", "B"):
            return arms.resolve(name), arm
        raise
