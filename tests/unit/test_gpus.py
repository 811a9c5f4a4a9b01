from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from nvml_stand_in import Clock, Gate, Nvml, healthy, nvml_error

from spectui.core.gpu import GpuReading
from spectui.hosts import gpus, nvml_words
from spectui.hosts.gpu_facts import LocalProcess, busy_hint, gpus_of, may_end, owners, utilization_mean
from spectui.hosts.gpus import GpuSampler
from spectui.hosts.nvml import NvmlReader
from spectui.hosts.nvml_words import throttle_words

DATA = Path(__file__).parent.parent / "data" / "hosts"
GIB = 1024**3


def case(name: str) -> Any:
    return json.loads((DATA / f"{name}.json").read_text())


def read(reader: NvmlReader) -> tuple[str, dict[int, GpuReading]]:
    got: dict[int, GpuReading] = {}
    state = reader.read(lambda r: got.__setitem__(r.index, r))
    return state, got


def reader_of(fake: object, clock: Callable[[], float] | None = None) -> NvmlReader:
    return NvmlReader(lambda: fake, clock=clock or Clock())


def test_every_value_has_its_unit() -> None:
    state, got = read(reader_of(Nvml([healthy()])))
    r = got[0]
    assert state == nvml_words.OK
    assert (r.utilization, r.power_w, r.power_limit_w, r.energy_j) == (87.0, 430.0, 700.0, 12.0)
    assert (r.memory_used, r.memory_total, r.sm_clock_mhz, r.temperature_c) == (70 * GIB, 140 * GIB, 1980, 61)
    assert (r.throttle, r.pids, r.processes, r.missing) == (("power-capped",), (41,), ((41, 60 * GIB),), {})
    assert r.uuid == "GPU-0"


def test_one_failing_call_costs_one_value() -> None:
    _, got = read(reader_of(Nvml([healthy(energy="NotSupported", power="Unknown", processes="NoPermission")])))
    r = got[0]
    assert r.energy_j is None
    assert r.power_w is None
    assert r.pids is None
    assert r.missing == {
        "energy_j": "not supported by this GPU",
        "power_w": "the driver answers: unknown error",
        "pids": "no permission",
    }
    assert (r.utilization, r.temperature_c) == (87.0, 61)


def test_throttle_reasons_come_from_the_older_call_where_the_newer_is_absent() -> None:
    _, got = read(reader_of(Nvml([healthy(reasons="FunctionNotFound", old_reasons=0x41)])))
    assert got[0].throttle == ("thermal (hardware)",)
    assert "throttle" not in got[0].missing


def test_idle_is_no_throttle_reason() -> None:
    assert throttle_words(0x1) == ()
    assert throttle_words(0x1 | 0x4 | 0x20) == ("power-capped", "thermal")


# FC-51
@pytest.mark.parametrize("condition", case("FC-51")["conditions"], ids=lambda c: c["want"])
def test_without_gpus_the_state_says_why_and_tries_again_after_30_s(condition: dict[str, Any]) -> None:
    clock = Clock()
    fake = Nvml([])
    tries = 0

    def load() -> Nvml:
        nonlocal tries
        tries += 1
        if condition["raise_at"] == "import":
            raise ModuleNotFoundError("No module named 'pynvml'")
        return fake

    if condition["raise_at"] == "init":
        fake.init_error = condition["type"].removeprefix("NVMLError_")
    reader = NvmlReader(load, clock=clock)
    texts = {
        "package": "Python NVML package not installed",
        "library": "NVML library not found",
        "permission": "no permission for NVML",
        "zero": "NVML works, 0 GPUs",
    }
    assert read(reader) == (texts[condition["want"]], {})
    before = (tries, len(fake.calls))
    clock.now += 29
    assert read(reader) == (texts[condition["want"]], {})
    assert (tries, len(fake.calls)) == before
    clock.now += 2
    read(reader)
    assert (tries, len(fake.calls)) != before


def test_gpus_that_appear_later_are_found() -> None:
    clock = Clock()
    fake = Nvml([healthy()])
    fake.init_error = "DriverNotLoaded"
    reader = reader_of(fake, clock)
    assert read(reader)[0] == "NVIDIA driver not loaded"
    fake.init_error = None
    clock.now += 31
    state, got = read(reader)
    assert (state, list(got)) == ("ok", [0])


