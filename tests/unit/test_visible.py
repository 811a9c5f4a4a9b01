from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectui.core.gpu import GpuReading
from spectui.hosts.visible import base_gpu, map_visible, overlap

CASE = json.loads((Path(__file__).parent.parent / "data" / "hosts" / "FC-53.json").read_text())
GPUS = [
    GpuReading(uuid=g["uuid"], index=g["index"], name="H", mig_uuids=tuple(g.get("mig_uuids", ())))
    for g in CASE["gpus"]
]


# FC-53
@pytest.mark.parametrize("row", CASE["rows"])
def test_visible_devices_by_the_rules_of_cuda(row: dict[str, Any]) -> None:
    got = map_visible(GPUS, row["visible"], row.get("order"))
    assert list(got.indices) == row["want"]
    if "base_gpu_id" in row:
        assert list(base_gpu(got, row["base_gpu_id"], 1)) == row["want"]


def test_a_slice_maps_to_its_parent_and_says_so() -> None:
    got = map_visible(GPUS, "MIG-9999-1")
    assert got.mig
    assert got.note == "n/a (MIG)"


def test_the_invalid_entry_is_named() -> None:
    got = map_visible(GPUS, "0,9,1", "PCI_BUS_ID")
    assert got.invalid == "9"
    assert "'9'" in got.note


@pytest.mark.parametrize("visible", ["-1", "nonsense", "GPU-", "0,0", "MIG-none", " , "])
def test_what_is_no_gpu_cuts_the_list(visible: str) -> None:
    assert map_visible(GPUS, visible).invalid is not None


def test_numbers_on_mixed_types_are_assumed_unless_in_bus_order() -> None:
    mixed = [GpuReading(uuid="GPU-a", index=0, name="H"), GpuReading(uuid="GPU-b", index=1, name="L")]
    assert map_visible(mixed, "1,0").note == "order assumed"
    assert map_visible(mixed, None).order_assumed
    assert not map_visible(mixed, "1,0", "PCI_BUS_ID").order_assumed
    assert not map_visible(mixed, "GPU-b").order_assumed
    assert not map_visible(GPUS, "1,0").order_assumed


def test_ranks_and_overlap() -> None:
    four = map_visible(GPUS, "3,2,1,0")
    assert base_gpu(four, 1, 2) == (2, 1)
    assert base_gpu(four, 0, 2, step=2) == (3, 1)
    assert overlap((0, 1), (1, 2)) == (1,)
