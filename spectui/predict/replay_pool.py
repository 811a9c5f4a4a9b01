"""Replay tasks spread over processes, which say what they have found as they go and can be ended at any moment."""

from __future__ import annotations

import contextlib
import gc
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from multiprocessing import get_context, resource_tracker
from multiprocessing.connection import Connection, wait
from typing import Any

from spectui.predict.replay_source import Pair
from spectui.predict.replay_task import Bench, Task

LOOK_S = 0.05
"""Between two looks whether it is to end."""
SAY_S = 0.1
"""Between two messages of a process."""


class ReplayDied(RuntimeError):
    """A process of the replay ended by itself; one line that says what would help."""

    exit_code = 1


def run(
    workloads: Mapping[str, Sequence[Pair]],
    depth: int,
    tasks: Sequence[Task],
    processes: int,
    add: Callable[[Task, int, list[int]], None],
    cancelled: Callable[[], bool] | None = None,
) -> None:
    """``add`` is called in this thread with (task, number of the setting in it, histogram of its next request).

    Returns when all is done, or at once when ``cancelled`` says so. Raises :class:`ReplayDied`.
    """
    # A prompt's body never enters the store: only its end is sent.
    ends = {name: [replace(p, prompt_ids=p.prompt_ids[-256:]) for p in pairs] for name, pairs in workloads.items()}
    waiting = list(enumerate(tasks))[::-1]
    started = [_start(ends, depth) for _ in range(processes)]
    try:
        busy = {connection: process for process, connection in started}
        for _, connection in started:
            with contextlib.suppress(OSError):
                connection.send(waiting.pop() if waiting else None)
        while busy:
            if cancelled is not None and cancelled():
                return
            for ready in wait(list(busy), LOOK_S):
                assert isinstance(ready, Connection)
                try:
                    said = ready.recv()
                    if said is None:
                        ready.send(waiting.pop() if waiting else None)
                except (EOFError, OSError):
                    process = busy[ready]
                    process.join()
                    raise ReplayDied(
                        f"a process of the replay ended (exit code {process.exitcode}), likely for want of memory; "
                        "--processes 1 takes less, and so does a smaller grid"
                    ) from None
                if said == "over":
                    del busy[ready]
                elif said is not None:
                    number, rows = said
                    for setting, histogram in rows:
                        add(tasks[number], setting, histogram)
    finally:
        for process, connection in started:
            process.kill()
            process.join()
            process.close()
            connection.close()


def _start(workloads: Mapping[str, Sequence[Pair]], depth: int) -> tuple[Any, Connection]:
    """A fresh interpreter: a fork of a process with threads, as the screen is, may hang."""
    context = get_context("spawn")
    mine, theirs = context.Pipe()
    process = context.Process(target=_serve, args=(theirs, depth), daemon=True)
    resource_tracker.ensure_running()  # else the first start would do so, and let Ctrl-C through again
    # Ctrl-C reaches a whole group of processes; this one decides what comes of it, so theirs is held back.
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        process.start()
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
    theirs.close()
    with contextlib.suppress(OSError):  # it has died: the first look at it says so
        mine.send(workloads)
    return process, mine


def _serve(connection: Connection, depth: int) -> None:
    gc.disable()  # nothing here is a cycle, and the collector would walk every tree again and again
    try:
        bench = Bench(connection.recv(), depth)
        while (given := connection.recv()) is not None:
            number, task = given
            rows: list[tuple[int, list[int]]] = []
            said = time.monotonic()
            for row in bench.rows(task):
                rows.append(row)
                if time.monotonic() - said >= SAY_S:
                    connection.send((number, rows))
                    rows, said = [], time.monotonic()
            if rows:
                connection.send((number, rows))
            connection.send(None)
        connection.send("over")
    except (OSError, EOFError):  # it was ended meanwhile
        return
