"""Servers on this node: those that run, whoever started them, and those that spectui manages."""

from __future__ import annotations

import argparse
import json
import time
from typing import Any

from spectui.cli import options, shown
from spectui.cli.failure import EXIT_USAGE, Failure

EXAMPLES = """examples:
  spectui servers
  spectui servers --quick                  without asking the servers themselves
  spectui servers ngram --log              the end of a managed server's log
  spectui servers ngram --log --follow     and what is added to it, until Ctrl-C
"""
_LINE = 2000


def arguments(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("name", metavar="NAME", nargs="?", help="only this one, by name or URL")
    parser.add_argument("--quick", action="store_true", help="do not ask the servers who uses them")
    parser.add_argument("--log", action="store_true", help="the end of the log of NAME")
    parser.add_argument("--lines", type=options.positive, default=40, metavar="N", help="how many lines of it (40)")
    parser.add_argument("--follow", action="store_true", help="go on with what is added to it")
    options.add_json(parser)


def run(args: argparse.Namespace) -> int:
    if args.log or args.follow:
        return _log(args)
    rows = _rows(quick=args.quick)
    _faults()
    if args.name is not None:
        rows = [row for row in rows if args.name in (row["name"], row["url"], row["url"].removeprefix("http://"))]
        if not rows:
            raise Failure(f"no server named {args.name!r} on this node. All: spectui servers", EXIT_USAGE)
    if args.json:
        print(json.dumps({"servers": rows}))
        return 0
    if not rows:
        print("no SGLang server runs on this node. Start one: spectui launch PROFILE, or try: spectui demo")
        return 0
    print(
        shown.table(
            ("name", "url", "algorithm", "model", "GPUs", "requests", "pid", "user", "state"),
            [
                (
                    row["name"] or "–",
                    row["url"],
                    row.get("algorithm", ""),
                    row.get("model", ""),
                    ",".join(str(gpu) for gpu in row.get("gpus", ())) or "–",
                    row.get("requests", ""),
                    row["pid"] or "–",
                    row.get("user", ""),
                    _state(row),
                )
                for row in rows
            ],
        )
    )
    if args.name is not None:
        for row in rows:
            if row.get("in_force"):
                settings = [(key, "–" if value is None else value) for key, value in row["in_force"].items()]
                print("\n" + shown.table(("in force", ""), settings))
    return 0


def _faults() -> None:
    """A record that cannot be read is a server that could neither be found nor stopped: it is told."""
    import sys

    from spectui.core.safe import safe_text
    from spectui.hosts import records

    for fault in records.read_all()[1]:
        sys.stderr.write(f"note: a server's record cannot be read: {safe_text(fault, 300)}\n")


def _rows(*, quick: bool) -> list[dict[str, Any]]:
    from spectui.hosts import discover, records, servers
    from spectui.hosts.gpus import read_once

    found = discover.find(read_once(0.4).readings)
    asked = {} if quick else _ask(found)
    rows: list[dict[str, Any]] = []
    for server in found:
        settings = server.settings
        told = asked.get(server.url)
        gpus = server.gpus or (server.visible.indices if server.visible and not server.simulated else ())
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
                "algorithm": (told.algorithm if told else "") or str(settings.get("speculative-algorithm", "none")),
                "model": str(settings.get("model-path") or settings.get("model") or ""),
                "version": told.version if told else "",
                "gpus": list(gpus),
                "requests": told.text if told else "",
                "busy": told.busy if told else None,
                "in_force": told.settings if told else {},
                "supervised": server.supervised.sentence if server.supervised else "",
                "phase": _phase(server.record) if server.record and _silent(server, told) else "",
            }
        )
    seen = {server.record.name for server in found if server.record}
    rest = [record for record in servers.records() if record.name not in seen]
    away = [record for record in rest if records.alive(record)]
    for record in list(away):  # seen from outside as a process of its own, as a container's is
        twin = next((row for row in rows if row["url"] == record.url and not row["managed"]), None)
        if twin is not None and record.kind == "docker":
            twin.update(name=record.name, managed=True, via=record.kind, supervised="")
            away.remove(record)
    asked = {} if quick else _ask_urls({record.url: record.key for record in away})
    return [*rows, *(_behind(record, asked.get(record.url)) for record in away), *_ended(rest)]


def _behind(record: Any, told: Any) -> dict[str, Any]:
    """A managed server whose own processes are not seen here: one behind docker, srun or ssh."""
    from spectui.hosts import elsewhere
    from spectui.hosts.command_lines import settings_of

    settings = settings_of(record.argv)
    listening = elsewhere.answers(record)
    return {
        "name": record.name,
        "url": record.url,
        "pid": record.pid,
        "user": record.user,
        "managed": True,
        "simulated": record.simulated,
        "leftover": False,
        "listening": listening,
        "algorithm": (told.algorithm if told else "") or str(settings.get("speculative-algorithm", "none")),
        "model": str(settings.get("model-path") or settings.get("model") or ""),
        "version": told.version if told else "",
        "gpus": [],
        "requests": told.text if told else "",
        "busy": told.busy if told else None,
        "in_force": told.settings if told else {},
        "supervised": "",
        "phase": _phase(record) if not listening or (told is not None and told.running is None) else "",
        "via": record.kind,
    }


