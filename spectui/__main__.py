"""The entry point: sets what must be set before Textual is imported, then hands over to the command line."""

from __future__ import annotations

import os
import sys


def main() -> int:
    # Textual reads these when it is imported. Animations cost bytes on a slow line and say nothing. What changes is
    # drawn within a frame's time: at 10 a second that would be a third of what the answer to a key may take.
    os.environ.setdefault("TEXTUAL_ANIMATIONS", "none")
    os.environ.setdefault("TEXTUAL_FPS", "30")
    # ssh does not forward COLORTERM, and a lone ESC should not wait a tenth of a second.
    os.environ.setdefault("ESCDELAY", "50")
    from spectui.cli import run_command_line

    return run_command_line(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(main())
