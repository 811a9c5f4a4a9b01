"""Why a server did not come up, or went down, named from what its log says. Exit codes alone decide nothing."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from spectui.engines.sglang.outside import of_exception, outside


@dataclass(frozen=True, slots=True)
class ExceptionRecord:
    """One traceback, or an exception line that stood alone."""

    origin: str
    """scheduler (a child that died of it), main, warm-up or alone."""
    line: str
    """The last exception line of the chain."""
    context: tuple[str, ...] = ()
    """Lines that show it: the last frame, the exception, the rest of its message."""
    frames: str = ""
    phase: str = ""


@dataclass(frozen=True, slots=True)
class Failure:
    kind: str
    """out of memory: weights | KV pool | graph capture | serving; port taken, draft path, model path, vocabulary,
    kernel or backend, missing module, build tools, assertion, arguments, rule, distributed, GPU occupied, killed,
    unknown; and those of :mod:`outside`: ssh, container, Slurm, command, GPU driver, disk full, hub access …"""
    cause: str
    """The line that says it best: as a rule the last exception line."""
    hint: str
    """What to do next; may be empty."""
    direction: str = ""
    """Where the memory fraction is in question: raise or lower."""
    fraction: float | None = None
    """``mem_fraction_static`` in force, where the log told it."""
    phase: str = ""
    lines: tuple[str, ...] = ()
    """The log's lines that show it."""
    exit_code: int | None = None


@dataclass(frozen=True, slots=True)
class Evidence:
    """What a log reader has gathered by the time a failure is asked for."""

    records: tuple[ExceptionRecord, ...] = ()
    fatal_lines: tuple[str, ...] = ()
    phase: str = ""
    was_ready: bool = False
    fraction: float | None = None
    draft_path: str | None = None
    model_path: str | None = None
    exit_code: int | None = None
    tail: tuple[str, ...] = field(default_factory=tuple)


_I = re.IGNORECASE
_OOM = re.compile(
    r"out of memory|OutOfMemoryError|not enough memory|no GPU memory|cudaErrorMemoryAllocation|"
    r"CUBLAS_STATUS_ALLOC_FAILED",
    _I,
)
_POOL_TOO_SMALL = re.compile(
    r"not enough memory|(?:increase|raise) --?mem[-_]fraction[-_]static|no (?:available )?(?:GPU )?memory .{0,40}KV", _I
)
_CAPTURE_FAILED = re.compile(r"capture .{0,40}graph failed", _I)
_WANTED = re.compile(r"Tried to allocate ([\d.]+ [KMGT]iB)")
_PORT = re.compile(
    r"address already in use|Errno 98\b|EADDRINUSE|port \d+ (?:is )?(?:already )?(?:in use|taken|not available)", _I
)
_PORT_NUMBER = re.compile(r"'[\w.:]*', (\d{2,5})|port:? (\d{2,5})|:(\d{4,5})\b", _I)
_ARGUMENTS = re.compile(
    r"error: (?:argument |unrecognized arguments|the following arguments are required|ambiguous option)"
    r"|invalid choice:",
    _I,
)
_PATH = re.compile(
    r"Repo id must be|not a valid model identifier|does not appear to have|is not a local folder"
    r"|No such file or directory"
    r"|FileNotFoundError|HFValidationError|RepositoryNotFound|LocalEntryNotFound|Cannot find any model weights"
    r"|Can't load (?:the )?config|Incorrect path_or_model_id|Unrecognized model in|couldn't connect to .?https://huggingface",
    _I,
)
_VOCABULARY = re.compile(
    r"vocab\w*(?: ?size)?s?\b.{0,80}(?:mismatch|differ|not match|unequal|incompatible|not the same"
    r"|must (?:be|equal|match))"
    r"|(?:mismatch|differ\w*|incompatible|unequal).{0,80}vocab|size mismatch for \S*(?:embed_tokens|lm_head)"
    r"|tokenizers? .{0,40}(?:differ|mismatch|not match)",
    _I,
)
_BACKEND = re.compile(
    r"backend\b.{0,80}(?:not (?:support|available|implement)|unsupported|n't support|only support|requires?)"
    r"|(?:not (?:support|available|implement)\w*|unsupported|only support\w*).{0,80}backend"
    r"|tree mask|no kernel image|NotImplementedError|(?:FlashAttention|flashinfer|\bfa3\b|triton|trtllm)\b.{0,80}"
    r"(?:require|only support|not support|unsupported)|page_?size.{0,60}topk|topk.{0,60}page_?size",
    _I,
)
_MODULE = re.compile(r"ModuleNotFoundError|No module named|ImportError", _I)
_BUILD = re.compile(r"Error building extension|ninja|nvcc|\bg\+\+|CUDA_HOME", _I)
_RULE = re.compile(
    r"Unknown speculative algorithm|Currently .{0,60}does not support|only supports?\b|not compatible|incompatible"
    r"|must be|should be|cannot be used|is required|requires?\b",
    _I,
)
_DISTRIBUTED = re.compile(
    r"NCCL|ncclSystemError|Gloo|init_process_group|DistBackendError|DistNetworkError|TCPStore", _I
)
_OCCUPIED = re.compile(r"memory capacity is unbalanced|GPUs may be occupied", _I)
_DIED = re.compile(r"died during initialization|crashed with exit code")
_KILLED_CODE = re.compile(r"exit code:? ?-9\b|exit code:? ?137\b")
_VOCABULARY_HINT = "Draft and target have different vocabularies: take a draft made for this target"
_CONSEQUENCE = re.compile(
    r"ConnectionError|Connection refused|RemoteDisconnected|remote end closed|ReadTimeout|BrokenPipe|EOFError", _I
)


