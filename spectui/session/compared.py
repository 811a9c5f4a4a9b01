"""What a comparison said, as a value and as the keys of the command line."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectui.core.compare import Comparison, compare_json
from spectui.core.curves import curve_json
from spectui.core.passes import PassResult
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.core.spec import RunSpec
from spectui.session.noise import Floor
from spectui.session.until_sure import Looked
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
    floors: Mapping[int, Floor] = field(default_factory=dict)
    """Concurrency -> the noise floor that its interval holds; none where it was never measured."""
    looks: Mapping[int, Looked] = field(default_factory=dict)
    """Concurrency -> how it ended, where blocks were measured until sure."""
    notes: tuple[str, ...] = ()
    """What a reader must know beside the verdict, a sentence each."""

    def as_json(self) -> dict[str, Any]:
        said = compare_json(self.rows, [_arm_json(self.a, "A"), _arm_json(self.b, "B")])
        for row, one in zip(said["by_concurrency"], self.rows, strict=True):
            floor, looked = self.floors.get(one.concurrency), self.looks.get(one.concurrency)
            row["noise_floor"] = floor.as_json() if floor else None
            row["until_sure"] = looked.as_json() if looked else None
            row["arms"] = {name: _figures(self._pass(side, one.concurrency)) for name, side in self._sides()}
        said["pass"] = self.pass_name
        said["answers"] = self.answers
        said["notes"] = list(self.notes)
        said["passes"] = {name: self._passes_json(side) for name, side in self._sides()}
        return said

    def _sides(self) -> tuple[tuple[str, ArmSource], ...]:
        return ("A", self.a), ("B", self.b)

    def _pass(self, side: ArmSource, concurrency: int) -> PassResult | None:
        return side.result.passes.get((side.arm, concurrency, self.pass_name))

    def _passes_json(self, side: ArmSource) -> dict[str, Any]:
        turns = turns_of(side.folder)
        return {
            p.pass_name: {**p.as_json(), "curve": curve_json(p, turns)}
            for key, p in side.result.passes.items()
            if key[0] == side.arm
        }


def _figures(one: PassResult | None) -> dict[str, Any] | None:
    """Of one arm at one concurrency, for the row that compares them."""
    if one is None:
        return None
    return {
        "requests": one.requests,
        "failed": one.failed,
        "in_flight": one.in_flight,
        "most_in_flight": one.most_in_flight,
        "output_tokens_per_s": one.output_tokens_per_s,
        "accept_length": one.accept_length,
        "step_time_ms": one.step_time_ms,
        "tpot_ms": one.tpot_ms,
        "ttft_ms": one.ttft_ms,
        "proposer_state": one.proposer_state.name,
        "identities": [i.as_json() for i in one.identities],
        "notices": list(one.notices),
    }


def _arm_json(source: ArmSource, name: str) -> dict[str, Any]:
    head = dict(source.head())
    return {**head, "name": name, "run": source.folder.name}


def turns_of(folder: Path) -> dict[str, int]:
    """Prompt id -> number of the user's turn that it ends with; empty where the spec cannot be read."""
    spec = stored_spec(folder)
    prompts = () if spec is None else (*spec.feeding, *spec.measuring)
    return {p.id: sum(m["role"] == "user" for m in p.messages) for p in prompts if p.messages}


def stored_spec(folder: Path) -> RunSpec | None:
    import msgspec

    try:
        return msgspec.json.decode((folder / "spec.json").read_bytes(), type=RunSpec)
    except (OSError, msgspec.MsgspecError):
        return None
