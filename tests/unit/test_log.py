from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from spectui.engines.sglang.batchlines import DecodeLine, PrefillLine, clean, read_batch, read_line
from spectui.engines.sglang.log import LogReader, read_log

DATA = Path(__file__).parent.parent / "data" / "sglang"


def text(name: str) -> str:
    return (DATA / name).read_bytes().decode()


def decode(line: str) -> DecodeLine:
    found = read_batch(read_line(line))
    assert isinstance(found, DecodeLine)
    return found


# -- starts that went well


@pytest.mark.parametrize(
    ("folder", "phases"),
    [
        ("none", ["start", "distributed set-up", "weights", "memory pool", "graph capture", "warm-up", "ready"]),
        ("ngram-8", ["start", "distributed set-up", "weights", "memory pool", "graph capture", "warm-up", "ready"]),
        (
            "eagle3-3-1-4",
            [
                *("start", "distributed set-up", "weights", "draft weights", "memory pool", "graph capture"),
                *("draft graph capture", "warm-up", "ready"),
            ],
        ),
    ],
)
def test_recorded_starts(folder: str, phases: list[str]) -> None:
    reader = read_log(text(f"{folder}/server.log"))
    assert [phase.name for phase in reader.phases] == phases
    assert reader.states == ["loading", "http-up", "ready", "stopping"]
    assert reader.failure is None
    assert reader.captured_limit == 32
    assert reader.windows >= 10
    assert all((line.accept_length is None) == (folder == "none") for line in reader.decode_lines)
    times = [phase.begin_s for phase in reader.phases if phase.begin_s is not None]
    assert times == sorted(times)
    assert len(times) == len(phases)
    assert reader.ended(-9) is not None
    assert reader.state == "stopped"


def test_a_start_tells_its_progress_and_notes() -> None:
    reader = read_log(text("eagle3-3-1-4/server.log"))
    by_name = {phase.name: phase for phase in reader.phases}
    assert by_name["weights"].progress == (1, 1)
    assert by_name["graph capture"].progress == (20, 20)
    assert by_name["graph capture"].seconds == 2.0
    assert reader.notes[0].key == "max_running_requests_reset"
    assert reader.fraction == 0.4
    assert {event.kind for event in LogReader().feed(text("eagle3-3-1-4/server.log"))} >= {
        "state",
        "phase",
        "progress",
        "decode",
        "note",
    }


@pytest.mark.parametrize("size", [1, 7, 1000])
def test_a_log_in_pieces_reads_as_the_whole(size: int) -> None:
    whole = text("ngram-8/server.log")
    reader = LogReader()
    for at in range(0, len(whole), size):
        reader.feed(whole[at : at + size])
    reader.close()
    once = read_log(whole)
    assert reader.phases == once.phases
    assert list(reader.decode_lines) == list(once.decode_lines)
    assert reader.states == once.states


def test_windows_line_ends_and_carriage_returns() -> None:
    reader = LogReader()
    reader.feed("[2026-01-01 00:00:00] Load weight begin. avail mem=1 GB\r\n")
    reader.feed("Loading safetensors shards:  50% Completed | 1/2 [00:01<00:01]\rLoading shards: 2/2 [00:02<0]\r")
    assert reader.phase is not None
    assert (reader.phase.name, reader.phase.progress) == ("weights", (2, 2))


def test_other_ranks_do_not_move_the_start() -> None:
    reader = LogReader()
    for rank in (1, 0, 1):
        reader.feed(f"[2026-01-01 00:00:0{rank} TP{rank}] Load weight begin. avail mem=1 GB\n")
    reader.feed("[2026-01-01 00:00:03 TP1] Load weight end. x\n")
    assert [phase.name for phase in reader.phases] == ["weights"]
    assert reader.phases[0].end_s is None


def test_old_order_with_the_draft_after_the_graphs() -> None:
    lines = [
        *(
            "Init torch distributed begin.",
            "Load weight begin. avail mem=1",
            "Load weight end.",
            "KV Cache is allocated. #tokens: 1",
        ),
        *(
            "Memory pool end. avail mem=1",
            "Capture cuda graph begin. This can take",
            "Capture cuda graph end. Time elapsed: 1",
        ),
        *(
            "Init torch distributed begin.",
            "Load weight begin. avail mem=1",
            "Load weight end.",
            "Memory pool end. avail mem=1",
        ),
        *("Capture draft cuda graph begin.", "Capture draft cuda graph end.", "Capture draft extend cuda graph begin."),
        *(
            "Capture draft extend cuda graph end.",
            "INFO:     Uvicorn running on http://127.0.0.1:1 (Press CTRL+C to quit)",
        ),
        "The server is fired up and ready to roll!",
    ]
    reader = LogReader()
    for at, line in enumerate(lines):
        reader.feed(line + "\n", at=at)
    assert [phase.name for phase in reader.phases] == [
        *("distributed set-up", "weights", "memory pool", "graph capture", "draft weights", "memory pool"),
        *("draft graph capture", "warm-up", "ready"),
    ]


