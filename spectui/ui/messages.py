"""What threads tell the screen."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from textual.message import Message


class Done(Message):
    """Work in the background has ended, well or with an error."""

    def __init__(self, group: str, result: Any, error: Exception | None, then: Callable[[Any], None] | None) -> None:
        super().__init__()
        self.group = group
        self.result = result
        self.error = error
        self.then = then
