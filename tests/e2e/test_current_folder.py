"""What lies in the folder that the person works in is no part of spectui."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest


@pytest.mark.skipif(sys.version_info < (3, 11), reason="Python 3.10 always imports from the current folder with -m")
def test_modules_in_the_current_folder_are_not_imported_by_further_processes(tmp_path: Path) -> None:
    (tmp_path / "random.py").write_text("raise SystemExit('not the random that was meant')\n")
    folder = tmp_path / "spectui" / "runner"
    folder.mkdir(parents=True)
    for place in (folder, folder.parent):
        (place / "__init__.py").write_text("raise SystemExit('another spectui')\n")
    done = subprocess.run(
        [str(Path(sys.executable).with_name("spectui")), "demo", "--headless"],
        cwd=tmp_path,
        env={**os.environ, "SPECTUI_HOME": str(tmp_path / "home")},
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    assert "EAGLE3" in done.stdout
