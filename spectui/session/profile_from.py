"""Makes a profile of a running server or of a stored run, and adds a run's evidence to one."""

from __future__ import annotations

import contextlib
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

from spectui import algorithms
from spectui.core.profile import Profile, ServerPart, SpeculativePart
from spectui.core.redact import is_secret_name, looks_secret
from spectui.core.result import RunResult
from spectui.engines.sglang.address import read_key
from spectui.engines.sglang.client import SglangClient
from spectui.session import SessionError, evidence, running
from spectui.store import profiles, run_marks

_ENVIRONMENT = re.compile(r"^(SGLANG_|SGL_|CUDA_|NCCL_|FLASHINFER_|TRITON_|TORCH_|PYTORCH_|HF_|OMP_)")
_NEVER = {"CUDA_VISIBLE_DEVICES"}
_ATTEMPTS = 4
_ALWAYS = ("draft_model_path", "num_steps", "eagle_topk", "num_draft_tokens", "block_size")


def from_run(folder: Path, arm: str | None, name: str, *, any_setting: bool = False) -> Profile:
    """The profile ``name`` with a run's evidence; a new one from the run's head where there is none of that name.

    Raises SessionError where the run is of another setting than the profile's (``any_setting`` allows it).
    """
    result = running.result_of(folder)
    names = result.arms
    if not names:
        raise SessionError(f"run {folder.name} measured nothing: {result.reason or 'it has no finished request'}")
    if arm is None and len(names) > 1:
        raise SessionError(f"run {folder.name} has arms {' and '.join(names)}; name one as {folder.name}:{names[0]}", 2)
    chosen = arm or names[0]
    path = profiles.find(name)
    profile = profiles.load(path) if path is not None else _of_head(result, chosen, name)
    entry = evidence.of_run(folder, chosen, result=result, model_path=profile.server.model_path)
    other = evidence.fits(profile, entry)
    if other and not any_setting:
        raise SessionError(f"{other}: this is no evidence for it. Give another name, or --any-setting", 1)
    if path is not None and other is None and not entry.get("settings_asked"):
        entry["settings_asked"] = dict(profile.speculative.knobs)  # a run sees a server, not what was asked of it
    return evidence.added(profile, entry)


def _of_head(result: RunResult, arm: str, name: str) -> Profile:
    """A profile of what a run's journal says of its server. The command line itself is not in a journal."""
    head = result.arm(arm)
    body = {**dict(head.get("server") or {}), "model_path": head.get("model")}
    profile = profiles.from_server(
        body, name, settings=head.get("settings_in_force"), algorithm=head.get("algorithm"), url=head.get("url")
    )
    workload = result.head.get("workload") or {}
    profile = _without_defaults(profile)
    kept = {"name": workload.get("name")} if workload.get("name") else {}
    return _simulated(replace(profile, workload=kept)) if head.get("simulated") else replace(profile, workload=kept)


_WATCHED = ("enable_metrics", "incremental_streaming_output")
"""Arguments that change no result, and without which a relaunched server tells less."""


def _without_defaults(profile: Profile) -> Profile:
    """Without what the server would choose by itself: a profile says what somebody decided."""
    algorithm = algorithms.for_name(profile.speculative.algorithm)
    knobs = {}
    for key, value in profile.speculative.knobs.items():
        knob = algorithm.knob(key)
        if key in _ALWAYS or knob is None or (value != knob.default and value not in ("auto", False)):
            knobs[key] = value
    server = profile.server
    args = {
        key: value
        for key, value in server.arguments().items()
        if key != "model_path"
        and not (key in ("tp_size", "dp_size", "pp_size", "stream_interval", "page_size") and value == 1)
        and not (key == "served_model_name" and value == server.model_path)
        and not (key == "cuda_graph_max_bs" and "cuda_graph_max_bs_decode" in server.arguments())  # its older name
    }
    chosen = SpeculativePart(profile.speculative.algorithm, knobs, profile.speculative.plugin)
    return replace(profile, server=replace(server, args=args), speculative=chosen)


def _simulated(profile: Profile) -> Profile:
    return replace(profile, server=replace(profile.server, command="{python} -m spectui sim {args}"))


