"""Which profile a measured server belongs to, and a run's results written into it as evidence for the check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from spectui.core.profile import ProfileError
from spectui.session import SessionError, arms, evidence, profile_from
from spectui.store import profile_report, profiles

if TYPE_CHECKING:
    from spectui.engines.sglang.info import ServerInfo
    from spectui.hosts.records import ServerRecord

OWN = ""
"""Asked for without a name: the profile that the server was started from."""


@dataclass(frozen=True, slots=True)
class Kept:
    """Where the results of an arm were written, and how many runs the profile rests on now; or why they were not."""

    arm: str
    profile: str
    path: str
    runs: int = 0
    trouble: str = ""

    @property
    def text(self) -> str:
        if self.trouble:
            return f"{self.arm} is no evidence of profile {self.profile}: {self.trouble}"
        return f"{self.arm} is evidence of profile {self.profile} now, one of {self.runs} ({self.path})"

    def as_json(self) -> dict[str, object]:
        said = {"arm": self.arm, "profile": self.profile, "path": self.path, "runs": self.runs}
        return {**said, "error": self.trouble or None}


def profile_path(record: ServerRecord) -> Path | None:
    """The profile that a managed server was started from; the user's own copy of a starter, where there is one."""
    if not record.profile:
        return None
    path = Path(record.profile)
    starter = path.parent == profiles.starters_dir()
    if starter:
        path = profiles.find(path.stem) or path
    return path if path.is_file() else None


def behind(url: str) -> Path | None:
    """The profile of the managed server that answers at this address; None for a server that spectui did not start."""
    record = arms.managed(url)
    return None if record is None else profile_path(record)


def chosen(asked: str | None, target: arms.Target) -> Path | None:
    """The file to write to, found before anything is measured. ``asked``: a name or path, ``OWN``, or None for not.

    Raises SessionError where there is no such profile, and ProfileError where it cannot be read.
    """
    if asked is None:
        return None
    if asked == OWN:
        path = target.profile or (behind(target.url) if target.url else None)
        if path is None:
            raise SessionError(
                f"{target.name} was not started from a profile: name one, --save-evidence PROFILE; or make one of it "
                f"first: spectui profiles save NAME --from {target.name}",
                2,
            )
    else:
        path = profiles.find(asked)
        if path is None:
            raise SessionError(
                f"there is no profile {asked}. Make one of the server first: spectui profiles save {asked} --from "
                f"{target.url or 'URL'}",
                2,
            )
    profiles.load(path)
    return path


def of_sides(targets: Sequence[arms.Target]) -> dict[str, Path]:
    """Side (A, B) -> the profile that it is or was started from. Raises SessionError where no side has one."""
    paths: dict[str, Path] = {}
    for name, target in zip("AB", targets, strict=False):
        if target.profile is not None or (target.url is not None and behind(target.url) is not None):
            path = chosen(OWN, target)
            if path is not None:
                paths[name] = path
    if not paths:
        raise SessionError(
            "neither side was started from a profile: spectui profiles save NAME --from URL makes one", 2
        )
    return paths


def refuse(path: Path | None, info: ServerInfo) -> None:
    """Before an hour of measuring: a server of another setting gives no evidence. Raises SessionError."""
    if path is None or info.unreadable:
        return
    profile = profiles.load(path)
    other = evidence.fits(profile, {"algorithm": info.algorithm, "settings_in_force": info.settings})
    if other:
        raise SessionError(f"{other.replace('measured', 'would measure')}: no evidence for {path}", 2)


def keep(path: Path, folder: Path, arm: str) -> Kept:
    """Writes the results of one arm of a stored run into the profile.

    Never raises: a profile that cannot be written to must not cost the figures of the run.
    """
    try:
        profile = profile_from.save(str(path), f"{folder.name}:{arm}")
    except (SessionError, ProfileError) as error:
        return Kept(arm, path.stem, str(path), trouble=str(error))
    return Kept(arm, profile.name, str(profile.path), len(profile_report.own(profile.evidence)))


def keep_each(paths: Mapping[str, Path | None], folder: Path) -> list[Kept]:
    """The same for each arm of a run that has a file."""
    return [keep(path, folder, arm) for arm, path in paths.items() if path is not None]


def how(url: str, run: str, arm: str = "A", *, alone: bool = True) -> str | None:
    """How this run's results become evidence; None where the server belongs to no profile."""
    path = behind(url)
    if path is None:
        return None
    name = path.stem if profiles.find(path.stem) == path else str(path)
    source = run if alone else f"{run}:{arm}"
    return f"for spectui check, keep it in the profile: spectui profiles save {name} --from {source}"
