"""The embedded simulated server: a stand-in for ``python -m sglang.launch_server`` over real sockets.

It takes SGLang's arguments, prints its log lines, answers its endpoints and ends with its exit codes. State really
moves: counters, queue, prefix cache, the n-gram store. Numbers that come from it are marked: ``/server_info`` has the
key ``spectui_simulated``.
"""

from __future__ import annotations


def main(argv: list[str]) -> int:
    """Run a simulated server with SGLang's own arguments; returns its exit code once it has ended.

    Some ways to end do not return: as with the real server, the process kills its tree with SIGKILL when its worker
    died or after SIGTERM (exit code -9).
    """
    from spectui.engines.sim.launch import run

    return run(argv)
