"""The noise floor of this node: one server against itself, many times over, and what a comparison makes of it.

What is left of such ratios beyond the spread over prompts (clocks, the scheduler, other work on the node) is added to
every interval. Kept in ``known/noise.json`` by node, GPU, model and concurrency.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from math import exp, lcm, log, sqrt
from pathlib import Path
from time import gmtime, strftime
from typing import Any

from spectui.core.compare import DRIFT, compare
from spectui.core.evidence import is_stateful
from spectui.core.fairness import side_of
from spectui.core.result import RunResult
from spectui.core.rows import Row
from spectui.core.sample import DIFFERENCE, needs_blocks, noise_floor
from spectui.core.spec import ArmSpec, RunSpec
from spectui.core.stats import Estimate
from spectui.session import SessionError, running
from spectui.session.running import RunHandle, RunOptions
from spectui.store import locations

LEAST_TIMES = 3
REQUESTS = 8


@dataclass(frozen=True, slots=True)
class Floor:
    """Of A against A at one concurrency."""

    node: str
    gpu: str
    model: str
    concurrency: int
    sd: float
    """Standard deviation of the logarithm of the ratio beyond what the prompts explain."""
    largest: float
    """Largest distance of a ratio from 1."""
    times: int
    verdicts: int
    """How many of them would have been called faster or slower without the floor."""
    log_ratios: tuple[float, ...] = ()
    algorithm: str = ""
    workload: str = ""
    at: str = ""
    """When it was measured, UTC."""
    apart: float = 0.0
    """Standard deviation of the logarithm of a ratio of two times that were not measured by turns: what changes on
    this node from one minute to the next. 0: not known."""

    @property
    def drift(self) -> float:
        """What is added where arms are not measured by turns."""
        return max(self.apart, self.sd, DRIFT)

    @property
    def text(self) -> str:
        if self.sd == 0:
            return (
                f"noise floor at {self.concurrency} at a time: nothing beyond what it holds anyway was seen (one "
                f"server against itself {self.times} times, at most {100 * self.largest:.1f} % apart)"
            )
        return (
            f"noise floor {100 * self.sd:.1f} % at {self.concurrency} at a time (one server against itself "
            f"{self.times} times, at most {100 * self.largest:.1f} % apart)"
        )

    def as_json(self) -> dict[str, Any]:
        return {**asdict(self), "log_ratios": list(self.log_ratios), "text": self.text}


SIGMAS = 2.8
"""Of a difference that is found four times out of five at 95 %: 1.96 + 0.84."""


def need_text(bare: Estimate, sd: float, what: str) -> str:
    """How many more units it takes, where a part of the error, ``sd``, never shrinks with them. ``bare``: without it;
    ``what`` it is, in words."""
    wanted, hidden = log(1.0 + DIFFERENCE), SIGMAS * sd
    if hidden >= wanted:
        seen = exp(hidden) - 1.0
        return (
            f"with {what} only differences of about {100 * seen:.0f} % can be seen, however many {bare.unit} are "
            "measured; step time and accept length apart settle sooner"
        )
    left = exp(sqrt(wanted**2 - hidden**2)) - 1.0
    need = needs_blocks(bare, difference=left)
    if not need.more:
        return f"{bare.units} {bare.unit} are enough to see a difference of {100 * DIFFERENCE:.0f} %, even with {what}"
    return need.text.replace(f"{100 * left:.0f} %", f"{100 * DIFFERENCE:.0f} %")


def place_of(result: RunResult, arm: str) -> tuple[str, str, str]:
    """Node, GPU name and model of an arm; the GPU's name is empty where it is not known."""
    head = result.arm(arm)
    node = result.head.get("node") or {}
    names = {str(g.get("uuid")): str(g.get("name")) for g in node.get("gpus") or () if isinstance(g, Mapping)}
    held = {names[u] for u in head.get("gpus") or () if u in names} or set(names.values())
    gpu = "simulated" if head.get("simulated") else next(iter(held)) if len(held) == 1 else " and ".join(sorted(held))
    return str(node.get("host") or ""), gpu, str(head.get("model") or "")


