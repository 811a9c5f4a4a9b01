"""Following a server's log: how far its start is, what it measures of itself, and why it failed.

Feed text as it comes; the reader keeps half lines, strips colours, and takes tqdm's carriage returns as line ends.
"""

from __future__ import annotations

import re
from collections import deque
from dataclasses import dataclass, replace

from spectui.engines.sglang.batchlines import DecodeLine, Line, PrefillLine, clean, read_batch, read_line
from spectui.engines.sglang.failure import Evidence, ExceptionRecord, Failure, classify

SILENCE_LIMIT_S = 300.0
NEVER_ACCEPTED = 1.05
NEVER_ACCEPTED_STEPS = 120
KEPT_DECODE_LINES = 4096
_MAX_LINE = 1 << 20

PHASES = (
    "start",
    "distributed set-up",
    "weights",
    "draft weights",
    "memory pool",
    "compile",
    "graph capture",
    "draft graph capture",
    "warm-up",
    "ready",
)


@dataclass(frozen=True, slots=True)
class Phase:
    """One stage of a start. Times are those of the log's prefix (epoch seconds), else of ``feed``'s ``at``."""

    name: str
    begin_s: float | None
    end_s: float | None = None
    progress: tuple[int, int] | None = None
    """(i, n) of shards, kernels or batch sizes."""
    detail: str = ""

    @property
    def seconds(self) -> float | None:
        if self.begin_s is None or self.end_s is None:
            return None
        return max(self.end_s - self.begin_s, 0.0)


@dataclass(frozen=True, slots=True)
class Note:
    """A line that changes what a setting means."""

    key: str
    text: str
    time_s: float | None


@dataclass(frozen=True, slots=True)
class Event:
    kind: str
    """state, phase, progress, decode, prefill, note or exception."""
    time_s: float | None
    text: str
    value: object = None
    """The Phase, DecodeLine, PrefillLine, Note … that it is about."""


@dataclass(frozen=True, slots=True)
class Stuck:
    phase: str
    silent_s: float
    text: str
    hint: str


_NOTES: tuple[tuple[str, re.Pattern[str]], ...] = (
    ("max_running_requests_reset", re.compile(r"Max running requests is reset to \d+")),
    ("draft_tokens_adjusted", re.compile(r"speculative_num_draft_tokens is adjusted to")),
    ("draft_tokens_default", re.compile(r"speculative_num_draft_tokens is set to \d+ by default")),
    ("adaptive_disabled", re.compile(r"speculative_adaptive disabled:")),
    ("adaptive_steps", re.compile(r"Adaptive spec params updated: steps \d+ -> \d+")),
    ("corpus_loaded", re.compile(r"Loaded external ngram corpus")),
    ("overlap_disabled", re.compile(r"Overlap scheduler is disabled")),
    ("mixed_chunk_disabled", re.compile(r"mixed chunked prefill (?:is|are) disabled")),
    ("cache_flushed", re.compile(r"Cache flushed successfully")),
    ("simulated_acceptance", re.compile(r"SIMULATE_ACC_LEN")),
)
_CAPTURE = re.compile(
    r"Capture (?:(?P<name>.{1,60}?) )?(?:cuda |cpu |npu |musa |xpu |hip )?graph (?P<edge>begin|end)\b", re.IGNORECASE
)
_SIZES = re.compile(r"\bbs=\[([\d, ]{1,4000})\]")
_BAR = re.compile(r"(\d+)/(\d+) \[")
_COMPILING = re.compile(r"\bcompil(?:e|es|ing|ation)\b|\bautotun\w+|DeepGEMM|\bJIT\b|\bninja\b|\bnvcc\b", re.IGNORECASE)
_OF = re.compile(r"\b(\d+) ?/ ?(\d+)\b")
_EXCEPTION = re.compile(r"^(?:[A-Za-z_]\w*\.)*(?=[A-Za-z_])\w*(?:Error|Exception|Interrupt|Exit|Failure)\b(?::.*)?$")
_IN_TRACE = re.compile(r"^(?:[A-Za-z_]\w*\.)*[A-Za-z_]\w*(?::.*)?$")
_CHAIN = ("During handling of the above", "The above exception was")
_STRONG = re.compile(
    r"^(?:\w+: +)?(?:.{0,60}Not enough memory\. Please|.{0,80}graph failed:|(?:\w+\.)*OutOfMemoryError"
    r"|.{0,60}CUDA out of memory)"
)
_FATAL = re.compile(
    r"Received sigquit from a child process|SIGQUIT received|Initialization failed\. warmup error|hit an exception"
    r"|died during initialization|Subprocess \S+ \(pid=\d+\) crashed|error while attempting to bind"
    r"|: error: (?:argument |unrecognized arguments|the following arguments|ambiguous option)"
)
_FRACTION = re.compile(r"mem_fraction_static=([\d.]+)")
_INTERVAL = re.compile(r"\bdecode_log_interval=(\d+)")
_MODEL = re.compile(r"[(, ]model_path='([^']{1,1000})'")
_DRAFT = re.compile(r"speculative_draft_model_path='([^']{1,1000})'")
_STUCK_HINTS = {
    "distributed set-up": "Ranks wait for each other: check the network interface (NCCL_SOCKET_IFNAME, "
    "GLOO_SOCKET_IFNAME) and the links between GPUs",
    "weights": "Reading weights: is the disk or network file system slow or hanging?",
    "draft weights": "Reading the draft's weights: is the disk or network file system slow or hanging?",
    "compile": "Compilers may be silent for minutes: look for nvcc or ninja at work",
    "warm-up": "The first generation does not come back: see the scheduler's lines",
}


