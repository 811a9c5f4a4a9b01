"""Moments of the home screen as fixed values: a run going on, a relaunch, a staged change, a GPU that is lost."""

from __future__ import annotations

import math
from dataclasses import replace

from spectui.core.gpu import GpuReading
from spectui.session.view import (
    Answer,
    ArmView,
    RunView,
    SettingView,
    Snapshot,
    StartView,
    Status,
    StoreView,
    TableRow,
)

NOW = 1_796_000_060.0
GIB = 2**30
HOSTILE = "\x1b[2Jlog [bold]line[/] \x1b]0;owned\x07 你好"


def gpus() -> tuple[GpuReading, ...]:
    return tuple(
        GpuReading(
            f"GPU-{i}", i, "NVIDIA H200", 97.0 - i, (118 + i // 4) * GIB, 141 * GIB, 612.0 - 5 * i, 700.0, None,
            1980 - 30 * (i == 2), 58 + i, ("power-capped",) if i == 2 else (),
        )
        for i in range(8)
    )  # fmt: skip


def curve(top: float, *, rise: float = 20.0, low: float = 0.0) -> tuple[tuple[float, float | None], ...]:
    return tuple(
        (NOW - 120 + t + 0.5, None if t < 40 else low + (top - low) * (1 - math.exp(-(t - 40) / rise)))
        for t in range(120)
    )


def arms() -> tuple[ArmView, ArmView]:
    a = ArmView(
        "A", "ready", address="127.0.0.1:30000", version="SGLang 0.5.15", managed=True, algorithm="NGRAM",
        settings=(SettingView("num_draft_tokens", "draft tokens", "8"), SettingView("d", "trie depth", "18"),
                  SettingView("b", "breadth", "1–10")),
        model=("Llama-3.3-70B", "tp 4", "GPU 0,1,2,3", "48 running at most (set by the server)"),
        store=StoreView("fed", 0.75, "41k tokens since the flush 2:13 ago"),
    )  # fmt: skip
    b = ArmView(
        "B", "ready", address="127.0.0.1:30001", version="SGLang 0.5.15", managed=True, algorithm="EAGLE3",
        settings=(SettingView("num_steps", "steps", "3"), SettingView("eagle_topk", "topk", "1"),
                  SettingView("num_draft_tokens", "draft tokens", "4")),
        model=("Llama-3.3-70B", "tp 4", "GPU 4,5,6,7", "draft eagle3-llama3.3-70b"),
        stateless="draft has no state", idle="idle, accept length 2.31 (/metrics, last window)",
    )  # fmt: skip
    return a, b


TABLE = (
    TableRow("output tok/s", "372", "241", "1.54×  [1.49, 1.60]", "good"),
    TableRow("accept length", "4.90", "2.30", "2.13×  [2.08, 2.19]", "good"),
    TableRow("step time", "25.3 ms", "18.6 ms", "1.36×  [1.34, 1.38]", "bad"),
    TableRow("break-even accept length", "2.80", "2.10"),
    TableRow("TTFT p50 · p99", "61.0 · 88.0 ms", "63.0 · 91.0 ms", "no difference shown", "dim"),
    TableRow("TPOT p50", "2.60 ms", "4.10 ms", "0.64×  [0.62, 0.66]", "good"),
    TableRow("J per token", "n/a", "n/a", "no GPU was sampled during the pass", "dim"),
    TableRow("answers", note="same on 22 of 24; 2 differ from word 118"),
)


def running() -> Snapshot:
    pieces = ((5, '{"id": 118, "name": "Ada Moreno", '), (1, '"role"'), (8, ': "analyst", "city": "Porto"},\n'))
    readings = gpus()
    return Snapshot(
        now=NOW,
        node="gpu-node-7 · 8×H200 · driver 580",
        arms=arms(),
        focus="A",
        run=RunView("r", "json", ("A", "B"), True, "json ▸ warm pass ▸ 4 at a time", "A is being measured", 0.62, 48.0),
        tok_s={"A": curve(372.0), "B": curve(241.0, rise=2.0)},
        accept={"A": curve(4.9, low=1.0), "B": curve(2.3, rise=1.0, low=1.0)},
        tok_s_now={"A": "372", "B": "241"},
        accept_now={"A": "4.9", "B": "2.3"},
        marks=((NOW - 80, "flush"), (NOW - 30, "foreign")),
        break_even={"A": 2.8},
        gpus=readings,
        gpu_note="ok",
        gpu_history={r.uuid: tuple(min(97.0, 9.0 * i) for i in range(12)) for r in readings},
        gpu_owner={r.uuid: "A" if r.index < 4 else "B" for r in readings if r.index != 7},
        gpu_mean="94 % now, 71 % over the last 0:30",
        gpu_holders={"GPU-7": "38 GiB used by processes that cannot be seen from here"},
        table=TABLE,
        answer=Answer("A", "r1", pieces),
        logs={"A": ("[2026-11-30 10:15:00] Decode batch, #running-req: 4", HOSTILE), "B": ("one line",)},
        log_titles={"A": "A: log /logs/a.log", "B": "B: log /logs/b.log"},
        status=Status(
            "A is being measured (json ▸ warm pass ▸ 4 at a time)",
            "",
            ("stop", "chart", "log", "focus_arm", "help", "quit"),
        ),
        summary="A NGRAM 372 tok/s 4.9   B EAGLE3 241 tok/s 2.3",
    )


def relaunching() -> Snapshot:
    """The third phase of five, with the time that it took last time."""
    shot = running()
    phases = (
        ("start", 4.1, 4.0), ("weights", 21.4, 20.9), ("memory pool", 1.2, 1.1), ("graph capture", None, 31.0),
        ("draft graph capture", None, 12.0), ("warm-up", None, 4.0),
    )  # fmt: skip
    a = shot.arms[0]._replace(
        state="starting",
        trouble="starting: graph capture 14 of 20, about 0:22 left",
        settings=(SettingView("num_draft_tokens", "draft tokens", "12"), *shot.arms[0].settings[1:]),
        start=StartView(0.58, 22.0, phases, "graph capture 14 of 20"),
        version="",
    )
    wait = RunView("", "", ("A",), True, "A starts ▸ graph capture 14 of 20", "", 0.58, 22.0)
    done = RunView("r", "json", ("A", "B"), False, "json ▸ warm pass ▸ 4 at a time", "", None, None, "complete")
    status = Status(f"A: {a.trouble}", "warn", ("stop", "log", "focus_arm", "help", "quit"))
    return shot._replace(arms=(a, shot.arms[1]), run=done, wait=wait, chart_now=NOW, status=status)


def staged() -> Snapshot:
    """A change that waits for its key."""
    shot = running()
    settings = (SettingView("num_draft_tokens", "draft tokens", "8", "12"), *shot.arms[0].settings[1:])
    done = RunView("r", "json", ("A", "B"), False, "json ▸ warm pass ▸ 4 at a time", "", None, None, "complete")
    said = (
        "Staged for A: draft tokens 8 → 12 — predicted accept length 5.60 (estimate), about 398 tok/s at today's step "
        "time; relaunch takes about 62 s"
    )
    keys = ("apply", "drop", "knob_up", "knob_down", "settings", "algorithm", "run", "compare", "save", "help", "quit")
    guess = TableRow("  predicted · tok/s", "4.80 · 365", "", "measured A +2 %", "dim")
    return shot._replace(
        arms=(shot.arms[0]._replace(settings=settings, staged=True), shot.arms[1]),
        run=done,
        chart_now=NOW,
        table=(*TABLE[:2], guess, *TABLE[2:]),
        status=Status(said, "", keys),
    )


def lost() -> Snapshot:
    """A GPU of arm A no longer answers, and B is not there."""
    shot = running()
    trouble = "GPU 2 is lost: the driver no longer answers for it (nvidia-smi, dmesg) — l shows the log"
    a = shot.arms[0]._replace(state="GPU lost", trouble=trouble)
    b = ArmView("B", "none", "nothing here yet: o chooses a server, a profile or a stored run")
    return shot._replace(
        arms=(a, b),
        run=None,
        gpus=tuple(replace(r, lost=True) if r.index == 2 else r for r in shot.gpus),
        tok_s={},
        accept={},
        answer=None,
        break_even={},
        table=(
            TableRow("requests running", "2", ""),
            TableRow("accept length", "2.87", ""),
            TableRow("  of A by", note="/metrics gauge"),
        ),
        status=Status(f"A: {trouble}", "bad", ("focus_arm", "log", "choose_server", "help", "quit")),
    )


SHOTS = {"running": running, "relaunching": relaunching, "staged": staged, "lost": lost}