def build(arm: ArmSpec, options: RunOptions, times: int) -> tuple[RunSpec, int]:
    """One run in which the server stands on both sides, ``times`` + 1 times over; and the prompts of one time.

    The first time is not counted: from then on the prefix cache holds all prompts for both sides. Nothing is flushed.
    """
    if times < LEAST_TIMES:
        raise SessionError(f"--times must be at least {LEAST_TIMES}, not {times}", 2)
    level = max(options.concurrency)
    wanted = options.requests or max(REQUESTS, 2 * level)
    bare = replace(arm, owned=False)
    sides = [replace(bare, name="A"), replace(bare, name="B")]
    whole = running.build_spec(sides, replace(options, requests=None, passes=("warm",), flush="no", keep_text=False))
    prompts = whole.measuring[:wanted]
    if len(prompts) < wanted:
        have = len(whole.measuring)
        raise SessionError(f"workload {whole.workload.name} has {have} prompts, fewer than the {wanted} asked for", 2)
    if len({p.id for p in prompts}) < len(prompts):
        raise SessionError(f"the prompts of workload {whole.workload.name} are not all different: take another", 2)
    size = options.block or -(-len(prompts) // 8)
    # Each time is whole blocks at every concurrency: else a block would hold the end of one time and the next's start.
    each = lcm(*(max(size, at) for at in options.concurrency))
    if each > len(prompts):
        each = size = max(size, level)
    prompts = prompts[: each * (len(prompts) // each)]
    name = whole.run_id.replace(f"-{whole.workload.name}-", "-noise-")
    folder = str(Path(whole.folder).with_name(name))
    spec = replace(
        whole, run_id=name, folder=folder, measuring=prompts * (times + 1), feeding=whole.feeding[:1], block=size
    )
    return spec, len(prompts)


def measure(
    arm: ArmSpec,
    options: RunOptions,
    times: int,
    algorithm: str,
    on_row: Callable[[Row], None] | None = None,
) -> tuple[RunHandle, RunResult, list[Floor]]:
    """Raises :class:`SessionError` for a server whose drafter learns: its second answer is never like its first.

    An interrupt ends it early; the result says so, and its floors are of the times that were whole until then.
    """
    if is_stateful(algorithm) is not False:
        raise SessionError(
            f"{algorithm} learns from its answers: the second side would be served what the first has taught it, so "
            "one server against itself says nothing of noise. Measure the floor of this node with speculation off, or "
            "with EAGLE: it is used for all settings"
        )
    spec, prompts = build(arm, options, times)
    handle = running.start(spec)
    try:
        result = running.wait(handle, on_row)
    except KeyboardInterrupt:
        if not handle.journal.is_file():
            raise
        result = running.result_of(handle.folder)
    return handle, result, floors_of(result, prompts)


def floors_of(result: RunResult, prompts: int) -> list[Floor]:
    """One a concurrency, of so many prompts each time; empty where fewer than three times were measured."""
    found = []
    for level in dict.fromkeys(key[1] for key in result.passes):
        times = _times(result, level, prompts)
        made = noise_floor([time.bare for time in times])
        if made is None:
            continue
        node, gpu, model = place_of(result, "A")
        found.append(
            Floor(
                node,
                gpu,
                model,
                level,
                made.sd,
                made.largest,
                made.runs,
                sum(1 for time in times if time.shown.excludes_one),
                tuple(round(log(time.bare.ratio), 6) for time in times),
                str(result.arm("A").get("algorithm") or ""),
                str((result.head.get("workload") or {}).get("name") or ""),
                strftime("%Y-%m-%dT%H:%M:%SZ", gmtime()),
                _apart([time.speeds for time in times]),
            )
        )
    return found


def _apart(speeds: Sequence[tuple[float, float]]) -> float:
    """Of two times that were chosen without regard to when they were: √2 times what one time spreads."""
    spread = 0.0
    for side in zip(*speeds, strict=True):
        logs = [log(v) for v in side]
        mean = sum(logs) / len(logs)
        spread += sum((v - mean) ** 2 for v in logs) / (len(logs) - 1)
    return sqrt(spread)  # the mean of both sides' variances, twice


@dataclass(frozen=True, slots=True)
class _Time:
    """One of the times that the server was compared with itself."""

    bare: Estimate
    """With nothing allowed for: all times go by turns, those of one block too."""
    shown: Estimate
    """As a comparison would show it without a floor."""
    speeds: tuple[float, float]
    """Output tok/s of both sides."""


def _times(result: RunResult, level: int, prompts: int) -> list[_Time]:
    """All but the first."""
    a, b = (next((p for k, p in result.passes.items() if k[:2] == (name, level)), None) for name in "AB")
    if a is None or b is None:
        return []
    last = min(max(r.index for r in p.records) for p in (a, b))
    times = []
    for number in range(1, (last + 1) // prompts):
        inside = range(number * prompts, (number + 1) * prompts)
        parts = [replace(p, records=tuple(r for r in p.records if r.index in inside)) for p in (a, b)]
        sides = [replace(side_of(result, p.key), result=part) for p, part in zip((a, b), parts, strict=True)]
        bare, shown = (compare(*sides, drift=drift).throughput for drift in (0.0, DRIFT))
        if bare is not None and shown is not None:
            times.append(_Time(bare, shown, (parts[0].output_tokens_per_s or 0.0, parts[1].output_tokens_per_s or 0.0)))
    return times


def _path() -> Path:
    return locations.known_dir() / "noise.json"


def known() -> list[Floor]:
    """All floors that are kept; a file that cannot be read counts as none."""
    try:
        rows = json.loads(_path().read_text("utf-8"))
    except (OSError, ValueError):
        return []
    names = {f.name for f in fields(Floor)}
    floors = []
    for row in rows if isinstance(rows, list) else []:
        try:
            values = {k: v for k, v in row.items() if k in names}
            floor = Floor(**{**values, "log_ratios": tuple(values.get("log_ratios") or ())})
            if floor.sd >= 0 and floor.concurrency >= 1:
                floors.append(floor)
        except (TypeError, AttributeError):
            continue
    return floors


def keep(floors: Sequence[Floor]) -> Path:
    """The newest of each node, GPU, model and concurrency. Raises OSError where it cannot be written."""
    fresh = {_key(f) for f in floors}
    rows = [asdict(f) for f in (*(f for f in known() if _key(f) not in fresh), *floors)]
    path = _path()
    part = path.with_suffix(f".{os.getpid()}.part")
    part.write_text(json.dumps(rows, indent=1), "utf-8")
    part.replace(path)
    return path


def _key(floor: Floor) -> tuple[str, str, str, int]:
    return floor.node, floor.gpu, floor.model, floor.concurrency


def floor_for(place: tuple[str, str, str], concurrency: int, floors: Sequence[Floor] | None = None) -> Floor | None:
    """The floor of this node, GPU and model, at this concurrency or the nearest one that was measured."""
    mine = [f for f in (known() if floors is None else floors) if (f.node, f.gpu, f.model) == place]
    return min(mine, key=lambda f: abs(log(f.concurrency / concurrency)), default=None)
