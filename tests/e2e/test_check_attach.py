"""A run that goes on while nobody looks: found, followed, left, followed again, and ended early."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))
from sim_process import SimProcess

from spectui.cli import run_command_line
from spectui.session import running
from spectui.session.arms import Target, arm_spec
from spectui.session.running import RunOptions


def test_attach_leave_and_stop(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("SPECTUI_HOME", str(tmp_path))
    with SimProcess("--enable-metrics", speed=0.5) as sim:
        url = f"http://127.0.0.1:{sim.port}"
        options = RunOptions(workload="mixed", max_tokens=400)
        handle = running.start(running.build_spec([arm_spec("A", Target(url, url=url))], options))
        try:
            name = handle.folder.name
            follower = subprocess.Popen(
                [sys.executable, "-m", "spectui", "attach", name],
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                text=True,
                env={**os.environ, "PYTHONUNBUFFERED": "1"},
            )
            assert follower.stdout is not None
            for line in follower.stdout:
                if " done, " in line:
                    break
            follower.send_signal(signal.SIGINT)
            _, err = follower.communicate(timeout=20)
            assert follower.returncode == 0
            assert f"{name} goes on" in err
            assert handle.alive()
            assert run_command_line(["attach", "--json"]) == 0
            listed = json.loads(capsys.readouterr().out)["runs"]
            assert [row["run"] for row in listed] == [name]
            assert run_command_line(["attach", name, "--stop", "--json"]) == 0
            told = json.loads(capsys.readouterr().out)
            assert (told["run"], told["stopped"]) == (name, True)
            assert not handle.alive()
            assert running.result_of(handle.folder).status == "interrupted"
        finally:
            running.stop(handle)
            running.exit_code(handle, running.result_of(handle.folder))
