"""Records of one shape, and code: text with much repetition in it, as far as real such text has."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from random import Random
from typing import Any

from spectui.engines.sim.prose import bundled

_FENCE = re.compile(r"```[\w+-]*\n(.*?)(?:```|\Z)", re.DOTALL)
_NAME = re.compile(r"[A-Za-z_]\w{3,}")
_KEYWORDS = frozenset(
    [
        "return",
        "class",
        "self",
        "None",
        "True",
        "False",
        "while",
        "else",
        "elif",
        "with",
        "import",
        "from",
        "assert",
        "yield",
        "lambda",
    ]
)


def records(rng: Random, prompt: str) -> Iterator[str]:
    """Endless lines of JSON. Shape by the prompt's words; a record of the same thing has the same fixed values.

    So a store that was fed with such records knows their shape, and the values of things that it has met.
    """
    data = bundled()
    low = prompt.lower()
    named = list(dict.fromkeys(re.findall(r'"(\w+)"', prompt)))[:10]
    schema = {"kind": "/".join(named), "fields": named} if len(named) > 2 else None
    schema = schema or next((s for s in data["schemas"] if s["kind"] in low or s["kind"][:-1] + "ies" in low), None)
    if schema is None:
        schema = data["schemas"][sum(map(ord, low[-40:])) % len(data["schemas"])]
    while True:
        which = min(int(rng.expovariate(1 / 150)), 599)
        fixed = Random(f"{schema['kind']}/{which}")
        row = {
            name: _cell(name, fixed if i < len(schema["fields"]) - 2 else rng, which, data)
            for i, name in enumerate(schema["fields"])
        }
        yield json.dumps(row) + "\n"


def _cell(name: str, rng: Random, which: int, data: dict[str, Any]) -> object:
    if name in ("id", "order_id", "sensor", "flight", "shelf", "gate"):
        return f"{rng.choice('ABCDEFGHK')}{rng.randint(10, 99)}-{which}"
    if name in ("city", "town", "origin", "destination", "ship_to", "location", "twin_town", "publisher"):
        return rng.choice(data["towns"])
    if name in ("customer", "first_name", "author"):
        return rng.choice(data["names"])
    if name == "region":
        return rng.choice(data["regions"])
    if name in ("status", "state"):
        return rng.choice(data["statuses"])
    if name in ("active", "in_print"):
        return rng.random() < 0.6
    if name in ("year", "founded", "start_year"):
        return rng.randint(1204, 2025)
    if name in ("unit_price", "reading", "area_km2", "battery"):
        return round(rng.uniform(1, 900), 2)
    if name in ("population", "pages", "quantity"):
        return rng.randint(2, 90000)
    if name == "departs":
        return f"{rng.randint(0, 23):02}:{rng.randint(0, 59):02}"
    if name == "email":
        who, host = rng.choice(data["names"]), rng.choice(data["towns"])
        return f"{who}.{rng.choice(data['nouns'])}@{host}.example".lower()
    return f"{rng.choice(data['adjectives'])} {rng.choice(data['nouns'])}"


def given_code(prompt: str) -> str | None:
    """The code that a prompt contains: its last fenced block, or the lines from the first ``def`` or ``class`` on."""
    fenced = _FENCE.findall(prompt)
    if fenced:
        return str(fenced[-1])
    match = re.search(r"^(?:def|class|import|from|function|const|#include) .*", prompt, re.DOTALL | re.MULTILINE)
    return match.group().split("<|im_end|>")[0] if match else None


def edited(rng: Random, code: str) -> str:
    """Given code rewritten: two of its names changed, the rest kept, as a small edit is."""
    names = sorted({n for n in _NAME.findall(code) if n not in _KEYWORDS})
    for old in rng.sample(names, min(2, len(names))):
        new = f"{rng.choice(bundled()['identifiers'])}_{rng.choice(bundled()['identifiers'])}"
        code = re.sub(rf"\b{re.escape(old)}\b", new, code)
    return code


def functions(rng: Random) -> Iterator[str]:
    """Endless new code, a function at a time."""
    data = bundled()
    head, body = data["code"][0], data["code"][1:]
    while True:
        names = {f"i{n}": rng.choice(data["identifiers"]) for n in (2, 3, 4)} | {"i": rng.choice(data["identifiers"])}
        picked = sorted(rng.sample(range(len(body)), rng.randint(3, 7)))
        out = []
        for line in (head, *(body[i] for i in picked)):
            words = dict(names, f=rng.choice(data["functions"]), num=str(rng.randint(0, 64)),
                         const=rng.choice(("None", "0", "[]", "{}", "-1", "False")))  # fmt: skip
            out.append(re.sub(r"\{(\w+)\}", lambda m, w=words: w[m.group(1)], line))  # type: ignore[misc]
        yield "\n".join(out) + "\n\n\n"
