"""Field cases about GPUs, with their own inputs and others of the same kind."""

from __future__ import annotations

import threading
from typing import Any

import pytest
from field_data import expected, table
from nvml_stand_in import Clock, Gate, Nvml, healthy, nvml_error

from spectui.cli import doctor
from spectui.core.gpu import GpuReading
from spectui.hosts import gpus
from spectui.hosts.gpu_facts import LocalProcess, busy_hint, may_end, owners, utilization_mean
from spectui.hosts.gpus import GpuPanel, GpuSampler
from spectui.hosts.nvml import NvmlReader
from spectui.hosts.visible import map_visible

GIB = 1024**3
TEXTS = {
    "package": "Python NVML package not installed",
    "library": "NVML library not found",
    "permission": "no permission for NVML",
    "zero": "NVML works, 0 GPUs",
}


def read(reader: NvmlReader) -> tuple[str, dict[int, GpuReading]]:
    found: dict[int, GpuReading] = {}
    return reader.read(lambda reading: found.update({reading.index: reading})), found


def loading(error: BaseException | None, fake: Nvml) -> Any:
    def load() -> Nvml:
        if error is not None:
            raise error
        return fake

    return load


@pytest.mark.parametrize(
    ("condition", "want"), list(zip(table("FC-51")["conditions"], expected("FC-51")["want"], strict=True)), ids=str
)
def test_fc51_why_there_are_no_gpus(condition: dict[str, Any], want: str) -> None:
    fake, clock = Nvml([]), Clock()
    error = ModuleNotFoundError("No module named 'pynvml'") if condition["raise_at"] == "import" else None
    if condition["raise_at"] == "init":
        fake.init_error = condition["type"].removeprefix("NVMLError_")
    reader = NvmlReader(loading(error, fake), clock=clock)
    assert read(reader) == (TEXTS[want], {})
    calls = len(fake.calls)
    clock.now += 29
    assert read(reader)[0] == TEXTS[want]
    assert len(fake.calls) == calls, "tried again before 30 s"


@pytest.mark.parametrize(
    ("error", "said"),
    [
        (OSError("libnvidia-ml.so.1: cannot open shared object file"), "NVML library not found"),
        (RuntimeError("odd"), "Python NVML package does not load: RuntimeError"),
        (ImportError("half a package"), "Python NVML package not installed"),
        (nvml_error("LibraryNotFound"), "Python NVML package does not load: LibraryNotFound"),
    ],
    ids=str,
)
def test_fc51_other_ways_to_be_absent(error: Exception, said: str) -> None:
    assert read(NvmlReader(loading(error, Nvml([])), clock=Clock())) == (said, {})


def mig_and_whole() -> list[GpuReading]:
    rows = table("FC-52")["gpus"]
    slices = [(int(s["used_gib"] * GIB), int(s["total_gib"] * GIB)) for s in rows[0]["slices"]]
    fake = Nvml([healthy(utilization="NotSupported", slices=slices), healthy(utilization=rows[1]["utilization"])])
    return list(read(NvmlReader(lambda: fake, clock=Clock()))[1].values())


def test_fc52_slices_have_memory_and_no_utilization() -> None:
    want, found = expected("FC-52"), mig_and_whole()
    assert [reading.utilization for reading in found] == want["util"]
    assert found[0].missing["utilization"] == "n/a (MIG)"
    assert [f"{u / GIB:.1f}/{t / GIB:.1f}" for u, t in found[0].slices] == ["9.8/19.6", "0.1/19.6"]
    mean = utilization_mean(found)
    assert (mean.value, list(mean.of), mean.text) == (want["mean"], want["of"], "87 % (1 of 2 GPUs)")


def test_fc52_and_fc56_the_doctor_tells_them(monkeypatch: pytest.MonkeyPatch) -> None:
    blind = GpuReading(uuid="2", index=2, name="H", memory_used=60 * GIB, pids=())
    monkeypatch.setattr(gpus, "read_once", lambda: GpuPanel((*mig_and_whole(), blind), "ok", "570"))
    row = doctor.gpus()
    assert "utilization 87 % (1 of 3 GPUs)" in row.detail
    assert "GPU 0: 2 MIG slices, 9.8/19.6, 0.1/19.6 GiB" in row.detail
    assert "GPU 2: 60.0 GiB used by processes we cannot see" in row.detail


@pytest.mark.parametrize(
    ("row", "want"), list(zip(table("FC-53")["rows"], expected("FC-53")["want"], strict=True)), ids=str
)
def test_fc53_which_gpus_a_server_sees(row: dict[str, Any], want: list[int]) -> None:
    assert list(map_visible(four(), row["visible"], row.get("order")).indices) == want


