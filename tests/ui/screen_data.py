"""Fixed data for the screens: servers, runs, profiles, a check, a sweep, a log."""

from __future__ import annotations

import random
from dataclasses import asdict
from pathlib import Path
from typing import Any

from spectui.core.profile import Fault
from spectui.core.request import RequestRecord
from spectui.core.result import RunResult, fold
from spectui.core.spec import Prompt
from spectui.engines.sglang.failure import Failure
from spectui.hosts.discover import FoundServer
from spectui.hosts.records import ServerRecord
from spectui.hosts.watch import PhaseTime, ServerState
from spectui.session.compared import ArmSource
from spectui.session.sweep_state import SweepState
from spectui.session.sweep_state import fold as fold_sweep
from spectui.store.runs import RunSummary, summarise
from spectui.ui.screens.servers_view import ServerRow
from spectui.ui.screens.workloads_view import Known
from spectui.workloads import Sets, Workload

WHEN = 1_796_000_000.0
HOSTILE = "\x1b]0;owned\x07[bold red]not style[/bold red] 你好\u202e \x1b[2J"


def record(name: str, port: int, **other: Any) -> ServerRecord:
    values: dict[str, Any] = {
        "gpus": ("0", "1"),
        "user": "ada",
        "profile": f"/home/ada/{name}.toml",
        "simulated": False,
    }
    argv = (
        "python3",
        "-m",
        "sglang.launch_server",
        "--model-path",
        "/models/Llama-3.1-8B-Instruct",
        "--port",
        str(port),
    )
    return ServerRecord(
        name, f"id-{name}", 100 + port, WHEN, "127.0.0.1", port, argv, f"/logs/{name}.log", **{**values, **other}
    )


def servers() -> tuple[ServerRow, ...]:
    """One ready, one starting, one failed, one found, one left-over."""
    model = "Llama-3.1-8B-Instruct"
    phases = (PhaseTime("weights", 21.4, 20.9), PhaseTime("graph capture", None, 31.0))
    starting = ServerState(
        "graph capture", 33.0, 11.6, 0.8, running=True, left_s=22.0, progress=(14, 20), phases=phases
    )
    failure = Failure(
        "out_of_memory", "out of memory in the KV pool", "Lower mem_fraction_static, 0.88 in force.", ("E1", "E2")
    )
    found = FoundServer(
        4711, "0.0.0.0", 30010, ("python3", "-m", "sglang.launch_server", "--port", "30010"), {}, "ben",
        pids=(4711, 4712, 4713), listening=True, gpus=(4, 5),
    )  # fmt: skip
    left = FoundServer(815, "127.0.0.1", 30020, ("sglang::scheduler",), {}, "ada", pids=(815, 816), leftover=True)
    return (
        ServerRow("ngram-a", "http://127.0.0.1:30000", None, record("ngram-a", 30000),
                  ServerState("ready", 61.0, ready=True, running=True), "NGRAM", model, "0 running"),
        ServerRow("eagle-b", "http://127.0.0.1:30001", None, record("eagle-b", 30001), starting, "EAGLE3", model),
        ServerRow("big", "http://127.0.0.1:30002", None, record("big", 30002),
                  ServerState("failed", 40.0, failure=failure, exit_code=1), "none", "Llama-3.3-70B"),
        ServerRow("127.0.0.1:30010", "http://127.0.0.1:30010", found, None, None, "EAGLE3", model,
                  "12 running, 3 queued", "● answers", "good"),
        ServerRow("pid 815", "http://127.0.0.1:30020", left, None, None, "none", ""),
    )  # fmt: skip


