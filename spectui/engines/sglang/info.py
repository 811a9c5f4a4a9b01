"""What a server says of itself, read from the info body of any version into neutral names."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from spectui.core.redact import redact
from spectui.engines.sglang.algorithm_names import Match as Match
from spectui.engines.sglang.algorithm_names import algorithm_matches as algorithm_matches
from spectui.engines.sglang.algorithm_names import algorithm_name, asked_in_command, neutral_algorithm
from spectui.engines.sglang.contract import Contract, contract_for

SIMULATED_KEY = "spectui_simulated"
NO_DATA = "n/a (fewer than 40 decode steps)"
OUTLIER_BELOW = 0.85
"""A rank under this share of the median accept length is flagged."""


@dataclass(frozen=True, slots=True)
class Rank:
    """One data-parallel rank, as its scheduler reports itself."""

    index: int
    accept_length: float | None
    """Lifetime average since start or flush, folded every ``decode_log_interval`` steps; None before the first."""
    throughput: float | None
    """Tokens/s of the last log window; keeps its value while idle."""
    outlier: bool = False


@dataclass(frozen=True, slots=True)
class Memory:
    """GPU memory of one rank by part, GB (10⁹ or 2³⁰ as the server counts); None: not told or unreadable."""

    weights: float | None = None
    kv_cache: float | None = None
    graphs: float | None = None
    token_capacity: int | None = None


@dataclass(frozen=True, slots=True)
class ServerInfo:
    version: str
    contract: Contract
    model_path: str
    served_name: str
    algorithm: str
    """Neutral: none, NGRAM, EAGLE3, NEXTN …"""
    reported_algorithm: str | None
    """The server's own word; it never says NEXTN."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Neutral speculative settings in force."""
    server: dict[str, Any] = field(default_factory=dict)
    """max_running_requests (effective), page_size, tp_size, dp_size, mem_fraction_static, attention_backend,
    context_len, disable_overlap_schedule, cuda_graph_bs, cuda_graph_max_bs, stream_interval, decode_log_interval,
    incremental_streaming, max_total_num_tokens …"""
    ranks: tuple[Rank, ...] = ()
    memory: Memory = Memory()
    simulated: bool = False
    unreadable: str = ""
    """Why the info body could not be had ("not readable (HTTP 500)"); settings are then empty."""
    raw: dict[str, Any] = field(default_factory=dict)
    """The body, keys hidden."""

    @property
    def speculates(self) -> bool:
        return self.algorithm != "none"

    @property
    def draft_tokens(self) -> int | None:
        value = self.settings.get("num_draft_tokens")
        return value if isinstance(value, int) and not isinstance(value, bool) else None

    @property
    def throughput(self) -> float | None:
        """Tokens/s over all ranks."""
        known = [rank.throughput for rank in self.ranks if rank.throughput is not None]
        return sum(known) if known else None

    @property
    def accept_length(self) -> float | None:
        """Lifetime accept length over all ranks, weighted by verify steps (throughput / accept length of each)."""
        pairs = [(rank.throughput, rank.accept_length) for rank in self.ranks if rank.accept_length]
        if not pairs or not self.speculates:
            return None
        busy = [(float(rate), float(length)) for rate, length in pairs if rate and length]
        if not busy:
            return sum(float(length) for _, length in pairs if length) / len(pairs)
        return sum(rate for rate, _ in busy) / sum(rate / length for rate, length in busy)

    def accept_length_in_force(self) -> str:
        """The lifetime figure in words: a number, "off" without speculation, or why there is none yet."""
        if self.unreadable:
            return self.unreadable
        if not self.speculates:
            return "off"
        value = self.accept_length
        return NO_DATA if value is None else f"{value:.2f}"

    @property
    def accept_rate(self) -> float | None:
        """Our own share, the same for all versions: (accept length − 1) / (draft tokens − 1)."""
        return own_accept_rate(self.accept_length, self.draft_tokens)


def own_accept_rate(accept_length: float | None, draft_tokens: int | None) -> float | None:
    """Accepted drafts a step over proposed drafts a step. Raw server figures have had three meanings; this has one."""
    if accept_length is None or draft_tokens is None or draft_tokens < 2:
        return None
    return max(accept_length - 1.0, 0.0) / (draft_tokens - 1)


def _number(value: object) -> float | None:
    if isinstance(value, bool) or not isinstance(value, int | float) or not math.isfinite(value):
        return None
    return float(value)


def memory_of(state: Mapping[str, Any]) -> Memory:
    """``memory_usage`` of an internal state; its graph part was a number under two names, then a table by phase."""
    usage = state.get("memory_usage")
    if not isinstance(usage, Mapping):
        return Memory()
    graph = usage.get("graph", usage.get("cuda_graph"))
    if isinstance(graph, Mapping):
        parts = [_number(entry) for entry in graph.values()]
        whole = [part for part in parts if part is not None]
        graphs = round(sum(whole), 6) if whole and len(whole) == len(parts) else None
    else:
        graphs = _number(graph)
    capacity = _number(usage.get("token_capacity"))
    return Memory(
        _number(usage.get("weight")), _number(usage.get("kvcache")), graphs, None if capacity is None else int(capacity)
    )


