from __future__ import annotations

import json
import os
import socket
from pathlib import Path

import pytest

from spectui.hosts import ports
from spectui.hosts.ports import PortAsk, PortUse

CASE = json.loads((Path(__file__).parent.parent / "data" / "hosts" / "FC-80.json").read_text())


# FC-80
def test_neighbours_with_dp_attention_are_refused_with_a_proposal_that_fits() -> None:
    asks = [PortAsk(s["name"], s["port"], s["dp_attention"], s["dp_size"]) for s in CASE["servers"]]
    busy = {b["port"]: b["holder"] for b in CASE["busy"]}
    got = ports.plan(asks, busy=busy)
    assert not got.ok
    assert got.uses == ()
    text = "\n".join(got.conflicts)
    assert "derived ports 30233 to 30242 and 30234 to 30243 overlap" in text
    assert "derived port 30237 is taken by python other.py" in text
    every = [p for u in got.proposal for p in u.all]
    assert len(every) == len(set(every)) == 2 * (1 + 1 + 10)
    assert not set(every) & set(busy)
    assert ports.plan([PortAsk(u.name, u.port, True, 4, u.nccl_port) for u in got.proposal], busy=busy).ok


def test_two_plain_servers_get_different_communication_ports() -> None:
    got = ports.plan([PortAsk("a", 30000), PortAsk("b", 30001)], busy={})
    assert got.ok
    assert len({p for u in got.uses for p in u.all}) == 4
    assert [u.port for u in got.uses] == [30000, 30001]


@pytest.mark.parametrize(
    ("asks", "says"),
    [
        ([PortAsk("a", 30000), PortAsk("b", 30000)], "same port 30000"),
        ([PortAsk("a", 30000, True, 2), PortAsk("b", 30235)], "port 30235 is among the derived ports of a"),
        ([PortAsk("a", 30000, nccl_port=30001), PortAsk("b", 30001)], "communication port 30001 is used by b"),
        ([PortAsk("a", 1, nccl_port=7), PortAsk("b", 2, nccl_port=7)], "same communication port 7"),
        ([PortAsk("a", 70000)], "70000 is no port number"),
        ([PortAsk("a", 65400, True, 2)], "65636 is no port number"),
        ([PortAsk("a", 30500)], "30500 is taken by server other"),
    ],
)
def test_each_kind_of_collision_is_named(asks: list[PortAsk], says: str) -> None:
    got = ports.plan(asks, busy={}, others=[PortUse("other", 30500, (), 30501)])
    assert not got.ok
    assert says in "\n".join(got.conflicts)


def test_a_busy_main_port_names_its_holder() -> None:
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        s.listen()
        port = s.getsockname()[1]
        assert not ports.is_free(port)
        held = ports.holder(port)
        assert held is not None
        assert held.pid == os.getpid()
        got = ports.plan([PortAsk("a", port)])
        assert not got.ok
        assert f"port {port} is taken by" in got.conflicts[0]
        assert f"pid {os.getpid()}" in got.conflicts[0]
        assert got.proposal[0].port != port
        assert ports.wait_free([port], 0) == (port,)
    assert ports.wait_free([port], 5) == ()
    assert ports.holder(port) is None


def test_waiting_for_a_closing_port_ends_when_it_closes() -> None:
    answers = iter([False, False, True])
    waited: list[float] = []
    assert (
        ports.wait_free([30000], 60, clock=lambda: sum(waited), sleep=waited.append, free=lambda p: next(answers)) == ()
    )
    assert len(waited) == 2


def test_free_port_avoids_those_taken() -> None:
    first = ports.free_port(31000)
    assert ports.free_port(31000, taken=[first]) > first