def four() -> list[GpuReading]:
    return [
        GpuReading(uuid=g["uuid"], index=g["index"], name="H", mig_uuids=tuple(g.get("mig_uuids", ())))
        for g in table("FC-53")["gpus"]
    ]


@pytest.mark.parametrize(
    ("visible", "indices", "cut"),
    [
        (" 2 , 0 ", (2, 0), None),
        ("1,1", (1,), "1"),
        ("0,-1,2", (0,), "-1"),
        ("GPU-aaaa1111-0000,1", (0, 1), None),
        ("GPU-", (), "GPU-"),
        ("MIG-GPU-dddd4444-0000/7/0", (3,), None),
        ("3,", (3,), ""),
        ("٣", (), "٣"),
        ("all", (), "all"),
    ],
)
def test_fc53_other_lists(visible: str, indices: tuple[int, ...], cut: str | None) -> None:
    found = map_visible(four(), visible, "PCI_BUS_ID")
    assert (found.indices, found.invalid) == (indices, cut)


def test_fc55_one_gpu_is_lost_the_others_go_on() -> None:
    want, clock, fake = expected("FC-55"), Clock(), Nvml([healthy(), healthy(), healthy()])
    reader = NvmlReader(lambda: fake, clock=clock)
    for tick, values in enumerate(table("FC-55")["ticks"], 1):
        for i, value in values.items():
            fake.gpus[int(i)] = healthy(lost=True) if isinstance(value, str) else healthy(utilization=value)
        fake.calls.clear()
        state, found = read(reader)
        clock.now += 1
        assert state == "ok"
        if tick == 3:
            shown = {str(i): "lost" if reading.lost else reading.utilization for i, reading in found.items()}
            assert shown == want["tick3"]
        if tick == 4:
            assert not [call for call in fake.calls if call[1] == 2]
    fake.gpus[2] = healthy()
    fake.all_error = table("FC-55")["case_2"]["all"].removeprefix("NVMLError_")
    assert read(reader)[0] == "GPU access lost in this container"
    fake.all_error = None
    clock.now += 31
    assert read(reader)[0] == "ok"


def test_fc56_numbers_that_mean_nobody_here() -> None:
    case, want = table("FC-56"), expected("FC-56")
    readings = [
        GpuReading(uuid=str(p["gpu"]), index=p["gpu"], name="H", processes=((p["pid"], int(p["used_gib"] * GIB)),))
        for p in case["nvml_processes"]
    ]
    local = {int(pid): LocalProcess(p["name"], p["start"]) for pid, p in case["local"].items()}
    words = {"outside": "outside this container", "not_ours": "not ours (name differs)"}
    for ours in ([], [case["our_server"]["pid"]], [case["our_server"]["pid"], 87, 410233]):
        found = owners(readings, local, ours=ours)
        assert [holder.owner for holder in found] == [words[who] for who in want["owners"]]
        assert may_end(found) == want["kill"]


def test_fc58_a_hanging_driver_holds_up_nobody() -> None:
    limits, clock, fake = table("FC-58")["limits"], Clock(), Nvml([healthy()])
    gate = fake.before = Gate("nvmlDeviceGetUtilizationRates")
    before = threading.active_count()
    sampler = GpuSampler(nvml=fake, clock=clock)
    sampler.start()
    assert gate.entered.wait(10)
    clock.now += 5.1
    assert sampler.latest().state == "NVML not answering"
    sampler.start()
    assert threading.active_count() - before <= limits["stuck_threads"]
    assert sampler.stop(timeout_s=0.01) is False
    gate.open.set()
    assert sampler.stop(10)


@pytest.mark.parametrize(
    ("row", "want"), list(zip(table("FC-60")["rows"], expected("FC-60")["want"], strict=True)), ids=str
)
def test_fc60_busy_without_output(row: dict[str, Any], want: str | None) -> None:
    said = busy_hint(
        row["util"], row["power_w"], row["limit_w"], row["tok_s"], row["running"], row.get("prefill_age_s")
    )
    assert said == {"stuck?": "busy but no output, maybe stuck"}.get(want or "", want)


@pytest.mark.parametrize(
    ("facts", "said"),
    [
        ((99, 90, 350, 0, 1, None), "busy but no output, maybe stuck"),
        ((99, 90, 350, 0, 1, 4.9), "prefill"),
        ((99, 90, 350, 0, 0, None), None),
        ((None, 90, 350, 0, 1, None), None),
        ((99, None, 350, 0, 1, None), None),
        ((99, 300, 350, 0, 1, None), None),
    ],
)
def test_fc60_other_facts(facts: tuple[Any, ...], said: str | None) -> None:
    assert busy_hint(*facts) == said
