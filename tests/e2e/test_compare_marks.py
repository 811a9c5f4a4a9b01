"""What makes a trial unfair, on servers that really do it: each withholds the verdict, with the reason in words."""

from __future__ import annotations

import contextlib
import io
import json
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from sim_process import SimProcess
from told import EAGLE, Told

from spectui.cli import run_command_line
from spectui.core.rows import Row
from spectui.store import journal

SMALL = ("--workload", "json", "--requests", "6", "--max-tokens", "40")


@pytest.fixture
def told(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Told:
    return Told(tmp_path / "home", monkeypatch, capsys)


@pytest.fixture(scope="module")
def base() -> Iterator[SimProcess]:
    with SimProcess("--enable-metrics", speed=40) as server:
        yield server


@pytest.fixture(scope="module")
def eagle() -> Iterator[SimProcess]:
    with SimProcess(*EAGLE, speed=40) as server:
        yield server


def url(server: SimProcess) -> str:
    return f"http://127.0.0.1:{server.port}"


def withheld(said: dict[str, Any]) -> str:
    assert said["verdict"] == "not a fair trial", said["reasons"]
    return " | ".join(said["reasons"])


@contextlib.contextmanager
def somebody_else(server: SimProcess) -> Iterator[None]:
    """A third client that keeps asking while the test measures."""
    ending, first = threading.Event(), threading.Event()

    def ask() -> None:
        while not ending.is_set():
            server.generate("Somebody else's question.", 40)
            first.set()

    thread = threading.Thread(target=ask)
    thread.start()
    try:
        assert first.wait(20)
        yield
    finally:
        ending.set()
        thread.join(20)


def test_somebody_else_uses_a_server(told: Told, eagle: SimProcess, base: SimProcess) -> None:
    with somebody_else(base):
        said = told("compare", url(eagle), url(base), *SMALL)
    reasons = withheld(said)
    assert "B: traffic that is not ours" in reasons
    # What B's server did while A was measured loaded the same host.
    assert "both arms of one host were loaded at the same moment" in reasons


def test_requests_queue_on_one_arm(told: Told, eagle: SimProcess) -> None:
    with SimProcess("--enable-metrics", "--max-running-requests", "2", speed=40) as small:
        options = ("--workload", "json", "--requests", "8", "--max-tokens", "30", "--concurrency", "8")
        said = told("compare", url(eagle), url(small), *options)
    assert "6 of 8 requests queue on B (limit 2)" in withheld(said)


def test_length_forced_flatters_a_drafter(told: Told, eagle: SimProcess, base: SimProcess) -> None:
    said = told("compare", url(eagle), url(base), *SMALL, "--ignore-eos")
    assert "A: length forced: acceptance too high" in withheld(said)


def test_the_same_server_twice_is_told_apart_from_two(told: Told, base: SimProcess) -> None:
    said = told("compare", url(base), url(base), *SMALL)
    assert said["verdict"] in ("no difference shown", "not a fair trial", "faster", "slower")
    assert not any("same server" in reason for reason in said["reasons"])  # nothing is learned there


def test_sampling_that_differs_is_not_like_for_like(told: Told, eagle: SimProcess, base: SimProcess) -> None:
    cold = told("run", url(base), *SMALL)
    hot = told("run", url(eagle), *SMALL, "--temperature", "0.7")
    said = told("compare", hot["run"], cold["run"])
    assert "not like for like: temperature 0.7 / 0.0" in withheld(said)
    assert said["answers"] == ""  # sampled answers differ by themselves


@pytest.fixture(scope="module")
def recorded(
    tmp_path_factory: pytest.TempPathFactory, eagle: SimProcess, base: SimProcess
) -> tuple[Path, tuple[str, str]]:
    """A home with two runs, measured once."""
    home = tmp_path_factory.mktemp("recorded")
    names = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SPECTUI_HOME", str(home))
        for server in (eagle, base):
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                assert run_command_line(["run", url(server), *SMALL, "--json"]) == 0
            names.append(json.loads(said.getvalue())["run"])
    return home, (names[0], names[1])


@pytest.fixture
def pair(told: Told, recorded: tuple[Path, tuple[str, str]]) -> tuple[str, str]:
    """Two stored runs with a fair verdict: what is changed in one of them below is what withholds it."""
    home, names = recorded
    shutil.copytree(home, told.home)
    said = told("compare", *names)
    assert said["verdict"] != "not a fair trial", said["reasons"]
    return names


def retold(told: Told, name: str, change: Callable[[list[Row]], list[Row]]) -> str:
    """The run once more under another name, with a journal that somebody changed."""
    folder = told.home / "data" / "runs" / name
    copy = folder.with_name(f"{name}-retold")
    shutil.copytree(folder, copy)
    rows = change(list(journal.read(copy / "journal.jsonl")))
    (copy / "journal.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    return copy.name


def shifted(rows: list[Row], seconds: float) -> list[Row]:
    """All times moved, so that the run was somewhere else in time."""
    names = ("t", "start_s", "first_s", "last_s", "end_s")
    return [{k: v + seconds if k in names and isinstance(v, float) else v for k, v in row.items()} for row in rows]


def test_two_runs_at_once_on_one_host(told: Told, pair: tuple[str, str]) -> None:
    a, b = pair
    folder = told.home / "data" / "runs"
    starts = [next(r["start_s"] for r in journal.read(folder / n / "journal.jsonl") if r["kind"] == "request"
                   and r["phase"] == "measure") for n in pair]  # fmt: skip
    late = retold(told, a, lambda rows: shifted(rows, starts[1] - starts[0]))
    shutil.rmtree(folder / a)
    reasons = withheld(told("compare", late, b))
    assert "both arms of one host were loaded at the same moment: the two runs overlap by" in reasons


def test_a_client_that_was_the_limit(told: Told, pair: tuple[str, str]) -> None:
    def bound(rows: list[Row]) -> list[Row]:
        return [{**r, "bound": True, "late_share": 0.2} if r["kind"] == "client" else r for r in rows]

    busy = retold(told, pair[0], bound)
    shutil.rmtree(told.home / "data" / "runs" / pair[0])
    reasons = withheld(told("compare", busy, pair[1]))
    assert "A: the load generator was the limit, not the server (20.0 % of reads were late" in reasons


@pytest.mark.parametrize(
    ("reading", "reason"),
    [
        ({"throttle": ["thermal"]}, "A's GPU was slowed by heat or hardware in 100 % of the readings"),
        ({"temperature_c": 84.0, "sm_clock_mhz": 1400.0}, "A's GPU was 24 °C hotter and ran at 1400 against 1900 MHz"),
    ],
)
def test_a_gpu_that_was_throttled_or_hotter(
    told: Told, pair: tuple[str, str], reading: dict[str, Any], reason: str
) -> None:
    def with_gpu(**values: Any) -> Callable[[list[Row]], list[Row]]:
        gpu = {"uuid": "GPU-1", "index": 0, "name": "G", "temperature_c": 60.0, "sm_clock_mhz": 1900.0, **values}

        def change(rows: list[Row]) -> list[Row]:
            for row in rows:
                if row["kind"] == "head":
                    row["arms"][0]["gpus"] = ["GPU-1"]
            measured = [r for r in rows if r["kind"] == "request" and r["phase"] == "measure"]
            readings = [{"t": (r["start_s"] + r["end_s"]) / 2, "kind": "gpu", "gpus": [gpu]} for r in measured]
            return [*rows[:-1], *readings, rows[-1]]

        return change

    hot = retold(told, pair[0], with_gpu(**reading))
    cool = retold(told, pair[1], with_gpu())
    for name in pair:
        shutil.rmtree(told.home / "data" / "runs" / name)
    assert reason in withheld(told("compare", hot, cool))
