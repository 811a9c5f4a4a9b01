"""The worker of a simulated server: holds no work, but lives and dies as a scheduler process does.

Run as a script by the server, without site packages; it dies with its parent.
"""

import ctypes
import os
import signal
import sys

_PR_SET_PDEATHSIG, _PR_SET_NAME = 1, 15


def main() -> None:
    parent = int(sys.argv[1])
    if sys.platform == "linux":
        libc = ctypes.CDLL(None)
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGKILL)
        libc.prctl(_PR_SET_NAME, b"sglang::scheduler")
    if os.getppid() != parent:
        return
    while True:
        signal.pause()


if __name__ == "__main__":
    main()
