"""For all tests: compiled modules are kept, and the order in which files are given to the workers."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Iterator

import pytest

# Some machines forbid it. Hundreds of processes are started here, and each would compile what it imports.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)
sys.dont_write_bytecode = False

_LONGEST_FIRST = ("test_runner_measure", "e2e", "test_screen_", "test_home", "test_stats_error_rates", "ui")
"""A worker takes whole files. Were the long ones last, one worker would be at them while the others have nothing."""


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    def place(item: pytest.Item) -> int:
        path = item.path.as_posix()
        return next((n for n, part in enumerate(_LONGEST_FIRST) if part in path), len(_LONGEST_FIRST))

    items.sort(key=place)


@pytest.fixture(autouse=True)
def _signals_are_given_back() -> Iterator[None]:
    """A command that is called in this process may take signals over; the next test must find them as they were."""
    kept = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    yield
    for number, handler in kept.items():
        if signal.getsignal(number) is not handler and handler is not None:
            signal.signal(number, handler)
