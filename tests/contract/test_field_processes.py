"""Field cases about processes, ports, logs and profiles, with their own inputs and others of the same kind."""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from field_data import expected, table, text

from spectui.core.gpu import GpuReading
from spectui.core.profile import Profile
from spectui.core.safe import safe_text
from spectui.engines.sglang.log import LogReader
from spectui.hosts import memory, ports
from spectui.hosts.gpus import GpuPanel
from spectui.hosts.leftovers import leftovers
from spectui.hosts.ports import PortAsk
from spectui.hosts.processes import ProcessRow
from spectui.hosts.records import ServerRecord
from spectui.hosts.serving import Poll, states
from spectui.store import export, profiles, toml_file

GIB = 1024**3


def test_fc61_foreign_text_stays_text() -> None:
    lines = text("FC-61.log").split("\n")
    assert len([line for line in lines if line]) == expected("FC-61")["lines"]
    shown = [safe_text(line, 200) for line in lines]
    assert shown[:6] == lines[:6]
    assert "\x1b" not in "".join(shown)
    assert len(shown[7]) == 200


@pytest.mark.parametrize("sign", ["\x1b[2J", "\x9b31m", "\x07", "\x00", "\u202e", "\u2066", "\x7f", "\r"])
def test_fc61_other_signs_that_move_a_terminal(sign: str) -> None:
    shown = safe_text(f"a{sign}[/]b", 80)
    assert all(c.isprintable() for c in shown)
    assert shown.endswith("[/]b")


def test_fc67_a_command_that_starts_the_same_server() -> None:
    case, want = table("FC-67"), expected("FC-67")
    words = ["--model-path", case["model_path"], "--json-model-override-args", case["json_model_override_args"]]
    line = export.shell(Profile("x"), [*words, "--api-key", case["api_key"]])
    split = shlex.split(line)
    assert [word for word in split if word in case["want_tokens"]] == case["want_tokens"]
    assert not [key for key in want["absent"] if key in line]
    assert "$SGLANG_API_KEY" in line


def rows_of(case: str) -> tuple[ServerRecord, list[ProcessRow]]:
    kept, rows = table(case)["record"], table(case)["table"]
    record = ServerRecord("a", "mark", kept["pid"], kept["start"], "127.0.0.1", 30000, ("x",), "/x.log")
    record = replace(record, pgid=kept["pgid"], sid=kept["sid"], uid=kept["uid"])
    keys = ("pid", "ppid", "pgid", "sid", "uid", "start", "name")
    return record, [ProcessRow(*(row[key] for key in keys)) for row in rows]


def test_fc78_what_our_server_left_behind() -> None:
    record, rows = rows_of("FC-78")
    assert [row.pid for row in leftovers(record, rows)] == expected("FC-78")["leftovers"]


@pytest.mark.parametrize(
    "change", [{"uid": 0}, {"start": 999.0}, {"sid": 7}, {"name": "bash"}, {"marker": "another's"}], ids=str
)
def test_fc78_one_missing_proof_is_enough_to_leave_it_alone(change: dict[str, Any]) -> None:
    record, rows = rows_of("FC-78")
    assert leftovers(record, [replace(rows[0], **change)]) == []


class Time:
    def __init__(self) -> None:
        self.now = 0.0

    def __call__(self) -> float:
        return self.now

    def sleep(self, seconds: float) -> None:
        self.now += seconds


def panel(used: list[float]) -> GpuPanel:
    readings = (GpuReading(uuid=str(i), index=i, name="H", memory_used=int(g * GIB)) for i, g in enumerate(used))
    return GpuPanel(tuple(readings), "ok")


def test_fc79_when_a_relaunch_may_begin() -> None:
    case, time = table("FC-79"), Time()
    before = {str(i): int(g * GIB) for i, g in enumerate(case["before_gib"])}

    def now() -> GpuPanel:
        return panel([row for row in case["samples"] if row["t"] <= time.now][-1]["used"])

    found = memory.wait(before, now, clock=time, sleep=time.sleep)
    assert (found.free, found.waited_s) == (True, expected("FC-79")["allowed_t"])
    time = Time()
    stuck = memory.wait(before, lambda: panel([1.1, 38.0]), clock=time, sleep=time.sleep)
    assert (stuck.free, stuck.waited_s) == (False, 60)
    assert "GPU 1" in stuck.holders[0]


def test_fc80_ports_nobody_typed() -> None:
    case, want = table("FC-80"), expected("FC-80")
    asks = [PortAsk(s["name"], s["port"], s["dp_attention"], s["dp_size"]) for s in case["servers"]]
    blocks = [ports.derived_ports(ask.port, True, ask.dp_size) for ask in asks]
    assert [[block[0], block[-1]] for block in blocks] == [want["block_a"], want["block_b"]]
    busy = {row["port"]: row["holder"] for row in case["busy"]}
    found = ports.plan(asks, busy=busy)
    said = "\n".join(found.conflicts)
    assert not found.ok
    assert ("overlap" in said) is want["overlap"]
    assert f"derived port {want['busy_hit']} is taken by python other.py" in said
    every = [port for use in found.proposal for port in use.all]
    assert len(every) == len(set(every))
    assert not set(every) & set(busy)
    assert ports.plan([PortAsk("a", 30010, True, 4), PortAsk("b", 30030, True, 4)], busy=busy).ok


