"""Whole sweeps over simulated servers: all kinds of settings in one, killed and resumed, ended early."""

from __future__ import annotations

import contextlib
import io
import json
import os
import signal
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from own_ports import own_port

from spectui.cli import run_command_line
from spectui.hosts import children, servers
from spectui.hosts.records import alive
from spectui.predict import tracking
from spectui.predict.settings_grid import Axes
from spectui.session import sweep_spec, sweeping
from spectui.session.running import RunOptions
from spectui.session.sweep_state import SweepState
from spectui.store import journal, profiles

WRAPPER = """
import sys
from spectui.engines.sim import main

if __name__ == "__main__":
    argv = sys.argv[1:]
    sys.exit(main([*argv, "--sim-fail", "oom"] if "16" in argv else argv))
"""
"""The simulated server, which runs out of memory with 16 draft tokens."""


def make_profile(home: Path, port: int) -> Path:
    script = home / "spectui_sim.py"
    script.write_text(WRAPPER)
    path = home / "sim.toml"
    path.write_text(
        f'schema = 1\nname = "simulated"\n[server]\n'
        f'command = "{sys.executable} {script} {{args}} --sim-speed 20 --sim-startup 0.05"\n'
        f'model_path = "simulated"\nport = {port}\n[speculative]\nalgorithm = "none"\n'
    )
    return path


@contextlib.contextmanager
def own_home(folder: Path) -> Iterator[Path]:
    """Servers and sweeps of the test are ended, whatever happened."""
    before = os.environ.get("SPECTUI_HOME")
    os.environ["SPECTUI_HOME"] = str(folder)
    try:
        yield folder
    finally:
        for handle in sweeping.in_progress():
            sweeping.stop(handle)
        for record in servers.records():
            if alive(record):
                os.killpg(record.pgid, signal.SIGKILL)
        children.reap()
        if before is None:
            del os.environ["SPECTUI_HOME"]
        else:
            os.environ["SPECTUI_HOME"] = before


def command(*words: str) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run_command_line(["sweep", *words])
    return code, out.getvalue(), err.getvalue()


AXES = ["--algorithm", "EAGLE3,none,NGRAM,DFLASH", "--draft-tokens", "4,8,16", "--set", "num_steps=2,3",
        "--draft-model", "EAGLE3=head"]  # fmt: skip
SMALL = ["--workload", "json", "--requests", "6", "--max-tokens", "40", "--concurrency", "2"]


@pytest.fixture(scope="module")
def swept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Any]]:
    with own_home(tmp_path_factory.mktemp("sweep")) as home:
        profile = make_profile(home, own_port())
        code, out, _ = command(str(profile), *SMALL, *AXES, "--keep-losers", "--save", "winner", "--json")
        said = json.loads(out)
        yield {"code": code, "said": said, "home": home, "profile": profile,
               "settings": {s["name"]: s for s in said["settings"]}}  # fmt: skip


def test_it_runs_through_by_itself(swept: dict[str, Any]) -> None:
    assert swept["code"] == 0, swept["said"]["reason"]
    assert swept["said"]["status"] == "complete"
    states: dict[str, list[str]] = {}
    for name, setting in swept["settings"].items():
        states.setdefault(setting["status"], []).append(name)
    assert sorted(states["measured"]) == ["EAGLE3 3 draft tokens, 2 steps", "EAGLE3 4 draft tokens, 3 steps",
                                          "NGRAM 4 draft tokens", "NGRAM 8 draft tokens", "none"]  # fmt: skip
    assert states["failed"] == ["NGRAM 16 draft tokens"]
    assert len(states["merged"]) == 4
    assert len(states["refused"]) == 3
    assert [h for h in servers.records() if alive(h)] == []
    assert len(swept["settings"]) == 13


def test_what_did_not_run_says_why(swept: dict[str, Any]) -> None:
    settings = swept["settings"]
    assert "memory" in settings["NGRAM 16 draft tokens"]["reason"]
    assert "draft model" in settings["DFLASH 4 draft tokens"]["reason"]
    same = [s for s in settings.values() if s["status"] == "merged"]
    assert all(s["same_as"] in settings and "the same as" in s["reason"] for s in same)
    text = "EAGLE3: 3 of 6 settings are the same once the server has applied steps + 1 (2 times)"
    assert swept["said"]["plan"]["texts"] == [text]


