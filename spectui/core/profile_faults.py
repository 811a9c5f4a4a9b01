"""Faults gathered while a profile's tables are read, each with its place and line."""

from __future__ import annotations

import difflib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from spectui.core.profile import Fault


@dataclass(slots=True)
class Faults:
    lines: Mapping[str, int]
    faults: list[Fault] = field(default_factory=list)

    def line(self, where: str) -> int | None:
        while where:
            if where in self.lines:
                return self.lines[where]
            where = where.rpartition(".")[0]
        return None

    def fault(self, where: str, text: str) -> None:
        self.faults.append(Fault(where, text, self.line(where)))

    def note(self, where: str, text: str) -> None:
        self.faults.append(Fault(where, text, self.line(where), level="note"))

    def text(self, where: str, value: Any, *, empty: bool = False) -> str | None:
        if value is None:
            return None
        if not isinstance(value, str):
            self.fault(where, f"must be text, {shown(value)}")
        elif not value.strip() and not empty:
            self.fault(where, "must not be empty")
        elif "\0" in value:
            self.fault(where, "must not hold a zero byte")
        else:
            return value
        return None

    def table(self, where: str, value: Any) -> Mapping[str, Any]:
        if value is None:
            return {}
        if isinstance(value, Mapping):
            return value
        self.fault(where, f"must be a table, {shown(value)}")
        return {}

    def unknown(self, where: str, table: Mapping[str, Any], known: tuple[str, ...]) -> None:
        for key in table:
            if key not in known:
                close = difflib.get_close_matches(key, known, n=1)
                perhaps = f"; did you mean {close[0]}?" if close else ""
                self.note(f"{where}.{key}" if where else key, f"unknown key, kept and not used{perhaps}")


def shown(value: Any) -> str:
    """``not "x"``, for the end of a sentence; long values are cut, tables only named."""
    if isinstance(value, str):
        return f'not "{value if len(value) <= 60 else value[:57] + "..."}"'
    if isinstance(value, bool):
        return "not true" if value else "not false"
    if isinstance(value, Mapping):
        return "not a table"
    text = str(value)
    return f"not {text if len(text) <= 60 else text[:57] + '...'}"
