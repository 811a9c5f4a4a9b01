"""The lines of SGLang's log that others read: batches, and the phases of a start."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from spectui.engines.sim.arguments import Launch
from spectui.engines.sim.dialect import Dialect
from spectui.engines.sim.resolve import model_type


def prefill(
    dialect: Dialect, seqs: int, new: int, cached: int, usage: float, running: int, queue: int, speed: float
) -> str:
    mark = "," if dialect.since(0, 5, 5) else "."
    text = (
        f"Prefill batch{mark} #new-seq: {seqs}, #new-token: {new}, #cached-token: {cached}, token usage: {usage:.2f}, "
        f"#running-req: {running}, #queue-req: {queue}, "
    )
    if dialect.since(0, 5, 12):
        text += "#pending-token: 0, "
    if dialect.since(0, 5, 10):
        text += f"cuda graph: False, input throughput (token/s): {speed:.2f}"
    return text


def decode(
    dialect: Dialect,
    running: int,
    tokens: int,
    usage: float,
    length: float | None,
    rate: float | None,
    graph: bool,
    speed: float,
    queue: int,
) -> str:
    mark = "," if dialect.since(0, 5, 5) else "."
    text = f"Decode batch{mark} #running-req: {running}, #token: {tokens}, token usage: {usage:.2f}, "
    if length is not None:
        text += f"accept len: {length:.2f}, "
        if rate is not None:
            text += f"accept rate: {rate:.2f}, "
    text += f"cuda graph: {graph}, gen throughput (token/s): {speed:.2f}, #queue-req: {queue}"
    return text if dialect.since(0, 5, 10) else text + ", "


@dataclass(frozen=True, slots=True)
class Phase:
    """A part of the start: how much of the whole it takes, and what is printed when it is over."""

    name: str
    share: float
    lines: tuple[str, ...]
    stamped: bool = True


def phases(launch: Launch) -> list[Phase]:
    """Start-up in order, up to where HTTP comes up. Shares sum to one."""
    a, dialect = launch.args, launch.sim.dialect
    target = model_type(str(a["model_path"]))[1]
    draft = a["speculative_draft_model_path"] if launch.algorithm not in (None, "NGRAM") else None
    out = [
        Phase("launched", 0.02, (f"server_args=ServerArgs({', '.join(f'{k}={_shown(k, v)}' for k, v in a.items())})",)),
        Phase("tokenizer", 0.05, ("Using default HuggingFace chat template with detected content format: string",)),
    ]  # fmt: skip
    if dialect.number < (0, 5, 23):
        ends = "Init torch distributed ends. elapsed=0.18 s, mem usage=0.09 GB"
        out.append(Phase("distributed", 0.35, ("Init torch distributed begin.", ends)))
    out += _weights(target, 139.09, 138.83, 0.27, 0.3)
    if draft:
        out += _weights(f"{target}{'Eagle3' if launch.algorithm == 'EAGLE3' else 'NextN'}", 138.83, 138.70, 0.13, 0.05)
    dtype = "dtype: torch.bfloat16, " if dialect.since(0, 5, 15) else ""
    pool = f"KV Cache is allocated. {dtype}#tokens: 2577736, K size: 27.66 GB, V size: 27.66 GB"
    out.append(Phase("memory pool", 0.05, (pool, "Memory pool end. avail mem=83.50 GB")))
    for name in _graphs(launch, bool(draft)):
        out += _capture(launch, name)
    total = sum(p.share for p in out)
    return [Phase(p.name, p.share / total, p.lines, p.stamped) for p in out]


def _shown(name: str, value: object) -> str:
    return "'******'" if value is not None and name.endswith("api_key") else repr(value)


def _weights(kind: str, before: float, after: float, used: float, share: float) -> list[Phase]:
    end = f"Load weight end. elapsed=0.19 s, type={kind}, avail mem={after:.2f} GB, mem usage={used:.2f} GB."
    shards = "Multi-thread loading shards: {:>3}% Completed | {}/1 [00:00<{}, {}it/s]"
    return [
        Phase("weights", 0.02, (f"Load weight begin. avail mem={before:.2f} GB",)),
        Phase("weights", share / 2, ("\n" + shards.format(0, 0, "?", "?"),), stamped=False),
        Phase("weights", share / 2, (shards.format(100, 1, "00:00", " 16.09"),), stamped=False),
        Phase("weights", 0.01, (end,)),
    ]


def _graphs(launch: Launch, draft: bool) -> list[str]:
    if launch.args["disable_cuda_graph"]:
        return []
    dialect = launch.sim.dialect
    if not dialect.since(0, 5, 15):
        return ["cuda graph", *(["draft cuda graph", "draft extend cuda graph"] if draft else [])]
    names = ["target verify CUDA graph" if launch.algorithm else "target decode CUDA graph"]
    return names + (["draft decode CUDA graph", "draft extend CUDA graph"] if draft else [])


def _capture(launch: Launch, name: str) -> list[Phase]:
    config: dict[str, Any] | None = launch.args.get("cuda_graph_config")
    sizes: list[int] = config["decode"]["bs"] if config else [1, 2, 4, 8, 16, 24, 32]
    width = launch.args["speculative_num_draft_tokens"] or 1
    count = len(sizes)
    begin = f"Capture {name} begin. avail mem=83.28 GB"
    end = f"Capture {name} end. Time elapsed: 2.72 s. mem usage=0.19 GB. avail mem=83.10 GB."
    if config:
        begin = f"Capture {name} begin. backend=full, num_tokens_per_bs={width}, bs={sizes}, avail mem=83.28 GB"
        end = f"Capture {name} end. elapsed=2.72 s, mem usage=0.19 GB, avail mem=83.10 GB."
    out = [Phase(name, 0.02, (begin,)), Phase(name, 0.02, (f"\n  0%|          | 0/{count} [00:00<?, ?it/s]",), False)]
    for done in sorted({count // 3, 2 * count // 3, count}):
        bar = "█" * round(10 * done / count)
        text = f"Capturing batches (bs={sizes[count - done - 1 if done < count else 0]} avail_mem=83.11 GB): "
        text += f"{100 * done // count:>3}%|{bar:<10}| {done}/{count} [00:01<00:00, 11.59it/s]"
        out.append(Phase(name, 0.06, (text,), False))
    return [*out, Phase(name, 0.02, (end,))]


def ready_lines(launch: Launch) -> list[str]:
    a = launch.args
    lines = [
        f"max_total_num_tokens=2577736, chunked_prefill_size={a['chunked_prefill_size']}, "
        f"max_prefill_tokens={a['max_prefill_tokens']}, max_running_requests={launch.max_running}, "
        f"context_len={launch.context_length}, available_gpu_mem=83.10 GB"
    ]
    if launch.sim.dialect.since(0, 5, 15):
        lines.append(
            "Tree cache initialized: source=default impl=RadixCache hybrid_swa=False hybrid_ssm=False "
            "hierarchical=False streaming_wrapped=False"
        )
    return lines
