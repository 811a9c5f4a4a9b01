"""Restarts of real (simulated) servers: what is wrong is caught by the right probe, and nothing else fails."""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from own_ports import own_port
from sim_process import SimProcess

from spectui.checks import _gather
from spectui.cli import run_command_line
from spectui.core.profile import Profile
from spectui.session import checking, profile_from, running
from spectui.session.arms import Target, arm_spec
from spectui.session.running import RunOptions

EAGLE = (
    *("--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "a-draft", "--enable-metrics"),
    *("--speculative-num-steps", "3", "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4"),
)
NGRAM = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8", "--enable-metrics")
SPEED = 0.5
"""Slow, so that a busy test machine changes a step time by little."""
TOKENS = 48


@pytest.fixture(scope="module")
def home(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("home")
        patch.setenv("SPECTUI_HOME", str(folder))
        yield folder


def measured(url: str, **options: Any) -> Path:
    spec = running.build_spec([arm_spec("A", Target(url, url=url))], RunOptions(max_tokens=TOKENS, **options))
    handle = running.start(spec)
    result = running.wait(handle)
    assert running.exit_code(handle, result) == 0, result.reason
    return handle.folder


@pytest.fixture(scope="module")
def eagle(home: Path) -> Profile:
    """A profile with evidence of a good server."""
    with SimProcess(*EAGLE, speed=SPEED) as sim:
        url = f"http://127.0.0.1:{sim.port}"
        profile_from.save("eagle", url)
        return profile_from.save("eagle", measured(url, workload="mixed", requests=8).name)


@pytest.fixture(scope="module")
def ngram(home: Path) -> Profile:
    with SimProcess(*NGRAM, speed=20) as sim:
        url = f"http://127.0.0.1:{sim.port}"
        profile_from.save("ngram-own", url)
        run = measured(url, workload="json", requests=16, passes=("cold", "warm"), flush="yes")
        return profile_from.save("ngram-own", run.name)


def check(sim: SimProcess, profile: Profile | None, **options: Any) -> dict[str, dict[str, Any]]:
    target = checking.Target("it", f"http://127.0.0.1:{sim.port}", profile)
    checked = checking.check(target, checking.CheckOptions(**options))
    assert "/flush_cache" not in sim.text, "a check flushes nothing"
    assert checked.seconds < 60
    return {row["name"]: row for row in checked.as_json()["probes"]}


def bad(probes: dict[str, dict[str, Any]]) -> dict[str, str]:
    return {name: row["detail"] for name, row in probes.items() if row["ok"] is False}


def test_a_good_restart_is_good_and_prompts_rotate(eagle: Profile) -> None:
    with SimProcess(*EAGLE, speed=SPEED) as sim:
        first = check(sim, eagle)
        assert bad(first) == {}
        for name in ("serving", "version", "settings", "speculation", "accept_length", "step_time", "identities"):
            assert first[name]["ok"] is True, (name, first[name])
        assert first["greedy_answers"]["value"] == "8 of 8 the same"
        assert "prompt by prompt" in first["accept_length"]["detail"]
        again = check(sim, eagle)
        assert bad(again) == {}
        assert "8 of 8" not in again["greedy_answers"]["value"], "other prompts than before"
        assert "earlier checks" not in first["accept_length"]["detail"]


def test_speculation_left_out(eagle: Profile) -> None:
    with SimProcess("--enable-metrics", speed=SPEED) as sim:
        probes = check(sim, eagle)
    assert list(bad(probes)) == ["speculation"]
    assert "speculation is OFF" in probes["speculation"]["detail"]
    assert probes["accept_length"]["ok"] is None


def test_half_the_step_speed(eagle: Profile) -> None:
    with SimProcess(*EAGLE, speed=SPEED / 2) as sim:
        probes = check(sim, eagle)
    assert list(bad(probes)) == ["step_time"], bad(probes)


def test_another_draft_under_another_path(eagle: Profile) -> None:
    other = [word if word != "a-draft" else "another-draft" for word in EAGLE]
    with SimProcess(*other, speed=SPEED) as sim:
        probes = check(sim, eagle)
    assert list(bad(probes)) == ["settings"]
    rows = [row for row in probes["settings"]["rows"] if not row["ok"]]
    assert [(row["key"], row["asked"], row["in_force"]) for row in rows] == [
        ("draft_model_path", "a-draft", "another-draft")
    ]


def test_a_draft_that_accepts_less(eagle: Profile) -> None:
    """The stored values are those of a better draft; the run itself is gone, so the intervals decide."""
    entry = json.loads(json.dumps(eagle.evidence[0]))
    entry["run"] = "pruned"
    for row in entry["result"]:
        row["accept_length"] = [2.2 * x for x in row["accept_length"]]
    with SimProcess(*EAGLE, speed=SPEED) as sim:
        probes = check(sim, replace(eagle, evidence=(entry,)))
    assert list(bad(probes)) == ["accept_length"], bad(probes)
    assert "stored interval" in probes["accept_length"]["detail"]


def test_ngram_after_a_restart_is_held_against_cold_and_when_fed_against_warm(ngram: Profile) -> None:
    with SimProcess(*NGRAM, speed=20) as sim:
        cold = check(sim, ngram)
        assert cold["accept_length"]["ok"] is True, cold["accept_length"]
        assert "cold" in cold["accept_length"]["expected"]
        between = check(sim, ngram)
        assert between["accept_length"]["ok"] is True, between["accept_length"]
        assert "(cold) to" in between["accept_length"]["expected"]
        third = check(sim, ngram, requests=20)
        assert third["accept_length"]["ok"] is None or "cold" in third["accept_length"]["expected"]
        late = check(sim, ngram, feed=True)
        assert late["accept_length"]["ok"] is not False, late["accept_length"]
    with SimProcess(*NGRAM, speed=20) as sim:
        fed = check(sim, ngram, feed=True)
        assert fed["accept_length"]["ok"] is True, fed["accept_length"]
        assert "warm pass" in fed["accept_length"]["expected"]


def test_a_dead_scheduler_behind_a_healthy_port(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_gather, "TOKEN_LIMIT_S", 1.0)
    with SimProcess("--sglang-version", "0.4.9", "--enable-metrics") as sim:
        sim.call("/pause_generation", {})
        probes = check(sim, None)
        sim.call("/continue_generation", {})
    assert list(bad(probes)) == ["serving"]
    assert probes["serving"]["value"].startswith("health 200, serves: no")


def test_forced_acceptance_in_the_environment(home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SGLANG_SIMULATE_ACC_LEN", "3.5")
    with SimProcess(*EAGLE, speed=20) as sim:
        probes = check(sim, None)
    assert list(bad(probes)) == ["simulated_acceptance"]


def test_command_line(eagle: Profile, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command_line(["check", f"http://127.0.0.1:{own_port()}", "--json"]) == 3
    said = json.loads(capsys.readouterr().out)
    assert said["ok"] is False
    assert said["probes"][0]["ok"] is False
    with SimProcess(*EAGLE, speed=20) as sim:
        url = f"http://127.0.0.1:{sim.port}"
        assert run_command_line(["check", url, "--wait", "--requests", "2", "--json"]) == 0
        said = json.loads(capsys.readouterr().out)
        assert said["ok"] is True
        assert {"name", "ok", "value", "expected", "detail", "why", "next"} <= set(said["probes"][0])
        assert run_command_line(["check", url, "--requests", "2", "--watch", "1", "--times", "2"]) == 0
        out = capsys.readouterr().out
        assert out.count("accept length") >= 2
        assert run_command_line(["export", "--format", "prometheus", url]) == 0
        assert "spectui_check_ok" in capsys.readouterr().out