# FC-52
def test_mig_has_memory_by_slice_and_no_utilization() -> None:
    rows = case("FC-52")["gpus"]
    slices = [(int(s["used_gib"] * GIB), int(s["total_gib"] * GIB)) for s in rows[0]["slices"]]
    fake = Nvml([healthy(utilization="NotSupported", slices=slices), healthy(utilization=rows[1]["utilization"])])
    _, got = read(reader_of(fake))
    assert got[0].mig
    assert got[0].utilization is None
    assert got[0].missing["utilization"] == "n/a (MIG)"
    assert [f"{u / GIB:.1f}/{t / GIB:.1f}" for u, t in got[0].slices] == ["9.8/19.6", "0.1/19.6"]
    assert got[0].mig_uuids == ("MIG-0-0", "MIG-0-1")
    mean = utilization_mean(got.values())
    assert (mean.value, mean.of, mean.text) == (87.0, (1, 2), "87 % (1 of 2 GPUs)")


def test_mean_without_any_value_is_not_zero() -> None:
    mean = utilization_mean([GpuReading(uuid="a", index=0, name="x")])
    assert (mean.value, mean.text) == (None, "n/a")


# FC-55
def test_a_lost_gpu_leaves_the_others_alone() -> None:
    clock = Clock()
    fake = Nvml([healthy(), healthy(), healthy()])
    reader = reader_of(fake, clock)
    for tick, values in enumerate(case("FC-55")["ticks"], 1):
        for i, value in values.items():
            fake.gpus[int(i)] = healthy(lost=True) if isinstance(value, str) else healthy(utilization=value)
        fake.calls.clear()
        state, got = read(reader)
        clock.now += 1
        assert state == "ok"
        assert [got[0].utilization, got[1].utilization] == [values["0"], values["1"]]
        if tick >= 3:
            assert got[2].lost
            assert got[2].utilization is None
            assert got[2].missing["utilization"] == "lost"
            assert got[2].uuid == "GPU-2"
        if tick == 4:
            assert not [c for c in fake.calls if c[1] == 2]
    fake.calls.clear()
    clock.now += 30
    read(reader)
    assert [c for c in fake.calls if c[1] == 2] == [("nvmlDeviceGetHandleByIndex", 2)]
    fake.gpus[2] = healthy(utilization=5)
    clock.now += 31
    assert read(reader)[1][2].utilization == 5


def test_unknown_error_from_every_call_is_lost_access_and_a_new_start() -> None:
    clock = Clock()
    fake = Nvml([healthy(), healthy()])
    reader = reader_of(fake, clock)
    assert read(reader)[0] == "ok"
    fake.all_error = case("FC-55")["case_2"]["all"].removeprefix("NVMLError_")
    state, got = read(reader)
    assert state == "GPU access lost in this container"
    assert all(r.lost and r.utilization is None for r in got.values())
    fake.all_error = None
    clock.now += 31
    state, got = read(reader)
    assert (state, fake.inits) == ("ok", 2)
    assert got[1].utilization == 87


def test_unknown_error_from_one_gpu_is_not_lost_access() -> None:
    broken = dict.fromkeys(healthy(), "Unknown")
    state, got = read(reader_of(Nvml([healthy(), broken])))
    assert state == "ok"
    assert (got[0].utilization, got[1].utilization) == (87.0, None)


