"""How far the terminal lags behind. The one place that looks into Textual's private writer."""

from __future__ import annotations

from typing import Any

from textual.app import App


def backlog(app: App[Any]) -> int:
    """Frames that wait to be written; 0 where that cannot be told.

    Textual 8.2 puts every frame into a queue of 30 whose ``put`` blocks (``drivers/_writer_thread.py``): on a line that
    cannot keep up, painting on would fill it, and then stop the event loop for each further frame.
    """
    try:
        return int(app._driver._writer_thread._queue.qsize())  # type: ignore[union-attr]
    except AttributeError:
        return 0
