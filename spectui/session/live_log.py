"""The end of a server's log as home shows it: without the lines that spectui's own looking writes into it."""

from __future__ import annotations

import re

from spectui.session.behind import tail_of

LINES = 60
_READ = 4 * LINES
_LOOKING = re.compile(r'"GET /(metrics|(get_)?(server|model)_info|v1/loads|get_load|health)\S* HTTP/[\d.]+" 200')


def log_tail(path: str) -> tuple[str, ...]:
    """The last lines; blank ones and answers to looks at the server's state are left out."""
    kept = [line for line in tail_of(path, _READ) if line.strip() and not _LOOKING.search(line)]
    return tuple(kept[-LINES:])
