"""Records of one shape."""

from __future__ import annotations

import json
from functools import lru_cache
from itertools import count, islice
from math import lcm
from typing import Any

from spectui.core.spec import Prompt
from spectui.workloads._workload import DATA, Sets, Workload, chat_prompt, shuffled

ASK = (
    "Write {count} staff records of an invented {firm} in {region}, one JSON object a line, without any other text. "
    'Each has exactly the keys "id" (counting up from {start}), "name", "role", "city" (one of {cities}), '
    '"email" and "active". Their names, in this order: {names}.'
)
"""Names are given, so that answers differ where a small model would invent the same people each time: what is measured
shall be the shape that comes again, and not whole answers."""


@lru_cache(maxsize=1)
def _pools() -> tuple[tuple[Prompt, ...], tuple[Prompt, ...]]:
    data = json.loads((DATA / "records.json").read_text("utf-8"))
    feeding, measuring = (_pool(data, part) for part in ("feeding", "measuring"))
    return feeding, measuring


def _pool(data: dict[str, Any], part: str) -> tuple[Prompt, ...]:
    first, family = data["first_names"], data["family_names"][part]
    # Every pair of names once before any comes again; neighbours share neither.
    names = (
        f"{first[i % len(first)]} {family[(i + i // lcm(len(first), len(family))) % len(family)]}" for i in count()
    )
    return tuple(
        chat_prompt("json", ASK.format(firm=firm, names=", ".join(islice(names, place["count"])), **place))
        for firm in data[part]
        for place in data["places"]
    )


def build(seed: int) -> Sets:
    feeding, measuring = _pools()
    return Sets(shuffled(feeding, seed, "json/feeding"), shuffled(measuring, seed, "json/measuring"))


WORKLOAD = Workload(
    name="json",
    title="records of one shape",
    help="Lists of JSON records with the same keys, of people whose names are given. Keys and punctuation repeat from "
    "record to record and from answer to answer: easy for a fed NGRAM store, and a fair trial for it.",
    kinds=("json",),
    max_tokens=512,
    build=build,
)
