"""Plain-text tables of the command line."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from spectui.core.safe import safe_text

if TYPE_CHECKING:
    from spectui.core.plan import Plan


def table(head: Sequence[str], rows: Sequence[Sequence[object]], *, right: frozenset[int] = frozenset()) -> str:
    """Aligned columns; foreign text is made harmless."""
    cells = [[safe_text(str(cell), 400) for cell in row] for row in rows]
    widths = [max([len(title), *(len(row[i]) for row in cells)]) for i, title in enumerate(head)]

    def line(row: Sequence[str]) -> str:
        return "  ".join(
            c.rjust(w) if i in right else c.ljust(w) for i, (c, w) in enumerate(zip(row, widths, strict=True))
        ).rstrip()

    return "\n".join([line(head), *(line(row) for row in cells)])


def plan_json(plan: Plan) -> dict[str, Any]:
    return {
        "algorithm": plan.algorithm,
        "verdict": plan.verdict,
        "rows": [
            {"key": r.key, "asked": r.asked, "in_force": r.in_force, "by": r.by, "why": r.why, "hot": r.hot}
            for r in plan.rows
        ],
        "findings": [{"level": f.level, "name": f.name, "text": f.text} for f in plan.findings],
    }


def print_plan(plan: Plan) -> None:
    print(plan.shown)
    rows = [
        (row.title, _value(row.asked), _value(row.in_force), row.by_text + (f": {row.why}" if row.why else ""))
        for row in plan.rows
        if row.asked is not None or row.in_force is not None
    ]
    print(table(("setting", "asked", "in force", "changed by"), rows))
    for finding in plan.findings:
        print(f"{finding.level}: {finding.text}")


def _value(value: object) -> str:
    return "–" if value is None else str(value)
