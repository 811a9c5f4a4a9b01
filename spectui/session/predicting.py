"""What a staged change would accept, worked out in a process of its own that can be ended at any moment."""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from spectui.core.passes import PassResult
from spectui.core.result import RunResult
from spectui.hosts import own_process
from spectui.predict.chain import chain_lengths
from spectui.session.staging import Staged
from spectui.session.view import Prediction

TIME_LIMIT_S = 60.0
_FAMILY = ("EAGLE", "EAGLE3", "NEXTN", "STANDALONE")


class Predictor:
    """One prediction at a time: a new one ends the one before. An n-gram store is replayed over the last run's text,
    whatever wrote it; chains are read off a longer one of their own algorithm."""

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
        if name not in ("NGRAM", *_FAMILY):
            return Prediction(note=f"no prediction for {name} without running it")
        if last is None or (name in _FAMILY and last.algorithm != name):
            return Prediction(note="no prediction: no run of this algorithm to predict from; r measures")
        known = chain_prediction(staged, last) if name in _FAMILY else None
        if known is not None and known.accept_length is None:
            return known
        if known is None and (run is None or not (run / "answers.jsonl").is_file()):
            return Prediction(note="no prediction: the last run kept no token ids")
        with self._lock:
            turn = self._turn
        threading.Thread(
            target=self._work_out, args=(turn, staged, run, last, known, done), name="prediction", daemon=True
        ).start()
        return Prediction(pending=True)

    def _work_out(
        self,
        turn: int,
        staged: Staged,
        run: Path | None,
        last: PassResult,
        known: Prediction | None,
        done: Callable[[Prediction], None],
    ) -> None:
        found = known if known is not None or run is None else self._replay(turn, staged, run, last)
        if found is not None and found.accept_length is not None:
            found = at_step_times(found, staged, run, last)
        if found is not None and turn == self._turn:
            done(found)

    def _replay(self, turn: int, staged: Staged, run: Path, last: PassResult) -> Prediction | None:
        command = [sys.executable, "-m", "spectui", "replay", str(run), "--json", "--processes", "1"]
        for flag, key in _FLAGS.items():
            value = staged.plan.in_force.get(key)
            if value is not None:
                command += [flag, str(value)]
        with self._lock:
            if turn != self._turn:
                return None
            process = self._process = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.DEVNULL,
                env=own_process.environment(),
            )
        try:
            said, _ = process.communicate(timeout=TIME_LIMIT_S)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            said = b""
        return read_replay(said, last)


def at_step_times(found: Prediction, staged: Staged, run: Path | None, last: PassResult) -> Prediction:
    """With the speed that this node's step times give, and what such predictions were off by here. Where no run of the
    setting's algorithm is known, only a run of the same algorithm lends its own step time."""
    from spectui.predict import step_times, tracking
    from spectui.predict.breakeven import Length, StepTimeModel, predict
    from spectui.predict.settings_grid import Setting
    from spectui.session import SessionError, running

    setting = Setting("", staged.plan.algorithm, {}, staged.plan)
    chain = setting.algorithm in _FAMILY
    kind = tracking.CHAIN if chain else tracking.SEVERAL if last.concurrency > 1 else tracking.OTHER_TEXT
    error = None if found.exact else tracking.spreads()[kind].log_error
    found = found._replace(error=error, kind=tracking.EXACT if found.exact else kind)
    try:
        whole = running.result_of(run) if run is not None else None
        setup = step_times.setup_of(whole, last.arm) if whole is not None else None
    except (SessionError, OSError, KeyError):
        whole = setup = None
    if whole is not None and not found.given:
        found = found._replace(of=made_of(whole, last))
    assert found.accept_length is not None
    if setup is not None:
        model = StepTimeModel.of(step_times.samples(), setup)
        steps = step_times.draft_steps_of(setting.algorithm, setting.num_steps)
        step = model.at(setting.algorithm, setting.width, last.concurrency, draft_steps=steps)
        if step is not None:
            request = model.request(last.concurrency)
            made = predict(
                Length(found.accept_length, error or 0.0, kind),
                step,
                last.concurrency,
                tokens=request and request[0],
                overhead_s=request[1] if request else 0.0,
            )
            return found._replace(tokens_per_s=made.tokens_per_s, step_time_of="this node's step times")
    return found if last.algorithm == setting.algorithm else found._replace(tokens_per_s=None)


def made_of(result: RunResult, one: PassResult) -> str:
    """What a prediction from this pass holds for; empty for a simulated server, whose misses tell nothing of a node."""
    workload = result.head.get("workload") or {}
    if result.arm(one.arm).get("simulated") or not workload.get("hash"):
        return ""
    return f"{workload['hash']} {one.pass_name} {one.concurrency}"


def note_miss(prediction: Prediction, setting: str, folder: Path, result: RunResult, one: PassResult) -> Prediction:
    """Keeps what a prediction was off by, so that the next one says how far they are off here. Returns the prediction
    as it may be noted again: not at all, since the same promise is one observation."""
    from spectui.predict import tracking

    if not prediction.kind or not prediction.of or prediction.of != made_of(result, one):
        return prediction
    guess = (prediction.accept_length, prediction.tokens_per_s)
    found = (one.accept_length, one.output_tokens_per_s)
    for miss in tracking.compared(prediction.kind, guess, found, setting, folder.name):
        tracking.note(miss)
    return prediction._replace(of="")


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
        # Of a run, each pass is an entry of its own.
        parts = {
            name: (setting, rows)
            for setting in json.loads(said)["settings"]
            for name, rows in setting["workloads"].items()
        }
    except (ValueError, KeyError, TypeError, AttributeError):
        return Prediction(note="no prediction: the replay did not end")
    if not parts:
        return Prediction(note="no prediction: nothing to replay")
    words = {last.arm, last.pass_name, f"c{last.concurrency}"}
    best = max(parts, key=lambda name: len(words & set(name.split())))
    setting, requests = parts[best]
    steps = sum(r["verify_steps"] for r in requests)
    tokens = sum((r["accept_length"] or 0) * r["verify_steps"] for r in requests)
    if not steps:
        return Prediction(note="no prediction: nothing to replay")
    length = tokens / steps
    # Without a store to feed, a warm pass feeds nothing.
    empty = last.algorithm != "NGRAM" and last.pass_name == "warm"  # noqa: S105 - a pass
    return Prediction(
        length,
        speed_at(length, last),
        bool(setting.get("exact")),
        str(setting.get("why_not") or ""),
        given="from an empty store" if empty else "",
    )


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
