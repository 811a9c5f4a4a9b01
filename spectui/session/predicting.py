"""What a staged change would accept, worked out in a process of its own that can be ended at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

from spectui.core.passes import PassResult
from spectui.predict.chain import chain_lengths
from spectui.session.staging import Staged
from spectui.session.view import Prediction

TIME_LIMIT_S = 60.0
_FAMILY = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


class Predictor:
    """One prediction at a time: a new one ends the one before."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._turn = 0

    def cancel(self) -> None:
        with self._lock:
            self._turn += 1
            process, self._process = self._process, None
        if process is not None and process.poll() is None:
            process.kill()

    def ask(
        self, staged: Staged, run: Path | None, last: PassResult | None, done: Callable[[Prediction], None]
    ) -> Prediction:
        """What is known at once; ``done`` is called later, from another thread, where it takes a replay."""
        self.cancel()
        if staged.plan.refusals:
            return Prediction(note="the server would refuse this")
        name = staged.plan.algorithm
        if last is None or last.algorithm != name:
            return Prediction(note="no prediction: no run of this algorithm to predict from; r measures")
        if name in _FAMILY:
            return chain_prediction(staged, last)
        if name != "NGRAM":
            return Prediction(note=f"no prediction for {name} without running it")
        if run is None or not (run / "answers.jsonl").is_file():
            return Prediction(note="no prediction: the last run kept no token ids")
        with self._lock:
            turn = self._turn
        threading.Thread(
            target=self._replay, args=(turn, staged, run, last, done), name="prediction", daemon=True
        ).start()
        return Prediction(pending=True)

    def _replay(
        self, turn: int, staged: Staged, run: Path, last: PassResult, done: Callable[[Prediction], None]
    ) -> None:
        command = [sys.executable, "-m", "spectui", "replay", str(run), "--json", "--processes", "1"]
        for flag, key in _FLAGS.items():
            value = staged.plan.in_force.get(key)
            if value is not None:
                command += [flag, str(value)]
        with self._lock:
            if turn != self._turn:
                return
            process = self._process = subprocess.Popen(
                command, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
            )
        try:
            said, _ = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said = b""
        if turn == self._turn:
            done(read_replay(said, last))


_FLAGS = {
    "--draft-tokens": "num_draft_tokens",
    "--max-trie-depth": "ngram.max_trie_depth",
    "--min-bfs-breadth": "ngram.min_bfs_breadth",
    "--max-bfs-breadth": "ngram.max_bfs_breadth",
    "--match-type": "ngram.match_type",
    "--capacity": "ngram.capacity",
}


def read_replay(said: bytes, last: PassResult) -> Prediction:
    """The accept length of the workload part that belongs to the last pass."""
    try:
        setting: dict[str, Any] = json.loads(said)["settings"][0]
        parts: dict[str, list[dict[str, Any]]] = setting["workloads"]
    except (ValueError, KeyError, IndexError, TypeError):
        return Prediction(note="no prediction: the replay did not end")
    words = {last.arm, last.pass_name, f"c{last.concurrency}"}
    best = max(parts, key=lambda name: len(words & set(name.split())), default=None)
    requests = parts[best] if best is not None else []
    steps = sum(r["verify_steps"] for r in requests)
    tokens = sum((r["accept_length"] or 0) * r["verify_steps"] for r in requests)
    if not steps:
        return Prediction(note="no prediction: nothing to replay")
    length = tokens / steps
    return Prediction(length, speed_at(length, last), bool(setting.get("exact")), str(setting.get("why_not") or ""))


def chain_prediction(staged: Staged, last: PassResult) -> Prediction:
    """A shorter chain of the same draft, from the histogram of the longer one that ran."""
    in_force = staged.plan.in_force
    steps, topk = in_force.get("num_steps"), in_force.get("eagle_topk")
    if topk not in (1, None) or not isinstance(steps, int):
        return Prediction(note="no prediction for trees; apply and measure")
    counts = [r.histogram for r in last.good if r.histogram]
    if not counts:
        return Prediction(note="no prediction: the last run tells no verify steps one by one")
    width = max(len(c) for c in counts)
    total = [sum(c[k] for c in counts if k < len(c)) for k in range(width)]
    measured = (last.draft_tokens or width) - 1
    if steps > measured:
        return Prediction(note=f"no prediction: longer than the chain of {measured} that was measured")
    try:
        estimate = chain_lengths(total, measured)[steps - 1]
    except (ValueError, IndexError) as error:
        return Prediction(note=f"no prediction: {error}")
    return Prediction(estimate.accept_length, speed_at(estimate.accept_length, last), False, "by the longer chain")


def speed_at(length: float, last: PassResult) -> float | None:
    """Output tok/s if a verify step took as long as it does now."""
    if not last.accept_length or last.output_tokens_per_s is None:
        return None
    return last.output_tokens_per_s * length / last.accept_length
