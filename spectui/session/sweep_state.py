"""A sweep's journal folded into what the screen and the command line show of it. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from spectui.core.rows import Row

OPEN = ("open", "starting", "running")
STATES = (*OPEN, "measured", "stopped early", "failed", "dropped", "refused", "merged")


@dataclass
class SweepState:
    """Read from rows in order; what is unknown is skipped."""

    head: Row = field(default_factory=dict)
    plan: Row = field(default_factory=dict)
    """The newest one."""
    settings: dict[str, dict[str, Any]] = field(default_factory=dict)
    """Name -> what is known of it, in the order of the grid."""
    cells: dict[tuple[str, int], Row] = field(default_factory=dict)
    """The end of each cell that was run."""
    failed: dict[str, str] = field(default_factory=dict)
    skipped: dict[tuple[str, int], str] = field(default_factory=dict)
    predicted: dict[tuple[str, int], dict[str, Any]] = field(default_factory=dict)
    """As the newest plan has it; of cells that were run, as it was before."""
    missing: dict[tuple[str, int], str] = field(default_factory=dict)
    best: list[dict[str, Any]] = field(default_factory=list)
    servers: dict[str, Row] = field(default_factory=dict)
    """Record id -> the newest row of each server that the sweep started."""
    fed_run: str | None = None
    current: Row = field(default_factory=dict)
    """What it is doing: kind server or cell, with the setting."""
    status: str = "running"
    reason: str = ""
    saved: list[str] = field(default_factory=list)
    started: float | None = None
    ended: float | None = None
    spent_s: float = 0.0
    """Over all its processes, breaks left out."""
    _begun: float | None = None
    _last: float | None = None

    def add(self, row: Row) -> None:
        reader = getattr(self, f"_on_{row.get('kind')}", None)
        t = row.get("t")
        if isinstance(t, (int, float)):
            self._last = float(t)
        if reader is not None:
            reader(row)

    def _on_head(self, row: Row) -> None:
        if not self.head:
            self.head, self.started, self._begun = row, row.get("t"), row.get("t")
            self.settings = {s["name"]: dict(s) for s in row.get("settings") or ()}

    def _on_resumed(self, row: Row) -> None:
        if self._begun is not None and row.get("before") is not None:
            self.spent_s += max(0.0, float(row["before"]) - self._begun)
        self._begun, self.status, self.reason, self.ended = row.get("t"), "running", "", None

    def _on_plan(self, row: Row) -> None:
        self.plan = row
        self.skipped = {(str(n), int(c)): str(why) for n, c, why in row.get("skipped") or ()}
        for entry in row.get("predicted") or ():
            cell = (entry["setting"], entry["concurrency"])
            if cell not in self.cells:
                self.predicted[cell] = entry
        self.missing = {(str(n), int(c)): str(why) for n, c, why in row.get("missing") or ()}

    def _on_server(self, row: Row) -> None:
        self.servers[str(row.get("id"))] = row
        self.current = row if row.get("state") in ("starting", "ready") else {}

    def _on_recording(self, row: Row) -> None:
        self.fed_run = row.get("run")

    def _on_cell(self, row: Row) -> None:
        if row.get("state") == "end":
            cell = (row["setting"], row["concurrency"])
            self.cells[cell] = row
            if row.get("predicted"):
                self.predicted[cell] = row["predicted"]
            else:
                self.predicted.pop(cell, None)
            self.current = {}
        else:
            self.current = row

    def _on_intervals(self, row: Row) -> None:
        """All runs being done, the node's noise is better known than at the end of each."""
        for name, level, low, high in row.get("cells") or ():
            found = self.cells.get((name, level), {}).get("measured")
            if found:
                self.cells[name, level] = {**self.cells[name, level], "measured": {**found, "interval": [low, high]}}

    def _on_failed(self, row: Row) -> None:
        self.failed[row["setting"]] = str(row.get("cause") or "")
        self.current = {}

    def _on_best(self, row: Row) -> None:
        self.best = row.get("best") or []

    def _on_saved(self, row: Row) -> None:
        self.saved = list(row.get("profiles") or ())

    def _on_end(self, row: Row) -> None:
        self.status, self.reason, self.ended = str(row.get("status")), str(row.get("reason") or ""), row.get("t")
        if self._begun is not None and self.ended is not None:
            self.spent_s += self.ended - self._begun
            self._begun = None
        self.current = {}

    # -- what is shown

    @property
    def concurrency(self) -> list[int]:
        return list(self.head.get("concurrency") or ())

    def state_of(self, name: str) -> tuple[str, str]:
        """(one of STATES, the reason where there is one)."""
        setting = self.settings[name]
        if setting.get("same_as"):
            return "merged", f"the same as {setting['same_as']} once the server has applied its rules"
        if setting.get("refused"):
            return "refused", str(setting["refused"])
        if name in self.failed:
            return "failed", self.failed[name]
        ends = [self.cells[name, c] for c in self.concurrency if (name, c) in self.cells]
        skips = [self.skipped[name, c] for c in self.concurrency if (name, c) in self.skipped]
        if len(ends) + len(skips) == len(self.concurrency) and self.concurrency:
            if not ends:
                return "dropped", skips[0]
            for status in ("measured", "stopped early", "failed"):
                good = [e for e in ends if e.get("status") == status]
                if good:
                    return status, "; ".join([str(e["reason"]) for e in ends if e.get("reason")] + skips)
        if self.current.get("setting") == name:
            return ("starting" if self.current.get("kind") == "server" else "running"), ""
        return "open", ""

    def as_json(self) -> dict[str, Any]:
        """What ``spectui sweep --json`` prints."""
        return {
            "sweep": self.head.get("sweep_id"),
            "folder": self.head.get("folder"),
            "profile": self.head.get("profile"),
            "workload": self.head.get("workload"),
            "status": self.status,
            "reason": self.reason,
            "plan": self._plan_json(),
            "settings": [self._setting_json(name) for name in self.settings],
            "best": self.best,
            "map": self.map(),
            "saved": self.saved,
            "time": {"started": self.started, "ended": self.ended, "seconds": round(self.spent_s, 3)},
        }

    def _plan_json(self) -> dict[str, Any]:
        return {
            "text": (self.plan.get("clock") or {}).get("text"),
            "clock": self.plan.get("clock"),
            "order": [cell for launch in self.plan.get("launches") or () for cell in launch.get("cells") or ()],
            "launches": self.plan.get("launches") or [],
            "texts": list(self.head.get("texts") or ()),
        }

    def _setting_json(self, name: str) -> dict[str, Any]:
        status, reason = self.state_of(name)
        levels: list[dict[str, Any]] = []
        for level in self.concurrency:
            cell = (name, level)
            end: Mapping[str, Any] = self.cells.get(cell, {})
            levels.append(
                {
                    "concurrency": level,
                    "status": end.get("status") or ("dropped" if cell in self.skipped else status),
                    "reason": end.get("reason") or self.skipped.get(cell, ""),
                    "predicted": self.predicted.get(cell),
                    "not_predicted": None if cell in self.predicted else self.missing.get(cell),
                    "measured": end.get("measured"),
                }
            )
        return {
            **self.settings[name],
            "status": status,
            "reason": reason,
            "predicted": [row["predicted"] for row in levels if row["predicted"]],
            "measured": [{"concurrency": row["concurrency"], **row["measured"]} for row in levels if row["measured"]],
            "by_concurrency": levels,
        }

    def map(self) -> list[dict[str, Any]]:
        """Accept length and tokens a second over draft tokens: one row a setting and concurrency, predicted and
        measured apart, each with its source."""
        rows = []
        for name, setting in self.settings.items():
            for level in self.concurrency:
                cell = (name, level)
                guess, end = self.predicted.get(cell), self.cells.get(cell, {})
                found = end.get("measured")
                if not guess and not found:
                    continue
                rows.append(
                    {
                        "algorithm": setting["algorithm"],
                        "setting": name,
                        "draft_tokens": setting.get("width"),
                        "concurrency": level,
                        "predicted": guess
                        and {k: guess[k] for k in ("accept_length", "tokens_per_s", "interval", "kind")},
                        "measured": found and {k: found[k] for k in ("accept_length", "tokens_per_s", "interval")},
                    }
                )
        return sorted(rows, key=lambda r: (r["algorithm"], r["concurrency"], r["draft_tokens"] or 0))


def fold(rows: Iterable[Row]) -> SweepState:
    state = SweepState()
    for row in rows:
        state.add(row)
    return state