def test_a_second_start_in_the_same_file_begins_anew() -> None:
    reader = read_log(text("failed-adaptive/server.log"))
    assert reader.state == "failed"
    reader.feed("[2026-12-01 00:00:00] server_args=ServerArgs(model_path='/m', mem_fraction_static=0.7)\n")
    assert (reader.state, reader.failure, reader.fraction) == ("loading", None, 0.7)


# -- batch lines


def test_decode_lines_of_all_versions_and_variants() -> None:
    head = "[2026-01-01 00:00:00 DP1 TP0] "
    tail = "accept len: 2.50, accept rate: 0.63, cuda graph: True, gen throughput (token/s): 123.45, #queue-req: 3"
    forms = [
        f"{head}Decode batch. #running-req: 7, #token: 200, token usage: 0.01, {tail}, ",
        f"{head}Decode batch, #running-req: 7, #token: 200, token usage: 0.01, {tail}, ",
        f"{head}Decode batch, #running-req: 7, #token: 200, token usage: 0.01, {tail}, est. decode TFLOPS/s: 1.0",
        f"{head}Decode batch [12], #running-req: 7, #token: 200, token usage: 0.01, {tail}",
        f"{head}Decode batch, #running-req: 7, #full token: 200, full token usage: 0.01, #swa token: 1, "
        f"swa token usage: 0.00, pre-allocated usage: 0.00, #prealloc-req: 0, #retracted-req: 0, {tail}",
        f"{head}Decode batch, #running-req: 7, #token: 200, token usage: 0.01, accept len: 2.50, accept rate: 0.63, "
        "cap len: 3.00, block accept len: 9.00, npu graph: True, gen throughput (token/s): 123.45, #queue-req: 3",
    ]
    for form in forms:
        line = decode(form)
        assert (line.running, line.queued, line.throughput, line.graph) == (7, 3, 123.45, True), form
        assert (line.accept_length, line.accept_rate, line.usage, line.dp_rank) == (2.5, 0.63, 0.01, 1), form
        assert line.tokens == 200


def test_without_speculation_there_is_no_accept_length() -> None:
    line = decode(
        "[2026-01-01 00:00:00.123 TP0] Decode batch, #running-req: 1, #token: 2, token usage: 0.00, cuda graph: False, "
        "gen throughput (token/s): 9.00, #queue-req: 0"
    )
    assert (line.accept_length, line.accept_rate, line.graph) == (None, None, False)
    assert line.time_s is not None
    assert line.time_s % 1 == pytest.approx(0.123, abs=1e-3)


def test_prefill_lines() -> None:
    found = read_batch(
        read_line(
            "[2026-01-01 00:00:00] Prefill batch. #new-seq: 1, #new-token: 6, #cached-token: 2, "
            "token usage: 0.00, #running-req: 4, #queue-req: 5, "
        )
    )
    assert isinstance(found, PrefillLine)
    assert (found.new_requests, found.new_tokens, found.cached_tokens, found.running, found.queued) == (1, 6, 2, 4, 5)


def test_the_first_window_after_idle_is_marked() -> None:
    reader = read_log(text("ngram-8/server.log"))
    marked = [line.after_idle for line in reader.decode_lines]
    assert marked[0] is True
    assert not all(marked)


def test_fc26_lines_of_three_versions_read_the_same_length() -> None:
    case = json.loads(text("FC-26.json"))
    lines = [decode(row["line"]) for row in case["lines"]]
    assert [line.accept_rate for line in lines] == [0.5, 0.38, 0.29]
    assert {line.accept_length for line in lines} == {3.0}


def test_colours_are_taken_off() -> None:
    assert clean("\x1b[1;33mhello\x1b[0m \x1b]0;title\x07there") == "hello there"


# -- marks


def test_fc01_drafts_that_are_never_accepted() -> None:
    reader = read_log(text("FC-01.log"))
    assert [line.throughput for line in reader.decode_lines] == [71.30, 70.88, 71.12]
    assert [line.accept_length for line in reader.decode_lines] == [1.0, 1.0, 1.0]
    assert all(line.graph for line in reader.decode_lines)
    assert reader.never_accepted is not None
    assert "never accepted" in reader.never_accepted
    two = read_log("\n".join(text("FC-01.log").split("\n")[:2]) + "\n")
    assert two.never_accepted is None


