"""What a person reads of a run: aligned, with units, no wider than 100 columns, and "n/a" with its reason."""

from __future__ import annotations

import io
import sys

import core_records as made
import pytest

from spectui import checks
from spectui.cli import curve, tables
from spectui.cli.check import print_checked
from spectui.core.result import fold
from spectui.session import fitting
from spectui.session.checking import Checked


def shown(capsys: pytest.CaptureFixture[str], *rows: dict[str, object]) -> str:
    tables.print_run(fold(rows))
    return capsys.readouterr().out


def test_passes_stand_side_by_side_as_many_as_fit(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [made.head(made.arm_head("A", "none"))]
    for level in (1, 2, 4, 8):
        rows += [made.row_of(made.record(n, concurrency=level, start_s=100.0)) for n in range(8)]
    text = shown(capsys, *rows)
    assert max(map(len, text.splitlines())) <= 100
    assert text.count("output tok/s") == 2
    for level in (1, 2, 4, 8):
        assert f"warm ×{level}" in text


def test_what_is_not_there_has_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    text = shown(capsys, made.head(), made.row_of(made.record(0)))
    assert "n/a  accept length, verify steps, step time: the route tells no verify steps" in text
    assert "n/a  energy: the GPUs of this server are not known" in text
    assert "ms" in text


def test_foreign_text_cannot_steer_the_terminal(capsys: pytest.CaptureFixture[str]) -> None:
    head = made.head(made.arm_head("A", "none", model="m\x1b[2J\x07evil"))
    mark = {"t": 1.0, "kind": "mark", "arm": "A", "name": "odd", "detail": "\x1b]0;title\x07"}
    text = shown(capsys, head, made.row_of(made.record(0)), mark)
    assert "\x1b" not in text
    assert "\x07" not in text


def test_each_arm_tells_why_the_prompts_do_not_suit_it(capsys: pytest.CaptureFixture[str]) -> None:
    asked = fitting.Asked(4, 4, 40, 64, 64, 4096, 0.5, 1)
    fits = [
        fitting.FitBefore("A", "NGRAM", "poor", "too little to feed", ("give more prompts",)),
        fitting.FitBefore("B", "none", "poor", "nothing is drafted", ("1 more prompt at least",)),
        fitting.FitBefore("C", "none", "good", "nothing is drafted"),
    ]
    tables.print_fit(asked, fits, whole=False)
    told = " ".join(capsys.readouterr().out.split())
    assert told.endswith(
        "A NGRAM poor (too little to feed; give more prompts); B none poor (1 more prompt at least); C none good"
    )


def test_where_all_requests_failed_that_is_all_that_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    bad = [made.record(n, status="failed", error="HTTP 400: too long", completion_tokens=None) for n in range(3)]
    text = shown(capsys, made.head(made.arm_head("A", "NGRAM")), *map(made.row_of, bad))
    assert "failed    A warm ×1: all 3 requests failed: HTTP 400: too long" in text
    assert "requests (failed)" in text
    assert not any(line.startswith(("proposer  A", "n/a  ", "notice", "identity")) for line in text.splitlines())


def test_fewer_in_flight_than_asked_for_are_named(capsys: pytest.CaptureFixture[str]) -> None:
    rows = [made.head()] + [made.row_of(made.record(n, concurrency=16, start_s=100.0)) for n in range(3)]
    text = shown(capsys, *rows)
    assert "warm ×3" in text
    assert "warm ×16" not in text
    told = " ".join(text.split())
    assert "never more than 3 of the 16 requests asked for at a time were in flight" in told


def test_nothing_measured_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    assert shown(capsys, made.head()) == "nothing was measured\n"


BINS = [
    {"from": 0, "to": 1000, "accept_length": 1.0, "steps": 500},
    {"from": 1000, "to": 2000, "accept_length": 4.0, "steps": 12500},
]


def test_a_curve_is_drawn_to_scale() -> None:
    lines = curve.lines({"tokens": BINS, "half_life": 700.4, "end": 4.2, "position": [], "turn": []}, stateful=True)
    bars = [line for line in lines if line.strip().startswith(("0 to", "1,000 to"))]
    lengths = [sum(c in "█▌#" for c in line) for line in bars]
    assert lengths == [10, 40]
    assert bars[0].index("█" if "█" in bars[0] else "#") == bars[1].index("█" if "█" in bars[1] else "#")
    assert "every 700 tokens; full at 4.20" in lines[-1]
    assert max(map(len, lines)) <= 100


def test_no_memory_no_curve_over_tokens() -> None:
    said = {"tokens": BINS, "half_life": None, "end": None, "position": BINS, "turn": []}
    lines = curve.lines(said, stateful=False)
    assert [line for line in lines if "since the flush" in line] == []
    assert any("position in the answer" in line for line in lines)
    assert curve.lines(None, stateful=True) == []


def test_a_plain_terminal_gets_plain_bars(monkeypatch: pytest.MonkeyPatch) -> None:
    with io.TextIOWrapper(io.BytesIO(), encoding="ascii") as plain:
        monkeypatch.setattr(sys, "stdout", plain)
        lines = curve.lines({"position": BINS}, stateful=False)
        "\n".join(lines).encode("ascii")
        assert any("#" in line for line in lines)
        monkeypatch.undo()


def test_a_good_figure_stands_beside_what_it_was_held_against(capsys: pytest.CaptureFixture[str]) -> None:
    probes = {probe.name: probe for probe in checks.catalogue()}
    found = (
        (probes["serving"], checks.Finding(True, "a token", "a token at all", "it came")),
        (probes["accept_length"], checks.Finding(True, "6.9", "2.0 to 4.9", "above what a warm store gave")),
    )
    print_checked(Checked("x", "http://127.0.0.1:1", None, found))
    told = capsys.readouterr().out
    assert "6.9   (expected: 2.0 to 4.9)\n          above what a warm store gave\n" in told
    assert "a token at all" not in told
    assert "it came" not in told