def test_measured_stands_beside_what_was_predicted_before(swept: dict[str, Any]) -> None:
    cell = swept["settings"]["NGRAM 4 draft tokens"]["by_concurrency"][0]
    assert cell["measured"]["requests"] == 6
    assert cell["predicted"]["kind"] == "several at a time", "the replay of the baseline's own text"
    assert cell["predicted"]["accept_length"] == pytest.approx(cell["measured"]["accept_length"], rel=0.35)
    short = swept["settings"]["EAGLE3 3 draft tokens, 2 steps"]["by_concurrency"][0]
    assert short["predicted"]["kind"] == "chain", "read from the longer chain, which ran before"
    assert short["predicted"]["accept_length"] == pytest.approx(short["measured"]["accept_length"], rel=0.2)
    first = swept["settings"]["none"]["by_concurrency"][0]
    assert first["predicted"] is None
    assert tracking.misses() == (), "what misses on simulated servers tells nothing of this node"
    rows = {(r["setting"], r["concurrency"]): r for r in swept["said"]["map"]}
    assert rows["none", 2]["draft_tokens"] == 1
    assert rows["NGRAM 4 draft tokens", 2]["predicted"]["accept_length"] == cell["predicted"]["accept_length"]
    assert rows["NGRAM 16 draft tokens", 2]["measured"] is None


def test_the_best_is_named_with_its_interval_and_saved(swept: dict[str, Any]) -> None:
    (entry,) = swept["said"]["best"]
    assert entry["concurrency"] == 2
    assert swept["settings"][entry["setting"]]["status"] == "measured"
    low, high = entry["interval"]
    assert low < entry["tokens_per_s"] < high
    assert entry["setting"] not in entry["tied_with"]
    ranked = {entry["setting"], *(row["setting"] for row in entry["against"])}
    assert ranked | {row["setting"] for row in entry["withheld"]} == {
        name for name, s in swept["settings"].items() if s["status"] == "measured"
    }
    (path,) = swept["said"]["saved"]
    saved = profiles.load(path)
    assert saved.name == "winner"
    assert saved.speculative.algorithm == swept["settings"][entry["setting"]]["algorithm"]
    assert saved.evidence[0]["result"][0]["concurrency"] == 2
    assert saved.evidence[0]["sweep"] == swept["said"]["sweep"]


def test_a_later_plan_knows_this_node(swept: dict[str, Any]) -> None:
    """Nothing is started: all comes from the runs that are stored."""
    code, out, _ = command(str(swept["profile"]), *SMALL, *AXES, "--keep-losers", "--plan-only", "--json")
    said = json.loads(out)
    assert code == 0
    assert said["status"] == "planned"
    assert said["best"] == []
    clock = said["plan"]["clock"]
    assert (clock["settings"], clock["restarts"], clock["guessed"]) == (6, 6, False)
    assert "6 settings, 6 restarts" in said["plan"]["text"]
    guesses = {s["name"]: s["predicted"] for s in said["settings"] if s["predicted"]}
    assert set(guesses) >= {"none", "NGRAM 4 draft tokens", "NGRAM 8 draft tokens", "EAGLE3 3 draft tokens, 2 steps"}
    assert said["plan"]["order"][0] == ["none", 2]
    assert len(list(sweeping.sweeps_dir().glob("*"))) == 1, "a plan leaves nothing behind"


def test_a_name_that_is_taken_is_refused_beforehand(swept: dict[str, Any]) -> None:
    code, _, err = command(str(swept["profile"]), *SMALL, *AXES, "--save", "winner")
    assert code == 2
    assert "winner" in err


def test_plain_text(swept: dict[str, Any]) -> None:
    code, out, err = command("--resume", swept["said"]["sweep"][-4:])
    assert code == 0, err
    assert any(line.startswith("none ") and line.endswith("measured") for line in out.splitlines())
    assert "at 2 at a time: " in out
    assert "kept in " in out
    assert "NGRAM 16 draft tokens: " in out


