"""What is known of the server under check, gathered once and read by all probes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from spectui.core.evidence import is_stateful

if TYPE_CHECKING:
    from spectui.core.passes import PassResult
    from spectui.core.profile import Profile
    from spectui.core.rows import Row
    from spectui.engines.sglang.answers import GeneratedToken
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.errors import EngineError
    from spectui.engines.sglang.info import ServerInfo
    from spectui.engines.sglang.log import LogReader
    from spectui.hosts.discover import FoundServer
    from spectui.hosts.gpus import GpuPanel

EMPTY_TOKENS = 64
"""Generated tokens since the start up to which an n-gram store counts as empty: the server's own warm-up and health
calls make a few."""


@dataclass
class Subject:
    """Filled by the session in the order of the fields; what could not be had is None, with its reason beside it."""

    url: str
    profile: Profile | None = None
    client: SglangClient | None = None
    health: int | EngineError | None = None
    """Status of the health route, or why there is none."""
    token: GeneratedToken | EngineError | None = None
    """One token that was really made, or why none came."""
    info: ServerInfo | None = None
    info_why: str = "it was not asked"
    generated_before: float | None = None
    """Tokens that the server had generated in its life before the check; None: it does not tell."""
    server: FoundServer | None = None
    """Its processes, where it runs on this node."""
    leftovers: tuple[FoundServer, ...] = ()
    """Workers on this node whose server is gone."""
    environment: Mapping[str, str] | None = None
    environment_why: str = "its process is not on this node"
    gpus: GpuPanel | None = None
    gpus_why: str = "the server's process is not on this node"
    log: LogReader | None = None
    log_lines: tuple[str, ...] = ()
    log_why: str = "only logs of servers that spectui started can be read"
    stored: tuple[Mapping[str, Any], ...] = ()
    """Evidence of the profile, the newest first."""
    measured: PassResult | None = None
    measured_why: str = "nothing was measured"
    answers: Sequence[Row] = ()
    reused: int = 0
    """Measured prompts that an earlier check has sent to this server since its start."""
    fed: bool = False
    """Feeding prompts were sent before measuring."""
    workload: str = ""
    workload_hash: str = ""
    max_tokens: int = 0
    stored_records: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Pass name -> request records of the run that the stored values come from, where it is still there."""
    stored_answers: Sequence[Row] = ()
    history: Sequence[Mapping[str, Any]] = ()
    """Earlier checks of this server and profile, the oldest first."""
    now: float = 0.0
    """Epoch seconds at which the check began."""
    notes: list[str] = field(default_factory=list)

    @property
    def serves(self) -> bool:
        return self.token is not None and hasattr(self.token, "tokens")

    @property
    def algorithm(self) -> str:
        return self.info.algorithm if self.info is not None else "unknown"

    @property
    def asked_algorithm(self) -> str | None:
        return self.profile.speculative.algorithm if self.profile is not None else None

    @property
    def speculation_left_out(self) -> bool:
        """The profile asks for speculation and the server runs without."""
        asked = self.asked_algorithm
        known = self.info is not None and not self.info.unreadable
        return known and asked not in (None, "none") and self.algorithm == "none"

    @property
    def stateful(self) -> bool:
        return is_stateful(self.algorithm) is True

    @property
    def store_empty(self) -> bool | None:
        """Whether an n-gram store held next to nothing when the check began; None: the server does not tell."""
        return None if self.generated_before is None else self.generated_before <= EMPTY_TOKENS

    def lacks(self, need: str) -> str | None:
        """Why a probe that needs ``need`` cannot run; None when it can."""
        if need == "serves":
            return None if self.serves else "the server generates nothing"
        if need == "info":
            if self.info is None:
                return self.info_why
            return f"its settings are {self.info.unreadable}" if self.info.unreadable else None
        if need == "profile":
            return None if self.profile is not None else "no profile"
        if need == "measured":
            return None if self.measured is not None else self.measured_why
        return f"unknown need {need!r}"
