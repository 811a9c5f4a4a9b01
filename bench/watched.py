"""The program with a pulse taken of its event loop: ``python bench/watched.py FIGURES.json [words of spectui …]``.

Writes one row a beat that came late: when, by how many seconds, and how much processor time the whole process used
meanwhile. What is late without that was the machine's doing: it gave the time to others.
"""

from __future__ import annotations

import asyncio
import json
import os
import sys
import time
from pathlib import Path

BEAT_S, WORTH_S = 0.005, 0.004


def main() -> int:
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    os.environ.setdefault("TEXTUAL_FPS", "30")
    os.environ.setdefault("ESCDELAY", "50")
    from spectui.cli import run_command_line
    from spectui.ui.app import SpectuiApp

    late: list[tuple[float, float, float]] = []
    tasks = []

    async def pulse() -> None:
        while True:
            before, used = time.perf_counter(), time.process_time()
            await asyncio.sleep(BEAT_S)
            over = time.perf_counter() - before - BEAT_S
            if over > WORTH_S:
                late.append((time.time(), over, time.process_time() - used))

    plain = SpectuiApp.on_mount

    def on_mount(app: SpectuiApp) -> None:
        plain(app)
        tasks.append(asyncio.create_task(pulse()))

    SpectuiApp.on_mount = on_mount  # type: ignore[method-assign]
    try:
        return run_command_line(sys.argv[2:])
    finally:
        Path(sys.argv[1]).write_text(json.dumps(late))


if __name__ == "__main__":
    sys.exit(main())
