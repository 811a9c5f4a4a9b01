"""What can be known of a launch before gigabytes are loaded: draft against target, memory, equal limits, GPUs."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from spectui.core.changes import fair_baseline
from spectui.core.pairing import check_pair
from spectui.core.plan import LIMITS, Plan
from spectui.core.profile import Profile
from spectui.store import model_files

GIB = 1024**3
_WEIGHTS = ("*.safetensors", "*.bin", "*.pt", "*.gguf")


@dataclass(frozen=True, slots=True)
class Draft:
    """What the config files say of draft and target."""

    blocks: tuple[str, ...] = ()
    notes: tuple[str, ...] = ()


def check_draft(profile: Profile) -> Draft:
    """Draft against target, where a draft model is named. A file that cannot be read is "not checked", never "ok"."""
    path = profile.speculative.knobs.get("draft_model_path")
    if profile.speculative.algorithm == "none" or not isinstance(path, str) or not path:
        return Draft()
    places = folders(profile)
    target, draft = (model_files.read_config(folder) for folder in places)
    pairing = check_pair(target, draft, algorithm=profile.speculative.algorithm)
    blocks = tuple(remark.text for remark in pairing.remarks if remark.state == "block")
    notes = [remark.text for remark in pairing.remarks if remark.state in ("warn", "not checked")]
    sizes = [weight_bytes(place) for place in places]
    if all(sizes):
        fraction = profile.server.arguments().get("mem_fraction_static")
        told = f"mem_fraction_static is {fraction}" if fraction is not None else "mem_fraction_static is the server's"
        notes.append(
            f"weights: target {(sizes[0] or 0) / GIB:.1f} GiB, draft {(sizes[1] or 0) / GIB:.1f} GiB; the draft, its "
            f"KV pool and its graphs need room beside them ({told})"
        )
    return Draft(blocks, tuple(notes))


def folders(profile: Profile) -> tuple[str | None, str | None]:
    """Where target and draft lie on this disk, by the profile's own folder and hub cache; None where they do not."""
    server, draft = profile.server, profile.speculative.knobs.get("draft_model_path")
    environ = {**os.environ, **server.env}
    target = server.arguments().get("model_path")
    named = (path if isinstance(path, str) else None for path in (target, draft))
    found = [model_files.folder_of(path, cwd=server.cwd, environ=environ) for path in named]
    return found[0], found[1]


def weight_bytes(folder: str | None) -> int | None:
    """Size of a model's weight files in a local folder; None where there are none."""
    if not folder:
        return None
    place = Path(folder).expanduser()
    for pattern in _WEIGHTS:
        try:
            total = sum(file.stat().st_size for file in place.glob(pattern))
        except (OSError, ValueError):
            return None
        if total:
            return total
    return None


@dataclass(frozen=True, slots=True)
class Limits:
    """Arguments that make a baseline equal to the speculative server it is held against."""

    args: dict[str, Any]
    notes: tuple[str, ...] = ()


def equal_limits(profile: Profile, other: Plan, other_args: Mapping[str, Any], name: str) -> Limits:
    """For a profile without speculation: the limits that ``other`` will really have, where the profile sets none.

    What the profile sets otherwise stays, and is named: it is the operator's word.
    """
    if profile.speculative.algorithm != "none" or other.algorithm == "none":
        return Limits({})
    baseline = fair_baseline(other, other_args)
    found = limits_of(profile, baseline.args, name)
    return Limits(found.args, (*baseline.notes, *found.notes))


def limits_of(profile: Profile, in_force: Mapping[str, Any], name: str) -> Limits:
    """The limits among ``in_force`` (arguments by field name) for a profile that does not set them."""
    own = profile.server.arguments()
    args, notes = {}, []
    for key in LIMITS:
        value = in_force.get(key)
        if value is None or isinstance(value, (list, tuple)):  # a list of graph sizes follows from the largest
            continue
        if key == "cuda_graph_max_bs_decode" and "cuda_graph_max_bs" in args:
            continue  # the same limit under the name of newer releases
        if own.get(key) is None:
            args[key] = value
        elif own[key] != value:
            notes.append(f"{key} is {own[key]} here and {value} on {name}: not a fair trial above the smaller one")
    if args:
        given = ", ".join(f"{key} {value}" for key, value in args.items())
        notes.append(f"given the limits of {name}: {given}")
    return Limits(args, tuple(notes))


def gpu_set(profile: Profile) -> frozenset[str]:
    """The GPUs that a server of this profile takes: those named, else as many as its ranks from its first on."""
    args = profile.server.arguments()

    def count(key: str, default: int) -> int:
        value = args.get(key, default)
        return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else default

    replicas = 1 if args.get("enable_dp_attention") else max(1, count("dp_size", 1))
    ranks = max(1, count("tp_size", 1)) * max(1, count("pp_size", 1)) * replicas
    first = count("base_gpu_id", 0)
    if profile.server.gpus is not None:
        return frozenset(str(gpu) for gpu in profile.server.gpus)
    return frozenset(str(gpu) for gpu in range(first, first + ranks))


def share_gpus(a: Profile, b: Profile) -> str | None:
    """Why two servers cannot be up at once; None where they can. Raises nothing.

    Sharing a GPU is fine where both say which fraction of it they take and the two fit.
    """
    shared = gpu_set(a) & gpu_set(b)
    if not shared:
        return None
    taken: list[float] = []
    for profile in (a, b):
        fraction = profile.server.arguments().get("mem_fraction_static")
        if isinstance(fraction, (int, float)):
            taken.append(float(fraction))
    if len(taken) == 2 and sum(taken) <= 0.95:
        return None
    how = "they do not both say which mem_fraction_static they take"
    if len(taken) == 2:
        how = f"their memory fractions add up to {sum(taken):.2f}"
    return f"both use GPU {', '.join(sorted(shared))} and {how}"