def rows_of_run(
    arms: tuple[tuple[str, str, float, float], ...], *, seed: int = 1, simulated: bool = False
) -> list[Any]:
    """(letter, algorithm, accept length, step time in s) -> a journal with a warm pass at 1 and at 4 at a time."""
    heads = [
        {
            "name": letter, "url": f"http://127.0.0.1:3000{i}", "version": "0.5.15", "algorithm": algorithm,
            "model": "Llama-3.1-8B-Instruct", "settings_in_force": {"num_draft_tokens": 8},
            "server": {"max_running_requests": 48}, "route": "/generate with input_ids", "simulated": simulated,
        }
        for i, (letter, algorithm, _, _) in enumerate(arms)
    ]  # fmt: skip
    workload = {"name": "json", "hash": "h", "marks": []}
    rows: list[Any] = [
        {"t": WHEN, "kind": "head", "schema": 1, "run_id": "x", "arms": heads, "passes": ["warm"],
         "concurrency": [1, 4], "temperature": 0.0, "max_tokens": 150, "requests": 8, "workload": workload}
    ]  # fmt: skip
    chance = random.Random(seed)
    t = WHEN
    for level in (1, 4):
        for letter, algorithm, length, step in arms:
            if algorithm == "NGRAM":
                detail = {"flushed": True, "attempts": 1, "status": 200, "reason": ""}
                rows.append({"t": t, "kind": "phase", "arm": letter, "pass_name": "warm", "phase": "flush",
                             "concurrency": level, "block": 0, "state": "end", "detail": detail})  # fmt: skip
            for phase, count in (("feed", 16), ("measure", 8)):
                for i in range(count):
                    if phase == "feed" and algorithm != "NGRAM":
                        continue
                    tokens = 201
                    fed = 1.0 if phase == "measure" else 0.4 + 0.6 * i / count
                    steps = round((tokens - 1) / (1 + (length - 1) * fed * chance.uniform(0.97, 1.03)))
                    even, more = divmod(tokens - 1 - steps, steps)
                    spread = (*[0] * even, steps - more, more, *[0] * (6 - even))
                    spent = steps * step * (1.0 if level == 1 else 1.3)
                    one = RequestRecord(
                        i, f"{phase}-{i}", "json", letter, "warm", phase, level, i // 4, f"{letter}{phase}{level}-{i}",
                        t, t + 0.06, t + 0.06 + spent, t + 0.061 + spent, "ok", prompt_tokens=60, cached_tokens=0,
                        completion_tokens=tokens, verify_steps=steps, histogram=spread,
                    )  # fmt: skip
                    rows.append({"t": one.end_s, "kind": "request", **asdict(one)})
                    t += spent / (level if phase == "measure" else 1) + 0.07
    rows.append({"t": t, "kind": "end", "status": "complete", "reason": ""})
    return rows


TWO_ARMS = (("A", "NGRAM", 4.6, 0.0253), ("B", "EAGLE3", 2.3, 0.0186))


def result(*arms: tuple[str, str, float, float], seed: int = 1) -> RunResult:
    return fold(rows_of_run(arms or TWO_ARMS, seed=seed))


def sources() -> tuple[ArmSource, ArmSource]:
    both = result()
    return ArmSource(both, "A", Path("20261130-101500-json-1a2b")), ArmSource(
        both, "B", Path("20261130-101500-json-1a2b")
    )


def summaries() -> tuple[RunSummary, ...]:
    from dataclasses import replace

    both = summarise("20261130-101500-json-1a2b", result())
    one = summarise("20261130-111500-json-3c4d", result(("A", "none", 1.0, 0.0151)))
    return (
        replace(both, pinned=True, tags=("week-48", HOSTILE), note="before the new driver"),
        replace(one, when=WHEN + 3600, simulated=True),
        RunSummary("20261130-121500-chat-5e6f", WHEN + 7200, "failed", "the server went away", "chat"),
    )


CHECKED: dict[str, Any] = {
    "ok": False, "reachable": True, "target": "ngram-a", "when": WHEN, "seconds": 31.2, "simulated": False,
    "notes": ["the server was restarted since the last check"],
    "probes": [
        {"name": "serving", "title": "Does it generate?", "why": "A port that answers is no proof.", "ok": True,
         "value": "health 200, a token in 0.05 s", "expected": "health 200 and a generated token", "detail": "",
         "next": "", "rows": []},
        {"name": "settings", "title": "Is in force what the profile asks for?", "why": "Servers change settings.",
         "ok": False, "value": "1 of 6 differs", "expected": "as asked", "detail": "draft tokens 8 asked, 4 in force",
         "next": "Set eagle_topk to 1, or accept 4 draft tokens",
         "rows": [{"setting": "draft tokens", "asked": 8, "in_force": 4, "by": "server"}]},
        {"name": "step_time", "title": "Are steps as fast as before?", "why": "A slow step eats the gain.", "ok": None,
         "value": "25.3 ms", "expected": "", "detail": "not checked: the profile holds no evidence", "next": "",
         "rows": []},
    ],
}  # fmt: skip


