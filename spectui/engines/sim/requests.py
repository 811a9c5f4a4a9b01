"""One request on the simulated server: what it asked, what it has so far, and when."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from spectui.engines.sim.answer import Answer
from spectui.engines.sim.tokenizer import Tokenizer


class SimRequest:
    """A request from arrival to its last token. Its output is the beginning of its answer."""

    __slots__ = (
        "_detokenizer",
        "accepted",
        "answer",
        "cached",
        "count",
        "dispatched",
        "finish",
        "finished_s",
        "first_s",
        "histogram",
        "ignore_eos",
        "internal",
        "logprobs",
        "max_new",
        "on_step",
        "prompt_ids",
        "received",
        "rid",
        "started",
        "state",
        "stop_ids",
        "stops",
        "temperature",
        "text",
        "verify_steps",
    )  # fmt: skip

    def __init__(
        self,
        tokenizer: Tokenizer,
        rid: str,
        prompt_ids: list[int],
        sampling: dict[str, Any],
        on_step: Callable[[SimRequest], None],
        seed: int,
        room: int,
        differ: str = "",
    ) -> None:
        """``room``: tokens that the context has left. ``on_step`` is called when there is news, and at the end.
        ``differ``: as of :class:`Answer`."""
        self.rid = rid
        self.prompt_ids = prompt_ids
        self.temperature = float(1.0 if sampling.get("temperature") is None else sampling["temperature"])
        self.ignore_eos = bool(sampling.get("ignore_eos"))
        wanted = sampling.get("max_new_tokens")
        self.max_new = min(room, int(128 if wanted is None else wanted))
        stop = sampling.get("stop") or []
        self.stops: list[str] = [stop] if isinstance(stop, str) else [str(s) for s in stop]
        self.stop_ids = frozenset(sampling.get("stop_token_ids") or ())
        drawn = sampling.get("sampling_seed")
        self.answer = Answer(
            tokenizer,
            prompt_ids,
            None if self.temperature == 0 else seed if drawn is None else int(drawn),
            self.ignore_eos,
            differ,
        )
        self._detokenizer = tokenizer.stream()
        self.on_step = on_step
        self.internal = False
        self.logprobs: int | None = None
        """How many likeliest tokens are told beside each one; None: no log-probabilities were asked for."""
        self.state: Any = None
        self.count = 0
        self.text = ""
        self.cached = 0
        self.verify_steps = 0
        self.accepted = 0
        self.histogram: list[int] = []
        self.finish: dict[str, Any] | None = None
        self.received = time.time()
        self.dispatched = self.started = self.first_s = self.finished_s = 0.0

    @property
    def output_ids(self) -> list[int]:
        return self.answer.ids[: self.count]

    @property
    def length(self) -> int:
        return len(self.prompt_ids) + self.count

    def take(self, wanted: int) -> list[int]:
        """Put out the next ``wanted`` tokens, fewer where the answer ends or is cut; returns them."""
        ids = self.answer.upto(self.count + wanted + 1)
        start = self.count
        while self.count < start + wanted and self.finish is None:
            token = ids[self.count]
            ends = token in self.stop_ids or (self.count == self.answer.end and not self.ignore_eos)
            self.count += 1
            if not ends:
                self.text += self._detokenizer.add((token,))
                self._find_stop()
            else:
                self.finish = {"type": "stop", "matched": token}
            if self.finish is None and self.count >= self.max_new:
                self.finish = {"type": "length", "length": self.count}
        if self.finish is not None:
            self.finished_s = time.time()
            self.text += self._detokenizer.end()
        return ids[start : self.count]

    def _find_stop(self) -> None:
        for stop in self.stops:
            at = self.text.find(stop, max(0, len(self.text) - len(stop) - 32))
            if stop and at >= 0:
                self.text = self.text[:at]
                self.finish = {"type": "stop", "matched": stop}

    def verified(self, accepted: int) -> None:
        """Count a verify step in which ``accepted`` drafts were right, cut or not."""
        self.verify_steps += 1
        self.accepted += accepted
        if accepted >= len(self.histogram):
            self.histogram.extend([0] * (accepted + 1 - len(self.histogram)))
        self.histogram[accepted] += 1

    def abort(self, message: str) -> None:
        self.finish = {"type": "abort", "message": message}
        self.finished_s = time.time()
