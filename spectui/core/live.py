"""A run as it goes: rows in, one by one, and what a screen shows out. Each row costs a few microseconds."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

from spectui.core.rows import Row
from spectui.core.series import Series

GPU_HISTORY = 600
"""Readings kept of each GPU: five minutes at two a second."""


@dataclass
class LiveArm:
    """One arm, now. ``tok_s`` and ``accept`` hold means over their buckets of absolute time."""

    name: str
    head: Row = field(default_factory=dict)
    tok_s: Series = field(default_factory=Series)
    accept: Series = field(default_factory=Series)
    pass_name: str = ""
    phase: str = ""
    concurrency: int = 0
    block: int = 0
    running: int = 0
    done: int = 0
    failed: int = 0
    tokens: int = 0
    """Output tokens since the pass began."""
    steps: int = 0
    step_tokens: int = 0
    measured: int = 0
    """Measured requests of this pass that have ended."""
    flushes: list[float] = field(default_factory=list)
    tokens_since_flush: int = 0
    flushed_at: float | None = None
    last_t: float | None = None
    measuring_since: float | None = None
    """When the measuring of the present pass began, feeding and flushing done."""

    @property
    def accept_length(self) -> float | None:
        """Of the pass so far, over events that are steps."""
        return self.step_tokens / self.steps if self.steps else None


class LiveFold:
    """Takes a journal's rows as they come. Unknown and unreadable rows are passed over."""

    def __init__(self, width_s: float = 1.0, size: int = 600) -> None:
        self.width_s, self.size = width_s, size
        self.head: Row = {}
        self.arms: dict[str, LiveArm] = {}
        self.gpus: dict[str, deque[tuple[float, dict[str, Any]]]] = {}
        self.gpu_row: Row | None = None
        self.marks: list[Row] = []
        self.metrics: dict[str, Row] = {}
        self.client: Row = {}
        self.status = "waiting"
        """waiting, running, complete, interrupted or failed."""
        self.reason = ""
        self.t: float | None = None
        self.started_t: float | None = None
        self.current: str | None = None
        """The arm that was heard of last."""

    def arm(self, name: str) -> LiveArm:
        if name not in self.arms:
            self.arms[name] = LiveArm(
                name, tok_s=Series(self.width_s, self.size), accept=Series(self.width_s, self.size)
            )
        return self.arms[name]

    def add(self, row: Row) -> None:
        kind = row.get("kind")
        reader = getattr(self, f"_on_{kind}", None) if isinstance(kind, str) else None
        if reader is None:
            return
        try:
            t = float(row["t"])
            self.t = t if self.t is None else max(self.t, t)
            reader(row, t)
        except (TypeError, ValueError, KeyError, AttributeError):
            return

    @property
    def progress(self) -> float | None:
        """Share of the measured requests that have ended, over all arms, passes and concurrencies; None unless the
        head tells how many there will be."""
        each = self.head.get("requests") or (self.head.get("workload") or {}).get("measuring")
        if not isinstance(each, int) or not each:
            return None
        arms = max(1, len(self.head.get("arms") or ()))
        rounds = max(1, len(self.head.get("passes") or ())) * max(1, len(self.head.get("concurrency") or ()))
        return min(1.0, self._measured / (each * arms * rounds))

    _measured = 0

    def _on_head(self, row: Row, t: float) -> None:
        self.head, self.status, self.started_t = row, "running", t
        for arm in row.get("arms") or ():
            self.arm(str(arm["name"])).head = arm

    def _on_phase(self, row: Row, t: float) -> None:
        arm = self.arm(str(row["arm"]))
        self.current = arm.name
        new_pass = (row["pass_name"], row.get("concurrency") or arm.concurrency) != (arm.pass_name, arm.concurrency)
        arm.pass_name, arm.concurrency = str(row["pass_name"]), int(row.get("concurrency") or arm.concurrency)
        arm.block = int(row.get("block") or 0)
        if new_pass:
            arm.tokens = arm.steps = arm.step_tokens = arm.measured = arm.done = arm.failed = 0
            arm.measuring_since = None
        if row.get("state") == "begin":
            arm.phase = str(row["phase"])
            arm.last_t = t
            if arm.phase == "measure" and arm.measuring_since is None:
                arm.measuring_since = t
        else:
            if row.get("phase") == "flush" and (row.get("detail") or {}).get("flushed"):
                arm.flushes.append(t)
                arm.flushed_at, arm.tokens_since_flush = t, 0
            arm.phase = "" if arm.phase == row.get("phase") else arm.phase
            arm.running = 0

    def _on_sample(self, row: Row, t: float) -> None:
        arm = self.arm(str(row["arm"]))
        self.current = arm.name
        tokens, steps, step_tokens = int(row["tokens"]), int(row.get("steps") or 0), int(row.get("step_tokens") or 0)
        grown, stepped, carried = tokens - arm.tokens, steps - arm.steps, step_tokens - arm.step_tokens
        if grown < 0 or stepped < 0:
            grown, stepped, carried = tokens, steps, step_tokens  # a new pass counts from 0
        if row.get("phase") == "warmup":
            stepped = 0  # one short answer, of two steps maybe: its accept length would set the scale of the chart
        since = arm.last_t if arm.last_t is not None and arm.last_t < t else None
        if since is not None and t - since <= 4 * max(self.width_s, 1.0):
            arm.tok_s.spread(since, t, grown)
            if stepped > 0:
                arm.accept.spread(since, t, carried, stepped)
        elif stepped > 0:
            arm.accept.add(t, carried, stepped)
        arm.tokens_since_flush += max(0, grown)
        arm.tokens, arm.steps, arm.step_tokens, arm.last_t = tokens, steps, step_tokens, t
        arm.running, arm.done = int(row.get("running") or 0), int(row.get("done") or 0)
        arm.failed = int(row.get("failed") or 0)
        arm.phase = str(row.get("phase") or arm.phase)

    def _on_request(self, row: Row, t: float) -> None:
        arm = self.arm(str(row["arm"]))
        if row.get("phase") == "measure":
            arm.measured += 1
            self._measured += 1

    def _on_gpu(self, row: Row, t: float) -> None:
        for gpu in row["gpus"]:
            history = self.gpus.setdefault(str(gpu["uuid"]), deque(maxlen=GPU_HISTORY))
            history.append((t, gpu))
        self.gpu_row = row

    def _on_metrics(self, row: Row, t: float) -> None:
        self.metrics[str(row["arm"])] = row

    def _on_mark(self, row: Row, t: float) -> None:
        self.marks.append(row)

    def _on_client(self, row: Row, t: float) -> None:
        self.client = row

    def _on_end(self, row: Row, t: float) -> None:
        self.status, self.reason = str(row.get("status") or "complete"), str(row.get("reason") or "")
        for arm in self.arms.values():
            arm.running, arm.phase = 0, ""
