"""Records and journals for the tests of the measuring core, made by hand or from what a real server answered."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, replace
from functools import cache
from pathlib import Path
from typing import Any

from spectui.core.request import RequestRecord
from spectui.core.rows import Row

DATA = Path(__file__).parents[1] / "data" / "core"
DRAFT_TOKENS = {"none": None, "ngram-8": 8, "eagle3-3-1-4": 4}
VERSION = "0.5.15.post1"


@cache
def recorded() -> dict[str, Any]:
    return json.loads((DATA / "recorded.json").read_text())


def record(index: int = 0, **values: Any) -> RequestRecord:
    base = RequestRecord(
        index=index,
        prompt_id=f"p{index}",
        group="chat",
        arm="A",
        pass_name="warm",
        phase="measure",
        concurrency=1,
        block=0,
        rid=f"r{index}",
        start_s=100.0 + index,
        first_s=100.1 + index,
        last_s=100.9 + index,
        end_s=101.0 + index,
        status="ok",
        completion_tokens=81,
    )
    return replace(base, **values)


def of_meta(meta: dict[str, Any], index: int = 0, **values: Any) -> RequestRecord:
    """From a real answer's closing details."""
    counts = meta.get("spec_correct_drafts_histogram")
    start = values.pop("start_s", 100.0 + 20 * index)
    end = start + meta.get("end_s", meta["e2e_latency"])
    return record(
        index,
        start_s=start,
        first_s=start + meta.get("first_s", 0.05),
        last_s=end,
        end_s=end,
        completion_tokens=meta["completion_tokens"],
        prompt_tokens=meta["prompt_tokens"],
        cached_tokens=meta["cached_tokens"],
        verify_steps=meta.get("spec_verify_ct"),
        accepted_drafts=meta.get("spec_num_correct_drafts"),
        proposed_drafts=meta.get("spec_num_proposed_drafts"),
        histogram=tuple(counts) if counts else None,
        **values,
    )


def all_recorded(setting: str) -> list[tuple[RequestRecord, dict[str, Any]]]:
    data = recorded()[setting]
    metas = [m for rows in data["workloads"].values() for m in rows]
    metas += [m for level in data["concurrency"].values() for m in level["requests"]]
    return [(of_meta(m, i), m) for i, m in enumerate(metas)]


def row_of(r: RequestRecord) -> Row:
    return {"t": r.end_s, "kind": "request", **asdict(r)}


def head(*arms: dict[str, Any], **values: Any) -> Row:
    listed = list(arms) or [arm_head()]
    return {
        "t": 0.0, "kind": "head", "schema": 1, "run_id": "x", "arms": listed, "passes": ["warm"], "concurrency": [1],
        "temperature": 0.0, "max_tokens": 150, "requests": 5, "workload": {"name": "w", "hash": "h", "marks": []},
        **values,
    }  # fmt: skip


def arm_head(name: str = "A", algorithm: str = "NGRAM", **values: Any) -> Row:
    return {
        "name": name, "url": "http://127.0.0.1:1", "version": VERSION, "algorithm": algorithm, "model": "m",
        "settings_in_force": {"num_draft_tokens": 8}, "server": {"max_running_requests": 48},
        "route": "/generate with input_ids, incremental", **values,
    }  # fmt: skip


def flush(arm: str = "A", pass_name: str = "warm", concurrency: int = 1, flushed: bool = True, t: float = 1.0) -> Row:
    detail = {"flushed": flushed, "attempts": 1, "status": 200 if flushed else 400, "reason": "" if flushed else "busy"}
    return {
        "t": t, "kind": "phase", "arm": arm, "pass_name": pass_name, "phase": "flush", "concurrency": concurrency,
        "block": 0, "state": "end", "detail": detail,
    }  # fmt: skip


def fed(requests: int, tokens: int, steady: bool, arm: str = "A", pass_name: str = "warm", t: float = 50.0) -> Row:
    return {
        "t": t, "kind": "phase", "arm": arm, "pass_name": pass_name, "phase": "feed", "concurrency": 1, "block": 0,
        "state": "end", "detail": {"requests": requests, "tokens": tokens, "steady": steady, "accept_length": 3.0},
    }  # fmt: skip


def generated(count: int, tokens: int, lengths: Sequence[float], **values: Any) -> list[RequestRecord]:
    """Requests with given accept lengths; ``first`` is the index of the first."""
    first = values.pop("first", 0)
    rows = []
    for i in range(count):
        steps = max(1, round((tokens - 1) / lengths[i]))
        n = first + i
        rows.append(
            record(n, completion_tokens=tokens, verify_steps=steps, start_s=100.0 + n, first_s=100.1 + n, **values)
        )
    return rows