class _Trace:
    """A traceback being read."""

    def __init__(self, origin: str, phase: str) -> None:
        self.origin = origin
        self.phase = phase
        self.exception = ""
        self.frames: list[str] = []
        self.tail: list[str] = []

    def record(self) -> ExceptionRecord | None:
        if not self.exception:
            return None
        last = [frame for frame in self.frames if frame.lstrip().startswith("File ")][-1:]
        context = (*last, self.exception, *self.tail[:8])
        return ExceptionRecord(self.origin, self.exception, context, "\n".join(self.frames[-200:]), self.phase)


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
        self.phases: list[Phase] = []
        self.notes: list[Note] = []
        self.decode_lines: deque[DecodeLine] = deque(maxlen=KEPT_DECODE_LINES)
        self.prefill_lines: deque[PrefillLine] = deque(maxlen=KEPT_DECODE_LINES)
        self.windows = 0
        self.windows_without_graph = 0
        self.first_running_without_graph: int | None = None
        self.captured_limit: int | None = None
        """Largest batch that a decode or verify graph was captured for."""
        self.last_sign_s: float | None = None
        """``at`` of the last text that came."""
        self.ready_s: float | None = None
        self.fraction: float | None = None
        self.exit_code: int | None = None
        self._last_s: float | None = None
        self._prefixed = False
        self._provisional = False
        self._ended_marker_s: float | None = None
        self._trace: _Trace | None = None
        self._records: list[ExceptionRecord] = []
        self._fatal: list[str] = []
        self._tail: deque[str] = deque(maxlen=12)
        self._previous = ""
        self._final = False
        self._was_ready = False
        self._low_windows: dict[int, int] = {}
        self._draft_path: str | None = None
        self._model_path: str | None = None
        self._weights_done = False
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
    def phase(self) -> Phase | None:
        return self.phases[-1] if self.phases else None

    def _phase_name(self) -> str:
        """The phase to blame: a warm-up that is only presumed is still the work on graphs before it."""
        if self._provisional and len(self.phases) > 1 and self.phases[-1].name == "warm-up":
            return self.phases[-2].name
        return self.phases[-1].name if self.phases else ""

    @property
    def failure(self) -> Failure | None:
        """Why it failed; None unless the state is *failed*."""
        if self.state != "failed":
            return None
        records = list(self._records)
        if self._trace is not None and self._trace.origin != "http" and (open_one := self._trace.record()):
            records.append(open_one)
        return classify(
            Evidence(
                tuple(records),
                tuple(self._fatal[:12]),
                self._phase_name(),
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
        return Stuck(name, silent, f"no sign of life for {silent:.0f} s in phase {name}", _STUCK_HINTS.get(name, ""))

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
        if "mem_fraction_static=" in message and (found := _FRACTION.search(message)):
            self.fraction = _float(found[1])
        if self._read_trace(line, text, now, events):
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
            for key, pattern in _NOTES:
                if pattern.search(message):
                    note = Note(key, message[:400], now)
                    self.notes.append(note)
                    events.append(Event("note", now, note.text, note))
        self._previous = message

    def _read_trace(self, line: Line, text: str, now: float | None, events: list[Event]) -> bool:
        """Follow tracebacks; True when the line belonged to one and to nothing else."""
        message = line.message
        opens = "Traceback (most recent call last):" in message
        if self._trace is not None:
            trace = self._trace
            if line.time_s is None and not message.startswith(("INFO:", "ERROR:", "WARNING:")):
                if opens or message.startswith(_CHAIN):
                    return True
                if message[:1].isspace():
                    trace.frames.append(message[:400])
                    return True
                bare = not trace.tail and _IN_TRACE.match(message) is not None and trace.frames
                if _EXCEPTION.match(message) or (bare and not trace.exception):
                    trace.exception = message.strip()[:1000]
                    trace.tail = []
                    events.append(Event("exception", now, trace.exception))
                    return True
                if trace.exception and not _progress_bar(message) and len(trace.tail) < 20:
                    trace.tail.append(message[:400])
                    if not _FATAL.search(message):
                        return True
            self._close_trace()
        if opens:
            if "hit an exception" in message:
                origin = "scheduler"
            elif "warmup error" in message:
                origin = "warm-up"
            elif "ASGI" in self._previous or "[http_server]" in message:
                origin = "http"
            else:
                origin = "main"
            self._trace = _Trace(origin, self._phase_name())
            if origin == "http":
                return True
            self._fatal_line(message, now, events)
            return True
        if _EXCEPTION.match(message) and ":" in message:
            self._records.append(ExceptionRecord("alone", message[:1000], (message[:1000],), "", self._phase_name()))
            events.append(Event("exception", now, message[:1000]))
            if _STRONG.match(message):
                self._become("failed", now, events)
            return True
        return False

    def _close_trace(self) -> None:
        trace, self._trace = self._trace, None
        if trace is not None and trace.origin != "http" and len(self._records) < 64 and (record := trace.record()):
            self._records.append(record)

    def _fatal_line(self, message: str, now: float | None, events: list[Event]) -> None:
        if self.state == "stopping":
            return
        if "SIGTERM received" in message:
            self._become("stopping", now, events)
        elif _FATAL.search(message):
            if len(self._fatal) < 64:
                self._fatal.append(message[:400])
            self._final = self._final or "sigquit" in message.lower()
            self._become("failed", now, events)

    def _settings(self, message: str) -> None:
        if not message.startswith("server_args=ServerArgs("):
            return
        if self.state in ("ready", "failed", "stopping"):
            fraction, rest = self.fraction, self._rest
            self._reset()  # the same file, a new start
            self.fraction, self._rest = fraction, rest
        if (interval := _INTERVAL.search(message)) and 0 < len(interval[1]) < 7:
            self._interval = int(interval[1]) or None
        if found := _MODEL.search(message):
            self._model_path = found[1]
        if found := _DRAFT.search(message):
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

    # -- phases

    def _progress(self, message: str, now: float | None, events: list[Event]) -> None:
        if message.startswith("server_args="):
            if not self.phases and self.state == "loading":
                self._begin("start", now, events)
        elif "Init torch distributed begin" in message:
            if not self._weights_done:
                self._begin("distributed set-up", now, events)
        elif "Load weight begin" in message:
            self._begin("draft weights" if self._weights_done else "weights", now, events)
        elif "Load weight end" in message:
            self._weights_done = True
            self._finish(now, "memory pool", events)
        elif "KV Cache is allocated" in message or ("KV Cache" in message and "VA upper bound" in message):
            if not (self.phases and self.phases[-1].name == "memory pool"):
                self._begin("memory pool", now, events)
            self._provisional = False
        elif "Memory pool end" in message:
            self._provisional = False
            self._finish(now, None, events)
        elif found := _CAPTURE.search(message):
            self._capture(found, message, now, events)
        elif "Uvicorn running on" in message or "Application startup complete" in message:
            if self.state == "loading":
                self._become("http-up", now, events)
                self._begin("warm-up", now, events)
        elif "fired up and ready to roll" in message:
            self._ready(now, events)
        elif (bar := _BAR.search(message)) and self.phases:
            self._tick(int(bar[1][:9]), int(bar[2][:9]), now, events)
        elif self.state == "loading" and self._weights_done and len(message) < 400 and _COMPILING.search(message):
            self._compile(message, now, events)

    def _capture(self, found: re.Match[str], message: str, now: float | None, events: list[Event]) -> None:
        name = (found["name"] or "").lower()
        draft = "draft" in name
        if found["edge"].lower() == "end":
            self._finish(now, "warm-up", events)
            return
        sizes = _SIZES.search(message)
        if sizes and not draft and "prefill" not in name and "piecewise" not in name:
            numbers = [int(size[:9]) for size in sizes[1].replace(" ", "").split(",") if size]
            self.captured_limit = max(numbers, default=self.captured_limit)
        self._begin("draft graph capture" if draft else "graph capture", now, events, detail=found["name"] or "")

    def _compile(self, message: str, now: float | None, events: list[Event]) -> None:
        if not self.phases or self.phases[-1].name != "compile":
            begin = self._ended_marker_s if self._ended_marker_s is not None else now
            if self._provisional:
                self.phases.pop()
                self._provisional = False
            self._begin("compile", begin, events)
        if found := _OF.search(message):
            self._tick(int(found[1][:9]), int(found[2][:9]), now, events)

    def _begin(self, name: str, now: float | None, events: list[Event], *, detail: str = "") -> None:
        if self._provisional and self.phases:
            self.phases.pop()
            self._provisional = False
        last = self.phases[-1] if self.phases else None
        self._ended_marker_s = None
        if last is not None and last.name == name:
            self.phases[-1] = replace(last, end_s=None, progress=None, detail=detail or last.detail)
            return
        if last is not None and last.end_s is None:
            self.phases[-1] = replace(last, end_s=now)
        self.phases.append(Phase(name, now, detail=detail))
        events.append(Event("phase", now, name, self.phases[-1]))
        if self.state == "failed":
            self._alive(now, events)

    def _finish(self, now: float | None, then: str | None, events: list[Event]) -> None:
        """The open phase has ended; ``then`` is what is likely to follow, taken back when something else does."""
        if self.phases and self.phases[-1].end_s is None:
            self.phases[-1] = replace(self.phases[-1], end_s=now)
        self._ended_marker_s = now
        if then is not None and (not self.phases or self.phases[-1].name != then):
            self.phases.append(Phase(then, now))
            self._provisional = True
            events.append(Event("phase", now, then, self.phases[-1]))

    def _tick(self, done: int, of: int, now: float | None, events: list[Event]) -> None:
        if not self.phases or of <= 0 or done > of or self.state not in ("loading", "http-up"):
            return
        self.phases[-1] = replace(self.phases[-1], progress=(done, of))
        events.append(Event("progress", now, f"{done}/{of}", self.phases[-1]))

    def _ready(self, now: float | None, events: list[Event]) -> None:
        self._provisional = False
        if self.phases and self.phases[-1].end_s is None:
            self.phases[-1] = replace(self.phases[-1], end_s=now)
        if self.state == "stopping":
            return
        self._final = False
        self.ready_s = now
        self._was_ready = True
        self.phases.append(Phase("ready", now, now))
        events.append(Event("phase", now, "ready", self.phases[-1]))
        self._become("ready", now, events)

    def _alive(self, now: float | None, events: list[Event]) -> None:
        """Work goes on after something that looked fatal: it was not."""
        if self.state == "failed" and not self._final and not self._fatal:
            back = "ready" if self._was_ready else "http-up" if "http-up" in self.states else "loading"
            self._records.clear()
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


def _progress_bar(message: str) -> bool:
    return "it/s]" in message or "s/it]" in message or "?it" in message


def read_log(text: str, *, exit_code: int | None = None, ended: bool = False) -> LogReader:
    """A whole log at once; ``ended`` when its process is known to be gone."""
    reader = LogReader()
    reader.feed(text)
    if ended:
        reader.ended(exit_code)
    else:
        reader.close()
    return reader
