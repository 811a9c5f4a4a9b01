"""A run that waits for a server which says nothing: told on stderr, also where no terminal is."""

from __future__ import annotations

import pytest

from spectui.cli.progress import AGAIN_S, FIRST_S, Progress


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


@pytest.fixture(autouse=True)
def looked_at_by_hand(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Progress, "_look_often", lambda self: None)


def sample(tokens: int, running: int = 1) -> dict[str, object]:
    return {"kind": "sample", "arm": "A", "tokens": tokens, "running": running}


def told(line: Progress, capsys: pytest.CaptureFixture[str]) -> str:
    line.look()
    return capsys.readouterr().err


def test_silence_is_told_after_a_while_and_then_rarely(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(quiet=True, clock=clock) as line:
        line.watch("http://127.0.0.1:1", 600.0)
        clock.now += FIRST_S - 1
        assert told(line, capsys) == ""
        clock.now += 1
        first = told(line, capsys)
        assert "the first token of http://127.0.0.1:1: nothing for 10 s" in first
        assert "600 s" in first
        assert "--silence-limit" in first
        clock.now += AGAIN_S - FIRST_S - 1
        assert told(line, capsys) == ""
        clock.now += 1
        assert "nothing for 60 s" in told(line, capsys)
        assert told(line, capsys) == ""


def test_tokens_end_the_silence_and_samples_without_any_do_not(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    with Progress(quiet=True, clock=clock) as line:
        line.watch("http://127.0.0.1:1", 600.0)
        line.row({"kind": "phase", "arm": "A", "pass_name": "cold", "phase": "measure", "state": "begin"})
        for tokens in (5, 9):
            clock.now += FIRST_S - 1
            line.row(sample(tokens))
            assert told(line, capsys) == "", "tokens came"
        for _ in range(4):
            clock.now += FIRST_S / 4
            line.row(sample(9))
            line.row({"kind": "gpu", "gpus": []})
        assert "the cold pass (measure) of http://127.0.0.1:1: nothing for 10 s" in told(line, capsys)
        line.row(sample(9, running=0))
        clock.now += FIRST_S - 1
        assert told(line, capsys) == ""


def test_rows_may_be_fetched_and_between_two_runs_nothing_is_waited_for(capsys: pytest.CaptureFixture[str]) -> None:
    clock = Clock()
    come: list[list[dict[str, object]] | None] = [None, [sample(1)], [sample(1)], [sample(2)]]
    with Progress(quiet=True, clock=clock) as line:
        line.watch("its server", 600.0, lambda: come.pop(0))
        for expected in (False, False, True, False):
            clock.now += FIRST_S
            assert bool(told(line, capsys)) is expected, come


def test_a_terminal_that_is_gone_ends_no_measuring(monkeypatch: pytest.MonkeyPatch) -> None:
    class Gone:
        written = 0

        def isatty(self) -> bool:
            return True

        def write(self, text: str) -> int:
            self.written += 1
            raise OSError(5, "Input/output error")

    gone = Gone()
    monkeypatch.setattr("sys.stderr", gone)
    clock = Clock()
    with Progress(clock=clock) as line:
        line.say("starting")
        line.say("started")
        line.watch("http://127.0.0.1:1", 600.0)
        clock.now += FIRST_S
        line.look()
    assert gone.written == 2
