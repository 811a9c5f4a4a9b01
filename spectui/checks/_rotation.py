"""Which prompts a check sends: never those that an earlier check of the same server sent, as long as there are others.

An n-gram store learns the answers that it gives. A check that asked the same again would find acceptance rising by
its own doing. What was sent is kept by server and profile; a restart of the server empties its store, and the list.
"""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from spectui.core.spec import Prompt
from spectui.store import locations

HISTORY = 400
"""Earlier results that are kept."""


@dataclass
class Rotation:
    """The state of one server and profile. A file that is torn or not readable counts as none."""

    path: Path
    used: list[str] = field(default_factory=list)
    """Prompt ids, the longest ago first."""
    server: str = ""
    """Which life of the server they were sent to: its start time, where it can be seen."""
    generated: float | None = None
    """Tokens that it had generated after the last check."""
    history: list[dict[str, Any]] = field(default_factory=list)

    @classmethod
    def load(cls, url: str, profile: str | None, folder: Path | None = None) -> Rotation:
        key = hashlib.sha256(f"{url}\0{profile or ''}".encode()).hexdigest()[:16]
        path = (folder or locations.state_dir() / "checks") / f"{key}.json"
        state = cls(path)
        try:
            kept = json.loads(path.read_text("utf-8"))
        except (OSError, ValueError):
            return state
        if not isinstance(kept, dict):
            return state
        if isinstance(kept.get("used"), list):
            state.used = [str(one) for one in kept["used"]]
        if isinstance(kept.get("history"), list):
            state.history = [row for row in kept["history"] if isinstance(row, dict) and _number(row.get("t"))]
        state.server = str(kept.get("server") or "")
        state.generated = float(kept["generated"]) if _number(kept.get("generated")) else None
        return state

    def meet(self, server: str, generated: float | None) -> bool:
        """Told who the server is today; True when it has been restarted since, and the list is empty again."""
        fresh = bool(server and self.server and server != self.server)
        if not server and generated is not None and self.generated is not None and generated < self.generated:
            fresh = True
        if fresh:
            self.used = []
        self.server = server
        return fresh

    def choose(self, prompts: Sequence[Prompt], count: int) -> tuple[tuple[Prompt, ...], int]:
        """The first ``count`` that were not sent yet, then those sent longest ago; and how many of the latter."""
        fresh = [prompt for prompt in prompts if prompt.id not in set(self.used)]
        old = sorted(
            (prompt for prompt in prompts if prompt.id in set(self.used)), key=lambda prompt: self.used.index(prompt.id)
        )
        chosen = (fresh + old)[:count]
        return tuple(chosen), max(0, len(chosen) - len(fresh))

    def sent(self, ids: Sequence[str], generated: float | None, result: dict[str, Any]) -> None:
        """Remembers a check. A disk that cannot be written loses the memory, not the check."""
        self.used = [one for one in self.used if one not in set(ids)] + list(ids)
        self.generated = generated
        self.history = [*self.history, {"t": round(time.time(), 3), **result}][-HISTORY:]
        self._save()

    def _save(self) -> None:
        from spectui.hosts.records import write_whole

        content = {
            "used": self.used,
            "server": self.server,
            "generated": self.generated,
            "history": self.history,
        }
        try:
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            write_whole(self.path, json.dumps(content))
        except OSError:
            return


def _number(value: object) -> bool:
    return isinstance(value, (int, float)) and not isinstance(value, bool)