def sweep(*, done: bool = False) -> SweepState:
    names = {"none": ("none", 1), "NGRAM 4 draft tokens": ("NGRAM", 4), "NGRAM 8 draft tokens": ("NGRAM", 8),
             "NGRAM 16 draft tokens": ("NGRAM", 16)}  # fmt: skip
    settings = [
        {"name": name, "algorithm": algorithm, "knobs": {}, "in_force": {"num_draft_tokens": width}, "width": width,
         "same_as": None, "refused": None, "warnings": []}
        for name, (algorithm, width) in names.items()
    ]  # fmt: skip
    settings.append({"name": "EAGLE3", "algorithm": "EAGLE3", "width": 4, "refused": "it needs a draft model.",
                     "same_as": None, "in_force": {}, "knobs": {}, "warnings": []})  # fmt: skip

    def guess(name: str, length: float, speed: float) -> dict[str, Any]:
        return {"setting": name, "concurrency": 1, "accept_length": length, "tokens_per_s": speed,
                "interval": [speed * 0.9, speed * 1.1], "kind": "exact replay"}  # fmt: skip

    predicted = [guess("NGRAM 4 draft tokens", 2.4, 190.0), guess("NGRAM 8 draft tokens", 3.1, 230.0),
                 guess("NGRAM 16 draft tokens", 3.6, 221.0)]  # fmt: skip
    launches = [{"cells": [["none", 1]], "seconds": 120.0}, {"cells": [["NGRAM 8 draft tokens", 1]], "seconds": 150.0},
                {"cells": [["NGRAM 16 draft tokens", 1]], "seconds": 150.0}]  # fmt: skip
    why = "predicted 171–209 tok/s at 1 at a time, below NGRAM 8 draft tokens (predicted 207–253)"
    clock = {"settings": 3, "restarts": 3, "seconds": 420.0, "ends": WHEN + 420.0, "guessed": False,
             "text": "3 settings, 3 restarts, 7 minutes, ends 12:00"}  # fmt: skip
    rows: list[Any] = [
        {"t": WHEN, "kind": "head", "sweep_id": "20261130-101500-edit-1a2b", "profile": "mine", "concurrency": [1],
         "texts": ["NGRAM: 1 of 4 settings is the same as another"], "settings": settings},
        {"t": WHEN, "kind": "plan", "launches": launches, "skipped": [["NGRAM 4 draft tokens", 1, why]], "clock": clock,
         "predicted": predicted, "missing": []},
    ]  # fmt: skip
    if done:
        for name, speed, length in (("none", 64.0, 1.0), ("NGRAM 8 draft tokens", 236.0, 3.2)):
            rows.append(
                {
                    "t": WHEN + 60,
                    "kind": "cell",
                    "state": "end",
                    "setting": name,
                    "concurrency": 1,
                    "status": "measured",
                    "predicted": next((g for g in predicted if g["setting"] == name), None),
                    "measured": {"tokens_per_s": speed, "accept_length": length, "interval": [speed - 5, speed + 5]},
                }
            )
        rows.append(
            {"t": WHEN + 70, "kind": "cell", "state": "begin", "setting": "NGRAM 16 draft tokens", "concurrency": 1}
        )
        rows.append({"t": WHEN + 70, "kind": "best", "best": [
            {"concurrency": 1, "setting": "NGRAM 8 draft tokens", "tokens_per_s": 236.0, "interval": [231.0, 241.0],
             "tied_with": [], "withheld": []}]})  # fmt: skip
    return fold_sweep(rows)


PROFILE = """
schema = 1
name = "mine"
notes = "what the office uses"

[server]
port = 30000
gpus = [0, 1]
model_path = "/models/Llama-3.1-8B-Instruct"

[speculative]
algorithm = "NGRAM"
num_draft_tokens = 8

[[evidence]]
date = "2026-11-29T10:00:00Z"
run = "20261129-100000-json-1a2b"
[evidence.workload]
name = "json"
[[evidence.result]]
pass = "warm"
concurrency = 1
output_tokens_per_s = [372.0, 360.0, 384.0]
accept_length = [4.9, 4.7, 5.1]
"""


def workloads() -> tuple[Known, ...]:
    prompt = Prompt("p", "json", ({"role": "user", "content": f"Write three records. {HOSTILE}"},))
    found = []
    for name, title, marks in (
        ("json", "records of one shape", ()),
        ("repeat", "one prompt, repeated", ("contaminating",)),
    ):
        one = Workload(name, title, "Lists of JSON records with the same keys and fresh values.", ("json",), 512,
                       lambda _seed: Sets((prompt,), (prompt,)), marks)  # fmt: skip
        found.append(Known(name, one, None, 64, 32, prompt))
    return (*found, Known("broken", None, "workload file broken.py: SyntaxError: invalid syntax. Mend or remove it"))


LOG = [
    "[2026-11-30 10:15:00] Load weight begin. avail mem=139.2 GB",
    "[2026-11-30 10:15:21] Load weight end. elapsed=21.4 s",
    f"[2026-11-30 10:15:22] WARNING {HOSTILE}",
    *[f"[2026-11-30 10:16:{i:02d}] Decode batch, #running-req: {i}, accept len: 2.8{i}" for i in range(40)],
    "[2026-11-30 10:17:00] ERROR: scheduler hit an exception: torch.OutOfMemoryError: CUDA out of memory.",
]


def fault() -> Fault:
    return Fault("speculative.num_draft_tokens", "must be at least 1", 12)