# FC-56
def test_pids_that_cannot_be_tied_to_our_server_are_never_on_the_kill_list() -> None:
    data = case("FC-56")
    readings = [
        GpuReading(
            uuid=str(p["gpu"]),
            index=p["gpu"],
            name="x",
            memory_used=int(p["used_gib"] * GIB),
            pids=(p["pid"],),
            processes=((p["pid"], int(p["used_gib"] * GIB)),),
        )
        for p in data["nvml_processes"]
    ]
    readings.append(GpuReading(uuid="2", index=2, name="x", memory_used=60 * GIB, pids=()))
    readings.append(GpuReading(uuid="3", index=3, name="x", memory_used=GIB // 2, pids=()))
    local = {int(pid): LocalProcess(p["name"], p["start"]) for pid, p in data["local"].items()}
    found = owners(readings, local, ours=[data["our_server"]["pid"], 87])
    assert [(o.gpu, o.owner) for o in found] == [
        (0, "outside this container"),
        (1, "not ours (name differs)"),
        (2, "used by processes we cannot see"),
    ]
    assert may_end(found) == []


def test_only_proved_processes_may_end() -> None:
    reading = GpuReading(uuid="0", index=0, name="x", pids=(5, 6), processes=((5, GIB), (6, None)))
    local = {5: LocalProcess("sglang::scheduler_TP0", 1.0), 6: LocalProcess("sglang::scheduler_TP1", 1.0)}
    found = owners([reading], local, ours=[5])
    assert [o.owner for o in found] == ["ours", "another server"]
    assert may_end(found) == [5]
    assert gpus_of([6, 99], [reading]) == (0,)
    assert gpus_of([99], [reading]) == ()


# FC-58
def test_a_hanging_call_is_named_and_holds_up_nobody(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    fake = Nvml([healthy()])
    gate = fake.before = Gate("nvmlDeviceGetPowerUsage")
    sampler = GpuSampler(nvml=fake, clock=clock)
    sampler.start()
    assert gate.entered.wait(10)
    assert sampler.latest().state == "starting"
    clock.now += 6
    assert sampler.latest().state == "NVML not answering"
    assert sampler.stop(timeout_s=0.01) is False
    threads = threading.active_count()
    sampler.start()
    assert threading.active_count() == threads
    gate.open.set()
    assert sampler.stop(10) is True


def test_no_second_thread_while_one_hangs_in_the_real_library(monkeypatch: pytest.MonkeyPatch) -> None:
    fake = Nvml([healthy()])
    gate = fake.before = Gate("nvmlInit")
    monkeypatch.setattr(gpus.importlib, "import_module", lambda name: fake)
    first = GpuSampler()
    first.start()
    assert gate.entered.wait(10)
    assert first.stop(timeout_s=0.01) is False
    second = GpuSampler()
    second.start()
    assert second.latest().state == "NVML not answering"
    assert second.stop() is True
    gate.open.set()
    assert first.stop(10) is True


def test_slow_calls_publish_each_gpu_with_its_age() -> None:
    clock = Clock()
    fake = Nvml([healthy(), healthy()])

    def slow(name: str) -> None:
        clock.now += 0.9

    fake.before = slow
    ending = threading.Event()
    sampler = GpuSampler(nvml=fake, clock=clock)
    sampler.start()
    assert sampler.wait_first(10)
    assert sampler.stop(10)
    ending.set()
    panel = sampler.latest()
    assert panel.state == "ok"
    assert panel.readings[0].age_s > panel.readings[1].age_s + 5
    assert panel.age_s == panel.readings[0].age_s


def test_sampler_gives_the_panel() -> None:
    with GpuSampler(nvml=Nvml([healthy(), healthy()])) as sampler:
        assert sampler.wait_first(10)
        panel = sampler.latest()
    assert panel.ok
    assert panel.driver == "570.00"
    assert [r.index for r in panel.readings] == [0, 1]


def test_read_once_without_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_package(name: str) -> object:
        raise ModuleNotFoundError(name)

    monkeypatch.setattr(gpus.importlib, "import_module", no_package)
    panel = gpus.read_once(5)
    assert (panel.state, panel.readings, panel.age_s) == ("Python NVML package not installed", (), None)


# FC-60
@pytest.mark.parametrize("row", case("FC-60")["rows"])
def test_busy_without_output(row: dict[str, Any]) -> None:
    wants = {"stuck?": "busy but no output, maybe stuck", "prefill": "prefill", None: None}
    hint = busy_hint(
        row["util"], row["power_w"], row["limit_w"], row["tok_s"], row["running"], row.get("prefill_age_s")
    )
    assert hint == wants[row["want"]]


def test_no_hint_without_the_facts_for_one() -> None:
    assert busy_hint(None, 100, 700, 0, 3) is None
    assert busy_hint(100, None, 700, 0, 3) is None
    assert busy_hint(100, 100, 700, 0, 0) is None
    assert busy_hint(100, 100, 700, None, 3) is None


def test_errors_are_named_by_class_or_number() -> None:
    plain = type("NVMLError", (Exception,), {"value": 15})()
    assert nvml_words.error_name(plain) == "GpuIsLost"
    assert nvml_words.error_name(nvml_error("NotSupported")) == "NotSupported"
