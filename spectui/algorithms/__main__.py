"""Prints the page on the algorithms."""

from __future__ import annotations

import sys

from spectui.algorithms._table import markdown

sys.stdout.write(markdown())
