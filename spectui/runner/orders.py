"""What a run was asked for: read from its file, and checked before anything is sent."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import msgspec

from spectui.core.spec import PASSES, RunSpec
from spectui.runner.failure import RunFailed


def read_spec(path: Path) -> RunSpec:
    """Raises RunFailed where the file is not a spec."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=RunSpec)
    except OSError as error:
        raise RunFailed(f"{path} cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise RunFailed(f"{path} is not the spec of a run: {error}") from None


def forget_prompts(path: Path, spec: RunSpec) -> None:
    """Writes the spec again without what its prompts say, for runs that keep no text; ids and groups stay.

    Raises RunFailed where that cannot be done: better no run than prompts left behind.
    """
    bare = replace(
        spec,
        feeding=tuple(replace(prompt, messages=None, text=None) for prompt in spec.feeding),
        measuring=tuple(replace(prompt, messages=None, text=None) for prompt in spec.measuring),
    )
    fresh = path.with_name(f"{path.name}.new")
    try:
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "wb") as file:
            file.write(msgspec.json.encode(bare))
        os.replace(fresh, path)
    except OSError as error:
        fresh.unlink(missing_ok=True)
        raise RunFailed(f"the prompts could not be taken out of {path}: {error.strerror}") from None


def check(spec: RunSpec) -> None:
    """Raises RunFailed where a spec makes no run."""
    prompts = (*spec.measuring, *spec.feeding)
    wrong = None
    if not 1 <= len(spec.arms) <= 2:
        wrong = f"a run has one arm or two, not {len(spec.arms)}"
    elif not spec.measuring:
        wrong = f"workload {spec.workload.name} has no prompts to measure with"
    elif not spec.passes or not set(spec.passes) <= set(PASSES):
        wrong = f"passes are {', '.join(PASSES)}, not {', '.join(spec.passes) or 'none'}"
    elif not spec.concurrency or min(spec.concurrency) < 1:
        wrong = "concurrency must be at least 1"
    elif spec.max_tokens < 1:
        wrong = f"max_tokens must be at least 1, not {spec.max_tokens}"
    elif spec.flush not in ("no", "idle", "yes"):
        wrong = f"flush is no, idle or yes, not {spec.flush}"
    elif any(prompt.messages is None and prompt.text is None for prompt in prompts):
        wrong = "a prompt has neither messages nor text; of a run with --no-text none is kept, so it cannot be repeated"
    if wrong is not None:
        raise RunFailed(f"{wrong} (spec of run {spec.run_id})")
