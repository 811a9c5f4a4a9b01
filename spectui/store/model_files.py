"""What the config files of a model on this disk say: enough for a plan and for the check of draft against target."""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

_LARGEST = 200 * 1024 * 1024
"""Tokenizer files are some 10 MB; a file larger than this is none."""


def read_config(folder: str | None) -> dict[str, Any] | None:
    """``config.json`` of a local model folder with ``tokenizer`` added, a fingerprint of its vocabulary where there is
    one. None where it is no folder of this disk or cannot be read.
    """
    if not folder:
        return None
    place = Path(folder).expanduser()
    config = _json(place / "config.json")
    if not isinstance(config, dict):
        return None
    fingerprint = _fingerprint(place)
    return {**config, "tokenizer": fingerprint} if fingerprint else config


def folder_of(path: str | None, *, cwd: str | None = None, environ: Mapping[str, str] | None = None) -> str | None:
    """The folder of a model on this disk: as named, or what the hub cache holds of ``org/model``. None: neither."""
    if not path:
        return None
    try:
        place = Path(cwd or ".", Path(path).expanduser())
        if place.is_dir():
            return str(place)
        kept = _snapshot(path, os.environ if environ is None else environ)
        return str(kept) if kept is not None and kept.is_dir() else None
    except (OSError, ValueError):
        return None


def identity(path: str, *, cached: bool = False, environ: Mapping[str, str] | None = None) -> dict[str, str] | None:
    """Path, revision and hash of ``config.json`` of a model, as far as this disk tells them; None without a path.

    ``cached``: of a hub name (``org/model``), also what the hub cache of this node holds as its main revision; true
    only where the server runs on this node.
    """
    if not path:
        return None
    known = {"path": path}
    folder = Path(path).expanduser()
    try:
        if cached and not folder.exists():
            folder = _snapshot(path, os.environ if environ is None else environ) or folder
        known["config_hash"] = hashlib.sha256((folder / "config.json").read_bytes()).hexdigest()[:16]
        found = re.search(r"/snapshots/([0-9a-f]{7,40})(?:/|$)", str(folder.resolve()))
        if found:
            known["revision"] = found[1]
    except (OSError, ValueError):
        return known
    return known


def _snapshot(name: str, environ: Mapping[str, str]) -> Path | None:
    """Where huggingface_hub keeps the main revision of ``org/model``: ``models--org--model/snapshots/COMMIT``."""
    if not re.fullmatch(r"[\w.-]+/[\w.-]+", name):
        return None
    home = Path(environ.get("HF_HOME") or "~/.cache/huggingface").expanduser()
    hub = Path(environ.get("HF_HUB_CACHE") or home / "hub").expanduser()
    folder = hub / f"models--{name.replace('/', '--')}"
    commit = (folder / "refs" / "main").read_text("utf-8").strip()
    return folder / "snapshots" / commit if re.fullmatch(r"[0-9a-f]{7,40}", commit) else None


def facts(target: Mapping[str, Any] | None, draft: Mapping[str, Any] | None = None) -> dict[str, Any]:
    """The facts that plans ask for: ``architecture`` of the target, ``draft_block_size`` of a block draft."""
    known: dict[str, Any] = {}
    named = (target or {}).get("architectures")
    if isinstance(named, list) and named and isinstance(named[0], str):
        known["architecture"] = named[0]
    for table in (draft or {}, (draft or {}).get("dflash_config"), (draft or {}).get("dspark_config")):
        size = table.get("block_size") if isinstance(table, Mapping) else None
        if isinstance(size, int) and not isinstance(size, bool) and size > 0:
            known["draft_block_size"] = size
    return known


def _fingerprint(folder: Path) -> str | None:
    """Equal for equal vocabularies: the token of each id, whatever else the file says."""
    whole = _json(folder / "tokenizer.json")
    model = whole.get("model") if isinstance(whole, dict) else None
    vocabulary = model.get("vocab") if isinstance(model, dict) else None
    if not vocabulary:
        vocabulary = _json(folder / "vocab.json")
    if vocabulary:
        return hashlib.sha256(json.dumps(vocabulary, sort_keys=True).encode()).hexdigest()
    for name in ("tokenizer.model", "tiktoken.model"):
        try:
            if (folder / name).stat().st_size < _LARGEST:
                return hashlib.sha256((folder / name).read_bytes()).hexdigest()
        except OSError:
            continue
    return None


def _json(path: Path) -> Any:
    try:
        if path.stat().st_size > _LARGEST:
            return None
        return json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return None
