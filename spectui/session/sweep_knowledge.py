"""What a sweep knows at a moment: step times, recordings, chains, start times; and the plan that follows from it."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path

from spectui.core.result import RunResult
from spectui.hosts import timings
from spectui.hosts.records import ServerRecord
from spectui.predict import step_times, tracking
from spectui.predict.breakeven import Length, Prediction, Setup, StepTimeModel
from spectui.predict.lengths import chain_estimates, ngram_lengths, predictions
from spectui.predict.replay import Pair
from spectui.predict.replay_grid import Cancelled, Watch
from spectui.predict.sweep import Cell, Costs, Measured, SweepPlan, plan
from spectui.predict.sweep_costs import costs
from spectui.session import sweep_sources
from spectui.session.sweep_sources import Recording
from spectui.session.sweep_spec import Work

FEED_RECORD_REQUESTS = 24


@dataclass
class Knowledge:
    """Grows with each run. Reads stored runs and keeps replays, since a replay of a long text takes seconds."""

    work: Work
    processes: int | None = 1
    """For replays. While a server is being measured a sweep takes no more than one core."""
    runs: list[tuple[Path, RunResult]] = field(default_factory=list)
    fed: tuple[Pair, ...] = ()
    setup: Setup | None = None
    version: str | None = None
    pace: float = 1.0
    paces: dict[str, float] = field(default_factory=dict)
    """What cells of an algorithm took in this sweep over what was thought; ``pace``: of all."""
    watch: Watch | None = None
    cancelled: Cancelled | None = None
    _replayed: tuple[Recording | None, dict[Cell, Length]] = (None, {})
    _found: tuple[tuple[int, int], Recording | None] | None = None

    def __post_init__(self) -> None:
        self.runs = sweep_sources.stored(self.work)
        self.version = self.work.spec.version
        if self.runs:
            result = self.runs[0][1]
            self.version = self.version or result.arm(result.arms[0]).get("version")

    def learn(self, folder: Path, result: RunResult) -> None:
        """A run of the sweep has ended."""
        if not result.passes:
            return
        self.runs.insert(0, (folder, result))
        arm = result.arms[0]
        self.setup = step_times.setup_of(result, arm)
        self.version = result.arm(arm).get("version") or self.version

    @property
    def needs_feeding_text(self) -> bool:
        """NGRAM will be measured warm, and no text that feeds it is recorded."""
        ngram = any(s.algorithm == "NGRAM" for s in self.work.settings)
        wanted = ngram and "warm" in self.work.options.passes and self.work.feeding > 0 and self.work.options.keep_text
        return wanted and not self.fed and not (self.recording and self.recording.fed)

    @property
    def recording(self) -> Recording | None:
        key = (len(self.runs), len(self.fed))
        if self._found is None or self._found[0] != key:
            self._found = key, sweep_sources.best_recording(self.work, self.runs, self.fed)
        return self._found[1]

    def model(self) -> StepTimeModel:
        server = self.work.profile.server
        setup = self.setup or Setup(model=server.model_path)
        return StepTimeModel.of(step_times.samples(), setup)

    def predict(self, model: StepTimeModel) -> tuple[dict[Cell, Prediction], dict[Cell, str]]:
        work = self.work
        spreads = tracking.spreads()
        lengths: dict[Cell, Length] = {}
        lengths.update(
            chain_estimates(
                work.settings, sweep_sources.chain_runs(self.runs), work.options.concurrency, spreads=spreads
            )
        )
        recording = self.recording
        if recording is not None:
            if recording is not self._replayed[0]:
                mode = "cold" if work.measured_cold or not recording.fed else None
                found = ngram_lengths(
                    work.settings,
                    recording.source(work.workload.name),
                    work.options.concurrency,
                    version=self.version,
                    spreads=spreads,
                    mode=mode,
                    processes=self.processes,
                    watch=self.watch,
                    cancelled=self.cancelled,
                )
                if self.cancelled is None or not self.cancelled():
                    self._replayed = (recording, found)
            lengths.update(self._replayed[1])
        return predictions(work.settings, work.options.concurrency, lengths, model)

    def costs(self, model: StepTimeModel, predicted: Mapping[Cell, Prediction]) -> Costs:
        work = self.work
        before = _last_start(work)
        starts = {s.name: tracking.start_s(*start_keys(work, s.name, s.algorithm)) or before for s in work.settings}
        extra = 0.0
        if self.needs_feeding_text:
            request, base = model.request(1), model.baseline(1)
            tokens = request[0] if request else 0.7 * work.max_tokens
            extra = min(work.feeding, FEED_RECORD_REQUESTS) * tokens * (base.ms if base else 25.0) / 1000 / 4
        return costs(
            work.settings,
            work.options.concurrency,
            predicted=predicted,
            model=model,
            starts=starts,
            requests=work.requests,
            passes=work.options.passes,
            feeding=work.feeding,
            max_tokens=work.max_tokens,
            pace=self.pace,
            paces=self.paces,
            extra_s=extra,
        )

    def plan(
        self,
        now: float,
        *,
        measured: Mapping[Cell, Measured],
        failed: Collection[str] = (),
        done: Collection[Cell] = (),
        running: str | None = None,
    ) -> tuple[SweepPlan, dict[Cell, Prediction], dict[Cell, str], Costs]:
        model = self.model()
        predicted, missing = self.predict(model)
        priced = self.costs(model, predicted)
        made = plan(
            self.work.settings,
            self.work.options.concurrency,
            predicted=predicted,
            measured=measured,
            failed=failed,
            done=done,
            costs=priced,
            now=now,
            keep_losers=self.work.spec.keep_losers,
            running=running,
        )
        return made, predicted, missing, priced


def start_keys(work: Work, name: str, algorithm: str) -> tuple[str, str, str]:
    """The most like first: this setting, its algorithm, any start of the profile."""
    profile = work.profile.path or work.profile.name
    return f"{profile}|{name}", f"{profile}|{algorithm}", f"{profile}"


def _last_start(work: Work) -> float | None:
    """Of the profile, however it was launched."""
    record = ServerRecord(
        work.profile.name, "", 0, 0.0, "", 0, (), "", profile=work.profile.path or work.profile.name
    )  # only to look it up
    found = timings.last_time(record)
    return sum(found.values()) or None
