"""What NVML's answers and errors are called: states of the way to the GPUs, reasons for a missing value, throttling."""

from __future__ import annotations

OK = "ok"
NO_PACKAGE = "Python NVML package not installed"
NO_LIBRARY = "NVML library not found"
NO_PERMISSION = "no permission for NVML"
NO_GPUS = "NVML works, 0 GPUs"
NO_DRIVER = "NVIDIA driver not loaded"
MISMATCH = "driver and NVML library differ in version: reload the driver or restart the container"
ACCESS_LOST = "GPU access lost in this container"
MIG = "n/a (MIG)"
LOST = "lost"

VALUES = (
    "utilization",
    "memory_used",
    "memory_total",
    "power_w",
    "power_limit_w",
    "energy_j",
    "sm_clock_mhz",
    "temperature_c",
    "throttle",
    "pids",
)

# Bits of the driver's clocks-event reasons. Bit 0 (idle) is left out on purpose: an idle GPU is not throttled.
THROTTLE_WORDS: tuple[tuple[int, str], ...] = (
    (0x002, "application clocks setting"),
    (0x004, "power-capped"),
    (0x008, "hardware slowdown"),
    (0x010, "sync boost"),
    (0x020, "thermal"),
    (0x040, "thermal (hardware)"),
    (0x080, "power brake"),
    (0x100, "display clock setting"),
    (0x200, "board limit"),
    (0x400, "reliability limit"),
)

_CODES = {1: "Uninitialized", 3: "NotSupported", 4: "NoPermission", 9: "DriverNotLoaded", 12: "LibraryNotFound"}
_CODES |= {13: "FunctionNotFound", 15: "GpuIsLost", 16: "ResetRequired", 18: "LibRmVersionMismatch", 999: "Unknown"}
OPENING = {
    "LibraryNotFound": NO_LIBRARY,
    "NoPermission": NO_PERMISSION,
    "DriverNotLoaded": NO_DRIVER,
    "LibRmVersionMismatch": MISMATCH,
    "Unknown": ACCESS_LOST,
}
REASONS = {
    "NotSupported": "not supported by this GPU",
    "NoPermission": "no permission",
    "FunctionNotFound": "not in this driver",
    "Unknown": "the driver answers: unknown error",
    "Timeout": "the driver did not answer in time",
}


def error_name(error: BaseException) -> str:
    """The NVML error's name without its prefix (``NotSupported``), from its class or else its number."""
    name = type(error).__name__
    if name.startswith("NVMLError_"):
        return name[len("NVMLError_") :]
    value = getattr(error, "value", None)
    if isinstance(value, int) and value in _CODES:
        return _CODES[value]
    if isinstance(error, AttributeError):
        return "FunctionNotFound"
    return name


def throttle_words(bits: int) -> tuple[str, ...]:
    return tuple(word for bit, word in THROTTLE_WORDS if bits & bit)
