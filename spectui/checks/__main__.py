"""``python -m spectui.checks``: the page on the check."""

from __future__ import annotations

import sys

from spectui.checks import markdown

sys.stdout.write(markdown())
