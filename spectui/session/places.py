"""What a profile names of this disk: whether it is there, as far as that can be known from here."""

from __future__ import annotations

import difflib
import re
from collections.abc import Sequence
from pathlib import Path

from spectui.core.launch_line import client_at, kind_of
from spectui.core.profile import Profile
from spectui.hosts.interpreter import runs_sglang
from spectui.session.preflight import Draft, folders

_HUB_NAME = re.compile(r"^[\w.-]+(/[\w.-]+)?$")
_CONTAINERS = ("apptainer", "singularity", "enroot", "udocker", "bwrap", "chroot", "unshare", "kubectl")
"""Programs in front of a server that give it another view of the disk."""
_MODEL_FLAGS = ("--model-path", "--model", "--config")


def models(profile: Profile, argv: Sequence[str]) -> Draft:
    """Target and draft of a launch with this command: what a server would end with after some seconds is a block.

    ``argv``: the command, at least as far as the word that names the model. A name without a path in front may be one
    of the hub, and what lies behind docker, srun or ssh is not seen from here: those are notes.
    """
    named = [("model_path", profile.server.model_path)]
    if profile.speculative.algorithm != "none":
        draft = profile.speculative.knobs.get("draft_model_path")
        named.append(("draft_model_path", draft if isinstance(draft, str) else None))
    kind = kind_of(argv)
    blocks: list[str] = []
    notes: list[str] = []
    own = runs_sglang(argv) and not any(word.rsplit("/", 1)[-1] in _CONTAINERS for word in argv[:6])
    if own and not any(word.partition("=")[0] in _MODEL_FLAGS for word in argv):
        blocks.append("no model is named: set model_path under [server].")
    for (key, path), folder in zip(named, folders(profile), strict=False):
        if not path:
            continue
        if kind != "plain":
            notes.append(f"{key} {path} is not looked at: it is read behind {argv[client_at(argv)].rsplit('/', 1)[-1]}")
            continue
        fault = _fault(path, profile.server.cwd)
        if fault and not own:
            notes.append(f"{key} {path} {fault}, unless {argv[0]} brings it")
        elif fault:
            blocks.append(f"{key} {path} {fault}.")
        elif folder is None and not Path(profile.server.cwd or ".", path).exists():
            notes.append(f"{key} {path} is no folder here and not in the hub's cache: the server will fetch it")
    return Draft(tuple(blocks), tuple(notes))


def workload(profile: Profile) -> tuple[str, ...]:
    """What is wrong with the workload that the profile names; measuring needs it, a launch does not."""
    from spectui import workloads

    found = []
    name, file = profile.workload.get("name"), profile.workload.get("file")
    known = workloads.names()
    if isinstance(name, str) and name not in known:
        near = difflib.get_close_matches(name, known, n=1)
        perhaps = f"; did you mean {near[0]}?" if near else ""
        found.append(f"workload.name: there is no workload {name!r}, there are {', '.join(known)}{perhaps}")
    if isinstance(file, str) and not Path(file).expanduser().is_file():
        found.append(f"workload.file: {file} is not there")
    return tuple(found)


def _fault(path: str, cwd: str | None) -> str:
    if path.startswith("~"):
        return "begins with ~, which nothing expands in a launch: write the whole path"
    place = Path(cwd or ".", path)
    if place.is_dir():
        if any((place / name).is_file() for name in ("config.json", "params.json")) or any(place.glob("*.gguf")):
            return ""
        return "holds no config.json, so it is no model"
    if place.exists() or (_HUB_NAME.match(path) and not path.startswith(".")) or "://" in path:
        return ""
    return "is not there"
