"""Servers on this node: those that run, whoever started them, and those that spectui manages."""

from __future__ import annotations

import argparse
import json
from typing import Any

from spectui.cli import options, shown


def arguments(parser: argparse.ArgumentParser) -> None:
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    from spectui.hosts import discover, records, servers

    found = discover.find()
    rows: list[dict[str, Any]] = []
    for server in found:
        settings = server.settings
        rows.append(
            {
                "name": server.record.name if server.record else "",
                "url": server.url,
                "pid": server.pid,
                "user": server.user,
                "managed": server.owned,
                "simulated": server.simulated,
                "leftover": server.leftover,
                "listening": server.listening,
                "algorithm": str(settings.get("speculative-algorithm", "none")),
                "model": str(settings.get("model-path") or settings.get("model") or ""),
                "gpus": list(server.gpus),
                "supervised": server.supervised.sentence if server.supervised else "",
            }
        )
    seen = {server.record.name for server in found if server.record}
    for record in servers.records():
        if record.name not in seen and not records.alive(record):
            rows.append({"name": record.name, "url": record.url, "pid": None, "managed": True, "ended": True})
    if args.json:
        print(json.dumps({"servers": rows}))
        return 0
    if not rows:
        print("no SGLang server runs on this node. Start one: spectui launch PROFILE, or try: spectui demo")
        return 0
    print(
        shown.table(
            ("name", "url", "algorithm", "model", "pid", "user", "state"),
            [
                (
                    row["name"] or "–",
                    row["url"],
                    row.get("algorithm", ""),
                    row.get("model", ""),
                    row["pid"] or "–",
                    row.get("user", ""),
                    _state(row),
                )
                for row in rows
            ],
        )
    )
    return 0


def _state(row: dict[str, Any]) -> str:
    if row.get("ended"):
        return "ended; spectui stop clears its record"
    if row.get("leftover"):
        return f"left-over workers of a dead server: spectui stop {row['name'] or '…'} --leftovers"
    words = ["started by spectui" if row["managed"] else "not started by spectui"]
    if row["simulated"]:
        words.append("simulated")
    if row["listening"] is False:
        words.append("port not open yet")
    if row["supervised"]:
        words.append(str(row["supervised"]))
    return ", ".join(words)
