"""What the screen shows, as plain values. The session makes them, the ui only draws them."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

from spectui.core.gpu import GpuReading


@dataclass(frozen=True, slots=True)
class Staged:
    """A change that waits for the operator's key: what it would do, before it costs anything."""

    algorithm: str
    settings: dict[str, Any]
    """Neutral knobs asked for."""
    changes: tuple[str, ...]
    """``draft tokens 8 → 12`` for each knob that would change."""
    hot: bool
    """True when no relaunch is needed."""
    refusals: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    relaunch_s: float | None = None
    """What the last start of this profile took on this node."""
    predicted_accept_length: float | None = None
    predicted_tokens_per_s: float | None = None
    prediction_note: str = ""


@dataclass(frozen=True, slots=True)
class ArmView:
    name: str
    state: str
    """empty, connecting, starting, ready, suspect, failed, lost, stored (a run from history)."""
    trouble: str = ""
    """In words, with what to do next; empty when all is well. Takes the place of the settings line."""
    url: str = ""
    label: str = ""
    version: str = ""
    simulated: bool = False
    managed: bool = False
    algorithm: str = ""
    settings: dict[str, Any] = field(default_factory=dict)
    """Neutral knobs in force."""
    setting_words: tuple[str, ...] = ()
    """``draft tokens 8``, ``trie depth 18`` … in the algorithm's own order."""
    model: str = ""
    draft_model: str = ""
    server: dict[str, Any] = field(default_factory=dict)
    server_words: tuple[str, ...] = ()
    """``tp 4``, ``48 running at most (set by the server)`` …"""
    proposer_state: str = ""
    proposer_detail: str = ""
    staged: Staged | None = None
    gpus: tuple[str, ...] = ()
    """UUIDs its processes hold."""
    running: int | None = None
    queued: int | None = None
    idle_accept_length: str = ""
    """Text for an idle server: ``last 2.87``, ``off``, ``n/a (fewer than 40 decode steps)``."""
    can_go_back: bool = False


@dataclass(frozen=True, slots=True)
class RunView:
    """The run that is going on, or the last one that ended."""

    run_id: str
    workload: str
    arms: tuple[str, ...]
    active: bool
    pass_name: str = ""
    phase: str = ""
    arm: str = ""
    concurrency: int = 1
    done: int = 0
    total: int = 0
    fraction: float | None = None
    left_s: float | None = None
    status: str = ""
    reason: str = ""
    folder: str = ""


@dataclass(frozen=True, slots=True)
class TableRow:
    """One metric × (A, B, difference), already in words."""

    label: str
    a: str
    b: str
    difference: str


@dataclass(frozen=True, slots=True)
class Piece:
    """Tokens of an answer that arrived in one event: one verify step's accepted run."""

    tokens: int
    text: str


@dataclass(frozen=True, slots=True)
class Snapshot:
    """Everything the home screen draws, at one moment."""

    now: float
    node: str
    arms: tuple[ArmView, ...]
    run: RunView | None
    tokens_per_s: dict[str, tuple[float | None, ...]]
    """Arm -> one value a bucket, oldest first; None is a gap."""
    accept_length: dict[str, tuple[float | None, ...]]
    bucket_s: float
    series_end: float
    """Epoch seconds at the end of the last bucket."""
    marks: tuple[tuple[float, str, str], ...]
    """(epoch seconds, arm, word) for the charts."""
    break_even: dict[str, float]
    gpus: tuple[GpuReading, ...]
    gpu_note: str
    gpu_history: dict[str, tuple[float | None, ...]]
    gpu_owner: dict[str, str]
    """UUID -> arm."""
    table: tuple[TableRow, ...]
    answer: tuple[Piece, ...]
    answer_of: str
    logs: dict[str, tuple[str, ...]]
    verdict: str
    """The sentence of the verdict or why it is withheld; empty before there is one."""
    verdict_word: str
    status: str
    """What is happening and which key comes next."""