@pytest.mark.parametrize(
    ("asks", "said"),
    [
        ([PortAsk("a", 40000, True, 2), PortAsk("b", 40239)], "port 40239 is among the derived ports of a"),
        ([PortAsk("a", 40000, True, 8), PortAsk("b", 40010, True, 8)], "overlap"),
        ([PortAsk("a", 65400, True, 2)], "is no port number"),
    ],
    ids=str,
)
def test_fc80_other_plans_get_a_proposal_that_holds(asks: list[PortAsk], said: str) -> None:
    found = ports.plan(asks, busy={})
    assert said in "\n".join(found.conflicts)
    again = [
        replace(ask, port=use.port, nccl_port=use.nccl_port) for ask, use in zip(asks, found.proposal, strict=True)
    ]
    assert ports.plan(again, busy={}).ok


def test_fc81_health_is_not_serving() -> None:
    found = states([Poll(**row) for row in table("FC-81")["polls"]])
    assert [state.serves.replace(" ", "_") for state in found] == expected("FC-81")["states"]
    assert {state.health for state in found} == {"200"}


@pytest.mark.parametrize(
    ("polls", "last"),
    [
        ([Poll(0, 200, 1, 5), Poll(19.9, 200, 1, 5)], "ready"),
        ([Poll(0, 200, 1, 5), Poll(20, 200, 1, 5)], "suspect"),
        ([Poll(0, 200, 0, 5), Poll(500, 200, 0, 5)], "ready"),
        ([Poll(0, 200, 0, 5, "TimedOut")], "not serving"),
        ([Poll(0, 200, 1, 5, "TimedOut"), Poll(9, 200, 1, 6)], "ready"),
        ([Poll(0, None)], "not reachable"),
    ],
    ids=str,
)
def test_fc81_other_polls(polls: list[Poll], last: str) -> None:
    assert states(polls)[-1].serves == last


def test_fc86_slow_is_not_stuck() -> None:
    case, want, log = table("FC-86"), expected("FC-86"), LogReader()
    for row in case["first"]:
        log.feed(row["line"] + "\n", row["t"])
        assert log.state != "failed"
        assert log.stuck(row["t"] + case["silence_limit_s"] - 1) is None
    times = {phase.name: (phase.begin_s, phase.end_s) for phase in log.phases}
    assert (times["compile"], times["graph capture"]) == ((95, 700), (700, 760))
    assert (log.state, log.ready_s) == ("ready", want["first_ready"])
    silent = LogReader()
    for row in case["second"]:
        silent.feed(row["line"] + "\n", row["t"])
    assert silent.stuck(want["second_stuck_at"] - 0.1) is None
    stuck = silent.stuck(want["second_stuck_at"])
    assert stuck is not None
    assert stuck.text == "no sign of life for 300 s in phase distributed set-up"
    assert "network interface" in stuck.hint


def test_fc86_a_bar_that_moves_without_a_line_end_is_a_sign_of_life() -> None:
    log = LogReader()
    log.feed("Capture cuda graph begin. avail mem=3 GB\n", 10)
    for i in range(1, 5):
        log.feed(f"\rCapturing batches (bs={i}): {i * 20}%|##  | {i}/5 [00:01<00:01]", 10 + 250 * i)
    assert log.stuck(1300) is None
    assert log.stuck(1310) is not None


def test_fc88_unset_values_and_an_old_file_that_is_safe(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path / "home"))
    given, path = table("FC-88"), tmp_path / "p.toml"
    profiles.save_table(given, path)
    back = toml_file.tomllib.loads(path.read_text("utf-8"))
    for name in expected("FC-88")["omitted"]:
        part, _, key = name.rpartition(".")
        assert key not in (back[part] if part else back)
    kept = {key: value for key, value in given.items() if value is not None}
    assert back == {**kept, "spec": {key: value for key, value in given["spec"].items() if value is not None}}
    before = path.read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "replace", full)
    with pytest.raises(profiles.ProfileError, match="No space left"):
        profiles.save_table({"name": "new"}, path, replace_existing=True)
    assert path.read_bytes() == before
    assert [entry.name for entry in tmp_path.iterdir() if entry.is_file()] == ["p.toml"]


@pytest.mark.parametrize("words", ['"quoted" \\ back', "two\nlines", "🚀 déjà", "'''", "#[x]=\t"])
def test_fc88_any_text_survives(words: str, tmp_path: Path) -> None:
    path = tmp_path / "p.toml"
    profiles.save_table({"name": words, "none": None, "deep": {"none": None, "text": words}}, path)
    assert json.loads(json.dumps(toml_file.tomllib.loads(path.read_text("utf-8")))) == {
        "name": words,
        "deep": {"text": words},
    }
