"""The rows of a plan, and what they are resolved in: values, who set each, and what is to be said of it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from spectui.core.settings import Algorithm, Knob, Value
from spectui.core.versions import Standing, within

SERVER_KEYS = (
    "model_path",
    "max_running_requests",
    "mem_fraction_static",
    "cuda_graph_max_bs",
    "cuda_graph_max_bs_decode",
    "cuda_graph_bs",
    "disable_cuda_graph",
    "page_size",
    "attention_backend",
    "prefill_attention_backend",
    "decode_attention_backend",
    "sampling_backend",
    "overlap_schedule",
    "enable_mixed_chunk",
    "chunked_prefill_size",
    "disable_radix_cache",
    "kv_cache_dtype",
    "dtype",
    "quantization",
    "context_length",
    "tp_size",
    "dp_size",
    "pp_size",
    "enable_dp_attention",
    "schedule_policy",
    "stream_interval",
    "trust_remote_code",
    "served_model_name",
)
"""Arguments of the server that matter to a fair comparison, in the order they are shown."""

_ALWAYS_SHOWN = ("max_running_requests", "mem_fraction_static", "cuda_graph_max_bs", "page_size", "overlap_schedule")
_SETTERS = {
    "you": "you",
    "server": "set by the server, not by you",
    "default": "default",
    "ignored": "ignored by the server",
    "unknown": "chosen by the server at its start",
}


@dataclass(frozen=True, slots=True)
class PlanRow:
    key: str
    title: str
    asked: Value
    in_force: Value
    by: str
    """you, server, default, ignored or unknown."""
    why: str = ""
    part: str = "speculative"
    """speculative or server."""
    hot: bool = False
    """True when it can be changed while the server runs."""

    @property
    def changed(self) -> bool:
        """The server makes something else of it than was asked."""
        return self.asked is not None and self.asked != self.in_force

    @property
    def by_text(self) -> str:
        return _SETTERS[self.by]


@dataclass(frozen=True, slots=True)
class Finding:
    level: str
    """refuse, danger, warn or note."""
    name: str
    text: str
    keys: tuple[str, ...] = ()


@dataclass(slots=True)
class Resolution:
    at: dict[str, Value]
    by: dict[str, str] = field(default_factory=dict)
    why: dict[str, str] = field(default_factory=dict)
    findings: list[Finding] = field(default_factory=list)

    def say(self, level: str, name: str, text: str, keys: Sequence[str] = ()) -> None:
        self.findings.append(Finding(level, name, text, tuple(keys)))

    def put(self, key: str, value: Value, by: str, why: str) -> None:
        if value is None or self.at.get(key) == value:
            return
        self.at[key] = value
        self.by[key] = by
        self.why[key] = why
        self.derive()

    def derive(self) -> None:
        """Values that rules compare and nobody asks for."""
        self.at["tree_size"] = tree_size(self.at)
        width, topk = self.at.get("num_draft_tokens"), self.at.get("eagle_topk")
        self.at["frontier"] = width * topk if isinstance(width, int) and isinstance(topk, int) else None


def tree_size(at: Mapping[str, Value]) -> int | None:
    """Nodes of the full draft tree, the root included: 1 + topk + (steps - 1) * topk^2."""
    steps, topk = at.get("num_steps"), at.get("eagle_topk")
    if not isinstance(steps, int) or not isinstance(topk, int) or steps < 1 or topk < 1:
        return None
    return 1 + topk + (steps - 1) * topk * topk


def knob_rows(
    algorithm: Algorithm, asked: Mapping[str, Value], present: Mapping[str, Knob], place: Standing, work: Resolution
) -> list[PlanRow]:
    rows = [PlanRow("algorithm", "algorithm", algorithm.name, algorithm.name, "you")]
    resolved = [key for key in ("num_steps", "eagle_topk", "num_draft_tokens") if work.at.get(key) is not None]
    for key in dict.fromkeys([*present, *resolved, *asked]):
        knob = present.get(key) or algorithm.knob(key)
        in_force = work.at.get(key)
        by = work.by.get(key, "you" if key in present else "ignored")
        if in_force is None:
            if key in present and key not in asked:
                if knob and (knob.off_when_unset or knob.kind in ("path", "text", "flag", "choice")):
                    continue
                by = "unknown"
            elif algorithm.plugin:
                in_force, by = asked[key], "you"
            else:
                by = "ignored"
        hot = knob is not None and knob.hot_since is not None and bool(within(place, knob.hot_since, None))
        rows.append(
            PlanRow(key, knob.title if knob else key, asked.get(key), in_force, by, work.why.get(key, ""), hot=hot)
        )
    return rows


def server_rows(server: Mapping[str, Value], work: Resolution) -> list[PlanRow]:
    rows = []
    for key in SERVER_KEYS:
        name = f"server.{key}"
        in_force = work.at.get(name)
        if in_force is None and key not in _ALWAYS_SHOWN:
            continue
        asked = server.get(key)
        by = work.by.get(name, "unknown" if in_force is None else "you")
        rows.append(PlanRow(key, key.replace("_", " "), asked, in_force, by, work.why.get(name, ""), part="server"))
    return rows