def ranks_of(states: list[Mapping[str, Any]], speculates: bool) -> tuple[Rank, ...]:
    """A rank for each internal state; those more than 15 % under the median accept length are flagged."""
    lengths = [_number(state.get("avg_spec_accept_length")) if speculates else None for state in states]
    known = [length for length in lengths if length]
    middle = median(known) if len(known) > 1 else None
    return tuple(
        Rank(
            index,
            length or None,
            _number(state.get("last_gen_throughput")),
            bool(middle and length and length < OUTLIER_BELOW * middle),
        )
        for index, (state, length) in enumerate(zip(states, lengths, strict=True))
    )


def _states(body: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    """Internal states, a rank each; behind a prefill/decode router they lie under ``decode``."""
    states = body.get("internal_states")
    if not isinstance(states, list):
        decode = body.get("decode")
        inner = decode[0] if isinstance(decode, list) and decode else None
        states = inner.get("internal_states") if isinstance(inner, Mapping) else None
    return [state for state in states if isinstance(state, Mapping)] if isinstance(states, list) else []


def looks_like_sglang(body: object) -> bool:
    """An info body is one that carries what no other server's JSON carries together."""
    if not isinstance(body, Mapping):
        return False
    if isinstance(body.get("internal_states"), list):
        return True
    if "speculative_algorithm" in body and ("model_path" in body or "version" in body):
        return True
    return isinstance(body.get("decode"), list) and bool(_states(body))


def _graph_sizes(body: Mapping[str, Any], state: Mapping[str, Any]) -> list[int] | None:
    """Batch sizes that decode graphs were captured for, by any version's name."""
    config = body.get("cuda_graph_config")
    decode = config.get("decode") if isinstance(config, Mapping) else None
    candidates = [
        state.get("decode_cuda_graph_bs"),
        decode.get("bs") if isinstance(decode, Mapping) else None,
        body.get("cuda_graph_bs_decode"),
        body.get("cuda_graph_bs"),
        state.get("cuda_graph_bs"),
    ]
    for sizes in candidates:
        if isinstance(sizes, list) and sizes and all(isinstance(size, int) for size in sizes):
            return sorted(sizes)
    return None


def _server(
    body: Mapping[str, Any], state: Mapping[str, Any], contract: Contract, context_len: int | None
) -> dict[str, Any]:
    server = contract.settings_of(body, spec=False)
    effective = _number(state.get("effective_max_running_requests_per_dp"))
    if effective is not None:
        ranks = _number(body.get("dp_size")) or 1
        server["max_running_requests"] = int(effective * ranks)
    if (sizes := _graph_sizes(body, state)) is not None:
        server["cuda_graph_bs"] = sizes
        server["cuda_graph_max_bs"] = sizes[-1]
    for key in ("max_total_num_tokens", "max_req_input_len", "device", "reasoning_parser", "enable_cache_report"):
        if key in body:
            server[key] = body[key]
    if isinstance(server.get("disable_overlap_schedule"), bool):
        server["overlap_schedule"] = not server["disable_overlap_schedule"]
    context = _number(body.get("context_length")) or _number(body.get("context_len"))
    server["context_len"] = int(context) if context else context_len
    return server


def read_info(body: Mapping[str, Any], *, asked: str | None = None, context_len: int | None = None) -> ServerInfo:
    """An info body of any version as :class:`ServerInfo`. Missing or odd parts are left out, never an error.

    ``asked`` is the algorithm that the server was launched with, ``context_len`` what /v1/models said, where the
    caller knows them.
    """
    version = body.get("version")
    version = version if isinstance(version, str) else ""
    contract = contract_for(version or None)
    states = _states(body)
    first: Mapping[str, Any] = states[0] if states else {}
    source: Mapping[str, Any] = body
    if "speculative_algorithm" not in body and isinstance(first.get("speculative_algorithm"), str | None):
        source = {**first, **body}
    reported = algorithm_name(source.get("speculative_algorithm"))
    draft, model = source.get("speculative_draft_model_path"), source.get("model_path")
    asked = asked or asked_in_command(body)
    algorithm = neutral_algorithm(
        reported, draft if isinstance(draft, str) else None, model if isinstance(model, str) else None, asked
    )
    settings = contract.settings_of(source, spec=True) if reported else {}
    for key in contract.hot_keys:
        # Only the schedulers hold what was changed on the running server; the top level repeats the launch.
        live = contract.settings_of(first, spec=True).get(key) if reported else None
        if live is not None:
            settings[key] = live
    name = source.get("served_model_name")
    return ServerInfo(
        version=version,
        contract=contract,
        model_path=model if isinstance(model, str) else "",
        served_name=name if isinstance(name, str) and name else (model if isinstance(model, str) else ""),
        algorithm=algorithm,
        reported_algorithm=reported,
        settings=settings,
        server=_server(source, first, contract, context_len),
        ranks=ranks_of(states, reported is not None),
        memory=memory_of(first),
        simulated=bool(body.get(SIMULATED_KEY)),
        raw=redact(dict(body)),
    )


def unreadable_info(status: int, model_info: Mapping[str, Any] | None) -> ServerInfo:
    """A live server whose info call fails: everything unknown but the model."""
    model = (model_info or {}).get("model_path")
    name = (model_info or {}).get("served_model_name")
    path = model if isinstance(model, str) else ""
    return ServerInfo(
        version="",
        contract=contract_for(None),
        model_path=path,
        served_name=name if isinstance(name, str) and name else path,
        algorithm="unknown",
        reported_algorithm=None,
        unreadable=f"not readable (HTTP {status})",
    )
