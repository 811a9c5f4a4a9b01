"""Long work that outlives the screen it was begun on: what it says, how far it is, and how it ended."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Any

from spectui.ui.screens.sentences import sentence


class Job:
    """One piece of work in a thread of its own. Fields are replaced whole, so that a screen may read at any moment."""

    def __init__(self, kind: str, title: str) -> None:
        self.kind = kind
        self.title = title
        self.began = time.time()
        self.said: tuple[str, ...] = ()
        """What it told, the latest last."""
        self.state: Any = None
        """What the work wants shown: of a start, the server's state."""
        self.result: Any = None
        self.fault = ""
        self.over = False
        self.ended = 0.0
        self.cancelled = threading.Event()

    def say(self, text: str) -> None:
        self.said = (*self.said[-199:], text)

    def tell(self, state: Any) -> None:
        self.state = state

    @property
    def worth_showing(self) -> bool:
        """While it lasts, for half a minute after, and for longer where it failed."""
        return not self.over or time.time() - self.ended < (600 if self.fault else 30)

    @property
    def elapsed_s(self) -> float:
        return (self.ended or time.time()) - self.began


class Jobs:
    """By kind and title: one at a time each."""

    def __init__(self) -> None:
        self._all: dict[tuple[str, str], Job] = {}

    def start(self, kind: str, title: str, work: Callable[[Job], Any]) -> Job:
        """The job that runs already under this name, else a new one. It does not keep the program from ending."""
        known = self._all.get((kind, title))
        if known is not None and not known.over:
            return known
        job = self._all[kind, title] = Job(kind, title)
        threading.Thread(target=_run, args=(job, work), name=f"{kind} {title}", daemon=True).start()
        return job

    def of(self, kind: str) -> tuple[Job, ...]:
        """The newest last."""
        return tuple(sorted((j for j in self._all.values() if j.kind == kind), key=lambda j: j.began))

    def find(self, kind: str, title: str) -> Job | None:
        return self._all.get((kind, title))

    def forget(self, job: Job) -> None:
        self._all.pop((job.kind, job.title), None)


def _run(job: Job, work: Callable[[Job], Any]) -> None:
    try:
        job.result = work(job)
    except Exception as fault:  # whatever it is, it is said where the job is shown
        job.fault = sentence(fault)
    finally:
        job.ended = time.time()
        job.over = True


JOBS = Jobs()
"""Those of this program."""
