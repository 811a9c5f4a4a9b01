"""Which GPUs a server sees: from ``CUDA_VISIBLE_DEVICES`` to NVML indices.

NVML counts all GPUs in bus order. A process counts only those made visible to it, in the order listed, and CUDA's own
numbering is "fastest first" unless ``CUDA_DEVICE_ORDER=PCI_BUS_ID``.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from spectui.core.gpu import GpuReading


@dataclass(frozen=True, slots=True)
class Visible:
    indices: tuple[int, ...]
    """NVML indices in the server's own order."""
    order_assumed: bool = False
    """Numbers without bus order on GPUs of different types: the mapping is a guess."""
    mig: bool = False
    """An entry is a slice; its index is the parent's, whose utilization is not available."""
    invalid: str | None = None
    """The first entry that names no GPU; CUDA ignores it and all after it."""

    @property
    def note(self) -> str:
        notes = []
        if self.order_assumed:
            notes.append("order assumed")
        if self.mig:
            notes.append("n/a (MIG)")
        if self.invalid is not None:
            notes.append(f"{self.invalid!r} in CUDA_VISIBLE_DEVICES is no GPU here: it and what follows is ignored")
        return "; ".join(notes)


def map_visible(gpus: Sequence[GpuReading], visible: str | None, order: str | None = None) -> Visible:
    """NVML indices of the GPUs that a process with this environment sees.

    ``visible`` is its ``CUDA_VISIBLE_DEVICES`` (None: unset, all GPUs; empty: none), ``order`` its
    ``CUDA_DEVICE_ORDER``. Entries may be numbers, UUIDs (full, or a start that fits one GPU only) or names of MIG
    slices. By CUDA's rule the list ends at the first entry that is not valid, or that repeats one.
    """
    by_index = {g.index: g for g in gpus}
    mixed = len({g.name for g in gpus}) > 1
    unordered = (order or "").strip().upper() != "PCI_BUS_ID" and mixed
    if visible is None:
        return Visible(tuple(sorted(by_index)), order_assumed=unordered)
    indices: list[int] = []
    seen: set[str] = set()
    numbers = mig = False
    invalid = None
    for entry in (e.strip() for e in visible.split(",")):
        if not entry and visible.strip() == "":
            break
        found = _resolve(entry, gpus, by_index)
        if found is None or found[1] in seen:
            invalid = entry
            break
        index, identity = found
        seen.add(identity)
        numbers = numbers or entry.isdigit()
        if identity.startswith("MIG"):
            mig = True
            if index in indices:
                continue
        indices.append(index)
    return Visible(tuple(indices), order_assumed=numbers and unordered, mig=mig, invalid=invalid)


def _resolve(entry: str, gpus: Sequence[GpuReading], by_index: Mapping[int, GpuReading]) -> tuple[int, str] | None:
    """(NVML index, identity) of one entry, or None."""
    if re.fullmatch("[0-9]+", entry):
        gpu = by_index.get(int(entry))
        return None if gpu is None else (gpu.index, gpu.uuid)
    if entry.upper().startswith("MIG-GPU-"):  # the older spelling: MIG-GPU-UUID/gpu instance/compute instance
        parent = entry[4:].split("/")[0]
        return next(((g.index, f"MIG:{entry}") for g in gpus if g.uuid == parent), None)
    if entry.upper().startswith("MIG-"):
        fits = [(g.index, m) for g in gpus for m in g.mig_uuids if m.startswith(entry)]
    elif entry.upper().startswith("GPU-"):
        fits = [(g.index, g.uuid) for g in gpus if g.uuid.startswith(entry)]
    else:
        return None
    return fits[0] if len(fits) == 1 else None


def base_gpu(visible: Visible, base_gpu_id: int, count: int, step: int = 1) -> tuple[int, ...]:
    """The GPUs that a server of ``count`` ranks takes of those visible, from ``--base-gpu-id`` in ``--gpu-id-step``."""
    return visible.indices[base_gpu_id :: max(1, step)][:count]


def overlap(a: Collection[int], b: Collection[int]) -> tuple[int, ...]:
    """GPUs in both sets, in order: two arms that run at once may share none."""
    return tuple(sorted(set(a) & set(b)))
