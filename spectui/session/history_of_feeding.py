"""After how many generated tokens acceptance was ever steady: what stored runs on this node tell of a store's appetite.

Kept in ``known/steady.jsonl``, a line a run, so that a journal is read once. A run counts as of the same kind where it
measured (mostly) the same prompts, or groups of the same names; "file" is the name of every file's prompts, so there
only the prompts themselves count.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from spectui.core.evidence import is_stateful
from spectui.core.fairness import evidence_from
from spectui.core.proposer import proposer_state
from spectui.core.result import Key, RunResult, fold
from spectui.core.rows import Row
from spectui.store import journal, locations

SHARED = 0.5
"""Share of the prompts that must be the same for two runs to be of the same text."""
UNNAMED = "file"


@dataclass(frozen=True, slots=True)
class Kind:
    """What the appetite of a store depends on."""

    host: str
    model: str
    settings: str
    groups: tuple[str, ...]
    prompts: frozenset[str]

    def like(self, row: Mapping[str, Any]) -> bool:
        """Whether a remembered run was of the same model, settings and kind of text."""
        if any(row.get(name) != getattr(self, name) for name in ("host", "model", "settings")):
            return False
        theirs = {str(p) for p in row.get("prompts") or ()}
        if theirs and len(theirs & self.prompts) >= SHARED * min(len(theirs), len(self.prompts)):
            return True
        groups = tuple(row.get("groups") or ())
        return UNNAMED not in groups and groups == self.groups


def kind_of(result: RunResult, key: Key) -> Kind:
    one, arm = result.passes[key], result.arm(key[0])
    settings = arm.get("settings_in_force") or {}
    told = ", ".join(f"{k}={v}" for k, v in sorted(settings.items()) if v is not None)
    node = result.head.get("node") or {}
    return Kind(
        str(node.get("host") or ""),
        str(arm.get("model") or ""),
        f"{one.algorithm}: {told}",
        tuple(sorted({r.group for r in one.records})),
        frozenset(r.prompt_id for r in one.records),
    )


def enriched(result: RunResult, folder: Path) -> RunResult:
    """The same run with what its answers and this node's history tell of the drafters' memory."""
    if not any(is_stateful(p.algorithm) is not False for p in result.passes.values()):
        return result
    path = folder / "answers.jsonl"
    answers: list[Row] = list(journal.read(path)) if path.is_file() else []
    known = recall(except_run=folder.name)
    passes = {}
    for key, one in result.passes.items():
        if is_stateful(one.algorithm) is False:
            passes[key] = one
            continue
        evidence = evidence_from(result, key, answers, steady_tokens=steady_tokens(kind_of(result, key), known))
        if evidence.fed_steady and evidence.steady_tokens and evidence.tokens_before:
            # Its own feeding became steady too: nobody has to wait for what an earlier run needed.
            evidence = replace(evidence, steady_tokens=min(evidence.steady_tokens, evidence.tokens_before))
        passes[key] = replace(one, evidence=evidence)
    return replace(result, passes=passes)


def steady_tokens(kind: Kind, known: Iterable[Mapping[str, Any]]) -> int | None:
    """Fewest tokens that steady acceptance was ever reached with on such text; None: never seen."""
    found = [int(row["tokens"]) for row in known if row.get("tokens") and kind.like(row)]
    return min(found, default=None)


def recall(*, except_run: str = "") -> list[Row]:
    """What is remembered; runs that were not looked at yet are read once. Never raises for an unreadable run."""
    rows = _remembered()
    seen = {str(row.get("run")) for row in rows}
    root = locations.runs_dir()
    fresh: list[Row] = []
    for path in sorted(root.glob("*/journal.jsonl")) if root.is_dir() else []:
        if path.parent.name not in seen and path.parent.name != except_run:
            fresh += _read(path)
    if fresh:
        _write(fresh)
    return [row for row in [*rows, *fresh] if row.get("run") != except_run]


def _read(path: Path) -> list[Row]:
    name = path.parent.name
    try:
        with open(path, "rb") as file:
            head = file.readline(1 << 20)
        if b'"NGRAM"' not in head:
            return [{"run": name}] if b'"head"' in head else []
        result = fold(journal.read(path))
    except OSError:
        return []
    return [] if result.status == "running" else of_run(result, name)


def of_run(result: RunResult, name: str) -> list[Row]:
    """Lines of one run: each warm pass whose store was fed by its evidence: steady while measured, on new text."""
    rows: list[Row] = []
    for key, one in result.passes.items():
        steady = key[2] == "warm" and proposer_state(one.evidence).name == "fed"
        if steady and not one.evidence.foreign:
            kind = kind_of(result, key)
            rows.append(
                {
                    "run": name,
                    "host": kind.host,
                    "model": kind.model,
                    "settings": kind.settings,
                    "groups": list(kind.groups),
                    "prompts": sorted(kind.prompts)[:64],
                    "tokens": one.evidence.tokens_before,
                }
            )
    return rows or [{"run": name}]


def _remembered() -> list[Row]:
    path = locations.known_dir() / "steady.jsonl"
    try:
        return list(journal.read(path))
    except OSError:
        return []


def _write(rows: Iterable[Row]) -> None:
    try:
        with journal.Writer(locations.known_dir() / "steady.jsonl") as writer:
            for row in rows:
                writer.write(row)
    except OSError:
        return  # a full disk costs the memory, not the result
