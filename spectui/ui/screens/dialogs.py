"""What a dialog does where the terminal is low: its list gets the rows that are left, and goes with the cursor."""

from __future__ import annotations

from typing import Any

from textual.screen import Screen
from textual.widget import Widget

LOW = 14
"""Rows of a terminal below which a dialog is only its list, or its fields, and what is wrong with them."""
_BORDER = 2


def fit(screen: Screen[Any], part: Widget, beside: int, beside_low: int = 0) -> None:
    """``part``: what may scroll. ``beside``: rows that the rest of the dialog takes without its border;
    ``beside_low``: where the terminal is low."""
    height = screen.app.size.height
    low = height < LOW
    screen.set_class(low, "-low")
    part.styles.max_height = max(1, height - _BORDER - (beside_low if low else beside))
    focused = screen.focused
    if focused is not None and focused in part.walk_children():
        screen.call_after_refresh(focused.scroll_visible, animate=False)