def test_short_windows_need_more_of_them() -> None:
    reader = LogReader(decode_log_interval=10)
    reader.feed(text("FC-01.log"))
    assert reader.never_accepted is None
    for _ in range(3):
        reader.feed(text("FC-01.log"))
    assert reader.never_accepted is not None


def test_one_accepted_window_ends_it_and_ranks_are_apart() -> None:
    reader = read_log(text("FC-01.log"))
    reader.feed(text("FC-01.log").split("\n")[0].replace("accept len: 1.00", "accept len: 1.90") + "\n")
    assert reader.never_accepted is None
    mixed = LogReader()
    low = text("FC-01.log").split("\n")[0]
    for _ in range(3):
        mixed.feed(low.replace("TP0", "DP1 TP0") + "\n" + low.replace("1.00", "2.00").replace("TP0", "DP0 TP0") + "\n")
    assert mixed.never_accepted is not None
    assert "rank 1" in mixed.never_accepted


def test_fc19_share_of_windows_without_graphs() -> None:
    reader = read_log(text("FC-19.log"))
    assert reader.without_graph_share == 0.5
    assert reader.first_running_without_graph == 24
    assert [line.accept_length for line in reader.decode_lines] == [2.80, 2.81, 2.79, 2.80]
    assert reader.without_graph is not None
    assert "partly without graphs: 2 of 4" in reader.without_graph
    limited = LogReader()
    limited.feed("[2026-01-01 00:00:00 TP0] Capture target verify CUDA graph begin. bs=[1, 2, 16], avail mem=1 GB\n")
    limited.feed(text("FC-19.log"))
    assert limited.without_graph is not None
    assert "up to 16" in limited.without_graph


# -- failures


@pytest.mark.parametrize(
    ("folder", "code", "kind", "cause", "phase"),
    [
        ("failed-draft-path", 1, "draft path", "'/models/no-such-draft'", ""),
        (
            "failed-adaptive",
            -9,
            "assertion",
            "AssertionError: shared logits buffer holds 128 rows",
            "draft graph capture",
        ),
        (
            "failed-missing-module",
            -9,
            "missing module",
            "ModuleNotFoundError: No module named 'cutlass'",
            "draft graph capture",
        ),
    ],
)
def test_recorded_failures(folder: str, code: int, kind: str, cause: str, phase: str) -> None:
    reader = read_log(text(f"{folder}/server.log"), exit_code=code, ended=True)
    failure = reader.failure
    assert failure is not None
    assert reader.states == ["loading", "failed"]
    assert (failure.kind, failure.phase, failure.exit_code) == (kind, phase, code)
    assert cause in failure.cause
    assert failure.cause in failure.lines
    assert failure.hint


def test_fc05_http_up_is_not_ready_and_the_first_cause_counts() -> None:
    reader = read_log(text("FC-05.log"))
    assert reader.states == ["loading", "http-up", "failed"]
    assert reader.failure is not None
    assert reader.failure.cause == "NotImplementedError: tree mask is not available for this backend"
    assert reader.failure.kind == "kernel or backend"


@pytest.mark.parametrize(
    ("case", "kind", "direction", "fraction"),
    [
        ("A", "out of memory: KV pool", "raise", 0.88),
        ("B", "out of memory: graph capture", "lower", 0.88),
        ("C", "out of memory: serving", "lower", 0.85),
    ],
)
def test_fc16_which_of_the_two_hints(case: str, kind: str, direction: str, fraction: float) -> None:
    lines = json.loads(text("FC-16.json"))[case]
    for ordered in (lines, [line for line in reversed(lines) if "server_args" in line] + lines):
        failure = read_log("\n".join(ordered) + "\n").failure
        assert failure is not None
        assert (failure.kind, failure.direction, failure.fraction) == (kind, direction, fraction)
        assert f"{fraction:g} in force" in failure.hint
        assert failure.hint.lower().count("raise") == (direction == "raise")


def failed(*lines: str, code: int | None = 1) -> tuple[str, str]:
    failure = read_log("\n".join(lines) + "\n", exit_code=code, ended=True).failure
    assert failure is not None
    return failure.kind, failure.cause


SCHEDULER = "[2026-01-01 00:00:00 TP0] Scheduler hit an exception: Traceback (most recent call last):"
FRAME = '  File "/x/model_runner.py", line 1, in load'


def test_out_of_memory_while_weights_load() -> None:
    kind, cause = failed(
        "[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=10 GB",
        SCHEDULER,
        FRAME,
        "torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 2.00 GiB. GPU 0 has a total capacity",
    )
    assert kind == "out of memory: weights"
    assert cause.startswith("torch.OutOfMemoryError")


