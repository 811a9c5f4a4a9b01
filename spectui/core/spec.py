"""What is asked of the runner: a run of one or two arms over one workload. Pure values, written as JSON.

The runner is a process of its own; this is all that it is told. Keys of servers are given by reference
(``env:NAME`` or ``file:PATH``), so that a spec can be stored and shown.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class Prompt:
    """One prompt of a workload: either chat messages or a completion text."""

    id: str
    """Hash of the content; equal content has equal ids."""
    group: str
    messages: tuple[dict[str, str], ...] | None = None
    """``{"role": …, "content": …}`` in order; goes through the model's chat template."""
    text: str | None = None
    max_tokens: int | None = None
    """Overrides the run's output limit."""


@dataclass(frozen=True, slots=True)
class ArmSpec:
    name: str
    """A or B."""
    url: str
    label: str = ""
    key: str | None = None
    """Reference to the API key."""
    admin_key: str | None = None
    owned: bool = False
    """spectui started this server: it may be flushed without asking."""
    settings_asked: dict[str, object] = field(default_factory=dict)
    """Neutral knobs of the profile it was started from, for the head of the journal."""
    server_pid: int | None = None
    """Root process where it runs on this node, to tie GPUs and environment to the arm."""
    proxy: str | None = None
    """What its requests go through: a proxy's address, or ``env`` for the environment's; never for loopback."""


@dataclass(frozen=True, slots=True)
class WorkloadRef:
    name: str
    hash: str
    marks: tuple[str, ...] = ()
    """What is wrong with the workload itself: contaminating, synthetic, …"""


@dataclass(frozen=True, slots=True)
class FedBefore:
    """What an earlier run of the same text on this node needed until accept length was steady."""

    model: str
    settings: str
    """As :func:`settings_line` writes them."""
    tokens: int


AS_FOUND = "as-found"
"""A pass that takes the store as it is: nothing is flushed, nothing is fed."""
PASSES = ("cold", "warm", "primed", AS_FOUND)


@dataclass(frozen=True, slots=True)
class RunSpec:
    run_id: str
    folder: str
    arms: tuple[ArmSpec, ...]
    workload: WorkloadRef
    feeding: tuple[Prompt, ...]
    measuring: tuple[Prompt, ...]
    passes: tuple[str, ...] = ("warm",)
    """Out of :data:`PASSES`; run in this order."""
    concurrency: tuple[int, ...] = (1,)
    max_tokens: int = 256
    temperature: float | None = 0.0
    """None leaves it to the server, and is shown as "server default"."""
    seed: int | None = None
    thinking: bool | None = None
    ignore_eos: bool = False
    flush: str = "idle"
    """no: never; idle: when the server is ours, or has been idle without others' traffic; yes: asked for."""
    block: int = 8
    """Requests in one alternating block where two arms run (ABBA), at least: see :meth:`block_at`."""
    feed_limit: int = 512
    """Feeding ends when accept length is steady, at the latest after this many requests."""
    request_timeout_s: float = 600.0
    sample_gpus: bool = True
    keep_text: bool = True
    corpus: str | None = None
    """File of the external corpus that a primed pass loads: JSON Lines of strings, plain text, or answers of a run."""
    feed_tokens: int = 32_000
    """Feeding ends at the latest after so many generated tokens."""
    feed_least: int | None = None
    """Tokens below which no feed counts as steady; None: what ``feed_known`` says, else a general floor."""
    feed_known: tuple[FedBefore, ...] = ()
    keep_store: bool = False
    """No pass flushes anything, whoever started the server; a warm pass feeds on top of what is there, all of
    ``feed_limit``, since a store that has learned from others looks steady too soon."""

    def block_at(self, concurrency: int) -> int:
        """Requests in one block at this concurrency: no fewer than run at a time, or the batch would never fill."""
        return max(1, self.block, concurrency)


def settings_line(algorithm: str, settings: Mapping[str, object]) -> str:
    """Algorithm and settings in one line that is equal where they are."""
    told = ", ".join(f"{key}={value}" for key, value in sorted(settings.items()) if value is not None)
    return f"{algorithm}: {told}"


def enough_name(pass_name: str, concurrency: int) -> str:
    """A file of this name in a run's folder ends that pass of two alternating arms after the block that is under way:
    whoever follows the run has seen enough of it."""
    return f"enough-{pass_name}-{concurrency}"