def _ended(rest: list[Any]) -> list[dict[str, Any]]:
    from spectui.hosts import elsewhere, records

    rows = []
    for record in rest:
        if not records.alive(record):
            behind = elsewhere.look(record) if record.here else None
            row = {"name": record.name, "url": record.url, "pid": None, "managed": True, "ended": True}
            told = behind.text if behind is not None and behind.runs is not False else ""
            rows.append({**row, "log": record.log_path, "elsewhere": told})
    return rows


def _silent(server: Any, told: Any) -> bool:
    return not server.leftover and (server.listening is False or (told is not None and told.running is None))


def _phase(record: Any) -> str:
    """Where the start of a managed server stands, by its log, which says less and costs less than asking it."""
    from spectui.engines.sglang.log import LogReader
    from spectui.hosts import serverlog, timings

    reader, tail = LogReader(), serverlog.LogTail(record.log_path)
    new = tail.read()
    reader.feed(new.text, new.written_s)
    phase = reader.phase
    if reader.state in ("ready", "stopping", "failed") or phase is None:
        return str(reader.state) if reader.state in ("stopping", "failed") else ""
    done = [p.name for p in reader.phases if p.seconds is not None]
    now = time.time()
    spent = max(0.0, now - phase.begin_s) if phase.begin_s is not None else 0.0
    left = timings.left_s(timings.last_time(record), done, phase.name, spent)
    stuck = reader.stuck(now)
    told = f", {stuck.text}" if stuck is not None else f", about {left:.0f} s left" if left is not None else ""
    return f"starting: {phase.name}{told}"


def _ask(found: list[Any]) -> dict[str, Any]:
    """What each server that listens says of its requests."""
    asked = [server for server in found if not server.leftover and server.listening is not False]
    return _ask_urls({server.url: server.record.key if server.record else None for server in asked})


def _ask_urls(references: dict[str, str | None]) -> dict[str, Any]:
    """By URL, with the reference to its key; those that a run of ours measures are named so."""
    from dataclasses import replace

    from spectui.hosts import traffic
    from spectui.session import hot
    from spectui.store import secrets

    if not references:
        return {}
    ours = hot.measured_by()
    keys: dict[str, str] = {}
    for url, reference in references.items():
        try:
            if reference:
                keys[url] = secrets.reveal(reference)
        except secrets.SecretError:
            continue  # asked without, and the answer will say so
    told = traffic.look_all(list(references), keys=keys, quiet=ours)
    for url, run in ours.items():
        if url in told:
            told[url] = replace(told[url], why=told[url].why or f"measured by run {run}")
    return told


def _log(args: argparse.Namespace) -> int:
    from spectui.core.safe import safe_text
    from spectui.hosts import serverlog, servers

    if args.name is None:
        raise Failure("--log needs the NAME of a managed server (spectui servers lists them)", EXIT_USAGE)
    record = servers.find_record(args.name)
    if record is None:
        known = ", ".join(r.name for r in servers.records()) or "none"
        raise Failure(f"spectui has started no server named {args.name!r}; started: {known}", EXIT_USAGE)
    lines = serverlog.last_lines(record.log_path, args.lines)
    if args.json:
        print(json.dumps({"name": record.name, "log": record.log_path, "lines": lines}))
        return 0
    for line in lines:
        print(safe_text(line, _LINE))
    if args.follow:
        tail = serverlog.LogTail(record.log_path, at_end=True)
        while servers.alive(record):
            for line in tail.read().text.splitlines():
                print(safe_text(line, _LINE), flush=True)
            time.sleep(0.3)
    return 0


def _state(row: dict[str, Any]) -> str:
    if row.get("ended"):
        return str(row.get("elsewhere") or "") or "ended; spectui stop clears its record"
    if row.get("leftover"):
        return f"left-over workers of a dead server: spectui stop {row['name'] or '…'} --leftovers"
    words = ["started by spectui" if row["managed"] else "not started by spectui"]
    if row.get("via") not in (None, "plain"):
        words[0] += f", through {row['via']}"
    if row["simulated"]:
        words.append("simulated")
    if row["phase"]:
        words.append(row["phase"])
    elif row["listening"] is False:
        words.append("port not open yet")
    if row["supervised"]:
        words.append(str(row["supervised"]))
    return ", ".join(words)
