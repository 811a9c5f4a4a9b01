"""Where spectui keeps its files: the XDG folders, or one folder given by ``SPECTUI_HOME``. All folders are 0700."""

from __future__ import annotations

import os
from pathlib import Path


def _home() -> Path | None:
    given = os.environ.get("SPECTUI_HOME", "").strip()
    return Path(given).expanduser().absolute() if given else None


def _base(kind: str) -> Path:
    """``kind``: config, data or state."""
    home = _home()
    if home is not None:
        return home / kind
    import platformdirs

    folder = {
        "config": platformdirs.user_config_path,
        "data": platformdirs.user_data_path,
        "state": platformdirs.user_state_path,
    }[kind]
    return folder("spectui", appauthor=False)


def _folder(path: Path) -> Path:
    """The folder, made where it is not there. Raises OSError with the path where it cannot be made."""
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError as error:
        said = f"{error.strerror}, so spectui has no place for its files. Set SPECTUI_HOME to a folder of yours"
        raise OSError(error.errno, said, error.filename) from None
    return path


def config_dir() -> Path:
    return _folder(_base("config"))


def data_dir() -> Path:
    return _folder(_base("data"))


def state_dir() -> Path:
    return _folder(_base("state"))


def config_file() -> Path:
    """The settings of the program itself; it need not be there."""
    return config_dir() / "config.toml"


def profiles_dir() -> Path:
    return _folder(config_dir() / "profiles")


def runs_dir() -> Path:
    """One folder a run."""
    return _folder(data_dir() / "runs")


def servers_dir() -> Path:
    """Records of the servers that spectui started."""
    return _folder(state_dir() / "servers")


def logs_dir() -> Path:
    """Logs of the servers and of spectui itself."""
    return _folder(state_dir() / "logs")


def exports_dir() -> Path:
    return _folder(data_dir() / "exports")


def known_dir() -> Path:
    """What was learned about this node: start times by phase, flags by version, prediction errors."""
    return _folder(state_dir() / "known")