def _chosen(records: tuple[ExceptionRecord, ...]) -> ExceptionRecord | None:
    """The exception that began it: a scheduler's first, then one of the main process; warm-up only repeats others'."""
    for origin in ("scheduler", "alone"):
        for record in records:
            if record.origin == origin and not _CONSEQUENCE.search(record.line):
                return record
    for origin in ("main", "scheduler", "alone", "warm-up"):
        found = [record for record in records if record.origin == origin]
        if found:
            return found[-1] if origin == "main" else found[0]
    return None


def _fraction_words(fraction: float | None) -> str:
    return f"--mem-fraction-static ({fraction:g} in force)" if fraction is not None else "--mem-fraction-static"


def _out_of_memory(text: str, evidence: Evidence, phase: str) -> tuple[str, str, str]:
    """(kind, direction, hint). The server's two standard hints point in opposite directions: the case decides."""
    fraction = _fraction_words(evidence.fraction)
    wanted = _WANTED.search(text)
    missing = f" ({wanted[1]} more was wanted)" if wanted else ""
    if _POOL_TOO_SMALL.search(text) and not _CAPTURE_FAILED.search(text):
        return (
            "out of memory: KV pool",
            "raise",
            f"No room is left for the KV cache beside the weights: raise {fraction}, or free GPU memory; two servers "
            "that load on one GPU at the same time each count the other's share as lost: start them in turn",
        )
    if _CAPTURE_FAILED.search(text) or "graph" in phase or phase == "compile":
        return (
            "out of memory: graph capture",
            "lower",
            f"Lower {fraction}, or the largest captured batch (--cuda-graph-max-bs){missing}",
        )
    if evidence.was_ready or phase in ("ready", "warm-up", "serving"):
        return "out of memory: serving", "lower", f"Lower {fraction}, or --max-running-requests{missing}"
    if phase == "memory pool":
        return (
            "out of memory: KV pool",
            "lower",
            f"The pool is larger than the free memory: lower {fraction}, or end what else holds the GPU{missing}",
        )
    return (
        "out of memory: weights",
        "",
        f"The weights do not fit{missing}: end what else holds the GPU, use more GPUs or a quantised model; "
        f"{fraction} does not help here",
    )


def _path_failure(line: str, frames: str, evidence: Evidence) -> tuple[str, str]:
    text = f"{line}\n{frames}"
    draft, model = evidence.draft_path, evidence.model_path
    quoted = re.findall(r"['\"]([^'\"]{2,300})['\"]", line)
    # The hub's own wording quotes examples ('namespace/repo_name') before the path that was given.
    named = [part for part in quoted if part in (draft, model)] or [
        part for part in quoted if part.startswith(("/", "."))
    ]
    shown = f" {named[-1]}" if named else ""
    is_draft = bool(draft and draft in line) or (
        not (model and model in line) and re.search(r"specul|draft|eagle", text, _I) is not None
    )
    if is_draft:
        return "draft path", f"The draft model{shown} cannot be read: check --speculative-draft-model-path"
    return "model path", f"The model{shown} cannot be read: check --model-path"


