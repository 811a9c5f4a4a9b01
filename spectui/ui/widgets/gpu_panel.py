"""One row a GPU, or one line an arm where there is little room. A value that could not be had says why."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from spectui.core.braille import Row, Run, sparkline
from spectui.core.safe import safe_text
from spectui.ui.widgets.lines import Lines

if TYPE_CHECKING:
    from spectui.core.gpu import GpuReading

_BARS = 10
LETTERS = ("A", "B", "C", "D")


class GpuPanelData(NamedTuple):
    readings: tuple[GpuReading, ...] = ()
    history: Mapping[str, Sequence[float | None]] = MappingProxyType({})
    """UUID -> utilization in percent, oldest first, None for a gap; the last few are drawn."""
    owners: Mapping[str, str] = MappingProxyType({})
    """UUID -> letter of the arm whose processes hold it, AB where both do; others have none."""
    mean: str = ""
    """Mean utilization in words; empty without any."""
    holders: Mapping[str, str] = MappingProxyType({})
    """UUID -> who else holds it, in words."""
    nothing: str = "no GPU to be seen here"
    """What to say without readings: the reason."""


class GpuPanel(Lines):
    """``compact`` gives one line an arm; it is also taken where the rows do not suffice for every GPU."""

    def __init__(
        self,
        *,
        compact: bool = False,
        form: str | None = None,
        id: str | None = None,
        classes: str | None = None,
    ) -> None:
        super().__init__(form=form, id=id, classes=classes)
        self.compact = compact
        self._data = GpuPanelData()

    def show(self, data: GpuPanelData) -> None:
        self._data = data
        self.redraw()

    def get_content_height(self, container: object, viewport: object, width: int) -> int:
        if self.compact:
            return max(1, len(arms(self._data)))
        return max(1, len(self._data.readings) + len(notes(self._data, width)))

    def rows(self, width: int, height: int) -> Sequence[Row]:
        data = self._data
        if not data.readings:
            return ((Run(safe_text(data.nothing, max(0, width)), "dim"),),)
        if self.compact or len(data.readings) > height:
            lines = [arm_line(letter, readings, width, data) for letter, readings in arms(data).items()]
            return lines if len(lines) <= height else lines[:height]
        rows = [gpu_row(reading, data, width, self.form) for reading in data.readings]
        return [*rows, *notes(data, width)[: height - len(rows)]]


def notes(data: GpuPanelData, width: int) -> list[Row]:
    """Below the GPUs: what they do on average, and who holds those that are no arm's."""
    rows: list[Row] = []
    power = [r.power_w for r in data.readings if r.power_w is not None]
    if data.mean:
        total = f" · {sum(power):,.0f} W together" if len(power) > 1 else ""
        rows.append((Run("mean ", "dim"), Run(safe_text(f"{data.mean}{total}", max(0, width - 5)))))
    by_words: dict[str, list[int]] = {}
    for reading in data.readings:
        if words := data.holders.get(reading.uuid):
            by_words.setdefault(words, []).append(reading.index)
    for words, indices in by_words.items():
        rows.append((Run(safe_text(f"GPU {_numbers(indices)}: {words}", width), "warn"),))
    return rows


def arms(data: GpuPanelData) -> dict[str, list[GpuReading]]:
    """GPUs by owner, arms first in order of their letters, those without an owner last."""
    found: dict[str, list[GpuReading]] = {}
    for reading in sorted(data.readings, key=lambda r: data.owners.get(r.uuid, "~")):
        found.setdefault(data.owners.get(reading.uuid, ""), []).append(reading)
    return found


def gpu_row(reading: GpuReading, data: GpuPanelData, width: int, form: str = "braille") -> Row:
    """``0 A ▁▃▆▇▇▇▇▇▇▇  97 %  118/141 GiB  612/700 W  1980 MHz  61 °C  power-capped``; the last columns go first."""
    owner = data.owners.get(reading.uuid, "")
    letters = max((len(each) for each in data.owners.values()), default=1)
    head = [Run(f"{reading.index:>2} "), Run(f"{owner:{letters}} ", _tag(owner, ""))]
    if reading.lost:
        return (*head, Run("lost: the driver no longer answers for it", "bad"))
    bars = list(data.history.get(reading.uuid, ()))[-_BARS:]
    picture = sparkline([None] * (_BARS - len(bars)) + bars, 0.0, 100.0, form)
    columns = [
        Run(f"{_value(reading.utilization, 'utilization', reading, '{:.0f} %'):>5}"),
        Run(f"{_memory(reading):>10}"),
        Run(f"{_power(reading):>9}"),
        Run(f"{_value(reading.sm_clock_mhz, 'sm_clock_mhz', reading, '{} MHz'):>8}"),
        Run(f"{_value(reading.temperature_c, 'temperature_c', reading, '{} °C'):>6}"),
        Run(*_state(reading)),
    ]
    row = [*head, Run(f"{picture} ", _tag(owner, "dim"))]
    used = 4 + letters + _BARS + 1
    for column in columns:
        if used + len(column.text.rstrip()) + 1 > width:
            break
        row += [Run(" "), column]
        used += len(column.text) + 1
    return tuple(row)