@pytest.mark.parametrize(
    ("last", "kind"),
    [
        ("AssertionError", "assertion"),
        ("AssertionError: tp_size must be 1", "assertion"),
        ("ImportError: cannot import name 'x' from 'y'", "missing module"),
        ("ValueError: The draft vocab size 32000 does not match the target vocab size 128256", "vocabulary"),
        ("RuntimeError: size mismatch for lm_head.weight: copying a param", "vocabulary"),
        ("OSError: /models/big does not appear to have a file named config.json.", "model path"),
        ("ValueError: Currently ngram speculative decoding does not support dp attention.", "rule"),
        ("ValueError: Unknown speculative algorithm name: FOO", "rule"),
        ("RuntimeError: CUDA error: no kernel image is available for execution on the device", "kernel or backend"),
        (
            "ValueError: speculative_eagle_topk > 1 with page_size > 1 is unstable and not supported",
            "kernel or backend",
        ),
        ("RuntimeError: Error building extension 'ngram_cache_cpp'", "build tools"),
        ("torch.distributed.DistBackendError: NCCL error in: ProcessGroupNCCL.cpp", "distributed"),
        (
            "ValueError: The memory capacity is unbalanced. Some GPUs may be occupied by other processes.",
            "GPU occupied",
        ),
        ("OSError: [Errno 98] Address already in use", "port taken"),
        ("KeyError: 'model.layers.9'", "unknown"),
    ],
)
def test_exceptions_by_kind(last: str, kind: str) -> None:
    assert failed(SCHEDULER, FRAME, last) == (kind, last)


def test_a_chain_is_named_by_its_last_exception() -> None:
    kind, cause = failed(
        *(
            "Traceback (most recent call last):",
            FRAME,
            "KeyError: 'a'",
            "",
            "During handling of the above exception, another",
        ),
        *("", "Traceback (most recent call last):", FRAME, "ModuleNotFoundError: No module named 'b'"),
    )
    assert (kind, cause) == ("missing module", "ModuleNotFoundError: No module named 'b'")


def test_port_taken_names_the_port() -> None:
    line = "ERROR:    [Errno 98] error while attempting to bind on address ('127.0.0.1', 30000): address already in use"
    reader = read_log(line + "\n")
    assert reader.failure is not None
    assert reader.failure.kind == "port taken"
    assert "30000" in reader.failure.hint


def test_argparse() -> None:
    kind, cause = failed(
        "usage: launch_server.py [-h]", "launch_server.py: error: unrecognized arguments: --foo", code=2
    )
    assert kind == "arguments"
    assert "--foo" in cause


def test_killed_from_outside() -> None:
    assert failed("[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=1 GB", code=-9)[0] == "killed"
    died = "[2026-01-01 00:00:00] Rank 0 scheduler died during initialization (exit code: -9)."
    assert failed(died, code=1)[0] == "killed"


def test_exit_codes_alone_decide_nothing() -> None:
    assert failed("something", code=1)[0] == "unknown"
    assert failed(SCHEDULER, FRAME, "AssertionError: x", code=-9)[0] == "assertion"


def test_a_server_that_failed_in_a_request_only_goes_on() -> None:
    reader = read_log(
        "\n".join(
            [
                "[2026-01-01 00:00:00] The server is fired up and ready to roll!",
                "[2026-01-01 00:00:01] ERROR:    Exception in ASGI application",
                *("Traceback (most recent call last):", FRAME, "AttributeError: no path", ""),
            ]
        )
    )
    assert reader.state == "ready"
    assert reader.failure is None
    reader.ended(-9)
    assert reader.failure is not None
    assert reader.failure.kind == "killed"


def test_a_start_that_goes_on_has_not_failed() -> None:
    reader = LogReader()
    reader.feed("[2026-01-01 00:00:00 TP0] Load weight begin. avail mem=1 GB\n")
    reader.feed("torch.OutOfMemoryError: CUDA out of memory. Tried to allocate 1.00 GiB\n")
    assert reader.state == "failed"
    reader.feed("[2026-01-01 00:00:09 TP0] Capture cuda graph begin. avail mem=1 GB\n")
    assert reader.state == "loading"
    assert reader.failure is None


def test_a_stop_is_no_failure() -> None:
    reader = read_log(text("none/server.log"), exit_code=-9, ended=True)
    assert reader.state == "stopped"
    assert reader.failure is None


# -- slow or stuck


