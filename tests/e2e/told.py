"""Commands run in the process of the test, against simulated servers, with a home of their own."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from spectui.cli import run_command_line

NGRAM = ("--speculative-algorithm", "NGRAM", "--speculative-num-draft-tokens", "8", "--enable-metrics")
EAGLE = (
    "--speculative-algorithm", "EAGLE3", "--speculative-draft-model-path", "sim-draft", "--speculative-num-steps", "3",
    "--speculative-eagle-topk", "1", "--speculative-num-draft-tokens", "4", "--enable-metrics",
)  # fmt: skip


class Told:
    """Runs a command and gives its JSON; :meth:`text` gives what a person would read."""

    def __init__(self, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
        monkeypatch.setenv("SPECTUI_HOME", str(home))
        self.home = home
        self._capsys = capsys

    def __call__(self, *words: str, code: int = 0) -> dict[str, Any]:
        out, err, got = self._run([*words, "--json"])
        assert got == code, err
        said: dict[str, Any] = json.loads(out)
        return said

    def text(self, *words: str) -> str:
        out, err, got = self._run(list(words))
        assert got == 0, err
        return out

    def refused(self, *words: str) -> tuple[int, str]:
        """Exit code and the one line on stderr."""
        out, err, got = self._run(list(words))
        assert got != 0, out
        assert "Traceback" not in err
        return got, err.strip()

    def _run(self, words: list[str]) -> tuple[str, str, int]:
        self._capsys.readouterr()
        try:
            got = run_command_line(words)
        except SystemExit as stop:  # argparse
            got = int(stop.code or 0)
        read = self._capsys.readouterr()
        return read.out, read.err, got

    def run_folder(self, said: dict[str, Any]) -> Path:
        name = said["run"] if "run" in said else said["arms"][0]["run"]
        return self.home / "data" / "runs" / str(name)
