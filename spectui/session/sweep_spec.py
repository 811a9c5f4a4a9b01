"""What a sweep is asked to do, as it is stored: enough to run it, and to go on with it after a break."""

from __future__ import annotations

import json
import os
import secrets
import time
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.profile import Profile, ServerPart
from spectui.core.profile_check import check
from spectui.core.settings import Algorithm
from spectui.predict.settings_grid import Axes, Grid, Setting, baseline_arguments, build
from spectui.session import SessionError, running, serving
from spectui.session.running import RunOptions
from spectui.store import locations, model_files, profiles
from spectui.workloads import Workload


@dataclass(frozen=True, slots=True)
class SweepSpec:
    sweep_id: str
    folder: str
    profile: dict[str, Any]
    """The profile's tables, keys as references only, as they were when the sweep was planned."""
    profile_path: str | None
    options: dict[str, Any]
    """:class:`RunOptions`."""
    algorithms: tuple[str, ...]
    knobs: dict[str, list[Any]]
    draft_models: dict[str, str] = field(default_factory=dict)
    keep_losers: bool = False
    version: str | None = None


def sweeps_dir() -> Path:
    """One folder a sweep."""
    folder = locations.data_dir() / "sweeps"
    folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    return folder


def make(
    profile: Profile,
    axes: Axes,
    options: RunOptions,
    *,
    keep_losers: bool = False,
    version: str | None = None,
) -> SweepSpec:
    """Raises :class:`SessionError` or an error of the workload where it cannot be run as asked."""
    if not axes.algorithms:
        raise SessionError("a sweep needs at least one algorithm: --algorithm NGRAM,none", 2)
    for name in axes.algorithms:
        known = algorithms.find(name)
        if known is None:
            near = algorithms.nearest(name)
            hint = f" Did you mean {near}?" if near else ""
            raise SessionError(f"there is no algorithm {name!r}.{hint} There are: {', '.join(algorithms.names())}", 2)
    for key, values in axes.knobs.items():
        _check_axis(key, values, axes.algorithms)
    workload = running.workload_for(options)
    ref = workload.name
    if "NGRAM" in [algorithms.for_name(n).name for n in axes.algorithms] and options.flush == "no":
        raise SessionError("NGRAM is measured from a flush on: a sweep of it cannot run with --no-flush", 2)
    sweep_id = f"{time.strftime('%Y%m%d-%H%M%S')}-{ref}-{secrets.token_hex(2)}"
    return SweepSpec(
        sweep_id,
        str(sweeps_dir() / sweep_id),
        profile.as_table(),
        profile.path,
        {
            **asdict(options),
            "file": None if options.file is None else str(Path(options.file).absolute()),
            "passes": list(options.passes),
            "concurrency": list(options.concurrency),
        },
        tuple(algorithms.for_name(name).name for name in axes.algorithms),
        {key: list(values) for key, values in axes.knobs.items()},
        dict(axes.draft_models),
        keep_losers,
        version or serving.version_of(profile),
    )


def _check_axis(key: str, values: tuple[Any, ...], names: tuple[str, ...]) -> None:
    holders = [knob for name in names if (knob := algorithms.for_name(name).knob(key)) is not None]
    if not holders:
        known = sorted({knob.key for name in names for knob in algorithms.for_name(name).knobs})
        raise SessionError(
            f"none of {', '.join(names)} has a knob {key!r}. "
            + (f"They have: {', '.join(known)}" if known else "none has any knob: without speculation there are none"),
            2,
        )
    if not values:
        raise SessionError(f"{key}: no value was given", 2)


