"""No speculation: the baseline that the others are held against."""

from __future__ import annotations

from spectui.core.settings import Algorithm

ALGORITHM = Algorithm(
    "none",
    "no speculation",
    "Each step of the model writes one token.",
    fits="high concurrency, where the GPU has no computing time to spare",
    starves="nothing; it is the baseline",
    aliases=("off", "baseline"),
)