def arm_line(letter: str, readings: Sequence[GpuReading], width: int, data: GpuPanelData | None = None) -> Row:
    """``A GPU 0–3  96–97 %  2415 W  2 power-capped``: range of utilization, total power, worst throttle reason."""
    lost = [reading for reading in readings if reading.lost]
    seen = [reading for reading in readings if not reading.lost]
    used = sorted(r.utilization for r in seen if r.utilization is not None)
    power = [r.power_w for r in seen if r.power_w is not None]
    parts = [f"GPU {_numbers([r.index for r in readings])}"]
    if used:
        parts.append(f"{used[0]:.0f} %" if round(used[0]) == round(used[-1]) else f"{used[0]:.0f}–{used[-1]:.0f} %")
    else:
        parts.append("utilization n/a")
    if power:
        parts.append(f"{sum(power):.0f} W" + ("" if len(power) == len(seen) else f" of {len(power)}"))
    if len(used) > 1:
        parts.append(f"mean {sum(used) / len(used):.0f} %")
    held = {reason: sum(reason in r.throttle for r in seen) for r in seen for reason in r.throttle}
    tail: list[Run] = []
    if lost:
        tail.append(Run(f"  GPU {_numbers([r.index for r in lost])} lost", "bad"))
    if held:
        worst = max(held, key=lambda reason: held[reason])
        tail.append(Run(f"  {held[worst]} {safe_text(worst, 30)}", "warn"))
    foreign = [data.holders[r.uuid] for r in readings if r.uuid in data.holders] if data is not None else []
    if foreign:
        tail.append(Run(f"  {safe_text(foreign[0], 60)}", "warn"))
    name = Run(f"{letter or '-'} ", _tag(letter, "dim"))
    return (name, Run("  ".join(parts)), *tail)


def _tag(letters: str, other: str) -> str:
    """The colour of the arm; a GPU that both hold has neither's."""
    return letters.lower() if letters in LETTERS else other


def _numbers(indices: Sequence[int]) -> str:
    """``0–3,6`` of a list of numbers."""
    spans: list[list[int]] = []
    for number in sorted(indices):
        if spans and number == spans[-1][1] + 1:
            spans[-1][1] = number
        else:
            spans.append([number, number])
    return ",".join(f"{a}" if a == b else f"{a}–{b}" for a, b in spans)


def _value(value: float | None, name: str, reading: GpuReading, shape: str) -> str:
    return "n/a" if value is None else shape.format(value)


def _memory(reading: GpuReading) -> str:
    if reading.memory_used is None:
        return "n/a"
    total = f"{reading.memory_total / 2**30:.0f}" if reading.memory_total is not None else "?"
    return f"{reading.memory_used / 2**30:.0f}/{total} GiB"


def _power(reading: GpuReading) -> str:
    if reading.power_w is None:
        return "n/a"
    limit = f"/{reading.power_limit_w:.0f}" if reading.power_limit_w is not None else ""
    return f"{reading.power_w:.0f}{limit} W"


def _state(reading: GpuReading) -> tuple[str, str]:
    """What is said last: throttling, else why a value is missing, else how old the values are."""
    if reading.throttle:
        return safe_text(", ".join(reading.throttle), 40), "warn"
    shown = ("utilization", "memory_used", "power_w", "sm_clock_mhz", "temperature_c")
    reasons = dict.fromkeys(reading.missing[name] for name in shown if name in reading.missing)
    if reasons:
        words = "; ".join(reason.removeprefix("n/a ") for reason in reasons)
        slices = " ".join(f"{used / 1024**3:.1f}/{total / 1024**3:.1f}" for used, total in reading.slices)
        return safe_text(f"n/a: {words}{f' {slices} GiB' if slices else ''}", 60), "dim"
    if reading.age_s >= 5:
        return f"{reading.age_s:.0f} s old", "warn"
    return "", ""
