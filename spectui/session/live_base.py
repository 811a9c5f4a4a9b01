"""What all parts of the live session share: the arms, which is in focus, the run, and the sentence said last."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from spectui.hosts.gpus import GpuPanel, GpuSampler
from spectui.session.changing import Changing
from spectui.session.live_arm import LiveArm
from spectui.session.measuring import Measuring
from spectui.session.predicting import Predictor
from spectui.session.running import RunOptions
from spectui.session.view import Prediction

LETTERS = ("A", "B")
NOTICE_S = 6.0


@dataclass(frozen=True, slots=True)
class Notice:
    text: str
    tone: str
    until: float


class LiveBase:
    """``key`` and ``admin_key`` are references. ``gpus``: whether to watch the GPUs of this node."""

    def __init__(
        self,
        *,
        key: str | None = None,
        admin_key: str | None = None,
        options: RunOptions | None = None,
        gpus: bool = True,
        clock: Callable[[], float] = time.time,
    ) -> None:
        self.arms: dict[str, LiveArm] = {letter: LiveArm(letter) for letter in LETTERS}
        self.focus = "A"
        self.key, self.admin_key = key, admin_key
        self.measuring = Measuring(options or RunOptions(workload="mixed"))
        self.predictor = Predictor()
        self.predicted: dict[str, Prediction] = {}
        """Letter -> what was predicted for the settings that now run there: shown beside what is measured."""
        self.clock = clock
        self.notice: Notice | None = None
        self.opening = ""
        """What is being looked for at the start; empty once that is over."""
        self.gpu_panel = GpuPanel((), "starting")
        self.gpu_history: dict[str, deque[float | None]] = {}
        """UUID -> utilization in percent, a reading each."""
        self.gpu_held: dict[str, str] = {}
        """UUID -> letter of the arm that held it when it was last seen: what a GPU that is lost belonged to."""
        self.gpu_holders: dict[str, str] = {}
        """UUID -> who else holds the GPU, in words."""
        self._closing = threading.Event()
        self.changing = Changing(self._closing.is_set, clock)
        self._sampler = GpuSampler(0.5) if gpus else None
        self._restarts: deque[tuple[float, str]] = deque(maxlen=20)
        self._polled: dict[str, float] = {}

    @property
    def closing(self) -> bool:
        return self._closing.is_set()

    @property
    def focused(self) -> LiveArm:
        return self.arms[self.focus]

    def other(self, arm: LiveArm) -> LiveArm:
        return self.arms["B" if arm.letter == "A" else "A"]

    def switch_focus(self) -> None:
        self.focus = "B" if self.focus == "A" else "A"

    def say(self, text: str, tone: str = "", seconds: float = NOTICE_S) -> None:
        """Puts a sentence on the status line for a while."""
        self.notice = Notice(text, tone, self.clock() + seconds) if text else None

    def forget(self, arm: LiveArm) -> None:
        """The arm is another one now: what was measured, predicted and seen of it is no longer its own."""
        self.measuring.forget(arm.letter)
        self.predicted.pop(arm.letter, None)
        for uuid in [u for u, letter in self.gpu_held.items() if letter == arm.letter]:
            self.gpu_held.pop(uuid, None)
