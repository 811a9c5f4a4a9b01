"""The simulated SGLang server: the arguments of python -m sglang.launch_server, and --sim-… of its own."""

from __future__ import annotations

from collections.abc import Sequence


def run(argv: Sequence[str]) -> int:
    from spectui.engines.sim import main

    return int(main(list(argv)))