# -- cut off


def follow(handle: sweeping.SweepHandle, until: Callable[[SweepState, dict[str, Any]], bool]) -> SweepState:
    state = SweepState()
    for row in sweeping.rows(handle, poll_s=0.02):
        state.add(row)
        if until(state, row):
            return state
    raise AssertionError(f"it ended before that: {state.status} {state.reason} {state.failed}")


def own_server(state: SweepState) -> Any:
    ids = set(state.servers)
    return next((r for r in servers.records() if r.id in ids), None)


def test_ended_early_killed_and_taken_up_again(tmp_path: Path) -> None:
    with own_home(tmp_path) as home:
        profile = profiles.load(make_profile(home, own_port()))
        options = RunOptions(workload="json", requests=5, max_tokens=24, concurrency=(1, 2))
        spec = sweep_spec.make(profile, Axes(("none", "NGRAM"), {"num_draft_tokens": (8,)}), options, keep_losers=True)
        handle = sweeping.start(spec)
        state = follow(handle, lambda s, row: row["kind"] == "cell" and row["state"] == "end")
        server = own_server(state)
        assert alive(server)
        with pytest.raises(Exception, match="runs on this node"):
            sweeping.start(sweep_spec.make(profile, Axes(("none",)), options))
        sweeping.stop(handle)
        ended = sweeping.state_of(handle.folder)
        assert ended.status == "interrupted"
        assert not alive(server), "it stops the server that it started"
        done = dict(ended.cells)
        assert ("none", 1) in done

        again = sweeping.resume(handle.folder)
        state = follow(again, lambda s, row: row["kind"] == "server" and row["state"] == "ready" and s.current.get(
            "setting") == "NGRAM 8 draft tokens")  # fmt: skip
        left = own_server(state)
        assert again.process is not None
        os.kill(again.process.pid, signal.SIGKILL)
        while again.alive():
            time.sleep(0.01)
        assert alive(left), "nobody was there to stop it"
        assert sweeping.state_of(handle.folder).status == "interrupted"

        last = sweeping.wait(sweeping.resume(handle.folder))
        assert last.status == "complete", last.reason
        assert not alive(left)
        assert set(last.cells) == {(name, level) for name in ("none", "NGRAM 8 draft tokens") for level in (1, 2)}
        assert all(last.cells[cell]["run"] == done[cell]["run"] for cell in done), (
            "what was measured is not measured again"
        )
        assert {last.state_of(name)[0] for name in last.settings} == {"measured"}
        assert [entry["concurrency"] for entry in last.best] == [1, 2]
        assert last.spent_s > 0


def test_nothing_that_starts_is_a_failed_sweep(tmp_path: Path) -> None:
    with own_home(tmp_path) as home:
        path = make_profile(home, own_port())
        path.write_text(path.read_text().replace("--sim-speed", "--no-such-argument --sim-speed"))
        code, out, err = command(str(path), *SMALL, "--algorithm", "none", "--json")
        said = json.loads(out)
        assert code == 1
        assert said["status"] == "failed"
        assert said["settings"][0]["status"] == "failed"
        assert "nothing could be measured" in err


def test_what_can_be_changed_while_it_runs_takes_no_restart(tmp_path: Path) -> None:
    with own_home(tmp_path) as home:
        path = make_profile(home, own_port())
        more = ["--algorithm", "EAGLE3", "--num-steps", "3", "--set", "accept_threshold_single=0.8,1.0",
                "--draft-model", "head", "--keep-losers", "--json"]  # fmt: skip
        code, out, _ = command(str(path), *SMALL, *more)
        said = json.loads(out)
        assert code == 0, said["reason"]
        assert [s["status"] for s in said["settings"]] == ["measured", "measured"]
        rows = list(journal.read(Path(said["folder"]) / "journal.jsonl"))
        started = [row for row in rows if row["kind"] == "server" and row["state"] == "starting"]
        assert len(started) == 1
        assert rows[-1]["kind"] == "end"
        first = next(row for row in rows if row["kind"] == "plan")
        assert (first["clock"]["settings"], first["clock"]["restarts"]) == (2, 1)
