"""What the screen shows, as plain values. The session makes them, the ui only draws them."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from spectui.core.gpu import GpuReading

Point = tuple[float, float | None]
"""(epoch seconds, value); None is a gap."""

NOTHING: Mapping[str, Any] = MappingProxyType({})


class SettingView(NamedTuple):
    key: str
    label: str
    value: str
    staged: str | None = None


class Prediction(NamedTuple):
    """What a staged change would accept, known without a restart."""

    accept_length: float | None = None
    tokens_per_s: float | None = None
    """At the step time that was measured before the change, or at ``step_time_of``."""
    exact: bool = False
    note: str = ""
    """Why it is an estimate, or why there is none."""
    pending: bool = False
    error: float | None = None
    """What predictions of this kind were off by on this node, as a share; None where it is exact or not known."""
    step_time_of: str = "today's step time"
    given: str = ""
    """What it holds for, where that is not plain."""
    kind: str = ""
    """Of :data:`spectui.predict.tracking.KINDS`: among which its miss counts; empty where none can be told."""
    of: str = ""
    """Workload, pass and concurrency of the run that it was made from: only of these can it miss."""

    @property
    def text(self) -> str:
        if self.pending:
            return "predicting …"
        if self.accept_length is None:
            return self.note
        speed = f", about {self.tokens_per_s:.0f} tok/s at {self.step_time_of}" if self.tokens_per_s else ""
        off = f", ±{100 * self.error:.0f} %" if self.error else ""
        given = f" {self.given}" if self.given else ""
        sure = "" if self.exact else f" (estimate{off})"
        return f"predicted accept length {self.accept_length:.2f}{given}{sure}{speed}"


class StoreView(NamedTuple):
    """What a stateful proposer knows."""

    state: str
    """cold, warming, fed, saturated or unknown."""
    level: float | None
    detail: str


class StartView(NamedTuple):
    """A start that is being waited for."""

    share: float | None = None
    """0 to 1, by what it took last time on this node; None where no start of it was timed yet."""
    left_s: float | None = None
    phases: tuple[tuple[str, float | None, float | None], ...] = ()
    """(name, seconds or None while it lasts or is still to come, seconds of last time or None), in order."""
    now: str = ""
    """The phase that goes on, with how far it is: ``graph capture 14 of 20``."""


class ArmView(NamedTuple):
    """One arm, as its card shows it."""

    name: str
    state: str = "none"
    """none, connecting, starting, stopping, ready, suspect, failed, gone, stored."""
    trouble: str = ""
    """In words, with what to do next; empty when all is well. Takes the place of the settings."""
    address: str = ""
    version: str = ""
    simulated: bool = False
    managed: bool = False
    algorithm: str = ""
    staged_algorithm: str | None = None
    settings: tuple[SettingView, ...] = ()
    model: tuple[str, ...] = ()
    """``Llama-3.3-70B``, ``tp 4``, ``48 running at most (set by the server)`` …"""
    store: StoreView | None = None
    stateless: str = ""
    """Said where there is no store."""
    idle: str = ""
    """Of an idle server: ``last 2.87``, ``off``, ``n/a (fewer than 40 decode steps)``."""
    staged: bool = False
    can_go_back: bool = False
    start: StartView | None = None
    """While it is being started."""


class RunView(NamedTuple):
    """The run that is going on, or the last one that ended."""

    run_id: str
    workload: str
    arms: tuple[str, ...]
    active: bool
    task: str = ""
    """``json ▸ warm pass ▸ 4 at a time``"""
    phase: str = ""
    share: float | None = None
    left_s: float | None = None
    status: str = ""
    reason: str = ""


class TableRow(NamedTuple):
    """One metric × (A, B, A against B), already in words."""

    name: str
    a: str = ""
    b: str = ""
    against: str = ""
    tone: str = ""
    note: str = ""


class Answer(NamedTuple):
    arm: str
    rid: str
    pieces: tuple[tuple[int, str], ...] = ()
    """(tokens, text) as they came, an event each."""
    done: bool = False


class Status(NamedTuple):
    """What happens, and which keys are the next ones (ids of commands, the most useful first)."""

    text: str
    tone: str = ""
    keys: tuple[str, ...] = ()


class Snapshot(NamedTuple):
    """Everything the home screen draws, at one moment."""

    now: float
    node: str
    arms: tuple[ArmView, ...]
    focus: str
    run: RunView | None
    tok_s: Mapping[str, tuple[Point, ...]] = NOTHING
    accept: Mapping[str, tuple[Point, ...]] = NOTHING
    tok_s_now: Mapping[str, str] = NOTHING
    accept_now: Mapping[str, str] = NOTHING
    marks: tuple[tuple[float, str], ...] = ()
    break_even: Mapping[str, float] = NOTHING
    gpus: tuple[GpuReading, ...] = ()
    gpu_note: str = ""
    gpu_history: Mapping[str, tuple[float | None, ...]] = NOTHING
    gpu_owner: Mapping[str, str] = NOTHING
    """UUID -> arm."""
    gpu_mean: str = ""
    """Mean utilization over those that report it; empty without any."""
    gpu_holders: Mapping[str, str] = NOTHING
    """UUID -> who else holds it, in words: foreign processes, or ones that cannot be seen."""
    wait: RunView | None = None
    """What is waited for where it is no run: a start, with its share and the time left."""
    chart_now: float | None = None
    """Right edge of the charts where it stands still: the end of the last run. None: they move on with ``now``."""
    table: tuple[TableRow, ...] = ()
    answer: Answer | None = None
    logs: Mapping[str, tuple[str, ...]] = NOTHING
    log_titles: Mapping[str, str] = NOTHING
    verdict: str = ""
    status: Status = Status("")
    summary: str = ""
    """One line for screens that have no room."""
