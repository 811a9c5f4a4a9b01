"""An object in the place of the pynvml module, whose GPUs and failures a test sets."""

from __future__ import annotations

import threading
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any


def nvml_error(name: str) -> Exception:
    kind = type(f"NVMLError_{name}", (Exception,), {})
    return kind(name)


class Nvml:
    """``gpus``: one dict a GPU: value names to values, or to an error's name. ``calls`` records what was asked."""

    def __init__(self, gpus: list[dict[str, Any]], driver: str = "570.00") -> None:
        self.gpus = gpus
        self.driver = driver
        self.calls: list[tuple[str, int | None]] = []
        self.init_error: str | None = None
        self.all_error: str | None = None
        self.inits = 0
        self.before: Callable[[str], None] | None = None

    def __getattr__(self, name: str) -> Callable[..., Any]:
        if not name.startswith("nvml") or name == "nvmlMemory_v2":
            raise AttributeError(name)

        def call(*args: Any) -> Any:
            device = args[0] if args and isinstance(args[0], int) else None
            self.calls.append((name, device))
            if self.before:
                self.before(name)
            return self._answer(name, *args)

        return call

    def _answer(self, name: str, *args: Any) -> Any:
        if name == "nvmlInit":
            self.inits += 1
            if self.init_error:
                raise nvml_error(self.init_error)
            return None
        if name == "nvmlShutdown":
            return None
        if self.all_error:
            raise nvml_error(self.all_error)
        if name == "nvmlSystemGetDriverVersion":
            return self.driver
        if name == "nvmlDeviceGetCount":
            return len(self.gpus)
        if name == "nvmlDeviceGetHandleByIndex":
            if self.gpus[args[0]].get("lost"):
                raise nvml_error("GpuIsLost")
            return args[0]
        if isinstance(args[0], tuple):
            part = self.gpus[args[0][0]]["slices"][args[0][1]]
            if name == "nvmlDeviceGetMemoryInfo":
                return SimpleNamespace(used=part[0], total=part[1])
            return f"MIG-{args[0][0]}-{args[0][1]}" if name == "nvmlDeviceGetUUID" else []
        return self._device(name, self.gpus[args[0]], args)

    def _device(self, name: str, gpu: dict[str, Any], args: tuple[Any, ...]) -> Any:
        if gpu.get("lost"):
            raise nvml_error("GpuIsLost")
        if name == "nvmlDeviceGetUUID":
            return gpu.get("uuid", f"GPU-{args[0]}")
        if name == "nvmlDeviceGetName":
            return gpu.get("name", "Test GPU")
        if name == "nvmlDeviceGetMigMode":
            return [1, 1] if gpu.get("slices") else [0, 0]
        if name == "nvmlDeviceGetMaxMigDeviceCount":
            return 7
        if name == "nvmlDeviceGetMigDeviceHandleByIndex":
            if args[1] >= len(gpu["slices"]):
                raise nvml_error("NotFound")
            return (args[0], args[1])
        key = {
            "nvmlDeviceGetUtilizationRates": "utilization",
            "nvmlDeviceGetMemoryInfo": "memory",
            "nvmlDeviceGetPowerUsage": "power",
            "nvmlDeviceGetEnforcedPowerLimit": "limit",
            "nvmlDeviceGetTotalEnergyConsumption": "energy",
            "nvmlDeviceGetClockInfo": "clock",
            "nvmlDeviceGetTemperature": "heat",
            "nvmlDeviceGetCurrentClocksEventReasons": "reasons",
            "nvmlDeviceGetCurrentClocksThrottleReasons": "old_reasons",
            "nvmlDeviceGetComputeRunningProcesses": "processes",
        }.get(name)
        value = gpu.get(key or "", "NotSupported")
        if isinstance(value, str):
            raise nvml_error(value)
        if key == "utilization":
            return SimpleNamespace(gpu=value, memory=0)
        if key == "memory":
            return SimpleNamespace(used=value[0], total=value[1])
        if key == "processes":
            return [SimpleNamespace(pid=p, usedGpuMemory=m) for p, m in value]
        return value


def healthy(**changes: Any) -> dict[str, Any]:
    gpu: dict[str, Any] = {
        "utilization": 87,
        "memory": (70 * 1024**3, 140 * 1024**3),
        "power": 430_000,
        "limit": 700_000,
        "energy": 12_000,
        "clock": 1980,
        "heat": 61,
        "reasons": 0x4,
        "processes": [(41, 60 * 1024**3)],
    }
    return gpu | changes


class Clock:
    def __init__(self) -> None:
        self.now = 100.0

    def __call__(self) -> float:
        return self.now


class Gate:
    """Lets a fake driver call hang until the test opens it."""

    def __init__(self, call: str) -> None:
        self.call = call
        self.entered = threading.Event()
        self.open = threading.Event()

    def __call__(self, name: str) -> None:
        if name == self.call:
            self.entered.set()
            self.open.wait(20)
