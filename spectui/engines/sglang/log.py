"""Following a server's log: how far its start is, what it measures of itself, and why it failed.

Feed text as it comes; the reader keeps half lines, strips colours, and takes tqdm's carriage returns as line ends.
"""

from __future__ import annotations

from collections import deque

from spectui.engines.sglang.batchlines import DecodeLine, PrefillLine, clean, read_batch, read_line
from spectui.engines.sglang.failure import Evidence, Failure, classify
from spectui.engines.sglang.logsigns import DRAFT, FATAL, FRACTION, INTERVAL, MODEL, NOTES, STUCK_HINTS, Note, Stuck
from spectui.engines.sglang.startphases import PHASES, Event, Phase, StartPhases
from spectui.engines.sglang.tracebacks import Tracebacks

SILENCE_LIMIT_S = 300.0
NEVER_ACCEPTED = 1.05
NEVER_ACCEPTED_STEPS = 120
KEPT_DECODE_LINES = 4096
_MAX_LINE = 1 << 20


class LogReader:
    """State of one server as its log tells it. ``decode_log_interval`` where known; else as the log says, else 40."""

    def __init__(self, *, decode_log_interval: int | None = None) -> None:
        self._interval = decode_log_interval
        self._rest = ""
        self._reset()

    def _reset(self) -> None:
        self.state = "loading"
        """loading, http-up, ready, stopping, stopped or failed."""
        self.states: list[str] = ["loading"]
        self._start = StartPhases()
        self.notes: list[Note] = []
        self.decode_lines: deque[DecodeLine] = deque(maxlen=KEPT_DECODE_LINES)
        self.prefill_lines: deque[PrefillLine] = deque(maxlen=KEPT_DECODE_LINES)
        self.windows = 0
        self.windows_without_graph = 0
        self.first_running_without_graph: int | None = None
        self.last_sign_s: float | None = None
        """``at`` of the last text that came."""
        self.ready_s: float | None = None
        self.fraction: float | None = None
        self.exit_code: int | None = None
        self._last_s: float | None = None
        self._prefixed = False
        self._tracebacks = Tracebacks()
        self._fatal: list[str] = []
        self._tail: deque[str] = deque(maxlen=12)
        self._previous = ""
        self._final = False
        self._was_ready = False
        self._low_windows: dict[int, int] = {}
        self._draft_path: str | None = None
        self._model_path: str | None = None
        self._idle = True

    # -- feeding

    def feed(self, text: str, at: float | None = None) -> list[Event]:
        """Take more of the log. ``at``: when it was written (epoch seconds, or any clock when lines have no prefix)."""
        events: list[Event] = []
        if not text:
            return events
        if at is not None:
            self.last_sign_s = at
        lines = (self._rest + text).replace("\r\n", "\n").replace("\r", "\n").split("\n")
        self._rest = lines.pop()[-_MAX_LINE:]
        for line in lines:
            self._line(clean(line[:_MAX_LINE]), at, events)
        return events

    def close(self, at: float | None = None) -> list[Event]:
        """Take what is left of a last line without an end."""
        events: list[Event] = []
        if self._rest:
            rest, self._rest = self._rest, ""
            self._line(clean(rest), at, events)
        return events

    def ended(self, exit_code: int | None, at: float | None = None) -> list[Event]:
        """The process is gone. Before *ready*, or after it without a stop, that is a failure."""
        events = self.close(at)
        self.exit_code = exit_code
        asked = self.state == "stopping" or (self.state == "ready" and exit_code in (0, -15, 143))
        self._final = True
        self._become("stopped" if asked else "failed", at if at is not None else self._last_s, events)
        return events

    # -- answers

    @property
    def phases(self) -> list[Phase]:
        """Stages of the start so far, in order."""
        return self._start.phases

    @property
    def captured_limit(self) -> int | None:
        """Largest batch that a decode or verify graph was captured for."""
        return self._start.captured_limit

    @property
    def phase(self) -> Phase | None:
        return self.phases[-1] if self.phases else None

    @property
    def failure(self) -> Failure | None:
        """Why it failed; None unless the state is *failed*."""
        if self.state != "failed":
            return None
        return classify(
            Evidence(
                self._tracebacks.records,
                tuple(self._fatal[:12]),
                self._start.name,
                self._was_ready or self.windows > 0,
                self.fraction,
                self._draft_path,
                self._model_path,
                self.exit_code,
                tuple(self._tail),
            )
        )

    @property
    def decode_log_interval(self) -> int:
        return self._interval or 40

    @property
    def never_accepted(self) -> str | None:
        """A sentence when the last 120 decode steps, in at least 3 windows, accepted next to nothing; else None."""
        needed = max(3, -(-NEVER_ACCEPTED_STEPS // self.decode_log_interval))
        low = {rank: windows for rank, windows in self._low_windows.items() if windows >= needed}
        if not low:
            return None
        where = f" of rank {min(low)}" if len(self._low_windows) > 1 else ""
        windows = max(low.values())
        return (
            f"drafts are never accepted (accept length at or below {NEVER_ACCEPTED} in {windows} windows{where}): "
            "the algorithm may not be the one the draft was trained for, the draft may belong to another target, "
            "or prompts go without the chat template"
        )

    @property
    def without_graph_share(self) -> float | None:
        """Share of decode windows whose batch ran without a captured graph."""
        return self.windows_without_graph / self.windows if self.windows else None

    @property
    def without_graph(self) -> str | None:
        """A sentence when some windows ran without graphs; else None."""
        if not self.windows_without_graph:
            return None
        share = 100 * self.windows_without_graph / self.windows
        limit = f"; graphs are captured up to {self.captured_limit}" if self.captured_limit else ""
        whole = "without graphs" if self.windows_without_graph == self.windows else "partly without graphs"
        return (
            f"{whole}: {self.windows_without_graph} of {self.windows} windows ({share:.0f} %), "
            f"first at {self.first_running_without_graph} running requests{limit}"
        )

    def stuck(self, now: float, limit_s: float = SILENCE_LIMIT_S) -> Stuck | None:
        """Whether a start gave no sign of life for ``limit_s``; slow but alive is never stuck. Same clock as ``at``."""
        if self.state not in ("loading", "http-up") or self.last_sign_s is None:
            return None
        silent = now - self.last_sign_s
        if silent < limit_s:
            return None
        name = self.phase.name if self.phase else "start"
        return Stuck(name, silent, f"no sign of life for {silent:.0f} s in phase {name}", STUCK_HINTS.get(name, ""))

    # -- one line

    def _line(self, text: str, at: float | None, events: list[Event]) -> None:
        if not text.strip():
            return
        line = read_line(text)
        if line.time_s is not None:
            self._prefixed = True
            self._last_s = line.time_s
        elif not self._prefixed and at is not None:
            self._last_s = at
        now = self._last_s
        message = line.message
        if "mem_fraction_static=" in message and (found := FRACTION.search(message)):
            self.fraction = _float(found[1])
        read = self._tracebacks.read(line, self._previous, self._start.name)
        if read.exception:
            events.append(Event("exception", now, read.exception))
        if read.strong:
            self._become("failed", now, events)
        if read.announces:
            self._fatal_line(message, now, events)
        if read.consumed:
            return
        if not message.startswith("server_args"):
            self._tail.append(text[:400])
        if message.startswith("INFO:") and '" ' in message:  # an access line
            return
        batch = read_batch(line, after_idle=self._idle)
        if batch is not None:
            self._batch(batch, now, events)
            return
        self._settings(message)
        self._fatal_line(message, now, events)
        if line.first_rank:
            self._progress(message, now, events)
            for key, pattern in NOTES:
                if pattern.search(message):
                    note = Note(key, message[:400], now)
                    self.notes.append(note)
                    events.append(Event("note", now, note.text, note))
        self._previous = message

    def _fatal_line(self, message: str, now: float | None, events: list[Event]) -> None:
        if self.state == "stopping":
            return
        if "SIGTERM received" in message:
            self._become("stopping", now, events)
        elif FATAL.search(message):
            if len(self._fatal) < 64:
                self._fatal.append(message[:400])
            self._final = self._final or "sigquit" in message.lower()
            self._become("failed", now, events)

    def _settings(self, message: str) -> None:
        if not message.startswith("server_args=ServerArgs("):
            return
        if self.state in ("ready", "failed", "stopping", "stopped"):
            kept = self.fraction, self.last_sign_s, self._last_s, self._prefixed
            self._reset()  # the same file, a new start
            self.fraction, self.last_sign_s, self._last_s, self._prefixed = kept
        if (interval := INTERVAL.search(message)) and 0 < len(interval[1]) < 7:
            self._interval = int(interval[1]) or None
        if found := MODEL.search(message):
            self._model_path = found[1]
        if found := DRAFT.search(message):
            self._draft_path = found[1]

    def _batch(self, batch: DecodeLine | PrefillLine, now: float | None, events: list[Event]) -> None:
        if isinstance(batch, PrefillLine):
            self._idle = self._idle or batch.running == 0
            self.prefill_lines.append(batch)
            events.append(Event("prefill", now, "", batch))
            return
        self._idle = False
        self.decode_lines.append(batch)
        self.windows += 1
        if not batch.graph:
            self.windows_without_graph += 1
            if self.first_running_without_graph is None:
                self.first_running_without_graph = batch.running
        if batch.accept_length is not None:
            low = self._low_windows.get(batch.dp_rank, 0)
            self._low_windows[batch.dp_rank] = low + 1 if batch.accept_length <= NEVER_ACCEPTED else 0
        self._alive(now, events)
        if not self.phases and self.state == "loading":
            # Picked up in the middle of its life: a decode window is tokens made.
            self._was_ready = True
            self._become("ready", now, events)
        events.append(Event("decode", now, "", batch))

    def _progress(self, message: str, now: float | None, events: list[Event]) -> None:
        if "fired up and ready to roll" in message:
            if self.state != "stopping":
                self._final, self._was_ready, self.ready_s = False, True, now
                self._fatal.clear()
                self._tracebacks.clear()
                events += self._start.ready(now)
                self._become("ready", now, events)
        elif "Uvicorn running on" in message or "Application startup complete" in message:
            if self.state == "loading":
                self._become("http-up", now, events)
                events += self._start.http_up(now)
        elif self.state in ("loading", "http-up", "failed"):
            moved = self._start.read(message, now, loading=self.state != "http-up")
            events += moved
            if any(event.kind == "phase" for event in moved):
                self._alive(now, events)

    def _alive(self, now: float | None, events: list[Event]) -> None:
        """Work goes on after something that looked fatal: it was not."""
        if self.state == "failed" and not self._final and not self._fatal:
            back = "ready" if self._was_ready else "http-up" if "http-up" in self.states else "loading"
            self._tracebacks.clear()
            self._become(back, now, events)

    def _become(self, state: str, now: float | None, events: list[Event]) -> None:
        if state == self.state:
            return
        self.state = state
        self.states.append(state)
        events.append(Event("state", now, state))


def _float(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


__all__ = ["PHASES", "Event", "LogReader", "Note", "Phase", "Stuck", "read_log"]


def read_log(text: str, *, exit_code: int | None = None, ended: bool = False) -> LogReader:
    """A whole log at once; ``ended`` when its process is known to be gone."""
    reader = LogReader()
    reader.feed(text)
    if ended:
        reader.ended(exit_code)
    else:
        reader.close()
    return reader
