"""The field cases' inputs and what they must come to."""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import Any

DATA = Path(__file__).parents[1] / "data" / "field"


@cache
def _expected() -> dict[str, Any]:
    return dict(json.loads((DATA / "expected.json").read_text("utf-8")))


def ids() -> list[str]:
    return list(_expected())


def expected(case: str) -> Any:
    return _expected()[case]


def text(name: str) -> str:
    return (DATA / name).read_text("utf-8")


def table(case: str) -> Any:
    return json.loads(text(f"{case}.json"))