def test_fc86_slow_but_alive() -> None:
    reader = LogReader()
    for row in json.loads(text("FC-86.json"))["first"]:
        assert reader.stuck(row["t"]) is None
        reader.feed(row["line"] + "\n", at=row["t"])
        assert reader.state != "failed"
    spans = {phase.name: (phase.begin_s, phase.end_s) for phase in reader.phases}
    assert spans["weights"][1] == 95
    assert spans["compile"] == (95, 700)
    assert spans["graph capture"] == (700, 760)
    assert spans["warm-up"] == (760, 781)
    assert reader.ready_s == 781
    assert reader.stuck(99999) is None


def test_fc86_stuck() -> None:
    case = json.loads(text("FC-86.json"))
    reader = LogReader()
    for row in case["second"]:
        reader.feed(row["line"] + "\n", at=row["t"])
    assert reader.stuck(311.9) is None
    stuck = reader.stuck(312, limit_s=case["silence_limit_s"])
    assert stuck is not None
    assert stuck.text == "no sign of life for 300 s in phase distributed set-up"
    assert "interface" in stuck.hint
    assert reader.state == "loading"


# -- anything at all

PIECES = st.lists(
    st.sampled_from(
        [
            *(
                "[2026-01-01 00:00:00 TP0] ",
                "[9999-99-99 99:99:99] ",
                "Decode batch, #running-req: ",
                "1, ",
                "accept len: 1.2.3, ",
            ),
            *(
                "cuda graph: True, gen throughput (token/s): 1.1.1, #queue-req: 0",
                "Traceback (most recent call last):",
                "\n",
                "\r",
            ),
            *(
                '  File "x"',
                "ValueError: x",
                "Load weight begin",
                "Load weight end",
                "Capture cuda graph begin bs=[1, , 2]",
            ),
            *(
                "Capture x graph end",
                "compiling 1/2",
                "server_args=ServerArgs(mem_fraction_static=0..5",
                " 3/2 [",
                "\x1b[1m",
                "SIGTERM received",
            ),
        ]
    )
    | st.text(max_size=8),
    max_size=24,
)


@settings(max_examples=120, deadline=None)
@given(PIECES, st.sampled_from([None, 0, 1, -9]))
def test_no_log_is_too_odd(pieces: list[str], code: int | None) -> None:
    reader = LogReader()
    for at, piece in enumerate(pieces):
        reader.feed(piece, at=at)
    assert reader.failure is None or reader.state == "failed"
    assert reader.stuck(1e6) is None or reader.state in ("loading", "http-up")
    reader.ended(code)
    assert reader.state in ("stopped", "failed")
    assert (reader.failure is not None) == (reader.state == "failed")


@pytest.mark.parametrize(
    ("lines", "kind"),
    [
        ("ssh: Could not resolve hostname node7: Name or service not known", "ssh"),
        ("root@node7: Permission denied (publickey,password).", "ssh"),
        ("client_loop: send disconnect: Broken pipe", "ssh"),
        (
            'docker: Error response from daemon: Conflict. The container name "/a" is already in use by "b".\n'
            "See 'docker run --help'.",
            "container name",
        ),
        ("docker: Error response from daemon: manifest for a/b:c not found: manifest unknown.", "container image"),
        ('docker: Error response from daemon: could not select device driver "" with [[gpu]].', "container GPUs"),
        ("docker: Cannot connect to the Docker daemon at unix:///var/run/docker.sock.", "container"),
        ("the input device is not a TTY", "container"),
        ("srun: error: Unable to allocate resources: Invalid account", "Slurm"),
        (
            "slurmstepd: error: *** STEP 1.0 ON n CANCELLED DUE TO TIME LIMIT ***\nsrun: error: n: task 0: Killed",
            "Slurm",
        ),
        ("sudo: a password is required", "sudo"),
        ("/usr/bin/python3: No module named sglang.launch_server", "missing module"),
        ("bash: line 1: python3: command not found", "command"),
        ("exec: /venv/python: No such file or directory", "command"),
        ("RuntimeError: Found no NVIDIA driver on your system.", "GPU driver"),
        ("OSError: [Errno 28] No space left on device", "disk full"),
        ("OSError: You are trying to access a gated repo.", "hub access"),
        ("INFO: nothing of note", "unknown"),
        ("[2026-01-01 00:00:00] Ignore import error when loading x: No module named 'y'", "unknown"),
    ],
)
def test_failures_around_the_server_have_their_names(lines: str, kind: str) -> None:
    reader = LogReader()
    reader.feed(lines + "\n", 1.0)
    reader.ended(255, 2.0)
    assert reader.failure is not None
    assert reader.failure.kind == kind
    if kind != "unknown":
        assert reader.failure.cause in lines
        assert reader.failure.hint
