"""Texts of a run, kept beside its journal where that is wanted: whole answers, and one answer as it streams."""

from __future__ import annotations

from pathlib import Path

from spectui.runner.arrival import Request
from spectui.store.journal import Writer


class Answers:
    """``answers.jsonl``: a line an answer, with token ids where the route gives them. Mode 0600."""

    def __init__(self, folder: Path) -> None:
        self._file = Writer(folder / "answers.jsonl")

    def keep(self, request: Request) -> None:
        job, fold = request.job, request.fold
        who = job.who
        self._file.write(
            {
                "arm": who.arm,
                "pass_name": who.pass_name,
                "phase": who.phase,
                "concurrency": who.concurrency,
                "index": who.index,
                "prompt_id": who.prompt_id,
                "prompt_ids": job.ids or [],
                "output_ids": fold.output_ids,
                "text": fold.text,
                "thoughts": fold.thoughts,
            }
        )

    def close(self) -> None:
        self._file.close()


class Live:
    """``live.jsonl``: the answer of one request at a time, in pieces of [tokens, text], an event each. Mode 0600."""

    def __init__(self, folder: Path) -> None:
        self._file = Writer(folder / "live.jsonl")
        self._shown: Request | None = None

    def tick(self, running: list[Request]) -> None:
        shown = self._shown
        if shown is not None:
            ended = shown.ending is not None
            pieces = shown.fold.take_live()
            if pieces or ended:
                self._file.write(
                    {
                        "arm": shown.job.who.arm,
                        "index": shown.job.who.index,
                        "rid": shown.job.who.rid,
                        "pieces": pieces,
                        "done": ended,
                    }
                )
            if ended:
                shown.fold.live = None
                self._shown = None
        if self._shown is None:
            # The one with the fewest tokens so far: its answer is seen from nearest to its start.
            fresh = [request for request in running if request.ending is None and not request.fold.tokens]
            if fresh:
                self._shown = fresh[-1]
                self._shown.fold.live = []

    def close(self) -> None:
        self._file.close()