def from_url(url: str, name: str, *, key: str | None = None, admin_key: str | None = None) -> Profile:
    """A profile of a running server: settings in force, and where it runs on this node, folder, GPUs, environment.

    Raises EngineError where it cannot be asked. Keys become references.
    """
    with SglangClient(url, key=read_key(key), admin_key=read_key(admin_key)) as client:
        info = client.probe()
    if info.unreadable:
        raise SessionError(f"{url}: its settings are {info.unreadable}; a profile cannot be made of them")
    body = {**info.raw, "model_path": info.model_path}
    profile = _without_defaults(
        profiles.from_server(body, name, settings=info.settings, algorithm=info.algorithm, url=url)
    )
    part = _local(url, profile.server)
    part = replace(part, args={**part.arguments(), **{k: info.raw[k] for k in _WATCHED if info.raw.get(k)}})
    part = replace(part, args={k: v for k, v in part.arguments().items() if k != "model_path"})
    if key:
        part = replace(part, api_key=key)
    if admin_key:
        part = replace(part, admin_api_key=admin_key)
    profile = replace(profile, server=part)
    return _simulated(profile) if info.simulated else profile


def _local(url: str, part: ServerPart) -> ServerPart:
    from urllib.parse import urlsplit

    from spectui.hosts import discover, templates

    where = urlsplit(url)
    if where.hostname not in ("127.0.0.1", "localhost", "::1"):
        return part
    found = next((s for s in discover.find() if s.port == where.port and not s.leftover), None)
    if found is None:
        return part
    template = templates.template_of(found)
    env = {
        name: value
        for name, value in template.env.items()
        if _ENVIRONMENT.match(name) and name not in _NEVER and not (is_secret_name(name) or looks_secret(value))
    }
    gpus = tuple(found.visible.indices) if found.visible is not None and found.visible.indices else None
    return replace(part, cwd=template.cwd, env=env, gpus=gpus or part.gpus)


def save(name: str, source: str, **options: Any) -> Profile:
    """``profiles save NAME --from URL|RUN``: makes or completes the profile and writes it.

    Options: key, admin_key, replace_existing, any_setting, notes. Raises SessionError, ProfileError, EngineError.
    """
    from spectui.session.comparing import split_run

    target, arm = split_run(source)
    notes = options.get("notes")
    if target.run is not None:
        return _add_run(name, target.run, arm, bool(options.get("any_setting")), notes)
    if target.url is not None:
        profile = from_url(target.url, name, key=options.get("key"), admin_key=options.get("admin_key"))
        old = profiles.find(name)
        known = old is not None
        if old is not None:
            if not options.get("replace_existing"):
                raise SessionError(f"there is a profile {name} already ({old}): choose another name, or --replace", 1)
            kept = profiles.load(old)
            profile = replace(
                profile,
                evidence=kept.evidence,
                notes=kept.notes,
                workload=kept.workload,
                path=kept.path,
                digest=kept.digest,
            )
    else:
        raise SessionError(f"{source} is a profile; give a URL, a server's name or a run", 2)
    return _written(profile, known, notes)


def _add_run(name: str, folder: Path, arm: str | None, any_setting: bool, notes: str | None) -> Profile:
    """Two runs that end at the same moment both find their place: the second reads what the first has written."""
    for attempt in range(_ATTEMPTS):
        profile = from_run(folder, arm, name, any_setting=any_setting)
        try:
            written = _written(profile, profile.path is not None, notes)
            with contextlib.suppress(OSError):  # it is evidence all the same, and may be pruned one day
                run_marks.mark(folder, add_tags=(run_marks.EVIDENCE,))
            return written
        except profiles.ProfileConflict:
            if attempt + 1 == _ATTEMPTS:
                raise
    raise AssertionError("the last attempt returns or raises")


def _written(profile: Profile, known: bool, notes: str | None) -> Profile:
    if notes:
        profile = replace(profile, notes=notes)
    return profiles.save(profile) if known else profiles.save(profile, _new_place(profile))


def _new_place(profile: Profile) -> Path:
    from spectui.store import locations

    return locations.profiles_dir() / profiles.file_name(profile.name)