def save(spec: SweepSpec) -> None:
    """Raises OSError."""
    folder = Path(spec.folder)
    folder.mkdir(mode=0o700, parents=True, exist_ok=False)
    path = folder / "spec.json"
    with os.fdopen(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
        json.dump(asdict(spec), file)


def load(path: Path) -> SweepSpec:
    """Raises :class:`SessionError` where the file is not a spec."""
    import msgspec

    try:
        return msgspec.json.decode(path.read_bytes(), type=SweepSpec)
    except OSError as error:
        raise SessionError(f"{path} cannot be read: {error.strerror}. List sweeps: {sweeps_dir()}", 2) from None
    except msgspec.MsgspecError as error:
        raise SessionError(f"{path} is not the spec of a sweep: {error}", 2) from None


@dataclass(frozen=True, slots=True)
class Work:
    """A spec with everything that follows from it."""

    spec: SweepSpec
    profile: Profile
    options: RunOptions
    workload: Workload
    grid: Grid
    settings: tuple[Setting, ...]
    """Those that run, the one without speculation first."""
    requests: int
    feeding: int
    max_tokens: int

    @property
    def ranking(self) -> str:
        """The pass that settings are ranked by: the last one."""
        return self.options.passes[-1]

    @property
    def measured_cold(self) -> bool:
        return self.ranking == "cold"

    def profile_for(self, setting: Setting) -> Profile:
        """The profile as it is launched for one setting."""
        made = serving.with_settings(self.profile, setting.algorithm, setting.knobs)
        if setting.algorithm != "none":
            return made
        server = self.profile.server
        given = server.arguments()
        limits = {k: v for k, v in baseline_arguments(self.settings, given).items() if given.get(k) != v}
        return replace(made, server=_with_arguments(server, limits)) if limits else made


def _with_arguments(server: ServerPart, more: Mapping[str, Any]) -> ServerPart:
    if isinstance(server.args, Mapping):
        return replace(server, args={**server.args, **more})
    words = [w for key, value in more.items() for w in (f"--{key.replace('_', '-')}", str(value))]
    return replace(server, args=(*server.args, *words))


def work_of(spec: SweepSpec) -> Work:
    """Raises :class:`SessionError` where the profile or the workload is not usable any more."""
    profile, faults = check(spec.profile, algorithms.find, algorithms.nearest, knobs=profiles.known_knobs())
    if profile is None:
        raise SessionError(f"the profile of sweep {spec.sweep_id}: {faults[0].spell()}", 2)
    profile = replace(profile, path=spec.profile_path)
    options = _options(spec)
    workload = running.workload_for(options)
    chosen: list[Algorithm] = [algorithms.for_name(name) for name in dict.fromkeys(spec.algorithms)]
    chosen.sort(key=lambda a: a.speculates)
    target = model_files.read_config(profile.server.model_path)
    grid = build(
        chosen,
        Axes(spec.algorithms, {k: tuple(v) for k, v in spec.knobs.items()}, spec.draft_models),
        base=(profile.speculative.algorithm, profile.speculative.knobs),
        server=profile.server.arguments(),
        version=spec.version,
        model=model_files.facts(target),
        drafts={a.name: model_files.facts(None, model_files.read_config(_draft(spec, profile, a))) for a in chosen},
        env=profile.server.env,
    )
    spec_of_run = running.build_spec([], options)
    return Work(
        spec,
        profile,
        options,
        workload,
        grid,
        tuple(s for s in grid.settings if s.runs),
        len(spec_of_run.measuring),
        min(len(spec_of_run.feeding), options.feed_limit),
        spec_of_run.max_tokens,
    )


def _draft(spec: SweepSpec, profile: Profile, algorithm: Algorithm) -> str | None:
    named = spec.draft_models.get(algorithm.name) or spec.draft_models.get("*")
    own = profile.speculative
    path = named or (own.knobs.get("draft_model_path") if own.algorithm == algorithm.name else None)
    return path if isinstance(path, str) else None


def _options(spec: SweepSpec) -> RunOptions:
    table = dict(spec.options)
    for key in ("passes", "concurrency"):
        table[key] = tuple(table[key])
    if table.get("file") is not None:
        table["file"] = Path(table["file"])
    try:
        return RunOptions(**table)
    except TypeError as error:
        raise SessionError(f"the options of sweep {spec.sweep_id} are not known here: {error}", 2) from None
