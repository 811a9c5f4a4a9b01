"""What the list of servers is made of: records, processes and a short question to each that answers."""

from __future__ import annotations

from collections.abc import Collection
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from spectui.hosts import discover, servers
from spectui.hosts.command_lines import settings_of
from spectui.hosts.discover import FoundServer
from spectui.hosts.records import ServerRecord
from spectui.ui.screens.servers_view import ServerRow

ASK_TIMEOUT_S = 2.0


def read_servers(quiet: Collection[str] = ()) -> tuple[ServerRow, ...]:
    """Blocks: process table, logs, and at most some seconds for servers that do not answer.

    ``quiet``: addresses that nothing is asked of, since they are being measured.
    """
    found = discover.find()
    records = servers.records()
    by_record = {server.record.id: server for server in found if server.record is not None}
    mine = [row_of_record(record, by_record.get(record.id)) for record in records]
    others = [server for server in found if server.record is None]
    asking = [row for row in mine if row.state is not None and row.state.ready] + [row_of_found(s) for s in others]
    silent = [row for row in mine if row.state is None or not row.state.ready]
    silent += [replace(row, said="● being measured", tone="good") for row in asking if row.url in quiet]
    asking = [row for row in asking if row.url not in quiet]
    with ThreadPoolExecutor(max(1, min(8, len(asking)))) as pool:
        answered = list(pool.map(ask, asking))
    order = {record.id: number for number, record in enumerate(records)}
    rows = [*silent, *answered]
    return tuple(sorted(rows, key=lambda r: (r.record is None, order.get(r.record.id, 0) if r.record else 0, r.url)))


def row_of_record(record: ServerRecord, found: FoundServer | None) -> ServerRow:
    state = servers.watch(record)
    settings = settings_of(record.argv)
    algorithm, model = _by_arguments(settings)
    return ServerRow(record.name, record.url, found, record, state, algorithm, model, simulated=record.simulated)


def row_of_found(server: FoundServer) -> ServerRow:
    algorithm, model = _by_arguments(server.settings)
    name = f"pid {server.pid}" if server.leftover else server.url.removeprefix("http://")
    return ServerRow(name, server.url, server, None, None, algorithm, model, simulated=server.simulated)


def _by_arguments(settings: dict[str, str | bool]) -> tuple[str, str]:
    algorithm = settings.get("speculative-algorithm") or settings.get("speculative_algorithm")
    model = settings.get("model-path") or settings.get("model") or settings.get("model_path")
    path = str(model).rstrip("/").rpartition("/")[2] if isinstance(model, str) else ""
    return str(algorithm) if isinstance(algorithm, str) else "none", path


def ask(row: ServerRow) -> ServerRow:
    """Algorithm and load by the server itself; what cannot be had is said as its state."""
    from spectui.engines.sglang.client import SglangClient
    from spectui.engines.sglang.errors import EngineError
    from spectui.hosts.traffic import requests_now
    from spectui.store import secrets

    if row.leftover:
        return row
    try:
        key = secrets.resolve(row.record.key) if row.record is not None and row.record.key else None
        with SglangClient(row.url, key=key, timeout=ASK_TIMEOUT_S) as client:
            info = client.probe()
            running, waiting = requests_now(client, client.metrics(timeout=ASK_TIMEOUT_S))
    except secrets.SecretError as error:
        return replace(row, said=str(error), tone="bad")
    except EngineError as error:
        return replace(row, said=f"✗ {error.what}", tone="bad")
    load = ""
    if running is not None:
        load = f"{running} running{f', {waiting} queued' if waiting else ''}"
    known = not info.unreadable
    return replace(
        row,
        said="● answers",
        tone="good",
        load=load,
        algorithm=info.algorithm if known else row.algorithm,
        simulated=row.simulated or bool(info.simulated),
    )