def classify(evidence: Evidence) -> Failure:
    """The failure that the evidence shows; kind "unknown" when it shows none."""
    record = _chosen(evidence.records)
    line = record.line if record else (evidence.fatal_lines[-1] if evidence.fatal_lines else "")
    everything = "\n".join([line, *(record.context if record else ()), *evidence.fatal_lines])
    phase = (record.phase if record else "") or evidence.phase
    lines = tuple(dict.fromkeys([*(record.context if record else ()), *evidence.fatal_lines])) or evidence.tail

    def named(kind: str, hint: str, *, cause: str = line, direction: str = "") -> Failure:
        return Failure(kind, cause, hint, direction, evidence.fraction, phase, lines[:24], evidence.exit_code)

    def first(pattern: re.Pattern[str]) -> str:
        return next((entry for entry in (line, *lines) if pattern.search(entry)), line)

    if _ARGUMENTS.search(everything):
        return named("arguments", "This version does not take that argument: correct it", cause=first(_ARGUMENTS))
    if _OCCUPIED.search(everything):
        return named(
            "GPU occupied", "Other processes hold GPU memory: end them or take other GPUs", cause=first(_OCCUPIED)
        )
    if _OOM.search(everything):
        kind, direction, hint = _out_of_memory(everything, evidence, phase)
        return named(kind, hint, cause=line if _OOM.search(line) else first(_OOM), direction=direction)
    if _PORT.search(everything):
        cause = first(_PORT)
        number = _PORT_NUMBER.search(cause)
        port = next((group for group in number.groups() if group), None) if number else None
        return named(
            "port taken", f"Port {port or 'asked for'} is held by another program: choose another", cause=cause
        )
    if record is not None:
        kind, hint = _by_exception(record, evidence)
        return named(kind, hint)
    if around := outside(evidence.tail):
        return named(around[0], around[2], cause=around[1])
    if _killed(evidence):
        return named(
            "killed",
            "Killed from outside, often by the kernel for want of host memory: see dmesg and the cgroup's limit",
            cause=line or "killed (signal 9) without a word in the log",
        )
    if evidence.exit_code == 2:
        return named(
            "arguments", "Exit code 2 is a refused argument: see the end of the log", cause=line or "exit code 2"
        )
    code = f"ended with exit code {evidence.exit_code}" if evidence.exit_code is not None else "ended"
    return named("unknown", "The log names no cause: see its end", cause=line or code)


def _killed(evidence: Evidence) -> bool:
    fatal = "\n".join(evidence.fatal_lines)
    if _DIED.search(fatal):
        return _KILLED_CODE.search(fatal) is not None
    return evidence.exit_code in (-9, 137) and not evidence.fatal_lines


def _by_exception(record: ExceptionRecord, evidence: Evidence) -> tuple[str, str]:
    """(kind, hint) of the exception that began it; the more telling patterns come first."""
    line = record.line
    if around := of_exception(line):
        return around
    if _MODULE.search(line):
        return "missing module", "A Python package is missing in the server's environment: install it there"
    if _VOCABULARY.search(line):
        return "vocabulary", _VOCABULARY_HINT
    if _PATH.search(line):
        return _path_failure(line, record.frames, evidence)
    if line.startswith("AssertionError"):
        return "assertion", "A check inside this SGLang version failed for this combination of settings"
    if _BUILD.search(line):
        return "build tools", "A kernel could not be built: the server's environment needs g++, ninja and CUDA's nvcc"
    if _BACKEND.search(line):
        return "kernel or backend", "The attention backend or GPU lacks what this setting needs: choose another backend"
    if _DISTRIBUTED.search(line):
        return "distributed", "The ranks could not connect: check network interface, GPU links and ports"
    if _VOCABULARY.search("\n".join(record.context)):
        return "vocabulary", _VOCABULARY_HINT
    if line.startswith(("ValueError", "TypeError")) or _RULE.search(line):
        return "rule", "This version refuses the combination of settings: see the line"
    return "unknown", "See the lines around it in the log"
